"""Schedules of population-based training as text, and as what a confirmation or a long run repeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from studies.population_based.schedule import Lineage, Schedule
from studies.words import counted, param_text, params_text


def schedule_text(schedule: Schedule) -> str:
    """Return a schedule in short: `learning_rate 1e-3 → 4e-4, ent_coef 0.01 → 0.02, in 3 changes`.

    Args:
        schedule: The schedule; with one entry, its numbers.
    """
    first, last = schedule[0].params, schedule[-1].params
    if len(schedule) == 1:
        return params_text(dict(first))
    names = sorted(first, key=lambda name: ("learning_rate" not in name, name))
    numbers = ", ".join(f"{name} {_change_text(name, first[name], last[name])}" for name in names)
    return f"{numbers}, in {counted(len(schedule) - 1, 'change')}"


def _change_text(name: str, first: float, last: float) -> str:
    return f"{param_text(name, first)} → {param_text(name, last)}"


def shown_params(params: Mapping[str, Any], weights: Lineage | None) -> dict[str, Any]:
    """Return the parameters of a trial for display: with population-based training, as the weights had them.

    Args:
        params: Its parameters, with the numbers that it began with.
        weights: The schedule of its weights; None if its parameters were constant.
    """
    if weights is None:
        return dict(params)
    first, last = weights.schedule[0].params, weights.schedule[-1].params
    changed = {
        name: _change_text(name, value, last[name]) if value != last[name] else value for name, value in first.items()
    }
    return {**params, **changed}


def repeated(
    params: Mapping[str, Any], weights: Lineage | None
) -> tuple[dict[str, Any], tuple[tuple[int, dict[str, float]], ...]]:
    """Return the parameters with which the confirmation of a trial begins, and the changes that it repeats.

    The weights of a finalist come from other members, so that its confirmation begins with the numbers of the first of
    these, and repeats the numbers of each in its time.

    Args:
        params: Parameters of the finalist, with the numbers that it began with.
        weights: The schedule of its weights; None if its parameters were constant.
    """
    if weights is None:
        return dict(params), ()
    first, *changes = weights.schedule
    return {**params, **first.params}, tuple((each.env_steps, dict(each.params)) for each in changes)


def schedule_lines(schedule: Schedule, env_steps: int | None, long_run: int) -> str:
    """Return Python code of a callback that follows a schedule in a long run; "" if it has no changes.

    Args:
        schedule: The schedule.
        env_steps: Environment steps of the run that it was recorded in.
        long_run: Environment steps of the long run.
    """
    if len(schedule) < 2:
        return ""
    of = "" if env_steps is None else f"  # stretched from {env_steps:,} to {long_run:,} environment steps"
    factor = 1.0 if env_steps is None else long_run / env_steps
    changes = "".join(f"    ({round(factor * each.env_steps)}, {dict(each.params)!r}),\n" for each in schedule[1:])
    return f"schedule = agents.HyperparameterSchedule([{of}\n{changes}])\n"
