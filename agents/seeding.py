"""One seed, many streams: every source of randomness in a run has a generator of its own.

Streams come from one `numpy.random.SeedSequence` by name, so that adding a stream never shifts another one, and
no part of the product draws from a global generator.
"""

from __future__ import annotations

import contextlib
import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from agents.errors import ConfigurationError


def seed_sequence(seed: int, stream: str) -> np.random.SeedSequence:
    """The seed sequence of one named stream of a run.

    Args:
        seed: The run's seed, a non-negative integer. 0 is a seed like any other.
        stream: A fixed name, such as ``"exploration"``.
    """
    if seed < 0:
        raise ConfigurationError(f"seed must be >= 0, got {seed}.")
    return np.random.SeedSequence(entropy=seed, spawn_key=(zlib.crc32(stream.encode()),))


def generator(seed: int, stream: str) -> np.random.Generator:
    """A fresh NumPy generator for the named stream of a run."""
    return np.random.default_rng(seed_sequence(seed, stream))


def integers(seed: int, stream: str, n: int) -> list[int]:
    """`n` independent 31-bit integers, for libraries that want a plain seed (an environment's `reset`, say)."""
    return [int(word) >> 1 for word in seed_sequence(seed, stream).generate_state(n, np.uint32)]


class MemberStreams:
    """The streams of several members as one generator whose draws have rows first: [R, ...], R / P rows a member.

    Each member's rows come from its own generator, as the member alone would draw them. It has the few methods of a
    NumPy generator that can be asked for rows.
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        """Args: generators: one a member."""
        self.generators = list(generators)

    def random(self, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Uniform numbers in [0, 1), [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.random(shape) for generator in self.generators])

    def standard_normal(self, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Normal numbers of mean 0 and deviation 1, [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.standard_normal(shape) for generator in self.generators])

    def integers(self, low: int, high: int, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Integers in [low, high), [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.integers(low, high, shape) for generator in self.generators])

    def _of_one(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        rows, *rest = (size,) if isinstance(size, int) else size
        share, left = divmod(rows, len(self.generators))
        if left:
            raise ValueError(f"{rows} rows cannot be shared by {len(self.generators)} members")
        return (share, *rest)


@contextlib.contextmanager
def seeded_initializers(seed: int) -> Iterator[None]:
    """Makes Keras draw unseeded initial weights from `seed` inside the block.

    Keras takes the seed of an initializer that was given none from Python's global `random`, and other code may
    use NumPy's. Both are seeded here and put back afterwards, so that nothing outside notices.
    """
    python_state, numpy_state = random.getstate(), np.random.get_state()
    weights_seed = integers(seed, "weights", 1)[0]
    random.seed(weights_seed)
    np.random.seed(weights_seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
