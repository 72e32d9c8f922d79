"""Finalists of population-based training whose schedules differ.

The best members of a population at its end have often copied each other shortly before, so that their schedules are
equal up to there. Confirmations follow schedules from the beginning: those of near-copies would be nearly the same
runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from studies.judging.ranking import Ranked
from studies.judging.search_history import SearchHistory
from studies.population_based.schedule import Schedule

NEAR = 0.5
"""Share of a run above which two schedules with equal numbers are nearly the same."""


def distinct_first(ranked: Iterable[Ranked], history: SearchHistory, chosen: Iterable[int] = ()) -> list[Ranked]:
    """Return trials without those of equal schedules, and with those of nearly the same schedules after all others.

    The order is kept otherwise; without population-based training, it is that of the trials.

    Args:
        ranked: Trials, best first.
        history: The search.
        chosen: Numbers of trials that precede these. Defaults to none.
    """
    leaders = [history.schedules[number] for number in chosen if number in history.schedules]
    distinct: list[Ranked] = []
    near: list[Ranked] = []
    others: list[Schedule] = []
    for each in ranked:
        schedule = history.schedules.get(each.number)
        if schedule is None:
            distinct.append(each)
        elif (shared := _largest_part(schedule, leaders, history)) <= NEAR:
            distinct.append(each)
            leaders.append(schedule)
        elif max(shared, _largest_part(schedule, others, history)) < 1.0:
            near.append(each)
            others.append(schedule)
    return distinct + near


def _largest_part(schedule: Schedule, others: Sequence[Schedule], history: SearchHistory) -> float:
    return max((shared_part(schedule, other, history.env_steps or 1) for other in others), default=0.0)


def shared_part(one: Schedule, other: Schedule, env_steps: int) -> float:
    """Return the share of a run of some environment steps in which two schedules have equal numbers."""
    steps = sorted({entry.env_steps for entry in (*one, *other) if entry.env_steps < env_steps} | {0, env_steps})
    parts = itertools.pairwise(steps)
    equal = sum(end - begin for begin, end in parts if _at(one, begin) == _at(other, begin))
    return equal / env_steps


def _at(schedule: Schedule, env_steps: int) -> Mapping[str, float] | None:
    """Return the numbers of a schedule from a step on."""
    return next((entry.params for entry in reversed(schedule) if entry.env_steps <= env_steps), None)
