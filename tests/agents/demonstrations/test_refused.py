"""Datasets from which nothing can be learned are refused, with the reason and what to do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from gymnasium import spaces
from recordings import random_episodes, write

import agents
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface
from agents.environments.joint_space import JointSpace
from agents.errors import ConfigurationError


@pytest.fixture(scope="module")
def interface() -> Interface:
    return EnvironmentSpec.of("CartPole-v1").interface()


def refused(source: Any, interface: Interface, environment: Any = None, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        agents.load_demonstrations(source, interface, environment, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("module", ["minari", "h5py"])
def test_missing_package(interface: Interface, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    text = refused("expert-v0", interface)
    assert text.startswith("Datasets of demonstrations need Minari (")
    assert text.endswith('): pip install "minari[hdf5]" pillow.')


def test_unknown_name_lists_the_nearest(interface: Interface, datasets: Path) -> None:
    for id in ("CartPole/expert-v0", "Hopper/medium-v3", "walk-v0"):
        write(id, random_episodes(1))
    assert refused("CartPole/exprt-v0", interface) == (
        f"There is no dataset 'CartPole/exprt-v0' in {datasets}, and no folder of that name. Did you mean "
        f"CartPole/expert-v0? A public dataset of Minari is downloaded with: minari download CartPole/exprt-v0"
    )
    assert "Did you mean walk-v0?" in refused("Walk", interface)
    text = refused("quite different", interface)
    assert text.endswith(" Datasets: CartPole/expert-v0, Hopper/medium-v3, walk-v0.")


def test_unknown_name_without_any_dataset(interface: Interface, datasets: Path) -> None:
    shutil.rmtree(datasets)
    assert refused("demos", interface) == f"There is no dataset 'demos' in {datasets}, and no folder of that name."
    assert not datasets.exists()


def test_dataset_to_download_is_never_downloaded(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    import minari

    monkeypatch.setattr(minari.storage.hosting, "download_dataset", None)
    assert refused("D4RL/door/human-v2", interface).endswith("minari download D4RL/door/human-v2")


@pytest.mark.parametrize("source", [[], ()])
def test_no_dataset(interface: Interface, source: Any) -> None:
    assert refused(source, interface) == "Demonstrations need the name of a dataset, or several; got none."


def test_folder_that_is_no_dataset(interface: Interface, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = refused(tmp_path, interface)
    assert text == f"{str(tmp_path)!r} is no dataset of Minari: a dataset is a folder with data/metadata.json in it."


def test_file_that_is_no_dataset(interface: Interface, tmp_path: Path) -> None:
    (tmp_path / "a.hdf5").write_bytes(b"")
    assert "is no dataset of Minari" in refused(tmp_path / "a.hdf5", interface)


def cut(folder: Path) -> None:
    data = folder / "main_data.hdf5"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])


def change(folder: Path, **entries: Any) -> None:
    path = folder / "metadata.json"
    about = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({name: value for name, value in about.items() if value is not None}))


DAMAGES = {
    "cut data": cut,
    "no data": lambda folder: (folder / "main_data.hdf5").unlink(),
    "cut metadata": lambda folder: (folder / "metadata.json").write_text('{"total_'),
    "metadata of another kind": lambda folder: (folder / "metadata.json").write_text("[]"),
    "another version of Minari": lambda folder: change(folder, minari_version="9.9.9"),
    "too many episodes": lambda folder: change(folder, total_episodes=7),
    "no space": lambda folder: change(folder, action_space=None),
    "arguments of another kind": lambda folder: change(folder, env_spec='{"id": "CartPole-v1", "kwargs": "x"}'),
    "unknown kind": lambda folder: change(folder, data_format="csv"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files(interface: Interface, damage: str) -> None:
    folder = write("expert-v0", random_episodes(3, 20)) / "data"
    DAMAGES[damage](folder)
    text = refused("expert-v0", interface)
    assert text.startswith(f"The dataset in {folder} cannot be read; its files are damaged, or of another version of ")
    assert text.endswith(" Record or download it again.")


def test_environment_that_a_damaged_dataset_names_is_not_made(
    interface: Interface, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write("expert-v0", random_episodes(1))
    change(folder / "data", observation_space=None)
    monkeypatch.setattr(gym, "make", None)
    assert "metadata.json has no observation_space" in refused("expert-v0", interface)


def test_dataset_without_episodes(interface: Interface) -> None:
    folder = write("empty-v0", [])
    (folder / "data" / "main_data.hdf5").unlink()
    h5py.File(folder / "data" / "main_data.hdf5", "w").close()
    assert refused("empty-v0", interface) == (
        f"The dataset 'empty-v0' has no episodes: record some ({folder / 'data'})."
    )


def episodes_with(**changes: Any) -> list[dict[str, Any]]:
    """Return two episodes of six steps, the second one with other values."""
    first, second = random_episodes(2, 6)
    return [first, {**second, **changes}]


def test_episode_without_steps(interface: Interface) -> None:
    write("none-v0", [])
    nothing = np.zeros(0)
    folder = write("short-v0", random_episodes(1))
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        for name in ("actions", "rewards", "terminations", "truncations"):
            del file["episode_0"][name]
            file["episode_0"][name] = nothing
    assert refused("short-v0", interface) == (
        "Episode 0 of 'short-v0' has no steps: remove it from the dataset, or record it again."
    )


@pytest.mark.parametrize("flags", ["terminations", "truncations"])
def test_episode_that_goes_on_after_its_end(interface: Interface, flags: str) -> None:
    write("long-v0", episodes_with(**{flags: [False, False, True, False, False, True]}))
    assert refused("long-v0", interface) == (
        "Episode 1 of 'long-v0' goes on after its end: step 2 of 6 is marked as terminated or truncated. Record every "
        "episode as one of its own."
    )


@pytest.mark.parametrize("name", ["actions", "rewards", "truncations"])
def test_episode_with_missing_entries(interface: Interface, name: str) -> None:
    whole = random_episodes(2, 6)[1][name]
    write("torn-v0", episodes_with(**{name: whole[:-1]}))
    text = refused("torn-v0", interface)
    assert text.startswith("Episode 1 of 'torn-v0' is damaged: it has ")
    assert f"5 {name}" in text


def test_episode_without_the_last_observation(interface: Interface) -> None:
    whole = random_episodes(2, 6)[1]["observations"]
    write("torn-v0", episodes_with(observations=whole[:-1]))
    assert refused("torn-v0", interface) == (
        "Episode 1 of 'torn-v0' is damaged: 6 actions have 7 observations, before and after each; it has 6."
    )


@pytest.mark.parametrize("action", [2, -1])
def test_action_out_of_range(interface: Interface, action: int) -> None:
    write("far-v0", episodes_with(actions=[0, 0, 0, action, 0, 0]))
    text = f"Episode 1 of 'far-v0' cannot be used: 'CartPole-v1' takes actions in Discrete(2); action 3 is {action}."
    assert refused("far-v0", interface) == text


@pytest.mark.parametrize("action", [2.5, np.nan])
def test_continuous_action_out_of_range(action: float) -> None:
    (whole,) = random_episodes(1, 3)
    space = spaces.Box(-2, 2, (1,))
    both = {"observation_space": spaces.Box(-5, 5, (4,)), "action_space": space}
    write("far-v0", [{**whole, "actions": [np.array([value], np.float32) for value in (0, action, 1)]}], None, **both)
    text = refused("far-v0", Interface(both["observation_space"], space, "E"))
    assert text == f"Episode 0 of 'far-v0' cannot be used: 'E' takes actions in {space}; action 1 is [{action}]."


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_observation_that_is_not_finite(interface: Interface, value: float) -> None:
    rows = np.array(random_episodes(2, 6)[1]["observations"])
    rows[5, 2] = value
    write("odd-v0", episodes_with(observations=list(rows)))
    assert refused("odd-v0", interface) == (
        "Episode 1 of 'odd-v0' cannot be used: observation 5 is not finite (NaN or infinite)."
    )


def test_observation_outside_of_its_space() -> None:
    (whole,) = random_episodes(1, 3)
    both = {"observation_space": spaces.Discrete(4), "action_space": spaces.Discrete(2)}
    write("odd-v0", [{**whole, "observations": [0, 1, 4, 2]}], None, **both)
    text = refused("odd-v0", Interface(*both.values(), "E"))
    assert text == "Episode 0 of 'odd-v0' cannot be used: the observation 4, which is not in Discrete(4)"


def test_recorded_in_another_environment() -> None:
    write("expert-v0", random_episodes(1), gym.spec("CartPole-v0"))
    spec = EnvironmentSpec.of("CartPole-v1")
    assert refused("expert-v0", spec.interface(), spec) == (
        "The dataset 'expert-v0' was recorded in 'CartPole-v0', and the agent learns in 'CartPole-v1': record "
        "demonstrations there, or learn in 'CartPole-v0'."
    )


OTHERS = {
    "shape": spaces.Box(-1, 1, (3,)),
    "bounds": spaces.Box(-3, 1, (2,)),
    "kind": spaces.Discrete(2),
    "image": spaces.Box(-1, 1, (2,), np.int8),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("place", [0, 1])
def test_other_spaces(place: int, name: str) -> None:
    own = [spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (2,))]
    there = list(own)
    there[place] = OTHERS[name]
    write("other-v0", random_episodes(1), None, observation_space=there[0], action_space=there[1])
    what = ("observations", "actions")[place]
    assert refused("other-v0", Interface(*own, "E")) == (
        f"The dataset 'other-v0' has {what} in {OTHERS[name]}; 'E' has {own[place]}. Give a dataset that was recorded "
        f"there with the same wrappers."
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (spaces.Discrete(3), spaces.Discrete(3, start=1)),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([3, 2])),
        (spaces.MultiDiscrete([2, 3]), spaces.MultiDiscrete([2, 3], start=[0, 1])),
        (spaces.MultiBinary(3), spaces.MultiBinary([3, 1])),
        (spaces.Dict(a=spaces.Discrete(2)), spaces.Dict(b=spaces.Discrete(2))),
        (spaces.Dict(a=spaces.Discrete(2)), spaces.Tuple([spaces.Discrete(2)])),
        (spaces.Tuple([spaces.Discrete(2)]), spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Box(0, 255, (8, 8, 3))),
    ],
)
def test_other_observations_of_one_kind(one: gym.Space[Any], other: gym.Space[Any]) -> None:
    action = spaces.Discrete(2)
    write("other-v0", random_episodes(1), None, observation_space=one, action_space=action)
    assert "has observations in" in refused("other-v0", Interface(other, action, "E"))


def test_several_datasets_with_different_spaces(interface: Interface) -> None:
    write("a-v0", random_episodes(1))
    both = {"observation_space": spaces.Box(-1, 1, (3,)), "action_space": spaces.Discrete(2)}
    write("b-v0", random_episodes(1), None, **both)
    text = refused(["a-v0", "b-v0"], interface)
    assert text.startswith("The datasets have different observations: Box(")
    assert text.endswith(" in 'b-v0'. Give datasets of one environment with the same wrappers.")


def test_fewer_episodes_than_asked_for(interface: Interface) -> None:
    write("a-v0", random_episodes(1))
    write("b-v0", random_episodes(2))
    assert refused(["a-v0", "b-v0"], interface, n_episodes=4) == "a-v0, b-v0 has 3 episodes; n_episodes is 4."


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_bad_number_of_episodes(interface: Interface, n: Any) -> None:
    write("a-v0", random_episodes(1))
    assert refused("a-v0", interface, n_episodes=n) == f"n_episodes must be a whole number >= 1, got {n!r}."


def test_several_agents() -> None:
    joint = JointSpace(["left", "right"], [2, 2], [3, 3], discrete=True)
    assert refused("a-v0", Interface(joint, spaces.MultiDiscrete([3, 3]), "E")) == (
        "Demonstrations are those of a single agent, and 'E' has several: left, right."
    )
