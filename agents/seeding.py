"""One seed, many streams: every source of randomness in a run has its own generator.

Streams are derived from one `numpy.random.SeedSequence` by name, so that adding a stream never shifts another one. No
part of the product draws from a global generator.
"""

from __future__ import annotations

import contextlib
import random
import threading
import zlib
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from agents.errors import ConfigurationError, check_at_least


def as_seed(seed: Any) -> int:
    """Return a seed as a plain number, as files store it.

    Raises:
        ConfigurationError: It is no whole number.
    """
    if not isinstance(seed, Integral):
        raise ConfigurationError(f"seed must be a whole number, got {seed!r}.")
    return int(seed)


def seed_sequence(seed: int, stream: str) -> np.random.SeedSequence:
    """Return the seed sequence of one named stream of a run.

    Args:
        seed: The run's seed, a non-negative integer. 0 is a seed like any other.
        stream: Fixed name of the stream, such as ``"exploration"``.
    """
    check_at_least(0, seed=seed)
    return np.random.SeedSequence(entropy=seed, spawn_key=(zlib.crc32(stream.encode()),))


def generator(seed: int, stream: str) -> np.random.Generator:
    """Return a new NumPy generator for the named stream of a run."""
    return np.random.default_rng(seed_sequence(seed, stream))


def integers(seed: int, stream: str, n: int) -> list[int]:
    """Return `n` independent 31-bit integers, for libraries that take an integer seed (an environment's `reset`)."""
    return [int(word) >> 1 for word in seed_sequence(seed, stream).generate_state(n, np.uint32)]


class MemberStreams:
    """Generators of several members as one generator that draws rows first: [R, ...], R / P rows per member.

    Each member's rows are drawn from its own generator, exactly as for a single agent. Only those methods of a NumPy
    generator are provided that can draw rows.
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        """Args: generators: one per member."""
        self.generators = list(generators)

    def random(self, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return uniform numbers in [0, 1), [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.random(shape) for generator in self.generators])

    def standard_normal(self, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return normal numbers of mean 0 and standard deviation 1, [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.standard_normal(shape) for generator in self.generators])

    def integers(self, low: int, high: int, size: int | tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return integers in [low, high), [R, ...]."""
        shape = self._of_one(size)
        return np.concatenate([generator.integers(low, high, shape) for generator in self.generators])

    def _of_one(self, size: int | tuple[int, ...]) -> tuple[int, ...]:
        rows, *rest = (size,) if isinstance(size, int) else size
        share, left = divmod(rows, len(self.generators))
        if left:
            raise ValueError(f"{rows} rows cannot be shared by {len(self.generators)} members")
        return (share, *rest)


@contextlib.contextmanager
def restored_on_error(*streams: np.random.Generator | MemberStreams) -> Iterator[None]:
    """Undo the draws of the block if it raises an error, so that it can be repeated with the same numbers."""
    each = [own for stream in streams for own in (stream.generators if isinstance(stream, MemberStreams) else [stream])]
    before = [generator.bit_generator.state for generator in each]
    try:
        yield
    except BaseException:
        for generator, state in zip(each, before, strict=True):
            generator.bit_generator.state = state
        raise


_GLOBAL_GENERATORS = threading.RLock()
"""Held while the global generators are seeded, so that agents that threads build at the same time are reproducible."""


@contextlib.contextmanager
def seeded_initializers(seed: int) -> Iterator[None]:
    """Make Keras draw unseeded initial weights from `seed` inside the block.

    Keras seeds an initializer without a seed from Python's global `random`, and other code may use NumPy's global
    generator. Both are seeded here, and their states are restored afterwards. Other threads wait meanwhile.
    """
    with _GLOBAL_GENERATORS:
        python_state, numpy_state = random.getstate(), np.random.get_state()
        weights_seed = integers(seed, "weights", 1)[0]
        random.seed(weights_seed)
        np.random.seed(weights_seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
