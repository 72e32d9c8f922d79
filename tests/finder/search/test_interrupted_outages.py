"""Tests of Ctrl-C while the storage of a search does not answer."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fakes import SMALL_PPO
from optuna.trial import Trial, TrialState

from agents.processes.interrupts import defer_interrupts
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.search.object_resolver import ObjectResolver
from finder.search.run_search import run_search
from finder.search.search import Search
from finder.trials.trial import Outcome
from studies import StudySpec
from studies.database import retries
from studies.queue.trial_endings import TrialEnding
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.recording.writer import Writer
from studies.study.study import OpenStudy, load_study

SPEC: dict[str, Any] = {
    "name": "s", "agents": ("ppo",), "env": "fakes:TwoStep-v0", "env_steps": 160, "seeds": (0,), "executor": "inline",
    "fixed": SMALL_PPO, "params": {"learning_rate": "1e-4:1e-1:log"}, "n_trials": 2, "confirm": 0,
}  # fmt: skip


class Interrupted(Executor):
    """An executor that is interrupted during an outage, while it reports the end of a trial.

    Args:
        study: The study, whose database refuses all statements from then on.
        deferred: Whether the interrupt takes effect after the report.
    """

    description = "interrupted"

    def __init__(self, study: OpenStudy, deferred: bool) -> None:
        self._engine: sa.Engine = study.storage.episodes.engine  # type: ignore[attr-defined]
        self._deferred = deferred

    def trials_at_once(self, n_seeds: int) -> int:
        return 2

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        trials = [next_trial(), next_trial()]
        for trial in trials:
            assert trial is not None
            listener.started(trial.number, {})
        sa.event.listen(self._engine, "before_cursor_execute", refuse)
        with defer_interrupts() if self._deferred else contextlib.nullcontext():
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                listener.ended(0, Outcome(state="complete", value=1.0, seed_values={0: 1.0}, env_steps=160))


def refuse(*_: Any) -> None:
    raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("deferred", [True, False])
@pytest.mark.usefixtures("usual_signals")
def test_ctrl_c_does_not_wait_for_a_storage_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, deferred: bool
) -> None:
    monkeypatch.setenv(retries.RETRY_VARIABLE, "30")
    monkeypatch.setattr(retries, "INTERRUPTED_SECONDS", 0.05)
    spec = StudySpec(**SPEC, storage=f"sqlite:///{tmp_path}/finder.db")
    study = open_study(spec)
    search = Search(study, ObjectResolver.of(spec), Interrupted(study, deferred))
    with pytest.raises(KeyboardInterrupt) as raised:
        search.run()
    assert "has not answered for 0." in str(raised.value.__context__)
    assert search.recorder.spool_path is not None
    assert "finder.db does not answer. All trials that had ended before are recorded" in caplog.text
    assert str(search.recorder.spool_path) in caplog.text
    study.close()

    with open_study(spec) as study, Recorder(study):
        assert [trial.value for trial in study.trials()] == [1.0, None]


@pytest.mark.usefixtures("usual_signals")
def test_outcome_that_is_written_at_ctrl_c_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Writer, trial: Trial, ending: TrialEnding) -> None:
        signal.raise_signal(signal.SIGINT)
        end(self, trial, ending)

    end = Writer.end
    monkeypatch.setattr(Writer, "end", interrupted)
    spec = StudySpec(**SPEC, storage=f"sqlite:///{tmp_path}/finder.db")
    with pytest.raises(KeyboardInterrupt):
        run_search(spec, progress=False)
    with load_study("s", spec.storage) as study:
        assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE]
