"""Optuna without its log messages, where Finder reports the same itself, and without warnings on experimental parts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import optuna
from optuna.exceptions import ExperimentalWarning


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Log only warnings and errors of Optuna within the block."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@contextlib.contextmanager
def without_experimental_warnings() -> Iterator[None]:
    """Silence Optuna's warnings on experimental classes and methods, which were chosen deliberately."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        yield
