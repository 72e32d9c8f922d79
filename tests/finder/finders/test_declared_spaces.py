"""Tests of the notes on search spaces that may be meant as ranges."""

from __future__ import annotations

from typing import Any

import pytest

from agents import AgentSpec
from finder import dry_run, tune
from finder.finders.declared_spaces import notes_on_pairs

PPO = AgentSpec.of("ppo", "CartPole-v1")


@pytest.mark.parametrize(
    ("params", "notes"),
    [
        ({"learning_rate": (1e-4, 1e-1)}, ["learning_rate is tried at two values, 0.0001 and 0.1; a range is written"]),
        ({"learning_rate": [1e-1, 1e-4]}, ["learning_rate is tried at two values, 0.0001 and 0.1; a range is written"]),
        (
            {"one_minus_gamma": (0.01, 0.1)},
            ["one_minus_gamma is tried at two values, 0.01 and 0.1; a range is written"],
        ),
        ({"learning_rate": (1e-4, 1e-3, 1e-1)}, []),
        ({"learning_rate": (1e-4, 1e-4)}, []),
        ({"learning_rate": "1e-4:1e-1"}, []),
        ({"batch_size": (32, 64)}, []),  # its declared values are a list
        ({"normalize_advantage": [True, False]}, []),
        ({"optimizer.momentum": (0.0, 0.9)}, []),
    ],
)
def test_pairs_of_numbers_are_noted_where_a_range_is_declared(params: dict[str, Any], notes: list[str]) -> None:
    assert [note.partition(" '")[0] for note in notes_on_pairs(PPO, params)] == notes


def test_plan_has_the_note_with_the_range() -> None:
    options: Any = {"env_steps": 160, "n_trials": 2, "seeds": 1, "executor": "inline", "storage": None}
    plan = dry_run(tune, "ppo", "CartPole-v1", {"learning_rate": (1e-4, 1e-1)}, **options)
    assert plan.notes[-1].endswith("0.0001 and 0.1; a range is written '0.0001:0.1'")
