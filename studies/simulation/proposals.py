"""Sources of the configurations of a simulated search: a plan, or a sampler of Optuna."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import optuna
from optuna.trial import TrialState

from studies.adapters.quiet_optuna import quiet_optuna
from studies.adapters.samplers import make_sampler
from studies.adapters.trial_sampler import TrialSampler
from studies.simulation.simulated_trial import SimulatedTrial
from studies.simulation.table_groups import groups_of
from studies.spaces.spaces import Json
from studies.spec.spec import StudySpec

if TYPE_CHECKING:
    from studies.simulation.run_table import RunTable


class PlannedProposals:
    """Configurations in order, each trained on the first seeds.

    Args:
        table: Finished runs.
        configs: Positions of the configurations.
        n_seeds: Seeds of each; a configuration with fewer is trained on those that it has.
    """

    def __init__(self, table: RunTable, configs: Sequence[int], n_seeds: int) -> None:
        self._table, self._configs, self._n_seeds = table, configs, n_seeds

    def take(self, number: int, left: float) -> tuple[int, tuple[int, ...]] | None:
        if number >= len(self._configs):
            return None
        config = self._configs[number]
        return config, tuple(range(min(self._n_seeds, self._table.counts[config])))

    def ended(self, trial: SimulatedTrial) -> None:
        """Do nothing: a plan does not depend on results."""


class SampledProposals:
    """Configurations that a sampler of Optuna proposes from the results of earlier trials, as in a live study.

    Proposals are rounded to the nearest configuration of the table, and the result is reported to the sampler under its
    parameters. One that is proposed again is trained on its next seed, as nearly equal configurations have runs of
    their own in a live search; after its last seed, on the first one again.

    Args:
        table: Finished runs.
        sampler: Name of the sampler.
        seed: Its seed.
        n_seeds: Seeds that the search may use, at least 1. There are at most as many trials as runs with these.
        reserve: Part of the budget that is kept for the finalists, in whole runs. A trial begins only if the rest pays
            for all of it.
    """

    def __init__(self, table: RunTable, sampler: str, seed: int, *, n_seeds: int, reserve: float) -> None:
        self._table, self._reserve = table, reserve
        self._most = [min(n_seeds, count) for count in table.counts]
        self._proposed: Counter[int] = Counter()
        self._open: dict[int, optuna.Trial] = {}
        self._groups, self._positions = groups_of(table)
        spec = StudySpec(name="table", agents="table", env="table", env_steps=table.marks[-1], seed=seed)  # type: ignore[arg-type]  # text becomes a tuple
        # Each group has a rate of its own, as conditional parameters have.
        kwargs: dict[str, Json] = {"group": True} if sampler == "tpe" and len(set(self._groups)) > 1 else {}
        with quiet_optuna():
            self._study = optuna.create_study(
                direction="maximize", sampler=TrialSampler(lambda own: make_sampler(sampler, kwargs, own, spec), seed)
            )

    def take(self, number: int, left: float) -> tuple[int, tuple[int, ...]] | None:
        if number >= sum(self._most) or left - self._reserve < 1 - 1e-9:
            return None
        trial = self._study.ask()
        config = self._propose(trial)
        self._open[number] = trial
        seed = self._proposed[config] % self._most[config]
        self._proposed[config] += 1
        return config, (seed,)

    def ended(self, trial: SimulatedTrial) -> None:
        """Tell the sampler the result of a trial."""
        asked = self._open.pop(trial.number, None)
        if asked is None:  # a trial of an extended plan
            return
        for step, value in trial.reports.items():
            asked.report(value, step)
        is_complete = trial.state == "complete"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = TrialState.COMPLETE if is_complete else TrialState.PRUNED
            self._study.tell(asked, trial.value if is_complete else None, state=state)

    def _propose(self, trial: optuna.Trial) -> int:
        """Return the configuration nearest to the proposal of the sampler; its rate becomes that of the trial."""
        if not self._groups:
            return int(trial.suggest_categorical("config", range(len(self._table.configs))))
        names = list(dict.fromkeys(self._groups))
        group = names[int(trial.suggest_categorical("group", range(len(names))))] if len(names) > 1 else names[0]
        members = [i for i, own in enumerate(self._groups) if own == group]
        # A common range is useless for groups whose rates lie decades apart.
        low, high = (end(self._positions[i] for i in members) for end in (min, max))
        if high <= low:
            return members[0]
        name = f"rate-{names.index(group)}"
        position = trial.suggest_float(name, low, high)
        config = min(members, key=lambda i: abs(self._positions[i] - position))
        distribution = trial.distributions[name]
        rounded = distribution.to_internal_repr(self._positions[config])
        trial.storage.set_trial_param(trial._trial_id, name, rounded, distribution)
        return config
