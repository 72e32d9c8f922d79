"""Tests of the environment limits recorded by a trial."""

from __future__ import annotations

from typing import Any

import pytest

from agents.environments import EnvironmentSpec
from finder.trials.trial import limits_of


@pytest.mark.parametrize(
    ("name", "kwargs", "limits"),
    [
        ("CartPole-v1", {}, (500, 475.0)),
        ("CartPole-v1", {"max_episode_steps": 50}, (50, 475.0)),
        ("CliffWalking-v1", {}, (None, None)),
    ],
)
def test_trials_record_declared_limits(name: str, kwargs: dict[str, Any], limits: tuple[Any, Any]) -> None:
    expected = dict(zip(("max_episode_steps", "reward_threshold"), limits, strict=True))
    assert limits_of(EnvironmentSpec(name, kwargs)) == expected
    shorter = EnvironmentSpec("CartPole-v1", max_episode_steps=20, wrappers=["NormalizeReward"])
    assert limits_of(shorter) == {"max_episode_steps": 20, "reward_threshold": None}
    assert limits_of(EnvironmentSpec(lambda: None)) == {"max_episode_steps": None, "reward_threshold": None}  # type: ignore[arg-type, return-value]
