"""Importing TensorFlow without its chatter."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def import_tensorflow() -> None:
    """Imports TensorFlow so that stderr stays readable. Errors of the import are shown in full.

    Its log level is set for this process and its children, unless the environment says otherwise. A few lines are
    written before TensorFlow looks at that level; they are caught where they come out.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    with _caught_stderr():
        import tensorflow  # noqa: F401


@contextmanager
def _caught_stderr() -> Iterator[None]:
    """Keeps what this process writes to file descriptor 2, and shows it only if an error follows."""
    try:
        caught = tempfile.TemporaryFile()  # noqa: SIM115 (closed below)
        kept = os.dup(2)
    except OSError:  # there is no stderr, or no room for what it says
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
