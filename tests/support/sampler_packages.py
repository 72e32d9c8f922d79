"""Samplers that need additional packages."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

import pytest

_INSTALLED_BY_TESTS = {"cmaes": "cmaes"}
_OPTIONAL = {"gp": "torch"}


def runnable(samplers: Iterable[str]) -> list[str]:
    """Return the samplers that tests can run: PyTorch, which `gp` needs, is too large for `make test` to install."""
    return [name for name in samplers if name not in _OPTIONAL or find_spec(_OPTIONAL[name]) is not None]


def skip_without_package(sampler: str) -> None:
    """Skip a test if the package of the sampler is not installed."""
    if sampler in _INSTALLED_BY_TESTS:
        pytest.importorskip(_INSTALLED_BY_TESTS[sampler], reason="needs cmaes, which `make test` installs")
