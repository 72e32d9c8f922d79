"""New datasets: their versions, their names, and what is left when their recording ends early."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from recordings import Several, random_episodes, write

from agents.demonstrations.writing import DatasetWriter, EpisodeRecord, checked_name, storable
from agents.errors import ConfigurationError

SPACES = (spaces.Box(-5, 5, (2,)), spaces.Discrete(3))


def writer(name: str = "expert", environment: Any = None, **about: Any) -> DatasetWriter:
    return DatasetWriter(name, *SPACES, environment, about)


def steps(n: int) -> EpisodeRecord:
    return EpisodeRecord(7, list(np.ones((n + 1, 2))), [1] * n, [0.5] * n, [False] * n, [False] * (n - 1) + [True])


def test_minari_reads_what_is_written(datasets: Path) -> None:
    with writer("Env/expert", gym.spec("CartPole-v1"), description="Two.", algorithm_name="PPO") as new:
        new.add(steps(3))
        new.add(steps(2))
        assert new.id == ""
        assert minari.list_local_datasets() == {}
    assert (new.id, new.folder) == ("Env/expert-v0", datasets / "Env/expert-v0")
    assert (new.n_episodes, new.n_steps) == (2, 5)
    found = minari.load_dataset("Env/expert-v0")
    assert (found.id, found.total_episodes, found.total_steps) == ("Env/expert-v0", 2, 5)
    assert (found.observation_space, found.action_space) == SPACES
    assert found.env_spec.id == "CartPole-v1"
    assert found.storage.metadata["description"] == "Two."
    assert list(minari.list_local_datasets()) == ["Env/expert-v0"]
    assert minari.namespace.list_local_namespaces() == ["Env"]
    [first, second] = found.iterate_episodes()
    assert first.observations.dtype == np.float32
    assert repr(first).startswith("EpisodeData(id=0, total_steps=3, ")
    np.testing.assert_array_equal(second.rewards, [0.5, 0.5])
    np.testing.assert_array_equal(second.truncations, [False, True])
    assert [about["seed"] for about in found.storage.get_episode_metadata([0, 1])] == [7, 7]


def test_nothing_but_the_dataset_is_left(datasets: Path) -> None:
    with writer() as new:
        new.add(steps(1))
    assert os.listdir(datasets) == ["expert-v0"]
    assert sorted(os.listdir(datasets / "expert-v0" / "data")) == ["main_data.hdf5", "metadata.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert (datasets / "expert-v0").stat().st_mode & 0o777 == 0o777 & ~mask


def test_name_gets_the_next_version() -> None:
    for expected in ("expert-v0", "expert-v1"):
        with writer() as new:
            new.add(steps(1))
        assert new.id == expected
    write("expert-v10", random_episodes(1))
    write("expert-other-v50", random_episodes(1))
    with writer() as new:
        new.add(steps(1))
    assert new.id == "expert-v11"


def test_given_version() -> None:
    with writer("expert-v3") as new:
        new.add(steps(1))
    assert new.id == "expert-v3"


def test_two_recordings_at_once_get_two_versions() -> None:
    with writer() as one:
        one.add(steps(1))
        with writer() as other:
            other.add(steps(2))
    assert (other.id, one.id) == ("expert-v0", "expert-v1")
    assert minari.load_dataset("expert-v0").total_steps == 2
    assert minari.load_dataset("expert-v1").total_steps == 1


def test_version_that_was_written_meanwhile_is_kept(datasets: Path) -> None:
    with writer("expert-v0") as other:
        one = writer("expert-v0")
        one.add(steps(1))
        other.add(steps(2))
    with pytest.raises(ConfigurationError, match="'expert' cannot be written"):
        one.__exit__(None, None, None)
    assert minari.load_dataset("expert-v0").total_steps == 2
    assert os.listdir(datasets) == ["expert-v0"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_complete_episodes_are_kept_when_recording_ends_early(error: type[BaseException]) -> None:
    new = writer()
    new.add(steps(2))
    new.add(steps(3))
    with pytest.raises(error) as caught, new:
        raise error
    assert minari.load_dataset("expert-v0").total_steps == 5
    assert caught.value.__notes__ == ["The 2 complete episodes before are the dataset 'expert-v0'."]


@pytest.mark.parametrize("error", [KeyboardInterrupt, None])
def test_without_episodes_there_is_no_dataset(datasets: Path, error: type[BaseException] | None) -> None:
    try:
        with writer() as new:
            if error is not None:
                raise error
    except KeyboardInterrupt:
        pass
    assert new.id == ""
    assert os.listdir(datasets) == []


@pytest.mark.parametrize("place", ["update_metadata", "get_size"])
def test_an_episode_that_is_interrupted_while_it_is_written_is_left_out(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from minari.dataset._storages.hdf5_storage import HDF5Storage

    def interrupt(*_: Any) -> None:
        (new.folder / "data" / "metadata.json").write_text('{"cut')
        raise KeyboardInterrupt

    new = writer()
    new.add(steps(2))
    with monkeypatch.context() as patch:
        patch.setattr(HDF5Storage, place, interrupt)
        with pytest.raises(KeyboardInterrupt), new:
            new.add(steps(3))
    found = minari.load_dataset("expert-v0")
    assert (found.total_episodes, found.total_steps) == (1, 2)
    with h5py.File(new.folder / "data" / "main_data.hdf5") as file:
        assert list(file) == ["episode_0"]


def test_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from minari.dataset._storages.hdf5_storage import HDF5Storage

    def fail(*_: Any) -> None:
        raise OSError("No space left on device")

    new = writer()
    new.add(steps(2))
    monkeypatch.setattr(HDF5Storage, "update_episodes", fail)
    with pytest.raises(ConfigurationError, match="'expert' cannot be written: No space left"), new:
        new.add(steps(3))
    assert new.id == "expert-v0"


def test_folder_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match=r"Datasets cannot be written to .*file: File exists\."):
        writer()


@pytest.mark.parametrize(
    "name", ["", "/", "a b", "../up", "/tmp/x", "a//b", "e/", "x.y", "n" * 300, "a/b", "expert-v1\n"]
)
def test_text_that_is_no_name(name: str, datasets: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no name of a dataset: write letters, digits, - and _"):
        writer(name)
    assert os.listdir(datasets) == []


@pytest.mark.parametrize("name", ["expert", "CartPole/expert", "a-b_c/d/e2", "größe", "2"])
def test_names(name: str) -> None:
    assert checked_name(name) == (name, None)
    assert checked_name(f"{name}-v12") == (name, 12)


def test_existing_version_is_not_overwritten() -> None:
    folder = write("expert-v2", random_episodes(1))
    with pytest.raises(ConfigurationError) as caught:
        writer("expert-v2")
    assert str(caught.value) == (
        f"The dataset 'expert-v2' exists already, and is not overwritten: leave out the version, which makes it "
        f"expert-v3, or remove it first ({folder})."
    )


def test_name_inside_of_another_dataset(datasets: Path) -> None:
    write("expert-v2", random_episodes(1))
    with pytest.raises(ConfigurationError, match="cannot be in 'expert-v2', which is a dataset itself"):
        writer("expert-v2/more")
    (datasets / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot be in '.*file', which is a file"):
        writer("file/more")


def test_space_that_minari_cannot_store(datasets: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Minari cannot store one of the spaces .*Sequence"):
        DatasetWriter("expert", spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2), None, {})
    assert os.listdir(datasets) == []


def test_environments_that_can_be_stored() -> None:
    assert storable(None) is None
    with gym.make("CartPole-v1", render_mode="rgb_array", sutton_barto_reward=True) as made:
        assert made.spec is not None
        kept = storable(made.spec)
        assert kept is not None
        assert kept.kwargs == {"sutton_barto_reward": True}
        assert made.spec.kwargs["render_mode"] == "rgb_array"  # the environment's own is as it was
        gym.make(kept).close()
    by_function = gym.envs.registration.EnvSpec("Mine-v0", entry_point=lambda: Several(*SPACES))
    assert storable(by_function) is None
    no_json = gym.envs.registration.EnvSpec("Mine-v0", entry_point="a:b", kwargs={"x": object()})
    assert storable(no_json) is None


def test_metadata_is_json(datasets: Path) -> None:
    with writer(seed=3, explore=False) as new:
        new.add(steps(1))
    about = json.loads((new.folder / "data" / "metadata.json").read_text())
    assert about["dataset_id"] == "expert-v0"
    assert (about["seed"], about["explore"]) == (3, False)
    assert (about["total_episodes"], about["total_steps"], about["jpeg_encoding"]) == (1, 1, False)
    assert "env_spec" not in about
