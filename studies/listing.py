"""Listing the studies of a storage, a line each."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime

from optuna.trial import FrozenTrial, TrialState

from studies.attributes import is_confirmation, why_not_ours
from studies.spaces import Json
from studies.spec import StudySpec
from studies.standing import standing_of
from studies.storage import StudyStorage, open_storage
from studies.study import SPEC_ATTR


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySummary:
    """A line in a list of studies.

    Attributes:
        name: The study's name.
        kind: Which question it answers.
        agents: Labels of its agents.
        env: The environment.
        metric: `return` or `loss`.
        direction: `maximize` or `minimize`.
        n_trials: Trials of the whole study.
        n_ended: Of these, those that were completed, pruned or failed; one that was tried again counts once.
        n_complete: Trials that trained to the end.
        n_pruned: Trials that were stopped because they fell behind.
        n_failed: Trials that raised or diverged; interrupted ones, which say nothing, are not counted.
        n_running: Trials that run, or ran when their process died.
        n_confirmed: Trials on further seeds that have ended; they are in none of the numbers above.
        best_value: The best complete trial's value, None if there is none.
        started: When the first trial started, None if none did.
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


def list_studies(storage: StudyStorage | str) -> list[StudySummary]:
    """Returns a line for each study that this package made, ordered by name.

    Raises:
        StudyError: If the storage cannot be opened.
    """
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_storage(storage, create=False)) if isinstance(storage, str) else storage
        return sorted(
            (
                _summary(
                    frozen.study_name,
                    frozen.user_attrs[SPEC_ATTR],
                    opened.optuna.get_all_trials(frozen._study_id, deepcopy=False),
                )
                for frozen in opened.optuna.get_all_studies()
                if SPEC_ATTR in frozen.user_attrs
            ),
            key=lambda summary: summary.name,
        )


def _summary(name: str, spec_json: dict[str, Json], trials: list[FrozenTrial]) -> StudySummary:
    spec = StudySpec.from_json_dict(spec_json)
    n_confirmed = sum(is_confirmation(trial) and trial.state.is_finished() for trial in trials)
    names = spec.parameter_names
    trials = [trial for trial in trials if not is_confirmation(trial) and not why_not_ours(trial, names)]
    standing = standing_of(spec, trials)
    counts = {state: sum(trial.state == state for trial in trials) for state in TrialState}
    values = [trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    starts = [trial.datetime_start for trial in trials if trial.datetime_start is not None]
    return StudySummary(
        name=name,
        kind=spec.kind,
        agents=spec.agents,
        env=spec.env,
        metric=spec.metric,
        direction=spec.direction,
        n_trials=standing.n_total,
        n_ended=standing.n_ended,
        n_complete=counts[TrialState.COMPLETE],
        n_pruned=counts[TrialState.PRUNED],
        n_failed=counts[TrialState.FAIL],
        n_running=counts[TrialState.RUNNING],
        n_confirmed=n_confirmed,
        best_value=(max(values) if spec.direction == "maximize" else min(values)) if values else None,
        started=min(starts) if starts else None,
    )
