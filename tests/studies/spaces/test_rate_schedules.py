"""Tests of learning-rate schedules as data: their ends, and the same schedules for longer runs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from agents.config.work import gradient_steps_in
from agents.contract.registry import ALGORITHMS, agent_class
from studies.spaces.rate_schedules import (
    end_of,
    end_text,
    factor_of,
    schedules_in,
    stretch_text,
    stretched,
    stretched_config,
)

schedules = keras.optimizers.schedules
SCHEDULES = [
    schedules.CosineDecay(1e-3, 200, alpha=0.1),
    schedules.CosineDecay(1e-4, 200, warmup_target=1e-3, warmup_steps=50),
    schedules.CosineDecayRestarts(1e-3, 40, t_mul=1.5, m_mul=0.9),
    schedules.ExponentialDecay(1e-3, 100, 0.9),
    schedules.InverseTimeDecay(1e-3, 100, 0.5),
    schedules.PiecewiseConstantDecay([50, 100], [1e-3, 1e-4, 1e-5]),
    schedules.PolynomialDecay(1e-3, 200, power=2.0),
    schedules.PolynomialDecay(1e-3, 70, cycle=True),
]


def serialised(schedule: Any) -> dict[str, Any]:
    return dict(keras.optimizers.schedules.serialize(schedule))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
def test_stretched_schedule_has_the_same_rate_at_the_same_part_of_a_run(schedule: Any) -> None:
    longer = schedules.deserialize(stretched(serialised(schedule), 5.0))
    for step in (0, 10, 49, 60, 99, 150, 199, 300):
        np.testing.assert_allclose(float(longer(5 * step)), float(schedule(step)), rtol=1e-4)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda each: type(each).__name__)
def test_rate_is_constant_from_the_end_of_a_schedule_on(schedule: Any) -> None:
    end = end_of(serialised(schedule))
    ends = isinstance(schedule, schedules.CosineDecay) or getattr(schedule, "cycle", None) is False
    assert (end is not None) == ends
    if end is not None:
        assert float(schedule(end.gradient_steps)) == pytest.approx(end.learning_rate, rel=1e-4)
        assert float(schedule(10 * end.gradient_steps)) == pytest.approx(end.learning_rate, rel=1e-4)
        assert float(schedule(end.gradient_steps - 5)) > end.learning_rate


def test_steps_stay_whole_and_positive() -> None:
    cosine = stretched(serialised(schedules.CosineDecay(1e-3, 3)), 0.1)["config"]
    assert (cosine["decay_steps"], cosine["warmup_steps"]) == (1, 0)
    assert stretched(serialised(schedules.CosineDecay(1e-3, 10)), 1.26)["config"]["decay_steps"] == 13


def test_schedules_of_a_users_class_are_left_alone() -> None:
    own = {"module": "mine", "class_name": "CosineDecay", "config": {"decay_steps": 10}}
    assert stretched(own, 5.0) == own
    assert end_of(own) is None
    assert stretch_text({"learning_rate": own}, 100, 500) == (
        "The schedule CosineDecay keeps its gradient steps, since it is none of Keras's."
    )


def test_schedules_of_single_optimizers_are_stretched() -> None:
    cosine = serialised(schedules.CosineDecay(1e-3, 200))
    config = {
        "learning_rate": 1e-3,
        "optimizers": {"actor": {"optimizer": "sgd", "learning_rate": cosine}, "critic": {"learning_rate": 0.1}},
    }
    assert schedules_in(config) == {"actor": cosine}
    longer = stretched_config(config, 2.0)
    assert longer["optimizers"]["actor"]["learning_rate"]["config"]["decay_steps"] == 400
    assert longer["optimizers"]["critic"] == {"learning_rate": 0.1}
    assert cosine["config"]["decay_steps"] == 200
    assert stretch_text(config, 100, 200) == (
        "The schedule CosineDecay of actor is stretched from 100 to 200 environment steps: "
        "decay_steps 200 → 400 gradient steps."
    )


def test_text_of_an_early_end() -> None:
    cosine = serialised(schedules.CosineDecay(1e-3, 200))
    assert end_text(cosine, 4567.0) == (
        "CosineDecay ends after 200 of about 4,600 gradient steps: the learning rate is 0 from then on"
    )
    assert end_text(cosine, None) == ("CosineDecay ends after 200 gradient steps: the learning rate is 0 from then on")
    assert end_text(cosine, 210.0) == ""
    polynomial = serialised(schedules.PolynomialDecay(1e-3, 200))
    assert end_text(polynomial, 1000.0).endswith("the learning rate is 1e-4 from then on")


def test_budgets_in_episodes_have_no_ratio() -> None:
    assert factor_of({}, None, 100) == factor_of({}, 100, None) == 1.0
    cosine = {"learning_rate": serialised(schedules.CosineDecay(1e-3, 200))}
    assert "keeps its gradient steps" in stretch_text(cosine, None, 100)
    assert stretch_text(cosine, 100, 100) == ""


@pytest.mark.parametrize(
    ("config", "factor"),
    [
        ({"gradient_steps": 1, "learning_starts": 1000, "n_envs": 1}, 199.8),
        ({"gradient_steps": 2, "learning_starts": 0}, 1_000_000 / 6000),
        ({"gradient_steps": 1, "learning_starts": 6000}, 1_000_000 / 6000),  # the runs of the study make none
        ({"n_steps": 128, "n_envs": 8}, 976 / 5),  # complete rollouts
        ({"n_steps": 10_000}, 1_000_000 / 6000),
        ({"n_steps": 128, "n_envs": 8, "replay_ratio": 4.0}, 1_000_000 / 6000),
        ({}, 1_000_000 / 6000),
    ],
)
def test_factor_is_the_ratio_of_gradient_steps(config: dict[str, Any], factor: float) -> None:
    assert factor_of(config, 6000, 1_000_000) == pytest.approx(factor)


@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"acer"}))
def test_factor_is_that_of_the_estimated_gradient_steps_of_an_agent(name: str) -> None:
    config = agent_class(name).config_class()
    of_study, of_long_run = gradient_steps_in(config, 6000), gradient_steps_in(config, 1_000_000)
    assert of_study
    assert of_long_run
    assert factor_of(config.to_dict(), 6000, 1_000_000) == pytest.approx(of_long_run / of_study)


def test_schedule_of_a_whole_study_run_covers_the_whole_long_run() -> None:
    config = {"gradient_steps": 1, "learning_starts": 1000, "learning_rate": serialised(SCHEDULES[0])}
    config["learning_rate"]["config"]["decay_steps"] = 5000
    longer = stretched_config(config, factor_of(config, 6000, 1_000_000))
    assert longer["learning_rate"]["config"]["decay_steps"] == 999_000
    assert "decay_steps 5,000 → 999,000 gradient steps." in stretch_text(config, 6000, 1_000_000)
