"""Help of the options of `finder lr`, `opt`, `agents` and `tune` that differ between these commands."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, get_args

_STEPS = "Environment steps of each run (default {}, or those of --horizon up to 100,000)."
_SEEDS = "Seeds of each trial: how many (default 3{}), or which: 0,1,2."
_METRIC = (
    "What runs are compared by: return, greedy-return (the default of sac, td3 and ddpg), auc, steps-to:RETURN, "
    "success-rate, custom:NAME, or loss{}."
)
_CONFIRM = "Number of best trials that are run again on further seeds{}."
_SCHEDULER = "Stops trials that perform worse: {}, ...; asha pauses and promotes them{}."

_HELP: Mapping[str, Mapping[str, str | None]] = {
    "lr": {
        "env_steps": _STEPS.format("50,000"),
        "seeds": _SEEDS.format("; with --minutes 1 to 3"),
        "metric": _METRIC.format(" (the default of a range test of a built-in agent)"),
        "confirm": _CONFIRM.format(" (default 3; with --minutes 2 or 3)"),
        "pruner": _SCHEDULER.format(
            "race (default; with --episodes, or another metric than a return, median), hyperband, none", ""
        ),
        "seed": "First seed of a range test (default 0).",
    },
    "opt": {
        "env_steps": _STEPS.format("30,000"),
        "seeds": _SEEDS.format("; with --minutes 1 to 3"),
        "metric": _METRIC.format(""),
        "confirm": _CONFIRM.format(" (default 3; with --minutes 2 or 3)"),
        "pruner": _SCHEDULER.format(
            "race (default; with --episodes, or another metric than a return, none), median, hyperband", ""
        ),
        "seed": None,
    },
    "agents": {
        "env_steps": _STEPS.format("50,000"),
        "seeds": _SEEDS.format(""),
        "metric": _METRIC.format("; up to three give a Pareto front"),
        "confirm": _CONFIRM.format(" (default 0)"),
        "pruner": _SCHEDULER.format("none (default), race, median, hyperband", ""),
        "n_jobs": "Processes (default: one per agent).",
        "executor": None,
        "population": None,
        "seed": None,
    },
    "tune": {
        "env_steps": _STEPS.format("50,000"),
        "seeds": _SEEDS.format("; with --minutes 1 to 3; pbt or pb2: 1"),
        "metric": _METRIC.format("; up to three give a Pareto front"),
        "confirm": _CONFIRM.format(
            ", beside the baseline, the agent's own settings (default 3; with --minutes 2 to 16)"
        ),
        "pruner": _SCHEDULER.format(
            "median (default), race, hyperband, none", "; pbt, pb2: population-based training"
        ),
        "seed": "Seed of the sampler (default 0).",
    },
}  # fmt: skip
"""Command -> option -> its help; None: the command does not have it."""


def has_option(command: str, name: str) -> bool:
    """Return whether a command has an option."""
    return name not in _HELP[command] or _HELP[command][name] is not None


def with_own_help(command: str, name: str, annotation: Any) -> Any:
    """Return the annotation of an option with the help that it has in a command.

    Args:
        command: Name of the command.
        name: Name of the option.
        annotation: ``Annotated[type, typer.Option(...)]``.
    """
    text = _HELP[command].get(name)
    if text is None:
        return annotation
    kind, option = get_args(annotation)
    own = copy(option)
    own.help = text
    return Annotated[kind, own]
