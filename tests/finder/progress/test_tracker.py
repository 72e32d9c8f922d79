"""Tests of the state of a running search as numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agents import AgentSpec
from finder.progress.tracker import Tracker
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.database.retries import StorageAwayError


@pytest.mark.parametrize("is_over", [False, True])
def test_outage_of_the_storage_does_not_end_the_count_of_trials(is_over: bool) -> None:
    """It would look like an error of the display, in a search that ends because of the outage."""
    calls: list[int] = []

    def trials() -> Any:
        calls.append(1)
        raise StorageAwayError("the storage has not answered for 300 s")

    tracker: Any = Tracker()
    storage = SimpleNamespace(shared=True, retry_policy=SimpleNamespace(is_over=is_over))
    tracker.study = SimpleNamespace(storage=storage, spec=None, trials=trials)
    tracker.trial_ended(0, Outcome(state="interrupted"))
    tracker.others_run(2)
    assert (tracker.n_done, tracker.n_elsewhere) == (0, 2)
    assert bool(calls) != is_over


def test_latest_value_is_a_mean_over_seeds() -> None:
    """A collapsed seed has short episodes, and so many more of them."""
    tracker: Any = Tracker()
    spec = AgentSpec.of("ppo", "CartPole-v1")
    tracker.trial_started(TrialSpec(number=3, agent=spec, seeds=(0, 1), env_steps=1_000), {})
    episodes = [(0, at, 500.0) for at in (400, 900)] + [(1, 9 * (at + 1), 9.0) for at in range(100)]
    for seed, at, value in episodes:
        record = EpisodeRecord(
            seed=seed, episode=0, env_steps=at, episode_return=value, length=9, loss=None, wall_seconds=1.0
        )
        tracker.trial_episodes(3, [record])
    assert tracker.running[3].latest == (500.0 + 9.0) / 2
