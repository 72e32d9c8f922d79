"""Tests of the picks of training functions that were given in Python, and of what cannot be one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trainings

import finder
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, TrainingRun
from finder import tune
from studies.errors import StudyError

CARTPOLE = EnvironmentSpec("CartPole-v1")
QUICK: dict[str, Any] = {"executor": "inline", "storage": None, "confirm": 0, "pruner": "none"}


def test_names_in_keyword_arguments_are_no_hyperparameters() -> None:
    def keywords(run: TrainingRun, **kwargs: Any) -> None: ...

    message = r"Unknown hyperparameter 'x' of keywords\. There is none\. Those in \*\*kwargs are none: name them"
    with pytest.raises(ConfigurationError, match=message):
        tune(keywords, "CartPole-v1", {"x": "1:2"}, **QUICK)
    with pytest.raises(ConfigurationError, match=message):
        AgentSpec.of(keywords, CARTPOLE, {"x": 1})


def test_callable_object_is_refused_with_the_form_of_a_function() -> None:
    class Callable:
        def __call__(self, run: TrainingRun) -> None: ...

    with pytest.raises(ConfigurationError, match=r"or a training function, def train\(run, \.\.\.\)"):
        AgentSpec.of(Callable(), CARTPOLE)


@pytest.mark.parametrize("recorded", [True, False])
def test_pick_cannot_be_made_by_the_name_of_the_function(recorded: bool) -> None:
    result = tune(trainings.steady, "CartPole-v1", {"gain": [1.0]}, env_steps=100, n_trials=1, seeds=1, **QUICK)
    assert result.best.configuration["built_in"] is False
    configuration = {name: own for name, own in result.best.configuration.items() if recorded or name != "built_in"}
    pick = replace(result.best, configuration=configuration)
    assert not pick.is_agent_named
    with pytest.raises(ConfigurationError, match=r"'steady' .* in a script: .* A training function is called"):
        finder.recommended_agent(result.study, pick)
    with pytest.raises(StudyError, match=r"the training function steady, .* its parameters are in best\.config"):
        result.best_optimizer()
