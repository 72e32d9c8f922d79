"""Kinds of failures: recorded, derived for trials of earlier versions, and shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from optuna.trial import TrialState, create_trial

from studies import open_study
from studies.errors import StudyError
from studies.figures.trials import plot_trials, states_data
from studies.judging.missing_pick import why_no_pick
from studies.recording.recorder import Recorder
from studies.reports.explanation import counts_text
from studies.reports.html import report_html
from studies.spec.attributes import DIVERGED_ATTR, FAILURE_ATTR, failure_kind, has_diverged
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.words import failures_text

Make = Callable[..., StudySpec]


@pytest.mark.parametrize(
    ("attrs", "kind"),
    [
        ({FAILURE_ATTR: "killed", "reason": "its process hung"}, "killed"),
        ({DIVERGED_ATTR: True, "reason": "NonFiniteError: the loss became NaN"}, "diverged"),
        ({"reason": "HungError: step() did not return for 600 s."}, "hung"),
        ({"reason": "its process was killed by signal 9 (SIGKILL), 3 times"}, "killed"),
        ({"reason": "abandoned at its start: the lease was lost"}, "abandoned"),
        ({"reason": "interrupted, and no finalist any more"}, "abandoned"),
        ({"reason": "KeyError: 'x'"}, "error"),
        ({FAILURE_ATTR: "of a later version"}, "error"),
        ({}, "error"),
    ],
)
def test_kind_of_a_stored_failure(attrs: dict[str, Any], kind: str) -> None:
    trial = create_trial(state=TrialState.FAIL, user_attrs=attrs)
    assert failure_kind(trial) == kind
    assert has_diverged(trial) == (kind == "diverged")


def test_trials_that_did_not_fail_have_no_kind() -> None:
    assert failure_kind(create_trial(state=TrialState.COMPLETE, value=1.0)) is None


def test_failures_are_counted_by_kind() -> None:
    assert failures_text(["killed", "diverged", "diverged", "error"]) == "2 diverged, 1 killed, 1 failed"
    assert failures_text(["environment", "error", "environment"]) == "2 environment failed, 1 failed"


def test_failures_are_recorded_and_shown_by_kind(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(max_failures_in_a_row=9), storage)
    with Recorder(study) as recorder:
        for kind in ("diverged", "killed", "hung"):
            recorder.failed(recorder.ask().number, f"it was {kind}", kind=kind)  # type: ignore[union-attr, arg-type]
        assert "(0 pruned, 3 failed: 1 diverged, 1 killed, 1 hung)" in why_no_pick(study)
        for value in (1.0, 2.0):
            recorder.completed(recorder.ask().number, value, {0: value, 1: value})  # type: ignore[union-attr]
    assert [row.failure for row in states_data(study).of("FAIL")] == ["diverged", "killed", "hung"]
    assert counts_text(study).endswith("2 complete, 0 pruned, 3 failed (1 diverged, 1 killed, 1 hung)")
    assert "<td>killed</td><td>it was killed" in report_html(study)
    [crosses] = [trace for trace in plot_trials(study).data if trace.name == "failed"]
    assert list(crosses.marker.symbol) == ["x-thin", "circle-open", "circle-open"]
    assert list(crosses.customdata) == ["diverged", "killed", "hung"]


def test_unknown_kinds_are_refused(storage: StudyStorage, make_spec: Make) -> None:
    with Recorder(open_study(make_spec(), storage)) as recorder:
        number = recorder.ask().number  # type: ignore[union-attr]
        with pytest.raises(StudyError, match="kind is 'oom': give one of diverged, environment, error"):
            recorder.failed(number, "it broke", kind="oom")  # type: ignore[arg-type]
