"""Bounds of returns, from the recorded episodes and the declared limits of the environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from studies.analysis.recommendation import best
from studies.database.records import EpisodeRecord
from studies.judging.confirmation import verdict
from studies.judging.ranking import Candidate, rank, within
from studies.judging.return_bounds import confirmation_bounds, return_bounds
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.statistics.bounds import NO_BOUNDS, ReturnExtremes, bounds_of
from studies.storage.storage import StudyStorage

Make = Callable[..., StudySpec]


def extremes(lowest: float, highest: float, **more: Any) -> ReturnExtremes:
    settings = {"n_lowest": 0, "n_highest": 0, "least_per_step": -1.0, "most_per_step": 2.0, **more}
    return ReturnExtremes(lowest, highest, **settings)


def test_constant_reward_per_step_and_step_limit_bound_returns() -> None:
    cartpole = extremes(8.0, 480.0, least_per_step=1.0, most_per_step=1.0)
    assert bounds_of(cartpole, step_limit=500) == (1.0, 500.0)
    assert bounds_of(cartpole) == (1.0, math.inf)
    mountain_car = extremes(-200.0, -90.0, least_per_step=-1.0, most_per_step=-1.0)
    assert bounds_of(mountain_car, step_limit=200) == (-200.0, -1.0)


def test_extremes_reached_by_several_runs_are_bounds() -> None:
    assert bounds_of(extremes(-500.0, -63.0, n_lowest=9, n_highest=1)) == (-500.0, math.inf)
    assert bounds_of(extremes(0.0, 1.0, n_lowest=9, n_highest=9)) == (0.0, 1.0)
    assert bounds_of(extremes(0.0, 1.0, n_lowest=2, n_highest=2)) == NO_BOUNDS


def test_reward_threshold_above_the_highest_return_removes_the_bound() -> None:
    stuck = extremes(-100.0, 10.0, n_lowest=3, n_highest=9)
    assert bounds_of(stuck, reward_threshold=90.0) == (-100.0, math.inf)
    assert bounds_of(stuck, reward_threshold=10.0) == (-100.0, 10.0)


def test_equal_returns_give_no_bounds() -> None:
    assert bounds_of(extremes(0.0, 0.0, n_lowest=9, n_highest=9), step_limit=100) == NO_BOUNDS


def test_intervals_are_clipped_to_the_bounds() -> None:
    ranked = rank([Candidate(label="a", params={}, seed_values=(300.0, 495.0, 490.0))])
    assert ranked[0].high > 600
    [clipped] = within(ranked, bounds_of(extremes(8.0, 500.0, least_per_step=1.0, most_per_step=1.0), step_limit=500))
    assert (clipped.low, clipped.high) == (max(1.0, ranked[0].low), 500.0)
    assert clipped.value == ranked[0].value


def short_study(storage: StudyStorage, make_spec: Make, limits: dict[str, Any] | None) -> Any:
    """Return a study of three rates on CartPole-v1 whose two seeds differ widely."""
    rows = [{"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2)]
    study = open_study(make_spec(kind="lr", params={}, trials=rows, seeds=(0, 1), confirm=0), storage)
    with Recorder(study) as recorder:
        for values in ((20.0, 30.0), (300.0, 480.0), (100.0, 150.0)):
            ask = recorder.ask()
            assert ask is not None
            recorder.started(ask.number, {"agent": "ppo", "config": {}, **({} if limits is None else limits)})
            recorder.episodes(
                ask.number,
                [
                    EpisodeRecord(
                        seed=seed, episode=0, env_steps=int(value), episode_return=value, length=int(value), loss=0.1,
                        wall_seconds=1.0,
                    )
                    for seed, value in enumerate(values)
                ],
            )  # fmt: skip
            recorder.completed(ask.number, sum(values) / 2, dict(enumerate(values)))
    return study


def test_interval_of_a_pick_ends_at_the_step_limit(storage: StudyStorage, make_spec: Make) -> None:
    limits = {"env_limits": {"max_episode_steps": 500, "reward_threshold": 475.0}}
    study = short_study(storage, make_spec, limits)
    assert return_bounds(study) == (1.0, 500.0)
    pick = best(study)
    assert (pick.value, pick.high) == (390.0, 500.0)
    assert all(each.high <= 500 and each.low >= 1 for each in verdict(study).ranked)


def test_study_without_declared_limits_has_unclipped_intervals(storage: StudyStorage, make_spec: Make) -> None:
    study = short_study(storage, make_spec, None)
    assert return_bounds(study) == (1.0, math.inf)
    assert best(study).high > 500


def test_verdict_reads_the_extremes_once(
    storage: StudyStorage, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = short_study(storage, make_spec, None)
    read, keys = storage.episodes.return_extremes, []

    def counted(key: str) -> ReturnExtremes | None:
        keys.append(key)
        return read(key)

    monkeypatch.setattr(storage.episodes, "return_extremes", counted)
    verdict(study)
    assert keys == [study.episodes_key]


def test_steps_are_bounded_by_the_length_of_the_runs(storage: StudyStorage, make_spec: Make) -> None:
    study = open_study(make_spec(metric="steps-to:100", confirm=1, confirm_env_steps=4_000), storage)
    assert return_bounds(study) == (0.0, 1_000)
    assert confirmation_bounds(study, return_bounds(study)) == (0.0, 4_000)


@pytest.mark.slow
def test_losses_have_no_bounds(storage: StudyStorage, make_spec: Make) -> None:
    assert return_bounds(open_study(make_spec(metric="loss"), storage)) == NO_BOUNDS


class TestEveryStorage:
    def test_return_extremes_match_a_calculation_by_hand(
        self, storage: StudyStorage, episode: Callable[..., EpisodeRecord]
    ) -> None:
        table = storage.episodes
        assert table.return_extremes("s") is None
        values = {(0, 0): [1.0] * 3 + [9.0] * 3, (0, 1): [1.0] * 2 + [9.0] * 4, (1, 0): [9.0] * 3 + [math.nan]}
        for (number, seed), returns in values.items():
            records = [episode(seed=seed, episode=i, episode_return=each, length=2) for i, each in enumerate(returns)]
            table.add("s", [(number, record) for record in records])
        table.add("other", [(0, episode(episode_return=99.0))])
        expected = ReturnExtremes(1.0, 9.0, n_lowest=1, n_highest=3, least_per_step=0.5, most_per_step=4.5)
        assert table.return_extremes("s") == expected
