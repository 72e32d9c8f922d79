"""PBT's exploration: the numbers of the copied member, each multiplied or drawn anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from studies.population_based.population_based import Explorer, Perturbation, PopulationBased
from studies.population_based.schedule import Member
from studies.spaces.spaces import FloatRange


@dataclass(frozen=True, kw_only=True)
class PBT(PopulationBased):
    """Population-based training with random perturbations: Jaderberg et al. 2017, arXiv 1711.09846.

    Attributes:
        resample_probability: Probability with which a number is drawn anew from its range rather than multiplied, 0 to
            1.
        factors: The two factors, one of which a number is multiplied by; the first between 0 and 1, the second above 1.
            Results are clipped to the range. Where a range is not logarithmic, a number changes by at most the same
            share of the range, a fifth of it by default.

    Raises:
        ValueError: A number is out of range.
    """

    resample_probability: float = 0.25
    factors: tuple[float, float] = (0.8, 1.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.resample_probability <= 1.0:
            raise ValueError(f"resample_probability is {self.resample_probability}: it must be between 0 and 1.")
        object.__setattr__(self, "factors", tuple(self.factors))  # JSON has lists
        if len(self.factors) != 2 or not 0.0 < self.factors[0] < 1.0 < self.factors[1]:
            raise ValueError(
                f"factors are {list(self.factors)}: give two, the first between 0 and 1, the second above 1."
            )

    def explorer(self, env_steps: int, members: Sequence[Member]) -> Explorer:
        def explore(donor: Member, before: Sequence[Perturbation]) -> dict[str, float]:
            rng = self._generator(env_steps, len(before) + 1)
            present = donor.params_at(env_steps)
            return {name: self._perturbed(space, present[name], rng) for name, space in sorted(self.spaces.items())}

        return explore

    def _perturbed(self, space: FloatRange, value: float, rng: np.random.Generator) -> float:
        """Return another number in its range. The same numbers are drawn from the generator in every case."""
        resamples, position, factor = rng.random(), rng.random(), self.factors[int(rng.integers(2))]
        if resamples < self.resample_probability:
            return from_unit(space, position)
        changed = value * factor
        if not space.log:  # in a narrow range, such as 0.8 to 1, a factor alone would lead to its ends
            most = abs(factor - 1) * (space.high - space.low)
            changed = min(max(changed, value - most), value + most)
        return min(max(changed, space.low), space.high)


def from_unit(space: FloatRange, position: float) -> float:
    """Return the number at a position in a range: 0 is its low end, 1 its high end, on its scale."""
    if space.log:
        value = math.exp(math.log(space.low) + position * (math.log(space.high) - math.log(space.low)))
    else:
        value = space.low + position * (space.high - space.low)
    return min(max(value, space.low), space.high)


def to_unit(space: FloatRange, value: float) -> float:
    """Return the position of a number in a range, undoing `from_unit`."""
    if space.log:
        return (math.log(value) - math.log(space.low)) / (math.log(space.high) - math.log(space.low))
    return (value - space.low) / (space.high - space.low)
