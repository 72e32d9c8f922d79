"""Import TensorFlow without its log output."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_LOUD = ("tensorflow", "keras")
"""Packages that write log lines while they are imported."""


def import_tensorflow() -> None:
    """Import TensorFlow and Keras without log lines on stderr. Errors of the import are shown in full.

    Python's garbage collector is off meanwhile: it would traverse a growing number of objects, none of which is
    garbage, for a quarter of the time of the import.
    """
    if "tensorflow" in sys.modules:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        return
    with quiet_tensorflow():
        import tensorflow  # noqa: F401, I001 - before Keras, which would otherwise import it
        import keras  # noqa: F401


@contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Keep TensorFlow and Keras quiet while code within the block imports them; its other output is unchanged.

    TensorFlow's log level is set for this process and its children, unless the environment sets it already. A few lines
    are written before TensorFlow reads that level; they are caught at file descriptor 2.
    """
    finder = _QuietFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _QuietFinder(MetaPathFinder):
    """Finds the loud packages where they are, and makes their loaders quiet."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _LOUD:
            return None
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None or os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
            return spec
        loader: Any = spec.loader
        loader.exec_module = _quietly(loader.exec_module)
        return spec


def _quietly(run: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def run_quietly(module: ModuleType) -> None:
        with _garbage_collector_off(), _caught_stderr():
            run(module)

    return run_quietly


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
