"""The options that `finder lr --range-test` takes; all others are refused."""

from __future__ import annotations

from typing import Any

import typer

from agents.errors import ConfigurationError
from finder.cli.options.values import is_given

_TAKEN = {
    "agent", "env", "env_kwargs", "wrapper", "max_episode_steps", "set_", "expert", "reward", "pretrain", "metric",
    "env_steps", "episodes", "seeds", "seed", "start_lr", "end_lr", "n_rates", "optimizer_name", "range_test",
    "storage", "study_name", "executor", "num_threads", "strategy", "vectorization", "json", "quiet",
}  # fmt: skip


def refuse_in_range_test(context: typer.Context) -> None:
    """Refuse the options of a command that a range test does not take.

    Raises:
        ConfigurationError: Names the first one that was given.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in _TAKEN and is_given(context, name):
            raise ConfigurationError(
                f"{_as_given(parameter, context.params[name])} is for searches of several trials, but a range test "
                "trains one agent a seed while its learning rate grows: leave it out, and limit the test by "
                "--env-steps or --episodes."
            )


def _as_given(parameter: Any, value: Any) -> str:
    """Return an option with its value, as it is written on the command line."""
    if value is True or value is False:
        flags: list[str] = parameter.opts if value else parameter.secondary_opts or parameter.opts
        return flags[0]
    values = value if isinstance(value, list | tuple) else [value]
    words = [parameter.opts[0], *(f"{each:g}" if isinstance(each, float) else str(each) for each in values)]
    return " ".join(words)
