"""Specs with several objectives: how they are given, stored, and refused."""

from __future__ import annotations

from typing import Any

import pytest

from studies import StudyError, StudySpec
from studies.spec.compatibility import differences
from studies.spec.objectives import directions_of, greedy_episodes_of
from studies.spec.stored_spec import VERSION_ATTR, stored_attributes


def spec(metric: Any = ("return", "steps-to: 475.0"), **fields: Any) -> StudySpec:
    return StudySpec(
        **{"name": "n", "agents": "ppo", "env": "CartPole-v1", "env_steps": 100, "metric": metric, **fields}
    )


def test_a_list_of_metrics_is_several_objectives() -> None:
    several = spec()
    assert (several.metric, several.metrics) == ("return", ("return", "steps-to:475"))
    assert directions_of(several) == ["maximize", "minimize"]
    assert (several.pruner, several.confirm) == ("none", 0)
    assert StudySpec.from_json_dict(several.to_json_dict()) == several
    assert stored_attributes(several, "memory")[VERSION_ATTR] == 2
    assert differences(several, spec("return", pruner="none", confirm=0))


def test_a_list_of_one_metric_is_that_metric() -> None:
    one = spec(["auc"])
    assert (one.metric, one.metrics, one.pruner, one.confirm) == ("auc", (), "median", 3)
    assert "metrics" not in one.to_json_dict()
    assert directions_of(one) == ["maximize"]


def test_episodes_of_evaluations_are_those_of_the_greedy_objective() -> None:
    assert greedy_episodes_of(spec(["auc", "greedy-return:7"])) == 7
    assert greedy_episodes_of(spec()) == 0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metric": ["return", "auc", "return"]}, r"'return' was given more than once \(return, auc, return\)"),
        ({"metric": ["steps-to:9", "steps-to:9.0"]}, "'steps-to:9' was given more than once"),
        ({"metric": ["greedy-return", "greedy-return:20"]}, "one objective with different episodes"),
        ({"metric": ["return", "auc", "loss", "success-rate"]}, "4 metrics were given .*at most 3"),
        ({"metric": ["return", "retrun"]}, "there is no metric 'retrun'"),
        ({"metric": []}, "there is no metric ''"),
        ({"pruner": "median"}, "scheduler is 'median' with several metrics .*use the scheduler 'none'"),
        ({"confirm": 3}, "confirm is 3 with several metrics .*leave it out"),
        ({"sampler": "cmaes"}, "sampler is 'cmaes' with several metrics .*use one of tpe, nsgaii"),
        ({"kind": "lr"}, "finder lr picks by one: give one metric"),
        ({"kind": "opt"}, "finder opt picks by one: give one metric"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        spec(**fields)
