"""Global random generators, separate for every run of a training function.

Agents of this package draw from streams of their own (`agents.seeding`). A user's libraries draw from the global
generators of Python, NumPy and PyTorch (on the CPU). Interleaved runs in one process would otherwise share their
numbers. TensorFlow's generators cannot be saved and restored.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class _Generator(NamedTuple):
    seed: Callable[[int], Any]
    get: Callable[[], Any]
    set: Callable[[Any], Any]


class GlobalGenerators:
    """The global generators of one run, seeded with its seed.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._states: dict[str, Any] = {}

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install the generators of the run within the block; restore the earlier state after it."""
        before = {name: generator.get() for name, generator in _there().items()}
        for name, generator in _there().items():
            if name in self._states:
                generator.set(self._states[name])
            else:
                generator.seed(self._seed)
        try:
            yield
        finally:
            now = _there()
            self._states = {name: generator.get() for name, generator in now.items()}
            for name, state in before.items():
                now[name].set(state)


def _there() -> dict[str, _Generator]:
    """Return the generators of the libraries that are imported."""
    found = {
        "random": _Generator(random.seed, random.getstate, random.setstate),
        "numpy": _Generator(lambda seed: np.random.seed(seed % 2**32), np.random.get_state, np.random.set_state),
    }
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_rng_state"):  # missing while PyTorch is being imported
        assert torch is not None
        found["torch"] = _Generator(torch.manual_seed, torch.get_rng_state, torch.set_rng_state)
    return found
