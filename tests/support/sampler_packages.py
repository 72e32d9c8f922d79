"""Samplers that have packages of their own, in tests."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

import pytest

_INSTALLED_BY_TESTS = {"cmaes": "cmaes"}
_ANYBODYS = {"gp": "torch"}


def runnable(samplers: Iterable[str]) -> list[str]:
    """The samplers that tests can run: PyTorch, which `gp` needs, is larger than all that `make test` installs."""
    return [name for name in samplers if name not in _ANYBODYS or find_spec(_ANYBODYS[name]) is not None]


def needs(sampler: str) -> None:
    """Skips a test where the sampler's package is not installed."""
    if sampler in _INSTALLED_BY_TESTS:
        pytest.importorskip(_INSTALLED_BY_TESTS[sampler], reason="needs cmaes, which `make test` installs")
