"""Exchanges between the trials of a cohort: members of its population copy others, and get other hyperparameters.

A member that diverged continues, with the weights of another one, until the exchange in which it copies one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agents.errors import NonFiniteError
from agents.training.trainer import Trainer
from finder.trials.failures import failure_of
from finder.trials.runs import Divergence, RunGroup, SeedRun, TrialRun
from finder.trials.speed import rollout_steps
from finder.trials.trial import TrialListener, TrialSpec


def exchange(mark: int, trials: Mapping[int, TrialRun], listener: TrialListener) -> None:
    """Let the trials that have reached a step copy each other, if it is a step of their exchanges.

    At a step behind which no rollout ends, nothing is copied: the copies would not be trained. A run copies the run of
    the other trial with the same seed. A trial that has diverged since the last exchange counts as the worst; if it
    copies none until its end, it fails there. A population that resumed from a checkpoint passes the steps before it
    again: exchanges that its state contains are not repeated.

    Args:
        mark: Environment steps.
        trials: The trials that are trained, by number: members of one population.
        listener: Decides who copies whom, and records it.
    """
    some = next(iter(trials.values()), None)
    if some is None or mark not in some.spec.exchanges:
        return
    groups: dict[int, RunGroup] = {id(run.group): run.group for trial in trials.values() for run in trial.runs}
    (group,) = groups.values()  # agents that cannot be members were refused before
    if group.exchanged_at >= mark or not _trains_again(some.spec, group.trainer.env_steps):
        return
    # Runs that a callback has stopped have left the population.
    present = {n: trial for n, trial in trials.items() if not any(run.was_stopped for run in trial.runs)}
    diverged = {number for number, trial in present.items() if trial.divergence is not None}
    values = {n: trial.values_since(group.exchanged_at) for n, trial in present.items() if not trial.finished}
    known = {n: own for n, own in values.items() if n not in diverged and np.isfinite(list(own.values())).all()}
    for number, copied_from, params in listener.exchange(mark, known, diverged) if known else ():
        sources = _by_seed(trials[copied_from])
        for seed, run in _by_seed(trials[number]).items():
            group.copy_member(sources[seed].member, run.member, params)
    group.exchanged_at = group.trainer.env_steps


def _trains_again(spec: TrialSpec, env_steps: int) -> bool:
    """Return whether an update follows within the budget, without which copies would have no effect."""
    return spec.env_steps is None or env_steps + rollout_steps(spec.agent) <= spec.env_steps


def _by_seed(trial: TrialRun) -> dict[int, SeedRun]:
    return {run.seed: run for run in trial.runs}


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
