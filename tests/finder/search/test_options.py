"""Tests of the options shared by all finders, and of the messages about unknown ones."""

from __future__ import annotations

import inspect

import pytest

from agents import ConfigurationError
from finder import AgentFinder, LRFinder, OptFinder, tune
from finder.search.options import _OWN_ARGUMENTS


@pytest.mark.parametrize("option", ["env_step", "n_rate", "metri"])
def test_error_for_an_unknown_option_suggests_the_nearest(option: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        LRFinder("ppo", "CartPole-v1").grid(**{option: 5})  # type: ignore[arg-type]
    near = {"env_step": "env_steps", "n_rate": "n_rates", "metri": "metric"}[option]
    assert f"Unknown option {option!r}. Did you mean {near}" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "finder"),
    [("lr", LRFinder.grid), ("opt", OptFinder.find), ("agents", AgentFinder.find), ("tune", tune)],
)
def test_every_argument_of_a_finder_is_listed(kind: str, finder: object) -> None:
    shared = {"self", "agent", "environment", "options", "env_steps", "episodes", "metric"}
    assert set(inspect.signature(finder).parameters) - shared == set(_OWN_ARGUMENTS[kind])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "  "])
def test_empty_study_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="study_name is '"):
        LRFinder("ppo", "CartPole-v1").grid(study_name=name)
