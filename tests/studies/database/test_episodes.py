"""The table of episodes on every storage."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from episode_count import n_episodes

from studies.database import episodes
from studies.database.records import EpisodeRecord
from studies.storage.storage import StudyStorage

Make = Callable[..., EpisodeRecord]


class TestEveryStorage:
    def test_curve_is_sorted_by_seed_and_episode(self, storage: StudyStorage, episode: Make) -> None:
        records = [episode(seed=seed, episode=number, env_steps=10 * number) for seed in (1, 0) for number in (2, 0, 1)]
        storage.episodes.add("s", [(3, record) for record in records])
        storage.episodes.add("s", [(4, episode())])
        storage.episodes.add("other", [(3, episode())])
        assert storage.episodes.curve("s", 3) == sorted(records, key=lambda record: (record.seed, record.episode))
        assert storage.episodes.curve("s", 9) == []
        assert n_episodes(storage, "s") == 7

    def test_values_are_stored_exactly(self, storage: StudyStorage, episode: Make) -> None:
        record = episode(
            seed=2**40, env_steps=2**40, episode_return=-0.1 - 0.2, length=2**30, loss=1e-300, wall_seconds=1 / 3
        )
        storage.episodes.add("s", [(0, record), (0, episode(seed=1, loss=None))])
        assert storage.episodes.curve("s", 0) == [episode(seed=1, loss=None), record]

    def test_repeated_episode_replaces_the_earlier_row(self, storage: StudyStorage, episode: Make) -> None:
        storage.episodes.add("s", [(0, episode(episode_return=1.0)), (0, episode(episode=1))])
        storage.episodes.add("s", [(0, episode(episode_return=3.0)), (0, episode(episode_return=2.0))])
        assert [record.episode_return for record in storage.episodes.curve("s", 0)] == [2.0, 1.5]

    def test_non_finite_return_is_kept_and_non_finite_loss_is_dropped(
        self, storage: StudyStorage, episode: Make
    ) -> None:
        storage.episodes.add("s", [(0, episode(episode_return=math.nan, loss=math.inf))])
        (record,) = storage.episodes.curve("s", 0)
        assert math.isnan(record.episode_return)
        assert record.loss is None

    def test_frame_has_one_typed_row_per_episode(self, storage: StudyStorage, episode: Make) -> None:
        storage.episodes.add("s", [(1, episode(loss=None)), (0, episode(episode_return=7.0))])
        frame = storage.episodes.frame("s")
        assert list(frame.columns) == [
            "trial_number", "seed", "episode", "env_steps", "episode_return", "length", "loss", "wall_seconds",
        ]  # fmt: skip
        assert list(frame["trial_number"]) == [0, 1]
        assert list(frame["episode_return"]) == [7.0, 1.5]
        assert frame["loss"].isna().tolist() == [False, True]
        assert frame.dtypes["env_steps"] == "int64"
        assert len(storage.episodes.frame("none")) == 0

    def test_delete_removes_the_episodes_of_one_study(self, storage: StudyStorage, episode: Make) -> None:
        storage.episodes.add("s", [(0, episode())])
        storage.episodes.add("t", [(0, episode())])
        storage.episodes.delete("s")
        assert (n_episodes(storage, "s"), n_episodes(storage, "t")) == (0, 1)
        storage.episodes.add("t", [])
        storage.episodes.delete("t")

    def test_large_batch_is_written_completely(self, storage: StudyStorage, episode: Make) -> None:
        record = episode()
        storage.episodes.add("s", [(0, replace(record, episode=number)) for number in range(20_000)])
        assert n_episodes(storage, "s") == 20_000

    def test_portions_are_deleted_until_none_is_left(
        self, storage: StudyStorage, episode: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(episodes, "_DELETED_ROWS", 2)
        for n_trials in (1, 2, 3):
            storage.episodes.add("s", [(2 * n, episode(episode=each)) for n in range(n_trials) for each in range(3)])
            storage.episodes.add("t", [(0, episode())])
            storage.episodes.delete("s")
            assert (n_episodes(storage, "s"), n_episodes(storage, "t")) == (0, 1)
