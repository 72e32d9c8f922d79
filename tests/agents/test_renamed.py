"""Former names of methods, attributes and arguments work for one version."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import SMALL_PPO

import agents
from agents import Agent, Trainer, TrainingRun
from agents.callbacks import HistoryFile
from agents.config.hyperparameters import Config
from agents.contract.keras_agent import KerasAgent


@pytest.mark.parametrize(
    ("cls", "old", "new"),
    [
        (Agent, "speak_to", "set_environment"),
        (Agent, "explored", "sample_actions"),
        (Agent, "refused_actions", "unsupported_actions"),
        (KerasAgent, "tell_gradient_norms", "record_gradient_norms"),
        (Trainer, "also_telling", "with_listeners"),
        (Trainer, "forget_stops", "clear_stops"),
        (Config, "set_otherwise", "non_default_values"),
        (Config, "that_count", "effective_hyperparameters"),
    ],
)
def test_methods(cls: type, old: str, new: str) -> None:
    assert getattr(cls, old) is getattr(cls, new)


def test_an_override_of_a_former_name_is_called() -> None:
    with pytest.warns(DeprecationWarning, match="explored is deprecated: name it sample_actions"):

        class Mine(agents.PPO):
            def explored(self, observations):
                return observations

    assert Mine.sample_actions is Mine.explored


def test_arguments(tmp_path: Path) -> None:
    reported: list[float] = []
    with pytest.warns(DeprecationWarning, match="told"):
        run = TrainingRun("CartPole-v1", episodes=1, told=lambda episode: reported.append(episode.episode_return))
    with run:
        run.report(3.0, 1)
    assert reported == [3.0]
    with pytest.warns(DeprecationWarning, match="anew"):
        assert HistoryFile(tmp_path, anew=True).overwrite


def test_an_attribute() -> None:
    with (
        Trainer(agents.make("ppo", "CartPole-v1", **SMALL_PPO)) as trainer,
        pytest.warns(DeprecationWarning, match=r"Trainer\.went_on"),
    ):
        assert not trainer.went_on
