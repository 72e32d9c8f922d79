"""Import TensorFlow without its log output."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def import_tensorflow() -> None:
    """Import TensorFlow and Keras without log lines on stderr. Errors of the import are shown in full.

    Python's garbage collector is off meanwhile: it would traverse a growing number of objects, none of which is
    garbage, for a quarter of the time of the import.

    TensorFlow's log level is set for this process and its children, unless the environment sets it already. A few lines
    are written before TensorFlow reads that level; they are caught at file descriptor 2.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    with _garbage_collector_off(), _caught_stderr():
        import tensorflow  # noqa: F401, I001 - before Keras, which would otherwise import it
        import keras  # noqa: F401


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _caught_stderr() -> Iterator[None]:
    """Catch what this process writes to file descriptor 2, and write it out only after an error."""
    try:
        caught = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
        kept = os.dup(2)
    except OSError:  # stderr is closed, or there is no space for a temporary file
        yield
        return
    with caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        except Exception:
            caught.seek(0)
            os.write(kept, caught.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
