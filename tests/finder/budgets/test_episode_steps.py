"""Tests of runs that are long enough for an episode of every copy of the environment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fakes import SMALL_PPO

import finder
from agents.contract.function_config import config_of
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.environments import EnvironmentSpec
from agents.environments.time_limits import EpisodeLength, random_episodes
from finder import LRFinder
from finder.budgets.estimating import random_episodes_of
from finder.budgets.measuring import measure_episodes
from finder.budgets.plan_numbers import least_steps, most_copies, notes_on_episodes
from finder.trials.trial import TrialSpec
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


class Never(Truncated):
    """Its episodes never end."""

    def __init__(self) -> None:
        super().__init__(length=10**9)


def agents_of(env: Any, **params: Any) -> dict[str, AgentSpec]:
    return {"ppo": AgentSpec.of("ppo", env, {"n_envs": 8, "n_steps": 32, **params})}


def study(**fields: Any) -> StudySpec:
    return StudySpec(**{"name": "s", "agents": ["ppo"], "env": "Here-v0", "env_steps": 100, **fields})


def own_loop(run: Any, n_envs: int = 4) -> None:
    """A training function of a user."""


def library_agent(env: Any = "CartPole-v1", **params: Any) -> FunctionSpec:
    """Return an agent of a library, which need not be installed."""

    def ppo(run: Any, n_envs: int = 1, n_steps: int = 32) -> None: ...

    return FunctionSpec("sb3:PPO", EnvironmentSpec.of(env), config_of(ppo).from_dict(params))


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
        assert next(least_steps(study(), agents_of("CartPole-v1", n_envs=1), unused)) == 500

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
        assert list(least_steps(study(), agents, lambda: EpisodeLength(500, ended=False))) == [4_000]

    @pytest.mark.parametrize(("copies", "least"), [(1, [108_000, 300]), (8, [864_000, 108_000, 2_400])])
    def test_limits_far_above_random_episodes_do_not_bind_small_budgets(self, copies: int, least: list[int]) -> None:
        agents = agents_of(EnvironmentSpec("CartPole-v1", max_episode_steps=108_000), n_envs=copies)
        assert list(least_steps(study(), agents, lambda: EpisodeLength(300, ended=True))) == least

    @pytest.mark.parametrize("env", ["MountainCarContinuous-v0", Truncated])
    def test_runs_that_are_judged_by_greedy_episodes_need_updates_alone(self, env: Any) -> None:
        assert list(least_steps(study(metric="greedy-return:3"), agents_of(env), unused)) == [512]
        several = study(kind="tune", metric="greedy-return", metrics=["greedy-return", "auc"], pruner="none", confirm=0)
        assert next(least_steps(several, agents_of("MountainCarContinuous-v0"), unused)) == 8 * 999

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

    def test_copies_of_libraries_count_and_those_of_functions_do_not(self) -> None:
        assert most_copies(study(), {"ppo": library_agent(n_envs=4)}) == 4
        assert most_copies(study(), {"own": AgentSpec.of(own_loop, "CartPole-v1")}) == 1


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

    def test_one_copy_is_advised_where_it_has_room(self) -> None:
        [note] = notes_on_episodes(study(env_steps=100), agents_of("MountainCar-v0"), None)
        assert note.endswith("; --env-steps 1600 has room for one")
        [note] = notes_on_episodes(study(env_steps=200), agents_of("MountainCar-v0"), None)
        assert note.endswith("; --env-steps 1600 or n_envs=1 (--set n_envs=1) has room for one")

    def test_advice_fits_the_budget_that_was_given(self) -> None:
        agents = agents_of("MountainCar-v0")
        [note] = notes_on_episodes(study(env_steps=200), agents, None, chosen_for="minutes")
        assert note.endswith(
            "; give more minutes (--minutes), fewer trials, n_envs=1 (--set n_envs=1), or a smaller time limit "
            "(--max-episode-steps)"
        )
        [note] = notes_on_episodes(study(env_steps=100), agents, None, chosen_for="total_env_steps")
        assert note.endswith(
            "; give more steps of the whole search (--total-env-steps), fewer trials, or a smaller time limit "
            "(--max-episode-steps)"
        )
        never = EpisodeLength(100_000, ended=False)
        [note] = notes_on_episodes(study(env_steps=8_000), agents_of(Truncated), never, chosen_for="minutes")
        assert "give more minutes (--minutes), fewer trials, or a time limit (--max-episode-steps) if" in note

    def test_greedy_episodes_need_none_of_training(self) -> None:
        agents = agents_of("MountainCar-v0")
        assert notes_on_episodes(study(env_steps=100, metric="greedy-return"), agents, None) == []
        for metric in ("loss", "auc", "steps-to:-100", "success-rate"):
            assert notes_on_episodes(study(env_steps=100, metric=metric), agents, None)

    def test_length_of_random_episodes_is_named_where_they_had_to_do(self) -> None:
        agents = agents_of(EnvironmentSpec("CartPole-v1", max_episode_steps=108_000), n_envs=1)
        [note] = notes_on_episodes(study(env_steps=400), agents, EpisodeLength(300, ended=True))
        assert "an episode may have 108,000 (those of random actions had up to 300): long episodes do not end" in note

    def test_agents_of_libraries_are_noted_and_functions_are_not(self) -> None:
        own = AgentSpec.of(own_loop, "CartPole-v1")
        assert notes_on_episodes(study(env_steps=100), {"own": own}, None) == []
        for agents in (
            {"ppo": library_agent(n_envs=4)},
            {"own": own, "ppo": agents_of("CartPole-v1", n_envs=4)["ppo"]},
        ):
            [note] = notes_on_episodes(study(env_steps=1_000), agents, None)
            assert note.startswith(
                "each run has 250 steps for each of 4 copies of Here-v0, and an episode may have 500"
            )

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

    def test_random_episodes_must_do_where_limits_are_far_above_them(self) -> None:
        copies = SMALL_PPO["n_envs"]
        limited = EnvironmentSpec(Truncated, max_episode_steps=108_000)
        plan = self.plan(limited, 2 * copies * 150)
        assert plan.env_steps == copies * 150
        with pytest.raises(StudyError, match=f"2 trials of {copies * 150} environment steps"):
            self.plan(limited, 2 * copies * 150 - 10)

    def test_random_episodes_are_those_of_the_first_agent_that_is_no_function_of_the_user(self) -> None:
        here = SimpleNamespace(n_processes=0)
        own, native = AgentSpec.of(own_loop, Raising), agents_of(Truncated)["ppo"]
        assert random_episodes_of(study(), {"own": own, "ppo": native}, here) == EpisodeLength(150, ended=True)
        assert random_episodes_of(study(), {"ppo": library_agent(env=Truncated)}, here) == EpisodeLength(
            150, ended=True
        )
        assert random_episodes_of(study(), {"own": own}, here) is None

    def test_failing_environments_are_left_to_their_trials(self) -> None:
        search = LRFinder("ppo", Raising)
        study: OpenStudy = search.grid(
            rates=[1e-3], fixed=SMALL_PPO, seeds=1, n_jobs=1, total_env_steps=400, confirm=0, progress=False
        ).study
        assert "sensor lost" in study.trials()[0].user_attrs["reason"]

    def test_other_processes_play_the_episodes(self) -> None:
        agent = agents_of("CartPole-v1")["ppo"]
        assert measure_episodes(agent, own_process=True) == random_episodes(agent.environment)


class TestMessages:
    """Messages of trials that ended without a value."""

    def test_agents_of_libraries_are_given_steps(self) -> None:
        trial = TrialSpec(number=0, agent=library_agent(n_envs=4), seeds=(0,), env_steps=1_000)
        assert trial.no_value_message() == (
            "No episode ended within the budget of a run (1000 environment steps), so the trial has no value. 4 copies "
            "of CartPole-v1 made 250 steps each, and an episode may have 500: give --env-steps 2000 (env_steps=2000), "
            "or n_envs=1 (--set n_envs=1)."
        )

    @pytest.mark.parametrize(
        ("budget", "advice"),
        [
            (
                {"total_env_steps": 128},
                "give more steps of the whole search (--total-env-steps), fewer trials, or n_envs",
            ),
            ({"total_env_steps": 128, "env_steps": 64}, "--env-steps 256"),
            ({"env_steps": 96}, "--env-steps 384"),
        ],
    )
    def test_trials_advise_the_budget_that_was_given(self, budget: dict[str, int], advice: str) -> None:
        given: dict[str, Any] = {"seeds": 1, "n_jobs": 1, "pruner": "none", "confirm": 0, "progress": False, **budget}
        search = LRFinder("ppo", Never)
        if len(budget) == 2:
            study: OpenStudy = finder.tune("ppo", Never, {"learning_rate": "1e-3:1e-2"}, fixed=SMALL_PPO, **given).study
        else:
            study = search.grid(rates=[1e-3, 1e-2], fixed=SMALL_PPO, **given).study
        assert advice in study.trials()[0].user_attrs["reason"]

    def test_losses_are_recorded_with_episodes(self) -> None:
        trial = TrialSpec(number=0, agent=agents_of("CartPole-v1")["ppo"], seeds=(0,), env_steps=100, metric="loss")
        assert trial.no_value_message() == (
            "No episode with an update ended within the budget of a run (100 environment steps), so the trial has no "
            "value. Losses are recorded with the episodes: give it a larger budget."
        )
