"""Tests of the best checkpoint of a training that is judged by evaluations, and of folders with unusable files."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO

import agents
from agents import Checkpoint, ConfigurationError, Evaluate, Trainer
from agents.callbacks import evaluate
from agents.state_files import header, state_file
from agents.state_files.header import find, list_checkpoints

RETURNS = {100: 500.0, 200: 50.0, 300: 60.0}
"""Environment steps -> return of the agent at that time."""


def judged(folder: Path, **options: Any) -> Trainer:
    """Return a training with an evaluation every 100 environment steps, and checkpoints of the best agent."""
    watching = [Evaluate(100, n_episodes=2), Checkpoint(folder, judged_by="evaluation", **options)]
    return Trainer(agents.make("dqn", "CartPole-v1", **SMALL_DQN), callbacks=watching)


class Play:
    """Replaces the episodes of evaluations: the first is ended by a stop of the training."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.is_stopped = False

    def __call__(self, *_: Any, abandoned: Callable[[], bool], **__: Any) -> Any:
        if self.is_stopped:
            return np.full(2, RETURNS[self.trainer.env_steps]), 0
        self.is_stopped = True
        self.trainer.stop("interrupted")
        assert abandoned()
        return None


def test_values_of_another_measure_are_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agents.make("dqn", "CartPole-v1", **SMALL_DQN)
    first = Checkpoint(tmp_path, window=1)
    Trainer(agent, callbacks=[first]).train(env_steps=150)
    [by_training] = list_checkpoints(tmp_path).values()
    assert by_training.value is not None
    assert by_training.value > 0
    returns = {200: -9.0, 300: -10.0}
    monkeypatch.setattr(evaluate, "play_episodes", lambda *_, **__: (np.full(2, returns[rest.env_steps]), 0))
    rest = judged(tmp_path, best_only=True, keep=1)
    agents.resume(rest, tmp_path)
    rest.train(env_steps=150)
    assert list_checkpoints(tmp_path)[find(tmp_path, best=True)].value == -9.0  # worse than that by training returns


@pytest.mark.parametrize("every", [10**6, 100])
def test_best_agent_of_an_interrupted_evaluation_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    first = judged(tmp_path, every=every, keep=1)
    play = Play(first)
    monkeypatch.setattr(evaluate, "play_episodes", play)
    assert first.train(env_steps=350).reason == "interrupted"
    assert [(each.env_steps, each.value) for each in list_checkpoints(tmp_path).values()] == [(100, None)]
    play.trainer = rest = judged(tmp_path, every=every, keep=1)
    agents.resume(rest, tmp_path)
    rest.train(env_steps=250)
    assert [(each.env_steps, each.is_best) for each in rest.history.evaluations] == [
        (100, True),
        (200, False),
        (300, False),
    ]
    best = list_checkpoints(tmp_path)[find(tmp_path, best=True)]
    assert (best.env_steps, best.value) == (100, 500.0)
    again = judged(tmp_path / "again", every=every)
    agents.resume(again, find(tmp_path, best=True))  # its evaluation is not made a second time
    assert [each.env_steps for each in again.history.evaluations] == [100]


def test_evaluations_of_several_callbacks_are_not_compared(tmp_path: Path) -> None:
    easy = Evaluate(50, function=lambda agent, where: [500.0])
    values = iter([[1.0], [2.0], [1.5]])
    hard = Evaluate(50, function=lambda agent, where: next(values))
    agent = agents.make("ppo", "CartPole-v1", **SMALL_PPO)
    both = Trainer(agent, callbacks=[easy, hard])
    both.train(env_steps=150)
    assert [each.is_best for each in both.history.evaluations] == [True, True, False, True, False, False]
    with pytest.raises(ConfigurationError, match="judges by evaluations, and 2 callbacks evaluate"):
        Trainer(agent, callbacks=[easy, hard, Checkpoint(tmp_path, judged_by="evaluation")]).train(env_steps=8)


def test_best_evaluation_is_resumed_and_forgotten_by_new_trainings(tmp_path: Path) -> None:
    def training(*values: float) -> tuple[Evaluate, Trainer]:
        given = iter(values)
        watching = Evaluate(50, function=lambda agent, where: [next(given)])
        agent = agents.make("ppo", "CartPole-v1", **SMALL_PPO)
        return watching, Trainer(agent, callbacks=[watching, Checkpoint(tmp_path)])

    training(3.0)[1].train(env_steps=50)
    watching, rest = training(2.0, 4.0, 1.0)
    agents.resume(rest, tmp_path)
    rest.train(env_steps=100)
    assert [each.is_best for each in rest.history.evaluations] == [True, False, True]
    new = Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO), callbacks=[watching])
    new.train(env_steps=50)
    assert new.history.evaluations[0].is_best


class TestFolders:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        agent = agents.make("ppo", "CartPole-v1", **SMALL_PPO)
        Trainer(agent, callbacks=[Checkpoint(tmp_path, every=32)]).train(env_steps=96)
        return tmp_path

    def test_file_with_an_incomplete_header_is_skipped(self, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
        newest = find(folder)
        with zipfile.ZipFile(newest) as whole:
            parts = {name: whole.read(name) for name in whole.namelist()}
        about = json.loads(parts["about.json"])
        del about["seed"]
        parts["about.json"] = json.dumps(about).encode()
        with zipfile.ZipFile(folder / "000000000999.checkpoint", "w") as damaged:
            for name, content in parts.items():
                damaged.writestr(name, content)
        header._warn_damaged.cache_clear()
        assert find(folder) == newest
        assert "000000000999.checkpoint is damaged" in caplog.text
        for path in list_checkpoints(folder):
            path.unlink()
        with pytest.raises(ConfigurationError, match=r"no checkpoint in it is whole; .* 000000000999\.checkpoint"):
            find(folder)

    def test_file_that_is_removed_meanwhile_is_skipped(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        oldest, *others = list_checkpoints(folder)
        read = state_file.read_header

        def remove_and_read(path: Path) -> Any:
            oldest.unlink(missing_ok=True)
            return read(path)

        monkeypatch.setattr(state_file, "read_header", remove_and_read)
        assert list(list_checkpoints(folder)) == others

    def test_checkpoint_of_other_numpy_arguments_is_refused(self, tmp_path: Path) -> None:
        def training(reward: float) -> Trainer:
            where = agents.EnvironmentSpec("CartPole-v1", kwargs={"sutton_barto_reward": np.bool_(reward)})
            return Trainer(agents.make("ppo", where, **SMALL_PPO), callbacks=[Checkpoint(tmp_path)])

        training(True).train(env_steps=32)
        assert agents.resume(training(True), tmp_path).env_kwargs == {"sutton_barto_reward": True}
        with pytest.raises(ConfigurationError, match=r"another environment's arguments: it has .*True.*False"):
            agents.resume(training(False), tmp_path)
