"""Tests of custom metrics of episodes, callback factories, and `explore=False`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import Callback, ConfigurationError, Episode, HistoryFile, TensorBoard, Trainer
from agents.callbacks.callback import make_callbacks
from agents.population import Population
from agents.training.records import MetricSummary, summaries
from agents.training.run import Run

SMALL_TD3 = {"hidden_sizes": [8], "learning_starts": 8, "batch_size": 4, "buffer_size": 100}


class Steps(Callback):
    """Callback that measures the length of each episode from its beginning."""

    def __init__(self) -> None:
        self.scratch: list[dict[str, Any]] = []

    def on_episode_begin(self, trainer: Trainer, environment: int, member: int) -> None:
        run = trainer.runs[member]
        run.episode(environment).user_data["began"] = run.env_steps

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        began = episode.user_data["began"]
        episode.custom_metrics["counted"] = (episode.env_steps - began) / trainer.collector.n_envs
        self.scratch.append(episode.user_data)


def episode(**metrics: Any) -> Episode:
    return Episode(0, 1, 1.0, 1, None, 0.0, 0, 0, metrics, {})


def test_summaries_cover_episodes_with_metric():
    found = summaries([episode(a=1.0), episode(a=4, b=np.float32(2.0)), episode(a=float("nan")), episode()])
    assert found == {"a": MetricSummary(2.5, 1.0, 4.0, 2), "b": MetricSummary(2.0, 2.0, 2.0, 1)}


def test_non_numeric_metric_is_refused():
    with pytest.raises(ConfigurationError, match=r"custom_metrics\['a'\] of an episode is 'much': give numbers"):
        summaries([episode(a="much")])
    strange = episode(a=np.zeros(3), b=1.0)
    with pytest.raises(ConfigurationError, match=r"custom_metrics\['a'\] of an episode is array.*: give numbers"):
        summaries([strange])
    assert strange.custom_metrics == {"b": 1.0}  # so that what is saved can be resumed


@pytest.mark.parametrize(("name", "params"), [("ppo", SMALL_PPO), ("dqn", SMALL_DQN)])
def test_custom_metrics_belong_to_their_episode(name: str, params: dict[str, Any]):
    steps = Steps()
    with Trainer(agents.make(name, "CartPole-v1", **{**params, "n_envs": 3}), callbacks=[steps]) as trainer:
        trainer.train(env_steps=600)
    ended = trainer.history.episodes
    assert len(ended) > 5
    assert [own.custom_metrics["counted"] for own in ended] == [own.length for own in ended]
    assert not any(steps.scratch)  # user data of ended episodes is cleared
    lengths = [own.length for own in ended[-4:]]
    assert trainer.history.custom_metrics(last=4)["counted"] == (np.mean(lengths), min(lengths), max(lengths), 4)


def test_population_members_have_their_own_custom_metrics():
    spec = agents.AgentSpec.of("ppo", "CartPole-v1", SMALL_PPO)
    with Trainer(Population(spec, [{"seed": 0}, {"seed": 1}]), callbacks=[Steps()]) as trainer:
        trainer.train(env_steps=400)
    assert len(trainer.runs) == 2
    for run in trainer.runs:
        assert run.history.episodes
        assert [own.custom_metrics["counted"] for own in run.history.episodes] == [
            own.length for own in run.history.episodes
        ]


@pytest.mark.slow
def test_custom_metrics_are_resumed():
    def training() -> Trainer:
        return Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO), callbacks=[Steps()])

    with training() as whole, training() as first, training() as second:
        whole.train(env_steps=400)
        first.train(env_steps=200)
        second.set_state(first.get_state())
        second.train(env_steps=200)
    assert second.history.episodes[-1].custom_metrics["counted"] == second.history.episodes[-1].length
    assert [own[:5] for own in second.history.episodes] == [own[:5] for own in whole.history.episodes]


def test_custom_metrics_of_abandoned_episodes_are_dropped():
    with Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO)) as first:
        first.train(env_steps=40)
        first.run.episode(0).user_data["lost"] = 1
        first.run.episode(0).custom_metrics["lost"] = 1
        whole, without = first.get_state(), first.get_state(environments=False)
        for state, there in ((whole, True), (without, False)):
            first.set_state(state)
            assert bool(first.run.episode(0).user_data) == bool(first.run.episode(0).custom_metrics) == there


def test_user_data_that_cannot_be_pickled_is_not_saved(caplog: pytest.LogCaptureFixture):
    run = Run(0, 1)
    run.episode().user_data |= {"kept": [1], "lost": (i for i in range(3))}
    assert Run.of_state(run.get_state()).episode().user_data == {"kept": [1]}
    assert "user_data['lost'] is not kept in checkpoints" in caplog.text


def test_run_of_older_checkpoint_has_no_custom_metrics():
    state = Run(0, 1).get_state()
    del state["running"]
    run = Run.of_state({**state, "episodes": [(0, 10, 1.0, 10, None, 0.5, 0, 0)]})
    assert run.history.episodes[0].custom_metrics == {}
    assert run.episode().user_data == {}


@pytest.mark.slow
def test_custom_metrics_are_written_to_history_and_tensorboard(tmp_path: Path):
    callbacks = [HistoryFile(tmp_path), TensorBoard(tmp_path / "log", every=100), Steps()]
    with Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO), callbacks=callbacks) as trainer:
        trainer.train(env_steps=400)
    table = agents.read_history(tmp_path).to_pylist()
    assert [dict(row["custom_metrics"]) for row in table] == [{"counted": row["length"]} for row in table]
    shown: dict[str, list[float]] = {}
    for path in (tmp_path / "log").glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                shown.setdefault(value.tag, []).append(value.simple_value)
    assert max(shown["custom_metrics/counted/max"]) == max(row["length"] for row in table)
    assert min(shown["custom_metrics/counted/min"]) == min(row["length"] for row in table if row["env_steps"] <= 400)


def test_history_without_custom_metrics_is_read(tmp_path: Path):
    import pyarrow.parquet as pq

    with Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO), callbacks=[HistoryFile(tmp_path)]) as trainer:
        trainer.train(env_steps=200)
    table = agents.read_history(tmp_path)
    for part in (tmp_path / "history.parquet").glob("*.parquet"):
        part.unlink()
    pq.write_table(table.drop_columns("custom_metrics"), tmp_path / "history.parquet" / "000000000000.parquet")
    assert agents.read_history(tmp_path)["return"].to_pylist() == table["return"].to_pylist()


def makes_no_callback() -> int:
    return 3


def raises() -> Callback:
    raise RuntimeError("no luck")


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        ("nowhere:Class", "The callback 'nowhere:Class' cannot be loaded: No module named 'nowhere'"),
        (Steps(), "makes no callback: give a subclass of agents.Callback"),
        (makes_no_callback, "returns int, which is no callback"),
        (raises, "cannot be made: no luck"),
    ],
)
def test_invalid_callback_factories_are_refused(maker: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        make_callbacks([maker])


def test_callbacks_are_made_from_classes_and_names():
    one, other = make_callbacks([Steps, "agents:LambdaCallback"])
    assert type(one) is Steps
    assert type(other) is agents.LambdaCallback


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env", "params"),
    [("ppo", "CartPole-v1", SMALL_PPO), ("dqn", "CartPole-v1", SMALL_DQN), ("td3", "Pendulum-v1", SMALL_TD3)],
)
@pytest.mark.parametrize("pool", [None, 1])
def test_explore_false_gives_greedy_actions(
    name: str, env: str, params: dict[str, Any], pool: int | None, monkeypatch: pytest.MonkeyPatch
):
    """Without exploration the actions are the greedy ones, here of weights that do not change."""
    taken: list[tuple[np.ndarray, np.ndarray]] = []
    agent = agents.make(name, env, **{**params, "explore": False, "learning_rate": 1e-30})
    with Trainer(agent, pool=pool) as trainer:
        add = trainer.buffer.add
        monkeypatch.setattr(trainer.buffer, "add", lambda t: (taken.append((t.observations, t.actions)), add(t)))
        trainer.train(env_steps=64)
    assert taken
    for observations, actions in taken:
        np.testing.assert_allclose(actions, agent.act(observations, explore=False), atol=1e-6)
