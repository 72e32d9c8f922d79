"""Confirmation: the finalists of a search are run again on further seeds, which were not used to choose them.

The winner among many noisy candidates is partly lucky: its value on the seeds that chose it is optimistic. The
further seeds give a value without this bias, and the difference of the two means estimates the selection bias.

All seeds together choose the recommendation among the finalists: replayed over tables of finished runs, this finds
better trials than the seeds of the search alone (`benchmarks/pick.md`). The further seeds therefore take part in the
last choice, among three by default (up to 16 in budgets), and if several finalists are confirmed, a small bias remains:
less than the interval, which contained the true value in 97.6% of the replays of an earlier version. With one finalist
(`--confirm 1`) they choose nothing. Where further runs are longer than those of the search, or trials of the search had
one seed each, they alone choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import optuna
from optuna.trial import FrozenTrial, TrialState

from studies.judging import estimates, judgement
from studies.judging.judgement import Verdict
from studies.judging.ranking import Candidate
from studies.judging.return_bounds import confirmation_bounds, return_bounds
from studies.judging.robust_choice import PrunedEstimate
from studies.judging.search_history import history_of, is_as_long_as_now, result_of
from studies.spec.attributes import CONFIRMS_ATTR, seed_values, stopped_values

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

__all__ = [
    "Verdict", "candidate", "confirmed_seeds", "interrupted_steps", "pruned_estimates", "unconfirmed", "verdict",
]  # fmt: skip


def unconfirmed(study: OpenStudy) -> list[tuple[FrozenTrial, tuple[int, ...]]]:
    """Return the finalists that are still to be confirmed, with their seeds; see `studies.judging.judgement`."""
    missing = judgement.unconfirmed(history_of(study), lambda: verdict(study))
    by_number = {trial.number: trial for trial in study.trials()} if missing else {}
    return [(by_number[number], seeds) for number, seeds in missing]


def confirmed_seeds(study: OpenStudy) -> dict[int, set[int]]:
    """Return the further seeds on which trials have results, in runs of the length that these have now."""
    seeds: dict[int, set[int]] = {}
    for run in study.confirmation_trials():
        if run.state == TrialState.COMPLETE and is_as_long_as_now(study.spec, run):
            seeds.setdefault(run.user_attrs[CONFIRMS_ATTR], set()).update(seed_values(run))
    return seeds


def interrupted_steps(study: OpenStudy) -> dict[int, int]:
    """Return the environment steps that the interrupted confirmations of trials have reported."""
    return {
        run.user_attrs[CONFIRMS_ATTR]: run.last_step or 0
        for run in study.confirmation_trials()
        if run.state == TrialState.WAITING
    }


_VERDICTS: WeakKeyDictionary[optuna.Study, tuple[object, Verdict]] = WeakKeyDictionary()
"""Last verdict on a study, with its inputs: reports ask for it many times."""


def verdict(study: OpenStudy) -> Verdict:
    """Return the trial to use, ties, and results on further seeds."""
    trials = study.all_trials()
    ended = tuple((trial.number, trial.state) for trial in trials if trial.state.is_finished())
    stopped = tuple((trial.number, report[0]) for trial in trials if (report := stopped_values(trial)))
    now = (study.spec, ended, stopped)
    before = _VERDICTS.get(study.study)
    if before is None or before[0] != now:
        bounds = return_bounds(study)
        found = judgement.judge(history_of(study), bounds, confirmation_bounds(study, bounds))
        before = _VERDICTS[study.study] = (now, found)
    return before[1]


def candidate(study: OpenStudy, trial: FrozenTrial) -> Candidate:
    """Return a complete trial as a candidate; without seed values it counts as one seed."""
    return judgement.candidate(result_of(study, trial))


def pruned_estimates(study: OpenStudy) -> list[PrunedEstimate]:
    """Return estimates of pruned and diverged trials; see `studies.judging.estimates`."""
    return estimates.pruned_estimates(history_of(study))
