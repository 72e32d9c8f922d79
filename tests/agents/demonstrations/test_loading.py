"""Demonstrations are the recorded steps, in the spaces of the agent."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from recordings import Several, episode, random_episodes, stacked, write

import agents
from agents.demonstrations import checks as module_of_checks
from agents.demonstrations import dataset as module
from agents.environments import EnvironmentSpec
from agents.environments.interface import Interface

CARTPOLE = EnvironmentSpec.of("CartPole-v1")


@pytest.fixture(scope="module")
def interface() -> Interface:
    return CARTPOLE.interface()


def test_steps_worked_out_by_hand(interface: Interface) -> None:
    rows = np.arange(24, dtype=np.float32).reshape(6, 4) / 100
    first = {"observations": list(rows[:3]), "actions": [0, 1], "rewards": [1.0, 2.0]}
    second = {"observations": list(rows[3:]), "actions": [1, 1], "rewards": [3.0, 0.5]}
    first |= {"terminations": [False, True], "truncations": [False, False]}
    second |= {"terminations": [False, False], "truncations": [False, True]}
    write("hand-v0", [first, second])
    found = agents.load_demonstrations("hand-v0", interface, CARTPOLE)
    np.testing.assert_array_equal(found.observations, rows[[0, 1, 3, 4]])
    np.testing.assert_array_equal(found.next_observations, rows[[1, 2, 4, 5]])
    np.testing.assert_array_equal(found.actions, [0, 1, 1, 1])
    np.testing.assert_array_equal(found.terminated, [False, True, False, False])
    np.testing.assert_array_equal(found.truncated, [False, False, False, True])
    np.testing.assert_array_equal(found.returns, [3.0, 3.5])
    np.testing.assert_array_equal(found.lengths, [2, 2])
    assert found.label == "hand-v0"
    assert len(found) == 4
    types = (found.observations.dtype, found.actions.dtype, found.returns.dtype, found.lengths.dtype)
    assert types == (np.float32, np.int64, np.float64, np.int64)
    assert "\n" not in repr(found)
    assert len(repr(found)) < 350


@pytest.mark.parametrize("kind", ["hdf5", "arrow", "parquet"])
def test_every_format_of_minari_is_read(interface: Interface, kind: str) -> None:
    recorded = random_episodes(2)
    write("kind-v0", recorded, data_format=kind)
    found = agents.load_demonstrations("kind-v0", interface)
    np.testing.assert_array_equal(found.actions, np.concatenate([each["actions"] for each in recorded]))
    np.testing.assert_array_equal(found.observations[0], recorded[0]["observations"][0])


OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "box of float64": spaces.Box(-1, 1, (3,), np.float64),
    "discrete": spaces.Discrete(3, start=2),
    "multi-discrete": spaces.MultiDiscrete([2, 3], start=[1, 5]),
    "multi-binary": spaces.MultiBinary([2, 3]),
    "dict": spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(2), "c": spaces.MultiBinary(2)}),
    "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2, 2))]),
    "nested": spaces.Dict({"x": spaces.Tuple([spaces.Discrete(2), spaces.Dict({"y": spaces.Discrete(3)})])}),
    "image": spaces.Box(0, 255, (12, 14, 3), np.uint8),
    "grey image": spaces.Box(0, 255, (40, 36), np.uint8),
    "stacked frames": spaces.Box(0, 255, (4, 40, 36), np.uint8),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_are_those_that_the_agent_sees(name: str) -> None:
    space, actions = OBSERVATIONS[name], spaces.MultiDiscrete([2, 3], start=[0, 4])
    environment = Several(space, actions)
    recorded = [episode(environment, 9, seed) for seed in range(2)]
    stored = [{**each, "observations": stacked(each["observations"], space)} for each in recorded]
    write("kinds-v0", stored, None, observation_space=space, action_space=actions, jpeg_encoding=False)
    interface = Interface(space, actions, "E")
    found = agents.load_demonstrations("kinds-v0", interface)
    seen = [interface.convert_observation(value)[0][0] for each in recorded for value in each["observations"]]
    assert len(seen) == 12  # two episodes of five steps
    np.testing.assert_array_equal(found.observations, [*seen[:5], *seen[6:11]])
    np.testing.assert_array_equal(found.next_observations, [*seen[1:6], *seen[7:12]])
    assert found.observations.dtype == interface.observation_space.dtype
    taken = np.concatenate([each["actions"] for each in recorded])
    np.testing.assert_array_equal(interface.convert_actions(found.actions), taken)


def test_continuous_actions_are_scaled() -> None:
    spec = EnvironmentSpec.of("Pendulum-v1")  # bounds of 2
    with gym.make("Pendulum-v1") as environment:
        recorded = [episode(environment, 10, truncated=True)]
    write("swing-v0", recorded, gym.spec("Pendulum-v1"))
    found = agents.load_demonstrations("swing-v0", spec.interface(), spec)
    np.testing.assert_allclose(found.actions, np.stack(recorded[0]["actions"]) / 2, atol=1e-6)
    assert found.actions.dtype == np.float32


def test_an_episode_without_an_end_is_truncated_where_its_recording_stopped(interface: Interface) -> None:
    open_end, whole = random_episodes(2, steps=5)
    open_end["truncations"][-1] = False
    write("open-v0", [open_end, whole])
    found = agents.load_demonstrations("open-v0", interface)
    np.testing.assert_array_equal(np.flatnonzero(found.truncated), [4, 9])
    np.testing.assert_array_equal(found.next_observations[4], open_end["observations"][-1])


def test_a_step_that_terminates_at_the_limit_is_not_truncated(interface: Interface) -> None:
    (both,) = random_episodes(1, steps=5)
    both["terminations"][-1] = True
    write("both-v0", [both])
    found = agents.load_demonstrations("both-v0", interface)
    assert found.terminated[-1]
    assert not found.truncated.any()


def test_first_episodes_of_several_datasets(interface: Interface) -> None:
    write("a-v0", random_episodes(2, 4))
    write("b-v0", random_episodes(3, 6))
    found = agents.load_demonstrations(["a-v0", "b-v0"], interface, n_episodes=3)
    np.testing.assert_array_equal(found.lengths, [4, 4, 6])
    assert found.label == "a-v0, b-v0"
    np.testing.assert_array_equal(agents.load_demonstrations(["b-v0", "a-v0"], interface).lengths, [6, 6, 6, 4, 4])
    np.testing.assert_array_equal(agents.load_demonstrations("b-v0", interface, n_episodes=1).lengths, [6])


@pytest.mark.parametrize("name", ["CartPole/expert", "expert"])
def test_name_without_version_is_the_newest(interface: Interface, name: str) -> None:
    for version in (2, 10, 9):
        write(f"{name}-v{version}", random_episodes(1, version))
    write(f"{name}-vx-v11", random_episodes(1, 2))  # another name
    assert agents.load_demonstrations(name, interface).label == f"{name}-v10"
    assert agents.load_demonstrations(f"{name}-v2", interface).label == f"{name}-v2"


def test_folder_of_a_dataset_or_of_its_data(
    interface: Interface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("CartPole/expert-v0", random_episodes(1)).rename(tmp_path / "elsewhere")
    for source in (tmp_path / "elsewhere", str(tmp_path / "elsewhere"), tmp_path / "elsewhere" / "data"):
        assert agents.load_demonstrations(source, interface).label == "CartPole/expert-v0"
    monkeypatch.chdir(tmp_path)
    assert agents.load_demonstrations("elsewhere", interface).label == "CartPole/expert-v0"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert agents.load_demonstrations("~/elsewhere", interface).label == "CartPole/expert-v0"


def test_datasets_are_in_the_home_directory_by_default(
    interface: Interface, datasets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("expert-v0", random_episodes(1))
    (tmp_path / ".minari").mkdir()
    datasets.rename(tmp_path / ".minari" / "datasets")
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert agents.load_demonstrations("expert", interface).label == "expert-v0"


def test_the_same_demonstrations_are_read_once(interface: Interface, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write("expert-v0", random_episodes(2))
    first = agents.load_demonstrations("expert-v0", interface)
    reads: list[Any] = []
    own = module.RecordedDataset.episodes
    monkeypatch.setattr(module.RecordedDataset, "episodes", lambda *given: reads.append(given) or own(*given))
    again = CARTPOLE.interface()  # an equal one
    assert agents.load_demonstrations("expert", again) is first
    assert agents.load_demonstrations(folder, again) is first
    assert reads == []
    assert len(agents.load_demonstrations("expert", again, n_episodes=1).lengths) == 1
    assert len(reads) == 1
    data = folder / "data" / "main_data.hdf5"
    os.utime(data, ns=(data.stat().st_atime_ns, data.stat().st_mtime_ns + 1))
    assert agents.load_demonstrations("expert", again) is not first
    assert len(reads) == 2


def test_arrays_that_agents_share_cannot_be_written(interface: Interface) -> None:
    write("expert-v0", random_episodes(1))
    found = agents.load_demonstrations("expert-v0", interface)
    with pytest.raises(ValueError, match="read-only"):
        found.actions[0] = 1


def test_other_arguments_of_the_environment_are_logged(interface: Interface, caplog: pytest.LogCaptureFixture) -> None:
    module_of_checks._log_once.cache_clear()
    with gym.make("CartPole-v1", sutton_barto_reward=True, render_mode="rgb_array") as environment:
        write("other-v0", random_episodes(1), environment)
    caplog.set_level(logging.WARNING)
    same = EnvironmentSpec.of("CartPole-v1", {"sutton_barto_reward": True, "render_mode": None})
    agents.load_demonstrations("other-v0", interface, same)
    assert caplog.messages == []
    for _ in range(2):  # logged once
        agents.load_demonstrations("other-v0", interface, CARTPOLE)
    assert caplog.messages == [
        "The dataset 'other-v0' was recorded in CartPole-v1 with sutton_barto_reward=true; the agent learns there with "
        "no sutton_barto_reward."
    ]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (EnvironmentSpec("CartPole-v1", max_episode_steps=20), []),
        (EnvironmentSpec("CartPole-v1", {"max_episode_steps": 20}), []),
        (CARTPOLE, ["with max_episode_steps=20; the agent learns there with max_episode_steps=500."]),
    ],
    ids=["limit", "argument", "registration"],
)
def test_another_time_limit_is_logged(
    interface: Interface, caplog: pytest.LogCaptureFixture, limit: EnvironmentSpec, expected: list[str]
) -> None:
    module_of_checks._log_once.cache_clear()
    with gym.make("CartPole-v1", max_episode_steps=20) as environment:
        write("short-v0", random_episodes(1), environment)
    agents.load_demonstrations("short-v0", interface, limit)
    assert [message.partition(" in CartPole-v1 ")[2] for message in caplog.messages] == expected


def test_environments_without_an_id_are_compared_by_their_spaces(interface: Interface) -> None:
    write("expert-v0", random_episodes(1))
    by_function = EnvironmentSpec.of(lambda: gym.make("CartPole-v1"))
    assert len(agents.load_demonstrations("expert-v0", interface, by_function).lengths) == 1
    folder = write("anonymous-v0", random_episodes(1), None, **spaces_of_cartpole())
    assert "env_spec" not in json.loads((folder / "data" / "metadata.json").read_text())
    assert len(agents.load_demonstrations("anonymous-v0", interface, CARTPOLE).lengths) == 1


def spaces_of_cartpole() -> dict[str, Any]:
    with gym.make("CartPole-v1") as environment:
        return {"observation_space": environment.observation_space, "action_space": environment.action_space}
