"""Which agent: a process each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, OptimizerSpec
from finder import AgentFinder, ParallelFinder

ENV = "fakes:TwoStep-v0"


def small(kind: str, **kwargs: Any) -> AgentSpec:
    return AgentSpec.of(kind, EnvironmentSpec.of(ENV, kwargs), SMALL_PPO if kind == "ppo" else SMALL_DQN)


@pytest.mark.real
class TestRealProcesses:
    def test_agents_are_compared_and_every_episode_is_shared(self, storage: str):
        finder = ParallelFinder([small("dqn"), small("ppo")], ["adam", "rmsprop"])
        result = finder.find(episodes=60, seeds=1, storage=storage)
        assert {label: len(values) for label, values in finder.rewards.items()} == {"dqn": 60, "ppo": 60}
        assert 0 < len(finder.losses["ppo"]) <= 60
        means = {label: sum(values) / len(values) for label, values in finder.rewards.items()}
        best = max(means, key=lambda label: means[label])
        assert finder.logs["best_agent"] == best
        assert finder.logs["best_reward"] == pytest.approx(means[best])
        assert finder.logs["best_opt"] == {"dqn": "adam", "ppo": "rmsprop"}[best]
        # A loss of DQN and one of PPO are different things: neither is the better one.
        assert (finder.logs["best_loss"], finder.logs["best_loss_agent"], finder.logs["best_loss_opt"]) == (
            1e9,
            None,
            None,
        )
        assert set(result.table().agent) == {"dqn", "ppo"}
        assert finder.plot_reward().data

    def test_equal_names_are_told_apart_in_the_logs_and_a_finished_study_gives_the_same_again(self, storage: str):
        def find() -> ParallelFinder:
            finder = ParallelFinder([small("ppo"), small("ppo").with_params({"learning_rate": 0.1})])
            finder.find(env_steps=320, seeds=1, storage=storage)
            return finder

        first, again = find(), find()
        means = {label: sum(values) / len(values) for label, values in first.rewards.items()}
        assert means["ppo"] != means["ppo-2"]
        assert first.logs["best_agent"] == max(means, key=lambda label: means[label])
        assert (again.rewards, again.losses, again.logs) == (first.rewards, first.losses, first.logs)
        losses = {label: sum(values) / len(values) for label, values in first.losses.items()}
        assert first.logs["best_loss_agent"] == min(losses, key=lambda label: losses[label])
        assert first.logs["best_loss"] == pytest.approx(min(losses.values()))

    def test_the_episodes_of_an_agent_whose_process_is_killed_once_count_once(self, storage: str, tmp_path: Path):
        finder = ParallelFinder([small("ppo", kill_once=(100, str(tmp_path / "killed")))])
        result = finder.find(env_steps=640, seeds=1, storage=storage, checkpoint_seconds=1e-3)
        assert (tmp_path / "killed").exists()
        curve = result.study.storage.episodes.curve(result.study.episodes_key, 0)
        assert finder.rewards == {"ppo": [each.episode_return for each in curve]}
        assert finder.logs["best_reward"] == pytest.approx(sum(finder.rewards["ppo"]) / 128)

    def test_an_agent_whose_process_is_killed_loses_only_itself(self, storage: str, monkeypatch: pytest.MonkeyPatch):
        from agents.algorithms.ppo import PPO

        class Doomed(PPO):
            def prepare(self, data: dict[str, Any]) -> dict[str, Any]:
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


def test_equal_names_are_told_apart():
    assert list(ParallelFinder([small("ppo"), small("ppo")]).agents) == ["ppo", "ppo-2"]


def test_an_optimizer_that_says_no_rate_leaves_the_agent_its_own():
    agent = small("ppo").with_params({"learning_rate": 0.02})
    config = ParallelFinder([agent], ["rmsprop"]).agents["ppo"].config
    assert (config.optimizer, config.learning_rate) == ("rmsprop", 0.02)
    config = ParallelFinder([agent], [OptimizerSpec(name="sgd", learning_rate=0.5)]).agents["ppo"].config
    assert (config.optimizer, config.learning_rate) == ("sgd", 0.5)


def test_built_agents_are_taken():
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
    ],
)
def test_bad_input_is_refused(given: Any, optimizers: Any, environment: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        ParallelFinder(given, optimizers, environment)


def test_agents_of_different_environments_are_not_compared():
    with pytest.raises(ConfigurationError, match="must be for the same environment"):
        ParallelFinder([AgentSpec.of("ppo", "CartPole-v1"), AgentSpec.of("ppo", "Acrobot-v1")])


def test_it_is_only_for_processes():
    with pytest.raises(ConfigurationError, match="runs in processes"):
        ParallelFinder([small("ppo")]).find(env_steps=10, executor="inline", storage=None)
