"""List of the studies of a storage, one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, TrialState

from studies.analysis.status import status_of
from studies.database.damage import DamagedError, check_trials
from studies.errors import StudyError
from studies.spec.attributes import exclusion_reason, is_confirmation, is_paused
from studies.spec.stored_spec import is_finder_study, read_spec
from studies.study.study import storage_of

if TYPE_CHECKING:
    from optuna.study._frozen import FrozenStudy

    from studies.storage.storage import StudyStorage
    from studies.study.study import AnyStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """Line in a list of studies.

    Attributes:
        name: Name of the study.
        kind: Question that it answers.
        agents: Labels of its agents.
        env: Environment.
        metric: Name of the metric; of several objectives the first one.
        direction: `maximize` or `minimize`.
        n_trials: Trials of the whole study.
        n_ended: Trials that were completed, pruned or failed; a retried one counts once.
        n_complete: Completed trials.
        n_pruned: Pruned trials.
        n_failed: Trials that raised or diverged; interrupted ones are not counted.
        n_running: Trials that are running, or were running when their process died.
        n_paused: Trials that are paused at a rung.
        n_confirmed: Ended confirmations, which are in none of the numbers above.
        n_confirming: Confirmations that are running, or were running when their process died; in none of them either.
        best_value: Value of the best complete trial; None if there is none, and for several objectives and range tests.
        started: Start of the first trial, None if none was started.
        unreadable: Reason why the spec cannot be read; then only the name and the counts are known. Empty if it can be
            read.
    """

    name: str
    kind: str
    agents: tuple[str, ...]
    env: str
    metric: str
    direction: str
    n_trials: int
    n_ended: int
    n_complete: int
    n_pruned: int
    n_failed: int
    n_running: int
    n_confirmed: int
    best_value: float | None
    started: datetime | None
    unreadable: str = ""
    n_paused: int = 0
    n_confirming: int = 0


def list_studies(storage: AnyStorage) -> list[StudySummary]:
    """Return a summary of each study that Finder created, ordered by name.

    Raises:
        StudyError: If the storage cannot be opened.
    """
    with storage_of(storage, create=False) as opened:
        found = [each for each in opened.optuna.get_all_studies() if is_finder_study(each.user_attrs)]
        return sorted((_summary_of(opened, frozen) for frozen in found), key=lambda summary: summary.name)


def _summary_of(opened: StudyStorage, frozen: FrozenStudy) -> StudySummary:
    name = frozen.study_name
    try:
        trials = opened.optuna.get_all_trials(frozen._study_id, deepcopy=False)
        check_trials(trials, name)
    except DamagedError as error:
        return _unreadable(name, [], 0, str(error))
    return _summary(name, frozen.user_attrs, trials)


def _summary(name: str, attributes: Mapping[str, Any], trials: Sequence[FrozenTrial]) -> StudySummary:
    confirmations = [trial for trial in trials if is_confirmation(trial)]
    n_confirmed = sum(trial.state.is_finished() for trial in confirmations)
    own = [trial for trial in trials if not is_confirmation(trial)]
    try:
        spec = read_spec(attributes, name)
    except StudyError as error:
        return _unreadable(name, own, n_confirmed, str(error))
    names = spec.parameter_names
    own = [trial for trial in own if not exclusion_reason(trial, names)]
    study_status = status_of(spec, own)
    complete = [trial for trial in own if trial.state == TrialState.COMPLETE and trial.values is not None]
    # Of several objectives none is the best, and the value of a range test is the mean of its curve.
    has_best = not spec.metrics and spec.kind != "range-test"
    values = [trial.values[0] for trial in complete] if has_best else []
    return StudySummary(
        name=name,
        kind=spec.kind,
        agents=spec.agents,
        env=spec.env,
        metric=spec.metric,
        direction=spec.direction,
        n_trials=study_status.n_total,
        n_ended=study_status.n_ended,
        n_confirmed=n_confirmed,
        n_confirming=sum(trial.state == TrialState.RUNNING for trial in confirmations),
        best_value=(max(values) if spec.direction == "maximize" else min(values)) if values else None,
        **_counted(own),
    )


def _unreadable(name: str, trials: Sequence[FrozenTrial], n_confirmed: int, reason: str) -> StudySummary:
    """Return the summary of a study whose spec cannot be read, so that it does not prevent listing the others."""
    return StudySummary(
        name=name,
        kind="",
        agents=(),
        env="",
        metric="",
        direction="",
        n_trials=len(trials),
        n_ended=sum(trial.state.is_finished() for trial in trials),
        n_confirmed=n_confirmed,
        best_value=None,
        unreadable=reason,
        **_counted(trials),
    )


def _counted(trials: Sequence[FrozenTrial]) -> dict[str, Any]:
    counts = {state: sum(trial.state == state for trial in trials) for state in TrialState}
    starts = [trial.datetime_start for trial in trials if trial.datetime_start is not None]
    return {
        "n_complete": counts[TrialState.COMPLETE],
        "n_pruned": counts[TrialState.PRUNED],
        "n_failed": counts[TrialState.FAIL],
        "n_running": counts[TrialState.RUNNING],
        "n_paused": sum(map(is_paused, trials)),
        "started": min(starts) if starts else None,
    }
