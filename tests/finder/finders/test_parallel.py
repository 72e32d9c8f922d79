"""Tests of `ParallelFinder` and `AgentFinder`, which compare agents in processes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO
from recorded_losses import recorded

import agents
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, OptimizerSpec
from finder import AgentFinder, ParallelFinder
from finder.finders.parallel import last_loss
from finder.results.search_result import SearchResult
from studies.database.records import EpisodeRecord

ENV = "fakes:TwoStep-v0"


def small(kind: str, **kwargs: Any) -> AgentSpec:
    return AgentSpec.of(kind, EnvironmentSpec.of(ENV, kwargs), SMALL_PPO if kind == "ppo" else SMALL_DQN)


@pytest.mark.real
class TestRealProcesses:
    def test_agents_are_compared_and_every_episode_is_recorded(self, storage: str, monkeypatch: pytest.MonkeyPatch):
        shared: dict[str, Any] = {}
        spy = ParallelFinder._set_values
        monkeypatch.setattr(ParallelFinder, "_set_values", lambda *given: (shared.update(given[2]), spy(*given)))
        finder = ParallelFinder([small("dqn"), small("ppo")], ["adam", "rmsprop"])
        result = finder.find(episodes=60, seeds=1, storage=storage)
        assert {name: set(own) for name, own in shared.items()} == {"rewards": {0, 1}, "losses": {0, 1}}
        for values in (finder.rewards, finder.losses):
            assert {label: len(own) for label, own in values.items()} == {"dqn": 60, "ppo": 60}
        for trial, label in enumerate(["dqn", "ppo"]):  # a loss beside each return, and none before the first update
            curve = result.study.storage.episodes.curve(result.study.episodes_key, trial)
            assert finder.rewards[label] == [each.episode_return for each in curve]
            losses = [math.nan if each.loss is None else each.loss for each in curve]
            np.testing.assert_array_equal(finder.losses[label], losses)
            assert np.isnan(losses[0])
            assert np.isfinite(losses[-1])
        best = finder.logs["best_agent"]
        row = result.table().set_index("agent").loc[best]
        assert best == result.best.params["agent"]
        assert finder.logs["best_reward"] == row["value"]
        assert finder.logs["best_opt"] == {"dqn": "adam", "ppo": "rmsprop"}[best]
        # Losses of DQN and PPO are not comparable: no best one is named.
        assert (finder.logs["best_loss"], finder.logs["best_loss_agent"], finder.logs["best_loss_opt"]) == (
            1e9,
            None,
            None,
        )
        assert set(result.table().agent) == {"dqn", "ppo"}
        assert finder.plot_reward().data
        with pytest.raises(ConfigurationError, match="compares its trials by return, not by losses"):
            finder.plot_loss()

    def test_equal_names_are_numbered_in_logs_and_a_finished_study_is_reused(self, storage: str):
        def find() -> ParallelFinder:
            finder = ParallelFinder([small("ppo"), small("ppo").with_params({"learning_rate": 0.1})])
            finder.find(env_steps=320, seeds=1, storage=storage)
            return finder

        first, again = find(), find()
        assert first.rewards["ppo"] != first.rewards["ppo-2"]
        assert (again.rewards, again.logs) == (first.rewards, first.logs)
        np.testing.assert_equal(again.losses, first.losses)
        # Episodes last ten steps of two copies together: the last fifth of 320 steps ends in 14 of 64 episodes.
        lately = {label: np.mean(own[-14:]) for label, own in first.losses.items()}
        assert first.logs["best_loss_agent"] == min(lately, key=lambda label: lately[label])

    def test_agent_without_an_update_is_never_the_best(self, storage: str):
        """The untrained DQN agent is greedy from the start, and always chooses the better of two actions."""
        lucky = AgentSpec.of(
            "dqn",
            ENV,
            {**SMALL_DQN, "learning_starts": 10_000, "exploration_initial_eps": 0.0, "exploration_final_eps": 0.0},
        )
        slow = small("ppo").with_params({"learning_rate": 1e-9})
        finder = ParallelFinder([lucky, slow])
        result = finder.find(env_steps=200, seeds=[5], storage=storage)
        table = result.table().set_index("agent")
        assert table.value["dqn"] > table.value["ppo"]
        assert finder.logs["best_agent"] == result.best.params["agent"] == "ppo"
        assert finder.logs["best_reward"] == table.value["ppo"]
        assert np.isnan(finder.losses["dqn"]).all()

    def test_episodes_of_a_killed_process_are_counted_once(self, storage: str, tmp_path: Path):
        finder = ParallelFinder([small("ppo", kill_once=(100, str(tmp_path / "killed")))])
        result = finder.find(env_steps=640, seeds=1, storage=storage, checkpoint_seconds=1e-3)
        assert (tmp_path / "killed").exists()
        curve = result.study.storage.episodes.curve(result.study.episodes_key, 0)
        assert finder.rewards == {"ppo": [each.episode_return for each in curve]}
        assert finder.logs["best_reward"] == result.best.value

    def test_killed_process_fails_only_its_own_agent(self, storage: str, monkeypatch: pytest.MonkeyPatch):
        from agents.algorithms.ppo import PPO

        class Doomed(PPO):
            def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
                import os
                import signal

                os.kill(os.getpid(), signal.SIGKILL)
                return data

        doomed = AgentSpec.of(Doomed, ENV, SMALL_PPO)
        finder = AgentFinder([small("ppo"), doomed, small("dqn")])
        result = finder.find(env_steps=200, seeds=1, storage=storage)
        states = dict(zip(result.table().agent, result.table().state, strict=True))
        assert states == {"ppo": "COMPLETE", "Doomed": "FAIL", "dqn": "COMPLETE"}
        failed = result.table().set_index("agent").loc["Doomed"]
        assert "SIGKILL" in failed.reason
        assert finder.logs["best_agent"] in {"ppo", "dqn"}


def test_best_loss_is_that_of_the_pick_when_agents_are_compared_by_losses():
    finder = ParallelFinder([small("dqn"), small("ppo")], ["adam", "rmsprop"])
    rows = ({"agent": "dqn"}, {"agent": "ppo"})
    options: Any = {"storage": "memory", "pruner": "none", "confirm": 0, "seeds": 2}
    with recorded("agents", list(finder.agents.values()), options, rows, (3.0, 1.0), labels=["dqn", "ppo"]) as study:
        logs = finder._best_of(SearchResult(study))
    assert logs == {
        **{"best_agent": "ppo", "best_opt": "rmsprop", "best_reward": -1e9},
        **{"best_loss": 1.0, "best_loss_agent": "ppo", "best_loss_opt": "rmsprop"},
    }


def test_last_loss_is_the_mean_over_seeds_of_the_last_fifth():
    def episode(seed: int, number: int, env_steps: int, loss: float) -> EpisodeRecord:
        named: Any = {"seed": seed, "episode": number, "env_steps": env_steps, "loss": loss}
        return EpisodeRecord(**named, episode_return=0.0, length=1, wall_seconds=0.0)

    # Seed 0 after 80 of its 100 steps: (2 + 4) / 2 = 3. Seed 1: 5. Their mean: 4.
    episodes = [episode(0, 0, 50, 9.0), episode(0, 1, 90, 2.0), episode(0, 2, 100, 4.0), episode(1, 0, 100, 5.0)]
    assert last_loss(episodes) == 4.0
    assert math.isnan(last_loss([]))


def test_equal_names_are_numbered():
    other = small("ppo").with_params({"gamma": 0.9})
    assert list(ParallelFinder([small("ppo"), other]).agents) == ["ppo", "ppo-2"]
    assert list(ParallelFinder([small("ppo"), small("ppo")], ["adam", "sgd"]).agents) == ["ppo", "ppo-2"]


def test_agent_is_given_once():
    agent, built = small("ppo"), small("ppo").build(1)
    trained = replace(agent, state=built.get_state())
    for both in (
        [agent, replace(agent, agent="PPO")],
        [agent, built],
        [trained, replace(agent, state=built.get_state())],
    ):
        with pytest.raises(ConfigurationError, match="twice, with the same settings: give each agent once"):
            ParallelFinder(both)
    with pytest.raises(ConfigurationError, match="twice"):
        ParallelFinder([agent, agent], "sgd")
    assert len(ParallelFinder([agent, trained]).agents) == 2


def test_optimizers_are_one_for_all_agents_or_a_list_with_one_for_each():
    both = [small("ppo"), small("dqn")]
    assert [each.optimizer for each in ParallelFinder(both, "sgd").agents.values()] == ["sgd", "sgd"]
    with pytest.raises(ConfigurationError, match="one optimizer for all agents or one for each: there are 2 agents"):
        ParallelFinder(both, ["sgd"])


def test_optimizer_without_a_rate_keeps_the_rate_of_the_agent():
    agent = small("ppo").with_params({"learning_rate": 0.02})
    config = ParallelFinder([agent], ["rmsprop"]).agents["ppo"].config
    assert (config.optimizer, config.learning_rate) == ("rmsprop", 0.02)
    config = ParallelFinder([agent], [OptimizerSpec(name="sgd", learning_rate=0.5)]).agents["ppo"].config
    assert (config.optimizer, config.learning_rate) == ("sgd", 0.5)


def test_built_agents_are_accepted():
    agent = agents.make("ppo", ENV, **SMALL_PPO)
    assert list(AgentFinder([agent]).agents) == ["PPO"]


@pytest.mark.parametrize(
    ("given", "optimizers", "environment", "message"),
    [
        ([], None, ENV, "at least one agent"),
        ("ppo", None, ENV, "Give a list"),
        (["ppo", "dqn"], ["adam", "sgd", "lion"], ENV, "2 agents and 3 optimizers"),
        (["ppo", "dqqn"], None, ENV, "Did you mean dqn"),
        (["ppo"], None, None, "Say which environment"),
        (["ppo"], "adam", None, "Say which environment"),
        (["ppo"], ENV, None, f"The second argument is the optimizers, got '{ENV}'"),
    ],
)
def test_invalid_input_is_refused(given: Any, optimizers: Any, environment: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        ParallelFinder(given, optimizers, environment)


def test_agents_of_different_environments_are_refused():
    with pytest.raises(ConfigurationError, match="must be for the same environment"):
        ParallelFinder([AgentSpec.of("ppo", "CartPole-v1"), AgentSpec.of("ppo", "Acrobot-v1")])


def test_inline_executor_is_refused():
    with pytest.raises(ConfigurationError, match="compared in a process each"):
        ParallelFinder([small("ppo")]).find(env_steps=10, executor="inline", storage=None)


def test_further_seeds_without_a_confirmation_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"confirm_seeds is 9, .* give confirm=2"):
        ParallelFinder(["ppo", "a2c"], environment="CartPole-v1").find(env_steps=100, confirm_seeds=9, storage=None)
