"""Global random generators, of which every run of a training function has its own.

Ours draw from streams of their own (`agents.seeding`). What a user trains with draws from the global generators of
Python, NumPy and PyTorch (on the CPU), and so do runs that take turns in one process: each would go on with the numbers
that the others left. TensorFlow's cannot be taken out and put back.
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
    def in_force(self) -> Iterator[None]:
        """In the block they are those of the run; behind it, what they were before."""
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
    """Those of the libraries that are imported."""
    found = {
        "random": _Generator(random.seed, random.getstate, random.setstate),
        "numpy": _Generator(lambda seed: np.random.seed(seed % 2**32), np.random.get_state, np.random.set_state),
    }
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_rng_state"):  # else it is being imported
        assert torch is not None
        found["torch"] = _Generator(torch.manual_seed, torch.get_rng_state, torch.set_rng_state)
    return found
