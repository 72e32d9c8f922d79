"""Tests of the notes on learning-rate schedules that end early in the runs of a search."""

from __future__ import annotations

from typing import Any

import pytest

from agents.contract.spec import AgentSpec
from finder import OptFinder, dry_run
from finder.budgets.plan_numbers import notes_on_schedules
from finder.search.object_resolver import ObjectResolver
from studies.spec.spec import StudySpec

EARLY = "adam(CosineDecay(0.001, 5))"
LATE = "adam(CosineDecay(0.001, 100000))"
SMALL = {"n_steps": 32, "n_envs": 1, "n_epochs": 1, "batch_size": 32}
ENDS = "CosineDecay ends after 5 of about 31 gradient steps: the learning rate is 0 from then on"


def notes(**fields: Any) -> list[str]:
    given: dict[str, Any] = {
        "name": "s", "kind": "tune", "agents": ["ppo"], "env": "CartPole-v1", "env_steps": 1_000,
        "pruner": "none", "fixed": SMALL,
    }  # fmt: skip
    spec = StudySpec(**{**given, **fields})
    return notes_on_schedules(spec, ObjectResolver.of(spec).agent)


def choice(*values: Any, **when: Any) -> dict[str, Any]:
    return {"type": "choice", "values": values, **({"when": when} if when else {})}


def rate(**when: Any) -> dict[str, Any]:
    return {"type": "float", "low": 1e-4, "high": 1e-2, "log": True, **({"when": when} if when else {})}


def test_schedule_of_all_trials_is_named() -> None:
    fixed = {**SMALL, "optimizer": EARLY}
    assert notes(params={"gamma": choice(0.9, 0.99)}, fixed=fixed) == [f"ppo: {ENDS}"]
    assert notes(params={"gamma": choice(0.9, 0.99)}, fixed={**SMALL, "optimizer": LATE}) == []


def test_schedule_that_the_searched_rates_replace_is_not_named() -> None:
    fixed = {**SMALL, "optimizer": EARLY}
    assert notes(params={"learning_rate": rate()}, fixed=fixed) == []
    assert notes(kind="lr", trials=[{"learning_rate": 1e-3}], fixed=fixed) == []
    assert notes(params={"learning_rate": choice(1e-3, 1e-4)}, sampler="grid", fixed=fixed) == []


def test_searched_optimizers_with_a_schedule_are_named() -> None:
    assert notes(params={"optimizer": choice(EARLY, LATE, "sgd")}) == [f"{EARLY}: {ENDS}"]
    assert notes(params={"optimizer": choice(EARLY, "sgd")}, sampler="grid") == [f"{EARLY}: {ENDS}"]
    rows = [{"optimizer": EARLY}, {"optimizer": "sgd", "learning_rate": 0.1}]
    assert notes(kind="opt", trials=rows) == [f"{EARLY}: {ENDS}"]


def test_rates_with_a_condition_replace_the_schedules_of_their_optimizers_alone() -> None:
    optimizers = choice(EARLY, "sgd")
    assert notes(params={"optimizer": optimizers, "learning_rate": rate(optimizer=["sgd"])}) == [f"{EARLY}: {ENDS}"]
    assert notes(params={"optimizer": optimizers, "learning_rate": rate(optimizer=[EARLY])}) == []


def test_each_agent_is_named_with_its_own_gradient_steps() -> None:
    fixed = {"n_envs": 1, "n_steps": 100}
    found = notes(agents=["a2c", "ppo"], params={"optimizer": choice(EARLY, "sgd")}, fixed=fixed)
    assert [note.partition(" of about")[0] for note in found] == [
        f"a2c: {EARLY}: CosineDecay ends after 5",
        f"ppo: {EARLY}: CosineDecay ends after 5",
    ]


@pytest.mark.slow
def test_rates_of_compared_optimizers_replace_the_schedule_of_the_agent() -> None:
    agent = AgentSpec.of("ppo", "CartPole-v1", {**SMALL, "hidden_sizes": [8], "optimizer": EARLY})
    plan = dry_run(
        OptFinder(agent, ["adam", "sgd"]).find, learning_rates=[1e-3], env_steps=1_000, seeds=1, confirm=0,
        storage=None, executor="inline", pruner="none", progress=False,
    )  # fmt: skip
    assert [note for note in plan.notes if "ends after" in note] == []
