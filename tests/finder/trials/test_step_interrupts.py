"""Tests that errors of the listener during a step fail no trial, and that waiting for a storage is no hang."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO, RecordingListener

from agents import AgentSpec, TrainingRun
from finder.trials.checkpoints import list_saved
from finder.trials.cohort import run_cohort
from finder.trials.groups import Group
from finder.trials.step_interrupts import StepInterrupts
from finder.trials.trial import INTERRUPTED, BudgetSpent, TrialSpec
from studies.database.records import EpisodeRecord
from studies.database.retries import StorageAwayError


class Away(RecordingListener):
    """A listener whose storage is away at the first heartbeat during a step."""

    n_heartbeats = 0

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        self.n_heartbeats += not records
        if not records and self.n_heartbeats == 1:
            raise StorageAwayError("the database does not answer")
        return super().episodes(records)


@pytest.fixture(autouse=True)
def heartbeat_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finder.trials.cohort.FLUSH_SECONDS", 1e9)
    monkeypatch.setattr("finder.trials.groups.ALIVE_SECONDS", 0.0)


def make_trial(folder: Path | None = None, **fields: Any) -> TrialSpec:
    agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
    given = {"env_steps": 320, "report_marks": (160, 320), "seeds": (0, 1), "checkpoint_seconds": 1e9, **fields}
    return TrialSpec(**{"number": 0, "agent": agent, "checkpoints": None if folder is None else str(folder), **given})


def episodes_of(listener: RecordingListener) -> list[tuple[int, int, int, float]]:
    return sorted((each.seed, each.episode, each.env_steps, each.episode_return) for each in listener.records[0])


def test_storage_that_stays_away_fails_no_trial_and_its_state_is_saved(tmp_path: Path) -> None:
    whole, first, again = RecordingListener(), Away(), RecordingListener()
    run_cohort([make_trial()], whole)
    with pytest.raises(StorageAwayError, match="does not answer"):
        run_cohort([make_trial(tmp_path)], first)
    assert first.outcomes == {}
    assert first.n_heartbeats == 1, "each call would wait for the storage"
    [found] = list_saved(tmp_path)
    assert 0 < found.env_steps < 160
    run_cohort([make_trial(tmp_path)], again)
    assert again.outcomes[0].seed_values == whole.outcomes[0].seed_values
    assert episodes_of(again) == episodes_of(whole)


def test_storage_that_stays_away_fails_no_trial_that_is_not_saved() -> None:
    listener = Away()
    with pytest.raises(StorageAwayError, match="does not answer"):
        run_cohort([make_trial()], listener)
    assert listener.outcomes == {}


def test_storage_that_stays_away_fails_no_trial_during_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Group, "on_step_end", lambda group, trainer: None)
    listener = Away()
    with pytest.raises(StorageAwayError, match="does not answer"):
        run_cohort([make_trial(metric="greedy-return:2")], listener)
    assert listener.outcomes == {}


def endless(run: TrainingRun) -> None:
    """Train without a report until the run is ended."""
    while True:
        time.sleep(0.001)


def test_storage_that_stays_away_ends_a_training_function_that_does_not_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.training.function_trainer.LOOK_SECONDS", 0.01)
    listener = Away()
    with pytest.raises(StorageAwayError, match="does not answer"):
        run_cohort([make_trial(agent=AgentSpec.of(endless, "CartPole-v1"), seeds=(0,))], listener)
    assert listener.outcomes == {}


def test_waiting_for_the_storage_is_no_hang_of_the_trial() -> None:
    class Retrying(RecordingListener):
        def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> None:
            super().episodes(records)
            for _ in range(100):  # more ticks than the limit of the watchdog has, if it is watching
                if callable(signal.getsignal(signal.SIGALRM)):
                    signal.raise_signal(signal.SIGALRM)

    listener = Retrying()
    run_cohort([make_trial(hang_seconds=600.0)], listener)
    assert listener.outcomes[0].state == "complete", listener.outcomes[0].reason


def test_end_of_the_budget_does_not_wait_for_a_step_that_is_not_saved() -> None:
    def spend() -> str | None:
        raise BudgetSpent

    unsaved, saved = StepInterrupts(), StepInterrupts()
    with pytest.raises(BudgetSpent):
        unsaved.delayed(spend, False)
    assert unsaved.waiting is None
    assert saved.delayed(spend, True) == INTERRUPTED
    with pytest.raises(BudgetSpent):
        saved.raise_waiting()
