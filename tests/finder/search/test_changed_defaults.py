"""Tests of studies recorded with other defaults: added trials use the recorded defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

from agents import AgentSpec
from agents.algorithms.ppo import PPOConfig
from finder import LRFinder
from finder.search.changed_defaults import ChangedDefaults, changed_defaults
from studies import load_study

OLD = {"optimizer": "rmsprop", "gamma": 0.98}


@pytest.fixture
def old_defaults(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give PPO the defaults of an earlier version."""
    usual = PPOConfig.__init__

    def init(self: PPOConfig, **values: Any) -> None:
        usual(self, **{**OLD, **values})

    monkeypatch.setattr(PPOConfig, "__init__", init)
    return monkeypatch


def configs(result: Any) -> list[dict[str, Any]]:
    return [trial.user_attrs["configuration"]["config"] for trial in result.study.all_trials()]


def search(url: str, rates: list[float], **params: Any) -> Any:
    """Run a grid; a second grid that differs in its rates only adds trials to the same study."""
    options: Any = {"storage": url, "study_name": "old", "executor": "inline", "confirm": 0, "pruner": "none"}
    finder = LRFinder("ppo", "CartPole-v1")
    return finder.grid(rates=rates, env_steps=200, seeds=[0], progress=False, fixed={**SMALL_PPO, **params}, **options)


@pytest.mark.slow
def test_added_trials_keep_the_defaults_of_earlier_ones(old_defaults: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/it.db"
    before = search(url, [1e-3])
    assert [own["optimizer"] for own in configs(before)] == ["rmsprop"]
    before.close()
    old_defaults.undo()
    assert PPOConfig().optimizer == "adam"
    after = search(url, [1e-3, 1e-2])
    first, second = configs(after)
    assert (second["optimizer"], second["optimizer_kwargs"], second["gamma"]) == ("rmsprop", {}, 0.98)
    assert {**first, "learning_rate": None} == {**second, "learning_rate": None}
    after.close()


@pytest.mark.slow
def test_given_value_is_not_a_default(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/it.db"
    search(url, [1e-3], gamma=0.9).close()
    after = search(url, [1e-3, 1e-2], gamma=0.9)
    assert [own["gamma"] for own in configs(after)] == [0.9, 0.9]
    assert len({own["optimizer"] for own in configs(after)}) == 1
    after.close()


@pytest.mark.slow
def test_value_that_the_study_sets_for_all_trials_is_not_a_default(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/it.db"
    search(url, [1e-3], gamma=0.9).close()
    with load_study("old", url) as study:
        assert study.spec.fixed["gamma"] == 0.9
        assert changed_defaults(study, {"ppo": AgentSpec.of("ppo", "CartPole-v1")}) == []


def test_note_names_both_values() -> None:
    changed = ChangedDefaults(label="ppo", recorded={"gamma": 0.98}, now={"gamma": 0.99})
    assert changed.note == (
        "ppo keeps the defaults of this study's earlier trials: gamma=0.98 (the default is 0.99 now)"
    )
