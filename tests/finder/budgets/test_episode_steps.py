"""Tests of runs that are long enough for an episode of every copy of the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_PPO

import finder
from agents.contract.spec import AgentSpec
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import EpisodeLength, random_episodes
from finder import LRFinder
from finder.budgets.measuring import measure_episodes
from finder.budgets.plan_numbers import least_steps, most_copies, notes_on_episodes
from studies.errors import StudyError
from studies.spec.spec import StudySpec
from studies.study.study import OpenStudy


class Truncated(gym.Env[Any, Any]):
    """Truncates its episodes itself; nothing declares their length."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 150) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return np.zeros(2, np.float32), float(action), False, self.steps >= self.length, {}


class Raising(Truncated):
    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        raise RuntimeError("sensor lost")


def agents_of(env: Any, **params: Any) -> dict[str, AgentSpec]:
    return {"ppo": AgentSpec.of("ppo", env, {"n_envs": 8, "n_steps": 32, **params})}


def study(**fields: Any) -> StudySpec:
    return StudySpec(**{"name": "s", "agents": ["ppo"], "env": "Here-v0", "env_steps": 100, **fields})


def unused() -> Any:
    raise AssertionError("no random episodes are needed")


class TestLengths:
    def test_environment_that_truncates_itself_shows_its_length(self) -> None:
        assert random_episodes(EnvironmentSpec(Truncated)) == EpisodeLength(150, ended=True)

    def test_longest_episode_counts(self) -> None:
        lengths = iter([30, 70, 50])

        class Varying(Truncated):
            def reset(self, **kwargs: Any) -> tuple[np.ndarray, dict[str, Any]]:
                self.length = next(lengths)
                return super().reset(**kwargs)

        assert random_episodes(EnvironmentSpec(Varying)) == EpisodeLength(70, ended=True)

    def test_endless_episodes_are_given_up(self) -> None:
        endless = EnvironmentSpec(Truncated, {"length": 10**9})
        assert random_episodes(endless, most_steps=400) == EpisodeLength(400, ended=False)
        times = iter(range(1_000))
        assert random_episodes(endless, most_seconds=10, clock=lambda: next(times)) == EpisodeLength(9, ended=False)


class TestLeastSteps:
    def test_all_copies_have_an_episode(self) -> None:
        steps = least_steps(study(), agents_of("MountainCarContinuous-v0"), unused)
        assert next(steps) == 8 * 999
        assert list(least_steps(study(), agents_of("CartPole-v1", n_envs=1), unused)) == [500]

    def test_two_first_updates_may_be_more(self) -> None:
        dqn = {"dqn": AgentSpec.of("dqn", "CartPole-v1", {"learning_starts": 1_000})}
        assert list(least_steps(study(), dqn, unused)) == [2_000]

    def test_random_episodes_count_where_no_limit_is_declared(self) -> None:
        agents = agents_of(Truncated)
        assert list(least_steps(study(), agents, lambda: EpisodeLength(1_500, ended=True))) == [12_000]
        for unknown in (None, EpisodeLength(100_000, ended=False)):
            assert list(least_steps(study(), agents, lambda seen=unknown: seen)) == [512]

    def test_random_episodes_must_do_for_a_small_budget(self) -> None:
        agents = agents_of("CartPole-v1")
        assert list(least_steps(study(), agents, lambda: EpisodeLength(20, ended=True))) == [4_000, 512]
        assert list(least_steps(study(), agents, lambda: EpisodeLength(400, ended=True))) == [4_000, 3_200]
        assert list(least_steps(study(), agents, lambda: EpisodeLength(500, ended=True))) == [4_000]

    @pytest.mark.parametrize(
        "fields",
        [
            {"params": {"n_envs": [4, 32, 16]}},
            {"params": {"n_envs": "4:32"}},
            {"trials": [{"n_envs": 32}, {"n_envs": 2}]},
        ],
    )
    def test_most_copies_of_a_search_count(self, fields: dict[str, Any]) -> None:
        assert most_copies(study(**fields), agents_of(Truncated)) == 32
        assert most_copies(study(), agents_of(Truncated)) == 8


class TestNotes:
    def test_runs_shorter_than_an_episode_are_noted(self) -> None:
        agents = agents_of("MountainCarContinuous-v0")
        [note] = notes_on_episodes(study(env_steps=3_960), agents, None)
        assert note == (
            "each run has 495 steps for each of 8 copies of Here-v0, and an episode may have 999: long episodes do not "
            "end, and a run in which none ends has no value; --env-steps 7992 or n_envs=1 (--set n_envs=1) has room "
            "for one"
        )
        assert notes_on_episodes(study(env_steps=7_992), agents, None) == []
        assert notes_on_episodes(study(env_steps=None, episodes=3), agents, None) == []

    def test_environments_without_a_known_end_are_noted(self) -> None:
        agents = agents_of(Truncated)
        assert notes_on_episodes(study(env_steps=16), agents, None) == []
        [note] = notes_on_episodes(study(env_steps=16_000), agents, EpisodeLength(100_000, ended=False))
        assert note.startswith(
            "no episode of Here-v0 ended within 100,000 steps of random actions, and each run has 2,"
        )
        assert "(--max-episode-steps) if episodes never end" in note
        [note] = notes_on_episodes(study(env_steps=8_000), agents, EpisodeLength(1_500, ended=True))
        assert "--env-steps 12000" in note


class TestSearches:
    """Whole searches with a budget of environment steps."""

    @staticmethod
    def plan(env: Any, total: int, **options: Any) -> Any:
        given = {"fixed": SMALL_PPO, "seeds": 1, "n_jobs": 1, "pruner": "none", "confirm": 0, "progress": False}
        search = LRFinder("ppo", env)
        return finder.dry_run(search.grid, rates=[1e-3, 1e-2], total_env_steps=total, **given, **options)

    def test_runs_are_long_enough_for_an_episode_of_each_copy(self) -> None:
        copies = SMALL_PPO["n_envs"]
        assert self.plan(Truncated, 2 * copies * 150).env_steps == copies * 150
        with pytest.raises(StudyError, match=f"2 trials of {copies * 150} environment steps .* --total-env-steps "):
            self.plan(Truncated, 2 * copies * 150 - 10)

    def test_failing_environments_are_left_to_their_trials(self) -> None:
        search = LRFinder("ppo", Raising)
        study: OpenStudy = search.grid(
            rates=[1e-3], fixed=SMALL_PPO, seeds=1, n_jobs=1, total_env_steps=400, confirm=0, progress=False
        ).study
        assert "sensor lost" in study.trials()[0].user_attrs["reason"]

    def test_other_processes_play_the_episodes(self) -> None:
        agent = agents_of("CartPole-v1")["ppo"]
        assert measure_episodes(agent, own_process=True) == random_episodes(agent.environment)
