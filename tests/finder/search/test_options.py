"""What all finders can be told, and what they answer to what they cannot be told."""

from __future__ import annotations

import inspect

import pytest

from agents import ConfigurationError
from finder import AgentFinder, LRFinder, OptFinder, tune
from finder.search.options import _OWN_ARGUMENTS


@pytest.mark.parametrize("option", ["env_step", "n_rate", "metri"])
def test_an_unknown_option_names_what_the_finder_itself_takes(option: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        LRFinder("ppo", "CartPole-v1").grid(**{option: 5})  # type: ignore[arg-type]
    near = {"env_step": "env_steps", "n_rate": "n_rates", "metri": "metric"}[option]
    assert f"Unknown option {option!r}. Did you mean {near}" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "finder"),
    [("lr", LRFinder.grid), ("opt", OptFinder.find), ("agents", AgentFinder.find), ("tune", tune)],
)
def test_every_argument_of_a_finder_is_known(kind: str, finder: object) -> None:
    shared = {"self", "agent", "environment", "options", "env_steps", "episodes", "metric"}
    assert set(inspect.signature(finder).parameters) - shared == set(_OWN_ARGUMENTS[kind])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "  "])
def test_a_name_is_not_empty(name: str) -> None:
    with pytest.raises(ConfigurationError, match="study_name is '"):
        LRFinder("ppo", "CartPole-v1").grid(study_name=name)
