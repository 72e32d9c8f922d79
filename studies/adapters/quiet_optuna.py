"""Optuna without its log messages, where Finder reports the same itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import optuna


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Log only warnings and errors of Optuna within the block."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
