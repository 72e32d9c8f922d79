"""Divergences in a population whose members copy each other: a member that diverged continues until it copies one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agents.errors import NonFiniteError
from agents.training.trainer import Trainer
from finder.trials.failures import failure_of
from finder.trials.runs import Divergence, SeedRun


def replace_diverged(trainer: Trainer, runs: Mapping[int, SeedRun], exchanged_at: int) -> None:
    """Let members that have diverged continue with the weights of another one, if an exchange is to come.

    Members are trained in step, so that none can pause until the exchange, in which it counts as the worst. What it
    does before then does not count. A member that diverges again before any further step fails.

    Args:
        trainer: Trainer of the population.
        runs: Its runs, by member.
        exchanged_at: Environment steps of the newest exchange.
    """
    failed: dict[int, Exception] = {}
    now = (trainer.env_steps, trainer.agent.gradient_steps)
    for member in trainer.present:
        run, error = runs.get(member), trainer.runs[member].error
        if error is None or run is None or failure_of(error) != "diverged":
            continue
        is_again = run.divergence is not None and run.divergence.at == now
        if not is_again and max(run.trial.spec.exchanges, default=0) > exchanged_at:
            failed[member] = error
    sources = [member for member in trainer.present if not trainer.runs[member].over]
    if failed and sources:
        source = min(sources, key=lambda member: runs[member].divergence is not None)
        for member, error in failed.items():
            trainer.replace(member, source)
            runs[member].divergence = Divergence(now, error)


def divergences_state(runs: Mapping[int, SeedRun]) -> list[tuple[int, tuple[int, int], str]]:
    """Return member, environment and gradient steps, and message of each divergence."""
    known = {member: run.divergence for member, run in runs.items()}
    return [(member, own.at, str(own.error)) for member, own in known.items() if own is not None]


def load_divergences(runs: Mapping[int, SeedRun], state: Sequence[Any]) -> None:
    """Restore what `divergences_state` returned, as far as it is of these runs."""
    for member, (env_steps, gradient_steps), message in state:
        if member in runs:
            runs[member].divergence = Divergence((env_steps, gradient_steps), NonFiniteError(message))
