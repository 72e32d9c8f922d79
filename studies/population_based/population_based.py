"""Exchanges between the members of a population: the worst copy the best, and continue with other numbers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from studies.population_based.schedule import Member
from studies.spaces.spaces import FloatRange


class Perturbation(NamedTuple):
    """A member copies the state of another one, and continues with other numbers.

    Attributes:
        number: Number of the trial that copies.
        copied_from: Number of the trial that is copied.
        params: Numbers with which it continues.
    """

    number: int
    copied_from: int
    params: dict[str, float]


Explorer = Callable[[Member, Sequence[Perturbation]], dict[str, float]]
"""Returns the numbers of a copy, from the member that is copied and what was decided at this step before."""


@dataclass(frozen=True, kw_only=True)
class PopulationBased(ABC):
    """Base class for population-based training: Jaderberg et al. 2017, arXiv 1711.09846.

    At the end of every interval the members in the lowest quantile of values copy the state of members in the highest
    one, drawn at random (truncation selection), and continue with other numbers. A member never copies one whose value
    is not higher than its own. Members that diverged are the worst, and all of them copy another one. Other members
    without a value neither copy nor are copied.

    A decision depends on the recorded members, the step and the seed, and on nothing else.

    Attributes:
        spaces: Range of each searched parameter.
        perturb_steps: Environment steps of an interval, >= 1.
        quantile: Share of the members that copies, and share that is copied, above 0 up to 0.5.
        seed: Seed of the random choices, >= 0.

    Raises:
        ValueError: A number is out of range.
    """

    spaces: Mapping[str, FloatRange]
    perturb_steps: int
    quantile: float = 0.25
    seed: int = 0

    def __post_init__(self) -> None:
        if self.perturb_steps < 1:
            raise ValueError(f"perturb_steps is {self.perturb_steps}: it must be at least 1.")
        if not 0.0 < self.quantile <= 0.5:
            raise ValueError(f"quantile is {self.quantile}: it must be above 0 and at most 0.5.")

    def decide(self, env_steps: int, members: Sequence[Member]) -> list[Perturbation]:
        """Return the members that copy others at a step, worst first.

        Args:
            env_steps: The step, the end of an interval.
            members: All members of the population, with their values at the step; those that have failed or were
                stopped have none there.
        """
        found: list[Perturbation] = []
        by_number = {member.number: member for member in members}
        values = {member.number: member.values[env_steps] for member in members if env_steps in member.values}
        pairs = truncation(values, self.quantile, self._generator(env_steps))
        if not pairs:
            return []
        explore = self.explorer(env_steps, members)
        for number, donor in pairs:
            found.append(Perturbation(number, donor, explore(by_number[donor], found)))
        return found

    @abstractmethod
    def explorer(self, env_steps: int, members: Sequence[Member]) -> Explorer:
        """Return the function that chooses the numbers with which copies continue at a step.

        Args:
            env_steps: The step.
            members: All members.
        """

    def _generator(self, env_steps: int, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, env_steps, *key])


def truncation(values: Mapping[int, float], quantile: float, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return pairs of a member of the lowest quantile and one of the highest that it copies, lowest first.

    The quantiles are rounded down to whole members, but have at least one, and do not overlap. Of equal members the
    one with the lower number counts as better. If more members have diverged than are in the lowest quantile, all of
    them copy.

    Args:
        values: Number of a member -> its value, higher is better; minus infinity if it has diverged.
        quantile: Share of the members in each quantile.
        rng: Generator for the choice among the highest.
    """
    ordered = sorted(values, key=lambda number: (values[number], -number))
    n_diverged = sum(value == -math.inf for value in values.values())
    size = min(max(1, int(len(ordered) * quantile + 1e-9)), len(ordered) // 2)
    n_highest = min(size, len(ordered) - n_diverged)
    if not n_highest:
        return []
    highest = ordered[-n_highest:][::-1]  # best first
    pairs = [(number, highest[int(rng.integers(n_highest))]) for number in ordered[: max(size, n_diverged)]]
    return [(number, donor) for number, donor in pairs if values[donor] > values[number]]
