"""Who is best, from the values of each seed. Pure functions over numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from studies.errors import StudyError
from studies.spaces import Json

Direction = Literal["maximize", "minimize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to be ranked.

    Attributes:
        label: What it is called.
        params: Its parameters.
        seed_values: Its value on each seed.
        number: Its trial's number; decides the last tie. Defaults to `0`.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate with its place's reasons.

    Attributes:
        label: What it is called.
        params: Its parameters.
        seed_values: Its value on each seed.
        number: Its trial's number.
        mean: Mean over seeds; NaN if there is no seed or one is not finite.
        spread: Sample standard deviation over seeds (divided by n - 1); NaN with fewer than two seeds, because one
            seed says nothing about spread.
        n_seeds: How many seeds.
    """

    label: str
    params: Mapping[str, Json]
    seed_values: tuple[float, ...]
    number: int
    mean: float
    spread: float
    n_seeds: int


def last_part_return(env_steps: ArrayLike, returns: ArrayLike, budget: int, part: float = 0.2) -> float:
    """Returns the mean return of the episodes that ended in the last part of the budget.

    Training returns over a last part, and not the best evaluation or the last episode, because the best of many is a
    lucky one and one episode is noise.

    Args:
        env_steps: Environment steps at each episode's end, [n], in any order.
        returns: Each episode's return, [n].
        budget: The seed's budget in environment steps, at least 1. Later episodes count too: vector environments
            overshoot by a few steps.
        part: The last part, above 0 and at most 1. Defaults to `0.2`: episodes that ended after 80% of the budget.

    Returns:
        The mean, NaN if no episode ended there.

    Raises:
        StudyError: If the lengths differ, or `budget` or `part` is out of range.
    """
    if budget < 1:
        raise StudyError(f"budget is {budget}: give at least 1 environment step.")
    if not 0 < part <= 1:
        raise StudyError(f"part is {part}: give a part above 0 and at most 1.")
    steps, values = _pair(env_steps, returns)
    # budget - part * budget, not (1 - part) * budget: the latter is 80.00000000000001 for 100 and 0.2 in some cases.
    chosen = values[steps > budget - part * budget]
    return float(chosen.mean()) if chosen.size else math.nan


def windowed_mean(env_steps: ArrayLike, values: ArrayLike, at: float, width: float) -> float:
    """Returns the mean of the values with `at - width < env_steps <= at`, NaN if there is none.

    Args:
        env_steps: Environment steps of each value, [n], in any order.
        values: The values, [n].
        at: The window's end, included.
        width: The window's width in environment steps, above 0.

    Raises:
        StudyError: If the lengths differ or `width` is not above 0.
    """
    if not width > 0:
        raise StudyError(f"width is {width}: give a window of more than 0 environment steps.")
    steps, numbers = _pair(env_steps, values)
    chosen = numbers[(steps > at - width) & (steps <= at)]
    return float(chosen.mean()) if chosen.size else math.nan


def rank(candidates: Sequence[Candidate], direction: Direction = "maximize") -> list[Ranked]:
    """Orders candidates by their mean over seeds, best first.

    Equal means are ordered by the lower spread (an unknown spread comes last), then by the lower trial number.
    Candidates whose mean is unknown come after all others.

    Args:
        candidates: What to rank.
        direction: Whether a high or a low value is good. Defaults to `maximize`.
    """
    if direction not in ("maximize", "minimize"):
        raise StudyError(f"direction is {direction!r}: give 'maximize' or 'minimize'.")
    sign = -1.0 if direction == "maximize" else 1.0

    def place(entry: Ranked) -> tuple[bool, float, float, int]:
        unknown = math.isnan(entry.mean)
        spread = math.inf if math.isnan(entry.spread) else entry.spread
        return unknown, 0.0 if unknown else sign * entry.mean, spread, entry.number

    return sorted((_ranked(candidate) for candidate in candidates), key=place)


def overlapping(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Returns those whose spread overlaps the best one's, best first: seeds as few as these cannot tell them apart.

    The spread is one standard deviation on both sides of the mean, as figures draw it. An unknown spread (one seed)
    counts as none, so that only exact ties overlap.

    Args:
        ranked: What `rank` returned.
    """
    if not ranked:
        return []
    best, *others = ranked
    return [each for each in others if abs(best.mean - each.mean) <= _reach(best) + _reach(each)]


def _reach(entry: Ranked) -> float:
    return 0.0 if math.isnan(entry.spread) else entry.spread


def _ranked(candidate: Candidate) -> Ranked:
    values = np.asarray(candidate.seed_values, dtype=float)
    known = values.size > 0 and bool(np.isfinite(values).all())
    return Ranked(
        label=candidate.label,
        params=candidate.params,
        seed_values=candidate.seed_values,
        number=candidate.number,
        mean=float(values.mean()) if known else math.nan,
        spread=float(values.std(ddof=1)) if known and values.size > 1 else math.nan,
        n_seeds=len(candidate.seed_values),
    )


def _pair(env_steps: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    steps, numbers = np.asarray(env_steps, dtype=float), np.asarray(values, dtype=float)
    if steps.shape != numbers.shape or steps.ndim != 1:
        raise StudyError(f"env_steps has shape {steps.shape} and values {numbers.shape}: give two lists of one length.")
    return steps, numbers
