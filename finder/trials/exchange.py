"""Exchanges between the trials of a cohort: members of its population copy others, and get other hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from finder.trials.speed import rollout_steps

if TYPE_CHECKING:
    from finder.trials.runs import RunGroup, SeedRun, TrialRun
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
