"""Tests of the first and the last event of a training, in spite of errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import agents
from agents import Callback, Checkpoint, ConfigurationError, HistoryFile, LambdaCallback, Trainer
from agents.callbacks.loggers.scalar_log import ScalarLog


def trainer(*callbacks: Any, seed: int = 0) -> Trainer:
    return Trainer(agents.make("ppo", "CartPole-v1", seed=seed, **SMALL_PPO), callbacks=callbacks)


class Log(ScalarLog):
    """Notes how a training ended."""

    def __init__(self) -> None:
        super().__init__(gradient_norms=False)
        self.notes: list[str] = []

    def open(self, trainer: Trainer) -> None:
        self.notes.append("open")

    def write(self, *_: Any) -> None:
        pass

    def close(self, trainer: Trainer) -> None:
        self.notes.append(self.ending(trainer))


class Refuse(Callback):
    """Refuses a training after all loggers have begun."""

    last = stores_states = True

    def on_train_begin(self, trainer: Trainer) -> None:
        raise ConfigurationError("no such folder")

    def on_train_end(self, trainer: Trainer) -> None:
        raise AssertionError("it has not begun")


def test_callbacks_that_have_begun_are_ended_if_another_refuses() -> None:
    log = Log()

    def fail(_: Any) -> None:
        raise KeyError("of the end")

    with pytest.raises(ConfigurationError, match="no such folder") as raised:
        trainer(log, LambdaCallback(on_train_end=fail), Refuse()).train(env_steps=32)
    assert log.notes == ["open", "failed"]
    assert "After that, on_train_end raised KeyError: 'of the end'" in raised.value.__notes__


def test_training_within_the_handling_of_another_error_is_finished() -> None:
    log = Log()
    try:
        raise ValueError("before the training")
    except ValueError:
        trainer(log).train(env_steps=32)
    assert log.notes == ["open", "finished"]


def test_history_of_another_resumed_training_is_refused(tmp_path: Path) -> None:
    trainer(HistoryFile(tmp_path)).train(episodes=5)
    before = agents.read_history(tmp_path)
    trainer(Checkpoint(tmp_path / "other"), seed=1).train(episodes=3)
    rest = trainer(HistoryFile(tmp_path), seed=1)
    agents.resume(rest, tmp_path / "other")
    with pytest.raises(ConfigurationError, match="history of another training, of 5 episodes and 0 evaluations"):
        rest.train(episodes=1)
    assert agents.read_history(tmp_path) == before
    rest = trainer(HistoryFile(tmp_path, overwrite=True), seed=1)
    agents.resume(rest, tmp_path / "other")
    rest.train(episodes=1)
    assert agents.read_history(tmp_path)["return"].to_pylist() == rest.history.returns


def test_histories_with_equal_returns_are_told_apart(tmp_path: Path) -> None:
    def run(folder: Path, seed: int) -> Trainer:
        where = agents.EnvironmentSpec("CartPole-v1", max_episode_steps=4)  # every episode has 4 steps
        agent = agents.make("ppo", where, seed=seed, **SMALL_PPO)
        return Trainer(agent, callbacks=[HistoryFile(folder), Checkpoint(tmp_path / f"kept-{seed}")])

    run(tmp_path / "first", 0).train(episodes=9)
    run(tmp_path / "second", 1).train(episodes=6)
    rest = run(tmp_path / "first", 1)
    agents.resume(rest, tmp_path / "kept-1")
    with pytest.raises(ConfigurationError, match="history of another training, of 9 episodes"):
        rest.train(episodes=1)


def test_checkpoints_of_a_second_training_are_written(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "kept")
    trainer(checkpoint).train(env_steps=32)
    shutil.rmtree(tmp_path / "kept")
    trainer(checkpoint, seed=1).train(env_steps=32)
    assert checkpoint.newest is not None
    assert checkpoint.newest.exists()


def test_history_of_evaluations_alone_is_not_overwritten(tmp_path: Path) -> None:
    watching = agents.Evaluate(2, function=lambda agent, where: [1.0])
    trainer(watching, HistoryFile(tmp_path)).train(env_steps=4)
    with pytest.raises(ConfigurationError, match="of 0 episodes and 2 evaluations"):
        trainer(HistoryFile(tmp_path)).train(env_steps=4)
