"""Tests of callbacks of long runs: evaluations, plateaus, histories, TensorBoard and signals."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from fakes import SMALL_DQN, SMALL_PPO
from gymnasium.envs.classic_control import CartPoleEnv

import agents
from agents import (
    Checkpoint,
    ConfigurationError,
    EarlyStopping,
    EnvironmentSpec,
    Evaluate,
    HistoryFile,
    HyperparameterSchedule,
    LambdaCallback,
    ReduceOnPlateau,
    TensorBoard,
    Trainer,
)
from agents.callbacks.history_file import EPISODES_SCHEMA, GrowingTable
from agents.callbacks.signals import StopOnSignals
from agents.environments.time_limits import limit_without_one, no_episode_advice, time_limit
from agents.training.listeners import CallbackList

WITH_ENVPOOL = pytest.mark.skipif(find_spec("envpool") is None, reason="the extra envpool is not installed")
PARAMS: dict[str, dict[str, Any]] = {"ppo": SMALL_PPO, "dqn": SMALL_DQN, "td3": {**SMALL_DQN, "train_freq": 1}}
WHERE = {"ppo": "CartPole-v1", "dqn": "CartPole-v1", "td3": "Pendulum-v1"}


REPLICAS = f"""
import json
import agents

results = []
for strategy in ("mirrored", "none"):
    norms = []
    agent = agents.make("dqn", "CartPole-v1", strategy=strategy, **{SMALL_DQN!r})
    agent.record_gradient_norms()
    tell = lambda _, update: norms.extend(update.metrics["gradient_norm/default"].tolist())
    note = agents.LambdaCallback(on_update_end=tell)
    agents.Trainer(agent, callbacks=[note]).train(env_steps=48)
    results.append(norms)
print(json.dumps(results))
"""


def trainer(*callbacks: Any, agent: str = "ppo", **params: Any) -> Trainer:
    return Trainer(agents.make(agent, WHERE[agent], **{**PARAMS[agent], **params}), callbacks=callbacks)


def states(of: Trainer) -> list[Any]:
    of.history.evaluations.clear()
    state = of.get_state()
    del state["wall_seconds"]
    state["runs"] = [
        {**run, "episodes": [e._replace(wall_seconds=0.0) for e in run["episodes"]]} for run in state["runs"]
    ]
    state["collector"].pop("environments")
    return leaves(state)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in leaves(value[key])]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list | tuple) else [value]


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(np.array_equal(a, b, equal_nan=isinstance(a, float | np.ndarray)) for a, b in pairs)


class TestEvaluate:
    @pytest.mark.slow
    @pytest.mark.parametrize("agent", ["ppo", "dqn"])
    def test_evaluations_do_not_change_training(self, agent: str) -> None:
        def change_agent(learner: Any, where: Any) -> dict[str, Any]:
            learner.set_learning_rate(0.5)
            learner.rng.random(7)
            learner.networks["actor" if agent == "ppo" else "q"].set_weights(
                [np.zeros_like(w) for w in learner.networks["actor" if agent == "ppo" else "q"].get_weights()]
            )
            return {"returns": [1.0, 2.0], "height": 3}

        np.random.seed(3)
        random.seed(3)
        expected = np.random.default_rng(), (np.random.get_state()[1].tolist(), random.getstate())  # type: ignore[index]
        alone = trainer(agent=agent)
        alone.train(env_steps=300)
        watched = trainer(
            Evaluate(40, n_episodes=3), Evaluate(50, explore=True, n_episodes=2), Evaluate(60, function=change_agent),
            agent=agent,
        )  # fmt: skip
        watched.train(env_steps=300)
        assert len(watched.history.evaluations) == 7 + 6 + 5
        assert watched.history.evaluations[2].metrics == {"height": 3.0}
        assert same(states(watched), states(alone))
        assert (np.random.get_state()[1].tolist(), random.getstate()) == expected[1]  # type: ignore[index]

    def test_evaluation_reports_statistics_of_returns(self) -> None:
        received: list[Any] = []
        values = iter([[1.0, 3.0], [4.0], [0.0]])
        run = trainer(
            LambdaCallback(on_evaluation_end=lambda _, evaluation: received.append(evaluation)),
            Evaluate(
                "2 episodes", function=lambda agent, where: next(values), on_best=lambda t, e: received.append("best")
            ),
        )
        run.train(episodes=7)
        first, _, second, _, third = received
        assert (first.mean_return, first.std_return, first.min_return, first.max_return) == (2.0, 2**0.5, 1.0, 3.0)
        assert (first.n_episodes, second.n_episodes, first.n_training_episodes) == (2, 1, 2)
        assert [each.is_best for each in (first, second, third)] == [True, True, False]
        assert run.history.evaluations == [first, second, third]

    def test_evaluation_environments_may_run_in_processes(self) -> None:
        seen = []
        here = Evaluate(32, n_episodes=4, n_envs=2)
        there = Evaluate(32, n_episodes=4, n_envs=2, vectorization="subproc")
        with trainer(here, there) as run:
            run.train(env_steps=32)
            seen = run.history.evaluations
        assert there.vectorization == "async"
        assert seen[0][2:7] == seen[1][2:7]
        with pytest.raises(ConfigurationError, match="Unknown vectorization 'asynch'"):
            Evaluate(32, vectorization="asynch")

    def test_evaluation_stops_training_at_target(self) -> None:
        run = trainer(Evaluate(20, n_episodes=1, stop_at=5.0))
        assert run.train(env_steps=1000).reason == "an evaluation reached a mean return of 5"
        assert run.env_steps == 20

    def test_evaluation_environment_has_its_own_arguments(self) -> None:
        run = trainer(Evaluate(20, n_episodes=2, env_kwargs={"max_episode_steps": 3}))
        run.train(env_steps=20)
        assert run.history.evaluations[0].max_return == 3.0

    @pytest.mark.parametrize("played", [[], [float("nan")], {"height": 1.0}])
    def test_evaluation_function_without_returns_is_refused(self, played: Any) -> None:
        with pytest.raises(ConfigurationError, match="must give the returns of episodes"):
            trainer(Evaluate(20, function=lambda agent, where: played)).train(env_steps=40)

    def test_invalid_arguments_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="n_episodes must be >= 1"):
            Evaluate(20, n_episodes=0)


class Endless(CartPoleEnv):
    """CartPole without termination and without time limit."""

    def step(self, action: Any) -> Any:
        observation, reward, _, truncated, info = super().step(action)
        self.state, self.steps_beyond_terminated = np.clip(self.state, -1, 1), None
        return observation, reward, False, truncated, info


class TestUnlimitedEvaluations:
    def test_endless_evaluation_episodes_are_cut_and_counted(self) -> None:
        run = Trainer(
            agents.make("ppo", EnvironmentSpec(Endless), **SMALL_PPO),
            callbacks=[Evaluate(40, n_episodes=3), Evaluate(40, n_episodes=2, max_steps=17)],
        )
        run.train(env_steps=40)
        by_default, given = run.history.evaluations
        assert (by_default.mean_return, by_default.n_episodes, by_default.n_cut) == (1000.0, 3, 3)
        assert (given.mean_return, given.n_episodes, given.n_cut) == (17.0, 2, 2)

    @pytest.mark.parametrize("vectorization", ["native", pytest.param("envpool", marks=WITH_ENVPOOL), "async"])
    def test_max_steps_applies_to_all_vectorizations(self, vectorization: str) -> None:
        agent = agents.make("ppo", EnvironmentSpec("CartPole-v1", {}, vectorization), **SMALL_PPO)
        assert agents.evaluate(agent, n_episodes=3, max_steps=4).tolist() == [4.0, 4.0, 4.0]

    def test_default_limit_is_ten_times_longest_training_episode(self) -> None:
        assert limit_without_one([3, 250, 7]) == 2500
        assert limit_without_one([3, 7]) == limit_without_one([]) == 1000

    def test_environment_with_time_limit_is_not_cut(self) -> None:
        limited = EnvironmentSpec(Endless, max_episode_steps=30)
        run = Trainer(agents.make("ppo", limited, **SMALL_PPO), callbacks=[Evaluate(40, n_episodes=2)])
        run.train(env_steps=40)
        [evaluation] = run.history.evaluations
        assert (evaluation.mean_return, evaluation.n_cut) == (30.0, 0)

    @pytest.mark.parametrize("environment", ["CartPole-v1", "CliffWalking-v1"])
    def test_time_limits_of_gymnasium_environments(self, environment: str) -> None:
        limit = {"CartPole-v1": 500, "CliffWalking-v1": None}[environment]
        assert time_limit(EnvironmentSpec(environment)) == limit
        assert time_limit(EnvironmentSpec(environment, max_episode_steps=9)) == 9

    def test_advice_where_no_episode_ended_names_steps(self) -> None:
        limited = EnvironmentSpec("CartPole-v1")
        assert no_episode_advice(limited, 8, 1_600) == (
            "8 copies of CartPole-v1 made 200 steps each, and an episode may have 500: give --env-steps 4000 "
            "(env_steps=4000), or n_envs=1 (--set n_envs=1)."
        )
        assert no_episode_advice(limited, 8, 400) == (
            "8 copies of CartPole-v1 made 50 steps each, and an episode may have 500: give --env-steps 4000 "
            "(env_steps=4000)."
        )
        assert no_episode_advice(limited, 1, 100) == (
            "CartPole-v1 made 100 steps, and an episode may have 500: give --env-steps 500 (env_steps=500)."
        )
        endless = "a time limit (--max-episode-steps N; in Python EnvironmentSpec(..., max_episode_steps=N))"
        assert no_episode_advice(EnvironmentSpec("CliffWalking-v1"), 8, 4_000) == (
            "8 copies of CliffWalking-v1 made 500 steps each, and episodes are longer: give more, such as --env-steps "
            f"16000 (env_steps=16000), or n_envs=1 (--set n_envs=1). If episodes never end, give {endless}."
        )
        assert no_episode_advice(limited) == ""
        assert no_episode_advice(EnvironmentSpec("CliffWalking-v1")) == f"Give episodes that never end {endless}."

    def test_advice_where_steps_were_chosen_names_the_budget_of_the_search(self) -> None:
        limited, endless = EnvironmentSpec("CartPole-v1"), EnvironmentSpec("CliffWalking-v1")
        limit = "time limit (--max-episode-steps N; in Python EnvironmentSpec(..., max_episode_steps=N))"
        total = ("more steps of the whole search (--total-env-steps)", "fewer trials")
        assert no_episode_advice(limited, 8, 1_600, instead=("more minutes (--minutes)", "fewer trials")) == (
            "8 copies of CartPole-v1 made 200 steps each, and an episode may have 500: give more minutes (--minutes), "
            f"fewer trials, a smaller {limit}, or n_envs=1 (--set n_envs=1)."
        )
        assert no_episode_advice(limited, 1, 100, instead=("more minutes (--minutes)", "fewer trials")) == (
            "CartPole-v1 made 100 steps, and an episode may have 500: give more minutes (--minutes), fewer trials, or "
            f"a smaller {limit}."
        )
        assert no_episode_advice(endless, 1, 4_000, instead=total) == (
            "CliffWalking-v1 made 4,000 steps, and episodes are longer: give more steps of the whole search "
            f"(--total-env-steps), or fewer trials. If episodes never end, give a {limit}."
        )

    @pytest.mark.slow
    def test_stop_interrupts_evaluation_which_resume_repeats(self) -> None:
        """As after Ctrl-C: the resumed run equals the uninterrupted run."""

        class StopsTraining(gym.Wrapper[Any, Any, Any, Any]):
            trainer: Trainer | None = None

            def step(self, action: Any) -> Any:
                if StopsTraining.trainer is not None:
                    StopsTraining.trainer.stop("interrupted")
                return super().step(action)

        def make() -> Trainer:
            elsewhere = EnvironmentSpec("CartPole-v1", wrappers=(StopsTraining,))
            agent = agents.make("ppo", "CartPole-v1", **SMALL_PPO)
            return Trainer(agent, callbacks=[Evaluate(32, n_episodes=2, environment=elsewhere)])

        whole = make()
        whole.train(env_steps=160)
        run = make()
        run.train(env_steps=32)
        StopsTraining.trainer = run
        assert run.train(env_steps=128).reason == "interrupted"
        assert (run.env_steps, len(run.history.evaluations)) == (64, 1)
        StopsTraining.trainer = None
        resumed = make()
        resumed.set_state(run.get_state())
        resumed.callbacks.set_state(run.callbacks.get_state())
        resumed.train(env_steps=96)
        assert resumed.history.evaluations == whole.history.evaluations


class EvaluatedTraining:
    """Training whose evaluations return the given values."""

    def __init__(self, callback: Any, values: list[float]) -> None:
        self.values = iter(values)
        self.rates: list[float] = []
        evaluate = Evaluate(2, function=lambda agent, where: [next(self.values)])
        note = LambdaCallback(on_step_end=lambda t: self.rates.append(t.agent.get_learning_rate()))
        self.trainer = trainer(evaluate, callback, note, learning_rate=1.0)
        self.result = self.trainer.train(env_steps=2 * len(values))


class TestPlateaus:
    def test_learning_rate_falls_after_patience(self) -> None:
        plateau = ReduceOnPlateau(0.5, 2, judged_by="evaluation", min_learning_rate=0.2)
        evaluated = EvaluatedTraining(plateau, [1.0, 2.0, 2.0, 1.0, 2.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0])
        # better, better, 1, 2: down, 1, 2: down, better, 1, 2: down to the minimum, 1, 2: unchanged
        assert evaluated.rates == pytest.approx([1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2])
        assert evaluated.trainer.agent.config.learning_rate == pytest.approx(0.2)

    def test_improvement_must_exceed_min_change(self) -> None:
        evaluated = EvaluatedTraining(
            ReduceOnPlateau(0.5, 2, judged_by="evaluation", min_change=1.0), [1.0, 2.0, 1.9, 3.0]
        )
        assert evaluated.rates == pytest.approx([1, 1, 0.5, 0.5])

    def test_evaluations_before_from_step_are_ignored(self) -> None:
        evaluated = EvaluatedTraining(
            EarlyStopping(1, judged_by="evaluation", from_step=8), [9.0, 0.0, 0.0, 1.0, 2.0, 2.0, 5.0]
        )
        assert evaluated.trainer.env_steps == 12
        assert evaluated.result.reason == "no better than a mean return of 2 for 1 check (judged by evaluation)"

    def test_training_returns_are_averaged_in_disjoint_windows(self) -> None:
        seen: list[float] = []

        class RecordingStopping(EarlyStopping):
            def _check(self, trainer: Trainer, value: float) -> None:
                seen.append(value)

        run = trainer(RecordingStopping(window=3))
        run.train(episodes=8)
        returns = run.history.returns
        assert seen == pytest.approx([np.mean(returns[0:3]), np.mean(returns[3:6])])

    def test_plateau_reduces_learning_rate_of_each_optimizer(self) -> None:
        evaluated = iter([1.0, 0.0])
        run = trainer(
            Evaluate(2, function=lambda agent, where: [next(evaluated)]),
            ReduceOnPlateau(0.1, 1, judged_by="evaluation"),
            agent="td3", optimizers={"critic": {"learning_rate": 0.5}}, learning_rate=0.2,
        )  # fmt: skip
        run.train(env_steps=5)
        rates = {name: run.agent.get_learning_rate(name) for name in run.agent.optimizers}
        assert rates == pytest.approx({"actor": 0.02, "critic": 0.05})

    def test_best_value_and_patience_are_resumed(self, tmp_path: Path) -> None:
        stop = EarlyStopping(3, judged_by="evaluation")
        values = iter([5.0, 1.0, 1.0, 1.0])
        evaluate = Evaluate(2, function=lambda agent, where: [next(values)])
        trainer(Checkpoint(tmp_path), stop, evaluate).train(env_steps=6)
        assert (stop.best, stop.waited) == (5.0, 2)
        again = EarlyStopping(3, judged_by="evaluation")
        rest = trainer(Checkpoint(tmp_path), again, evaluate)
        agents.resume(rest, tmp_path)
        assert (again.best, again.waited) == (5.0, 2)
        assert rest.train(env_steps=100).env_steps == 8

    def test_states_are_named_after_classes_as_in_earlier_versions(self) -> None:
        class OwnStopping(EarlyStopping):
            pass

        assert list(CallbackList([EarlyStopping(), OwnStopping()]).get_state()) == ["EarlyStop", "OwnStopping"]

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: ReduceOnPlateau(1.5), "factor must be between 0 and 1, got 1.5"),
            (lambda: ReduceOnPlateau(min_learning_rate=-1.0), "min_learning_rate must be >= 0"),
            (lambda: EarlyStopping(0), "patience must be >= 1, got 0"),
            (lambda: EarlyStopping("3"), "patience must be >= 1, got '3'"),
            (lambda: EarlyStopping(2.5), "patience must be a whole number >= 1, got 2.5"),
            (lambda: EarlyStopping(3, window="9"), "window must be >= 1, got '9'"),
            (lambda: EarlyStopping(3, min_change="1"), "min_change must be >= 0, got '1'"),
            (lambda: EarlyStopping(window=0), "window must be >= 1"),
            (lambda: EarlyStopping(min_change=-1.0), "min_change must be >= 0"),
        ],
    )
    def test_invalid_arguments_are_refused(self, make: Any, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            make()

    def test_learning_rate_schedule_is_refused(self) -> None:
        schedule = {"class_name": "CosineDecay", "config": {"initial_learning_rate": 0.1, "decay_steps": 100}}
        with pytest.raises(ConfigurationError, match="follows a learning-rate schedule, which ReduceOnPlateau"):
            trainer(ReduceOnPlateau(), learning_rate=schedule).train(env_steps=4)

    def test_judging_by_evaluation_without_evaluations_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="EarlyStopping judges by evaluations, and no callback evaluates"):
            trainer(EarlyStopping(judged_by="evaluation")).train(env_steps=4)


class TestHistory:
    def rows(self, run: Trainer) -> list[tuple[Any, ...]]:
        return [(e.index, e.env_steps, e.episode_return, e.length, e.loss) for e in run.history.episodes]

    def read(self, folder: Path) -> list[tuple[Any, ...]]:
        names = ("episode", "env_steps", "return", "length", "loss")
        return [tuple(row[name] for name in names) for row in agents.read_history(folder).to_pylist()]

    def test_history_contains_every_episode(self, tmp_path: Path) -> None:
        run = trainer(HistoryFile(tmp_path, every_seconds=0.0), Evaluate(50, n_episodes=2))
        run.train(episodes=20)
        assert self.read(tmp_path) == self.rows(run)
        assert len(list((tmp_path / "history.parquet").iterdir())) == 1  # merged at the end
        assert pa.parquet.read_table(tmp_path / "history.parquet").num_rows == 20  # as other programs read it
        evaluations = agents.read_evaluations(tmp_path).to_pylist()
        assert [row["mean_return"] for row in evaluations] == [e.mean_return for e in run.history.evaluations]

    @pytest.mark.slow
    def test_resumed_history_equals_uninterrupted_history(self, tmp_path: Path) -> None:
        def callbacks() -> tuple[Any, ...]:
            return HistoryFile(tmp_path, every_seconds=0.0), Checkpoint(tmp_path / "checkpoints", every=50)

        def kill(run: Trainer) -> None:
            if run.env_steps == 130:
                raise KeyboardInterrupt  # nothing is saved after it

        trainer(*callbacks()).train(env_steps=50)
        after = trainer(*callbacks(), LambdaCallback(on_step_end=kill))
        agents.resume(after, tmp_path)
        with pytest.raises(KeyboardInterrupt):
            after.train(env_steps=200)
        assert len(self.read(tmp_path)) == len(after.history.episodes)
        rest = trainer(*callbacks())
        assert agents.resume(rest, tmp_path).env_steps == 100
        rest.train(env_steps=100)
        assert self.read(tmp_path) == self.rows(rest)
        whole = trainer()
        whole.train(env_steps=200)
        assert self.rows(rest) == self.rows(whole)

    def test_resumed_training_writes_missing_rows(self, tmp_path: Path) -> None:
        trainer(Checkpoint(tmp_path)).train(env_steps=100)
        rest = trainer(HistoryFile(tmp_path))
        agents.resume(rest, tmp_path)
        rest.train(env_steps=20)
        assert self.read(tmp_path) == self.rows(rest)

    def test_history_of_another_training_is_refused(self, tmp_path: Path) -> None:
        trainer(HistoryFile(tmp_path)).train(episodes=2)
        with pytest.raises(ConfigurationError, match="history of another training, of 2 episodes"):
            trainer(HistoryFile(tmp_path)).train(episodes=2)
        trainer(HistoryFile(tmp_path, overwrite=True)).train(episodes=1)
        assert len(self.read(tmp_path)) == 1

    def table(self, folder: Path) -> GrowingTable:
        return GrowingTable(folder / "history.parquet", EPISODES_SCHEMA)

    def row(self, number: int) -> dict[str, Any]:
        return {"episode": number, "env_steps": number, "return": 1.0, "length": 1}

    def test_append_does_not_rewrite_existing_files(self, tmp_path: Path) -> None:
        table = self.table(tmp_path)
        table.append([self.row(0), self.row(1)])
        [first] = (tmp_path / "history.parquet").iterdir()
        before = first.stat().st_mtime_ns
        table.append([self.row(2)])
        assert first.stat().st_mtime_ns == before
        assert table.read()["episode"].to_pylist() == [0, 1, 2]
        for number in range(3, 200):
            table.append([self.row(number)])
        assert len(list((tmp_path / "history.parquet").iterdir())) <= 51
        assert table.read()["episode"].to_pylist() == list(range(200))
        table.cut(150)
        assert table.read()["episode"].to_pylist() == list(range(150))

    def test_row_in_two_files_is_read_once(self, tmp_path: Path) -> None:
        table = self.table(tmp_path)
        table.append([self.row(0)])
        table.append([self.row(1), self.row(2)])
        leftover = tmp_path / "history.parquet" / "000000000001.parquet"
        content = leftover.read_bytes()
        table.merge()
        leftover.write_bytes(content)  # as if the process was killed before the removal
        assert table.read()["episode"].to_pylist() == [0, 1, 2]
        (tmp_path / "history.parquet" / ".half.new").write_bytes(b"PAR1")  # another process killed while writing
        assert table.read()["episode"].to_pylist() == [0, 1, 2]

    def test_missing_and_invalid_histories_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="There is no history of a training in"):
            agents.read_history(tmp_path)
        (tmp_path / "x.parquet").write_bytes(b"nothing")
        with pytest.raises(ConfigurationError, match="cannot be read"):
            agents.read_history(tmp_path / "x.parquet")
        pa.parquet.write_table(pa.table({"a": [1]}), tmp_path / "y.parquet")
        with pytest.raises(ConfigurationError, match="no column 'env_steps'"):
            agents.read_history(tmp_path / "y.parquet")


def events(folder: Path) -> list[Any]:
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            found.append(tf.compat.v1.Event.FromString(record.numpy()))
    return found


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_callbacks_of_an_earlier_training_begin_anew() -> None:
    schedule, stopping = HyperparameterSchedule([(32, {"gamma": 0.5})]), EarlyStopping(1_000)
    for _ in range(2):
        stopping.best, stopping.waited = 100.0, 999  # as an earlier training may have left it
        own = trainer(schedule, stopping)
        assert own.is_new
        assert own.train(env_steps=96).reason == "budget reached"
        assert own.agent.hyperparameters.gamma == 0.5
        assert (schedule.n_applied, stopping.best, stopping.waited, own.is_new) == (1, None, 0, False)


class TestTensorBoard:
    @pytest.mark.slow
    def test_log_contains_all_scalars(self, tmp_path: Path) -> None:
        updates: list[Any] = []
        run = trainer(
            TensorBoard(tmp_path, every=64), Evaluate(100, n_episodes=2),
            LambdaCallback(on_update_end=lambda _, update: updates.append(update)), max_grad_norm=0.01,
        )  # fmt: skip
        run.train(env_steps=192)
        logged = scalars(tmp_path)
        assert set(logged) == {
            "episode/return", "episode/length", "evaluation/mean_return", "evaluation/min_return",
            "evaluation/max_return", "loss/default", "train/policy_loss", "train/value_loss", "train/entropy",
            "train/approx_kl", "train/clip_fraction", "train/value_mean", "gradient_norm/default",
            "clipped_gradient_norm/default", "learning_rate/default",
        }  # fmt: skip
        assert set(logged["loss/default"]) == {64, 128, 192}
        # The update after 64 steps is logged at the next interval: an interval logs the updates before it.
        expected = np.concatenate([update.losses["default"] for update in updates[:1]]).mean()
        assert logged["loss/default"][64] == pytest.approx(expected, rel=1e-5)
        assert logged["learning_rate/default"][128] == pytest.approx(run.agent.get_learning_rate())
        assert max(logged["clipped_gradient_norm/default"].values()) <= 0.01 * 1.0001
        assert min(logged["gradient_norm/default"].values()) > 0.01
        last = run.history.episodes[-1]
        assert logged["episode/return"][last.env_steps] == last.episode_return
        assert logged["evaluation/mean_return"][100] == pytest.approx(run.history.evaluations[0].mean_return)

    def test_events_before_a_checkpoint_are_on_the_disk_with_it(self, tmp_path: Path) -> None:
        written: list[tuple[int, int]] = []

        def look(run: Trainer) -> None:
            if list(tmp_path.glob("*.checkpoint")) and not written:  # after the first checkpoint, in the same step
                written.append(
                    (run.history.episodes[-1].env_steps, max(scalars(tmp_path).get("episode/return", {0: 0})))
                )

        kept = Checkpoint(tmp_path, every="1 episodes")
        looking = LambdaCallback(on_step_end=look)
        looking.last = looking.stores_states = True  # type: ignore[misc]
        trainer(TensorBoard(tmp_path, every=64), kept, looking).train(env_steps=192)
        [(ended, logged)] = written
        assert logged == ended

    def test_norms_are_not_computed_unless_requested(self) -> None:
        seen: list[Any] = []
        note = LambdaCallback(on_update_end=lambda _, update: seen.append(update))
        trainer(note).train(env_steps=64)
        assert not any("norm" in name for update in seen for name in update.metrics)

    @pytest.mark.slow
    def test_norms_of_delayed_optimizer_are_nan_between_its_steps(self, tmp_path: Path) -> None:
        seen: list[Any] = []
        note = LambdaCallback(on_update_end=lambda _, update: seen.append(update))
        trainer(TensorBoard(tmp_path, every=20), note, agent="td3", policy_delay=2).train(env_steps=60)
        norms = [float(value) for update in seen for value in update.metrics["gradient_norm/actor"]]
        assert np.isnan(norms).any()  # the actor steps only every second time
        assert np.isfinite(norms).any()
        assert all(np.isfinite(update.metrics["gradient_norm/critic"]).all() for update in seen)
        assert "gradient_norm/actor" in scalars(tmp_path)

    @pytest.mark.slow
    def test_norms_do_not_change_training(self, tmp_path: Path) -> None:
        alone, watched = trainer(agent="dqn"), trainer(TensorBoard(tmp_path), agent="dqn")
        alone.train(env_steps=200)
        watched.train(env_steps=200)
        assert same(states(alone), states(watched))

    @pytest.mark.parametrize(("limit", "name"), [(None, "gradient_norm"), (0.01, "clipped_gradient_norm")])
    def test_norm_equals_length_of_gradient_descent_step(self, limit: float | None, name: str) -> None:
        weights: list[Any] = []
        updates: list[Any] = []

        def note(run: Trainer, *update: Any) -> None:
            weights.append(np.concatenate([w.ravel() for w in run.agent.networks["q"].get_weights()]).astype(float))
            updates.extend(update)

        run = trainer(
            LambdaCallback(on_update_begin=note, on_update_end=note),
            agent="dqn", optimizer="sgd", learning_rate=1.0, max_grad_norm=limit,
        )  # fmt: skip
        run.agent.record_gradient_norms()
        run.train(env_steps=40)
        moved = np.linalg.norm(weights[1] - weights[0])
        assert moved == pytest.approx(updates[0].metrics[f"{name}/default"][0], rel=1e-4)

    @pytest.mark.slow
    def test_norms_of_replicas_equal_norms_of_whole_minibatch(self) -> None:
        # In a separate process: TensorFlow configures its devices before anything is built.
        done = subprocess.run([sys.executable, "-c", REPLICAS], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        several, one = json.loads(done.stdout)
        assert len(one) >= 2
        assert several == pytest.approx(one, rel=1e-4)

    @pytest.mark.slow
    def test_resumed_log_continues_after_checkpoint(self, tmp_path: Path) -> None:
        trainer(TensorBoard(tmp_path, every=20), Checkpoint(tmp_path)).train(env_steps=50)
        rest = trainer(TensorBoard(tmp_path, every=20), Checkpoint(tmp_path))
        agents.resume(rest, tmp_path)
        rest.train(env_steps=30)
        starts = [event for event in events(tmp_path) if event.HasField("session_log")]
        assert [(event.step, event.session_log.status) for event in starts] == [(51, tf.compat.v1.SessionLog.START)]
        assert set(scalars(tmp_path)["learning_rate/default"]) == {20, 40, 60, 80}


def test_scalars_since_last_interval_are_logged_at_end(tmp_path: Path) -> None:
    trainer(TensorBoard(tmp_path, every=1_000_000)).train(env_steps=100)
    shown = scalars(tmp_path)
    assert {"loss/default", "learning_rate/default", "gradient_norm/default"} <= set(shown)
    assert set(shown["loss/default"]) == {100}


@pytest.mark.usefixtures("usual_signals")
class TestSignals:
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_signal_stops_training_between_steps_and_resume_continues(
        self, tmp_path: Path, number: signal.Signals
    ) -> None:
        numbers: list[int] = []
        before = signal.getsignal(number)

        def kill(run: Trainer, *_: Any) -> None:
            if len(run.history.returns) == 3 and not numbers:
                os.kill(os.getpid(), number)

        signals = StopOnSignals(numbers.append)
        run = trainer(LambdaCallback(on_episode_end=kill), signals, Checkpoint(tmp_path))
        assert run.train(env_steps=300).reason == "interrupted"
        assert (numbers, signals.received, run.env_steps < 300) == ([number], number, True)
        assert signal.getsignal(number) is before
        rest, whole = trainer(), trainer()
        agents.resume(rest, tmp_path)
        rest.train(env_steps=300 - rest.env_steps)
        whole.train(env_steps=300)
        assert same(states(rest), states(whole))

    def test_ignored_signals_stay_ignored(self) -> None:
        """As with nohup, when the terminal is closed."""
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            kill = LambdaCallback(on_rollout_begin=lambda run: os.kill(os.getpid(), signal.SIGHUP))
            assert trainer(kill, StopOnSignals()).train(env_steps=100).reason == "budget reached"
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGHUP, before)

    def test_signals_of_several_kinds_are_one_request_to_stop(self) -> None:
        numbers: list[int] = []

        def kill(_: Trainer) -> None:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)

        signals = StopOnSignals(numbers.append)
        assert trainer(LambdaCallback(on_rollout_begin=kill), signals).train(env_steps=300).reason == "interrupted"
        assert (numbers, signals.received) == ([signal.SIGHUP], signal.SIGHUP)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_signal_that_is_sent_twice_at_once_is_one_request(self, number: signal.Signals) -> None:
        """A closed terminal sends SIGHUP twice: by its shell, and when the shell has ended."""

        def kill(_: Trainer) -> None:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)

        numbers: list[int] = []
        run = trainer(LambdaCallback(on_rollout_begin=kill), StopOnSignals(numbers.append))
        assert run.train(env_steps=300).reason == "interrupted"
        assert numbers == [number]

    def test_second_signal_ends_training_immediately(self) -> None:
        def kill(_: Trainer) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            trainer(LambdaCallback(on_rollout_begin=kill), StopOnSignals()).train(env_steps=300)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_single_agent_callbacks_refuse_population() -> None:
    from agents.population import Population

    spec = agents.AgentSpec.of("ppo", "CartPole-v1", SMALL_PPO)
    members = [{**spec.config.to_dict(), "seed": seed} for seed in (0, 1)]
    with (
        Trainer(Population(spec, members), callbacks=[EarlyStopping()]) as run,
        pytest.raises(ConfigurationError, match="EarlyStopping works with a single agent only"),
    ):
        run.train(env_steps=10)
