"""Agents that are built only to get a state: work whose results the state replaces is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_RESTORING: ContextVar[bool] = ContextVar("restoring", default=False)


@contextmanager
def restoring() -> Iterator[None]:
    """Build agents within the block without initial weights of their own (`KerasAgent.set_initial_weights`).

    Such an agent needs no demonstrations to be loaded, and clones no expert. It must get a state before it is used.
    """
    token = _RESTORING.set(True)
    try:
        yield
    finally:
        _RESTORING.reset(token)


def is_restoring() -> bool:
    """Return whether a state is about to replace what is built or started now."""
    return _RESTORING.get()
