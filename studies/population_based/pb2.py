"""PB2's exploration: a time-varying bandit proposes the numbers with which a copy continues."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from studies.population_based.gaussian_process import Array, Observations, fitted, posterior
from studies.population_based.pbt import from_unit, to_unit
from studies.population_based.population_based import Explorer, Perturbation, PopulationBased
from studies.population_based.schedule import Member
from studies.spaces.spaces import FloatRange


class Change(NamedTuple):
    """How much the value of a member grew in an interval.

    Attributes:
        interval: Number of the interval, from 1.
        params: Its numbers during the interval.
        growth: Growth of its value, or of that of the member it copied at the beginning.
    """

    interval: int
    params: Mapping[str, float]
    growth: float


@dataclass(frozen=True, kw_only=True)
class PB2(PopulationBased):
    """Population-based bandits: Parker-Holder et al. 2020, arXiv 2002.02518.

    A Gaussian process over numbers and time predicts the growth of a value in the next interval; a copy continues with
    the numbers of the largest upper confidence bound among random ones. Copies of one step are chosen one after the
    other: those chosen before reduce the uncertainty around them. The bound's width is the paper's, sqrt(0.2 + log(0.4
    t)) deviations for interval t, where the logarithm is left out while it is negative. Here the kernel is chosen by
    its likelihood among a grid, and the bound is maximized over random numbers instead of by gradients. The numbers
    with which a member diverged count as if its value had grown least of all, so that copies avoid them.

    Attributes:
        n_candidates: Random numbers among which the bound is maximized, >= 1.
        memory: Newest observations that the process learns from, >= 2.

    Raises:
        ValueError: A number is out of range.
    """

    n_candidates: int = 1000
    memory: int = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_candidates < 1 or self.memory < 2:
            raise ValueError(
                f"n_candidates is {self.n_candidates} and memory is {self.memory}: they must be at least 1 and 2."
            )

    def explorer(self, env_steps: int, members: Sequence[Member]) -> Explorer:
        names = sorted(self.spaces)
        seen = changes(members, self.perturb_steps, env_steps)[-self.memory :]
        interval = env_steps // self.perturb_steps + 1
        bounds = self._bounds(seen, interval) if len(seen) >= 2 else None

        def explore(donor: Member, before: Sequence[Perturbation]) -> dict[str, float]:
            candidates = self._generator(env_steps, len(before) + 1).random((self.n_candidates, len(names)))
            best = 0 if bounds is None else int(np.argmax(bounds(candidates, before)))
            row = zip(names, candidates[best], strict=True)
            return {name: from_unit(self.spaces[name], float(position)) for name, position in row}

        return explore

    def _bounds(self, seen: Sequence[Change], interval: int) -> Callable[[Array, Sequence[Perturbation]], Array]:
        """Return the upper confidence bound of the growth as a function of candidates and earlier copies."""
        observed = Observations(
            np.array([scaled_params(self.spaces, each.params) for each in seen]),
            np.array([each.interval for each in seen], float),
            normalised([each.growth for each in seen]),
        )
        kernel = fitted(observed)  # once for all copies of a step

        def bounds(candidates: Array, before: Sequence[Perturbation]) -> Array:
            chosen = [scaled_params(self.spaces, each.params) for each in before]
            pending = np.array(chosen).reshape(-1, len(self.spaces))
            mean, deviation = posterior(kernel, observed, candidates, interval, pending)
            found: Array = mean + math.sqrt(confidence(interval)) * deviation
            return found

        return bounds


def confidence(interval: int) -> float:
    """Return the square of the width of the bound in an interval; see `PB2`."""
    return 0.2 + max(0.0, math.log(0.4 * interval))


def normalised(values: Sequence[float]) -> Array:
    """Return values with mean 0 and variance 1; zeros if they are equal."""
    given = np.array(values, float)
    deviation = given.std()
    return (given - given.mean()) / deviation if deviation > 0.0 else np.zeros_like(given)


def scaled_params(spaces: Mapping[str, FloatRange], params: Mapping[str, float]) -> list[float]:
    """Return numbers as positions in their ranges, by name."""
    return [to_unit(spaces[name], params[name]) for name in sorted(spaces)]


def changes(members: Sequence[Member], perturb_steps: int, until: int) -> list[Change]:
    """Return the growth of every member in every interval up to a step, oldest first.

    An interval at whose end, or at whose beginning, the value is unknown is left out; so is the first one, before which
    there are no values. In an interval in which a member diverged, its growth is the least of all that are known.
    """
    values = {member.number: member.values for member in members}
    found: list[Change] = []
    diverged: list[tuple[int, Mapping[str, float]]] = []
    for member in members:
        copied = {entry.env_steps: entry.copied_from for entry in member.schedule if entry.copied_from is not None}
        for end, value in member.values.items():
            if end > until:
                continue
            begin, interval, params = end - perturb_steps, end // perturb_steps, member.params_at(end)
            start = values.get(copied.get(begin, member.number), {}).get(begin, -math.inf)
            if value == -math.inf:
                diverged.append((interval, params))
            elif start > -math.inf:
                found.append(Change(interval, params, value - start))
    least = min((each.growth for each in found), default=0.0)
    found += [Change(interval, params, least) for interval, params in diverged if found]
    return sorted(found, key=lambda each: each.interval)
