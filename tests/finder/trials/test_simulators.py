"""Tests of signals that end simulators of the environments together with the program."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fakes import SMALL_PPO, RecordingListener, TwoStep

from agents import AgentSpec, EnvironmentSpec
from agents.processes.interrupts import END_REQUESTS
from finder.trials import checkpoints
from finder.trials.checkpoints import list_saved
from finder.trials.cohort import run_cohort
from finder.trials.trial import INTERRUPTED, TrialSpec
from studies.database.records import EpisodeRecord

SAVED, NEXT = 128, 142
"""Environment steps of the last checkpoint before the signal, and at the signal."""


class Simulated(TwoStep):
    """An environment whose simulator ends at a signal to all processes.

    Attributes:
        signals: Signals to send: one in step 70 of the first environment that makes this step.
        ends_all: Whether the signal ends the simulators of all environments, or only that one.
        all_ended: Whether the simulators of all environments have ended.
    """

    signals: ClassVar[list[signal.Signals]] = []
    ends_all: ClassVar[bool] = True
    all_ended: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._ended = False

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if Simulated.signals and self._steps == 70:
            self._ended, Simulated.all_ended = True, Simulated.ends_all
            signal.raise_signal(Simulated.signals.pop())
        if self._ended or Simulated.all_ended:
            raise RuntimeError("the simulator has ended")
        return super().step(action)


class Stopping(RecordingListener):
    """The listener of a worker process, which asks it to stop after its own process has received SIGTERM."""

    def episodes(self, records: Any) -> str | None:
        super().episodes(records)
        return INTERRUPTED if END_REQUESTS.first == signal.SIGTERM else None


@pytest.fixture(autouse=True)
def checkpoint_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MAX_COST", 1e9)
    monkeypatch.setattr("finder.trials.cohort.FLUSH_SECONDS", 0.0)


def make_trials(folder: Path | None, marks: tuple[int, ...] = (320,)) -> list[TrialSpec]:
    def make(number: int) -> TrialSpec:
        params = {**SMALL_PPO, "learning_rate": 1e-3 * (1 + number)}
        return TrialSpec(
            number=number, agent=AgentSpec.of("ppo", EnvironmentSpec.of(Simulated), params), env_steps=320,
            report_marks=marks, seeds=(0, 1), checkpoints=None if folder is None else str(folder),
            checkpoint_seconds=1e-9,
        )  # fmt: skip

    return [make(number) for number in range(2)]


class StoppingLate(RecordingListener):
    """The listener of a worker process, which is asked to stop only after a trial has failed."""

    def episodes(self, records: Any) -> str | None:
        super().episodes(records)
        return INTERRUPTED if self.outcomes else None


def results(listener: RecordingListener) -> dict[int, Any]:
    """Return state, values and episodes of the trials."""

    def numbers(record: EpisodeRecord) -> tuple[Any, ...]:
        return record.seed, record.episode, record.env_steps, record.episode_return

    return {
        number: (outcome.state, outcome.seed_values, sorted(set(map(numbers, listener.records[number]))))
        for number, outcome in listener.outcomes.items()
    }


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize("ends_all", [True, False])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["in the search", "in its worker"])
def test_runs_whose_simulators_a_signal_has_ended_resume_from_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_all: bool, number: signal.Signals
) -> None:
    for name, value in {"signals": [], "ends_all": ends_all, "all_ended": False}.items():
        monkeypatch.setattr(Simulated, name, value)
    whole, first, again = RecordingListener(), Stopping(), RecordingListener()
    run_cohort(make_trials(None), whole)

    Simulated.signals.append(number)
    if number == signal.SIGTERM:  # a worker leaves it to its parent
        signal.signal(number, lambda number, _: END_REQUESTS.counts(number))
        try:
            run_cohort(make_trials(tmp_path), first)
        finally:
            END_REQUESTS.reset()
    else:
        with pytest.raises(KeyboardInterrupt):
            run_cohort(make_trials(tmp_path), first)
    assert {outcome.state for outcome in first.outcomes.values()} == {"interrupted"}
    newest = {run: saved.env_steps for saved in sorted(list_saved(tmp_path), key=steps_of) for run in saved.runs}
    later = SAVED if ends_all else NEXT
    assert newest == {(0, 0): SAVED, (0, 1): later, (1, 0): later, (1, 1): later}

    Simulated.all_ended = False
    run_cohort(make_trials(tmp_path), again)
    assert results(again) == results(whole)


@pytest.mark.usefixtures("usual_signals")
def test_trial_that_has_failed_before_its_worker_stops_resumes_from_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search interrupts a trial whose failure it receives after a signal."""
    for name, value in {"signals": [], "ends_all": False, "all_ended": False}.items():
        monkeypatch.setattr(Simulated, name, value)
    marks = (NEXT, 320)
    whole, first, again = RecordingListener(), StoppingLate(), RecordingListener()
    run_cohort(make_trials(None, marks), whole)

    Simulated.signals.append(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda number, _: END_REQUESTS.counts(number))
    try:
        run_cohort(make_trials(tmp_path, marks), first)
    finally:
        END_REQUESTS.reset()
    assert {number: outcome.state for number, outcome in first.outcomes.items()} == {0: "failed", 1: "interrupted"}

    run_cohort(make_trials(tmp_path, marks), again)
    assert results(again) == results(whole)


def steps_of(saved: checkpoints.SavedGroup) -> int:
    return saved.env_steps
