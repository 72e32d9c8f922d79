"""Tests of what a stored study has spent."""

from __future__ import annotations

from typing import Any

import pytest
from optuna.trial import TrialState, create_trial

from finder.budgets.earlier import counted_steps
from studies.spec.spec import StudySpec

SEEDS = {"configuration": {"seeds": [0, 1, 2]}}


@pytest.mark.parametrize(
    ("attributes", "steps"),
    [
        ({**SEEDS, "env_steps": 600}, 1_800),  # it diverged, so that its seeds have no values
        ({**SEEDS, "env_steps": 1_023, "seed_values": {"0": 1.0, "1": 1.0, "2": 1.0}}, 3_000),
        ({**SEEDS, "env_steps": 1_023, "confirms": 1}, 3_069),
        ({**SEEDS, "env_steps": 4_095, "confirms": 1}, 12_000),
        ({**SEEDS, "env_steps": 8_191, "confirms": 1, "confirm_env_steps": 8_000}, 24_000),  # of another budget
        ({"env_steps": 600}, 600),
        ({}, 0),
    ],
)
def test_steps_of_a_trial_are_those_within_its_budget(attributes: dict[str, Any], steps: int) -> None:
    spec = StudySpec(name="s", agents="ppo", env="CartPole-v1", env_steps=1_000, confirm_env_steps=4_000)
    trial = create_trial(state=TrialState.FAIL, user_attrs=attributes)
    assert counted_steps(spec, trial) == steps
