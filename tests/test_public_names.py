"""Public names of the packages, and the reprs of their objects."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fakes import SMALL_PPO

import agents
import finder
import studies
from agents.contract.agent import UpdateMetrics
from agents.short_repr import short
from finder import LRFinder, OptFinder, ParallelFinder
from finder.long_run.histories import HistoriesData, RunHistory
from finder.range_test.range_test import RangeTestResult, Sweep
from finder.range_test.suggestion import Suggestion
from studies import StudySpec, open_storage, open_study

ENV = "fakes:TwoStep-v0"


@pytest.mark.parametrize("package", [agents, finder, studies])
def test_dir_lists_exactly_the_public_names(package):
    assert dir(package) == sorted(package.__all__)
    assert [name for name in dir(package) if not hasattr(package, name)] == []
    assert dir(package) == sorted(package.__all__)  # also after all names were imported


def test_repr_of_a_training_result_is_one_line():
    with agents.Trainer(agents.make("ppo", ENV, **SMALL_PPO)) as trainer:
        result = trainer.train(env_steps=2_000)
    assert len(result.history.episodes) == 400
    text = repr(result)
    assert "\n" not in text
    assert len(text) < 250
    assert "History(400 episodes, mean return " in text


def test_repr_of_an_empty_history_has_no_mean():
    assert repr(agents.History()) == "History(0 episodes)"


def test_repr_of_records_shows_shapes_of_arrays():
    rows = np.zeros((100, 4), np.float32)
    trajectory = agents.Trajectory(
        observations=rows, actions=np.zeros(100, int), rewards=rows[:, 0], next_observations=rows,
        terminated=rows[:, 0] > 0, truncated=rows[:, 0] > 0, infos=[{}] * 100, environment=0, member=0, begins=True,
        ends=False,
    )  # fmt: skip
    assert "observations=float32[100, 4]" in repr(trajectory)
    assert "infos=list of 100" in repr(trajectory)
    assert len(repr(trajectory)) < 400
    metrics = UpdateMetrics({"default": rows[:, 0]}, {"entropy": rows[:, 0]})
    assert repr(metrics).startswith("UpdateMetrics(losses={'default': float32[100]}, metrics={'entropy': float32[100]}")


def test_short_abbreviates_long_values():
    assert short((64, 64)) == "(64, 64)"
    assert short("x" * 1000) == "'" + "x" * 55 + "...'"
    assert short(list(range(1000))) == "list of 1,000"
    assert short({"a": np.zeros(3)}) == "{'a': float64[3]}"
    assert short({str(n): n for n in range(100)}) == "dict of 100"


def test_repr_of_an_agent_spec_shows_its_settings():
    spec = agents.AgentSpec.of("ppo", ENV, {"learning_rate": 1e-3})
    assert repr(spec) == f"AgentSpec('ppo', '{ENV}', learning_rate=0.001)"
    trained = agents.make("ppo", ENV, **SMALL_PPO)
    with agents.Trainer(trained) as trainer:
        trainer.train(env_steps=64)
    text = repr(agents.AgentSpec.of(trained))
    assert text.endswith(", from its weights)")
    assert len(text) < 300


def test_repr_of_finders_shows_agent_and_choices():
    assert repr(LRFinder("ppo", ENV)) == f"LRFinder(AgentSpec('ppo', '{ENV}'))"
    assert repr(OptFinder("ppo", ["adam", "sgd"], ENV)) == f"OptFinder(AgentSpec('ppo', '{ENV}'), ['adam', 'sgd'])"
    assert repr(ParallelFinder(["ppo", "dqn"], None, ENV)) == f"AgentFinder(['ppo', 'dqn'] on {ENV})"


def test_repr_of_results_counts_curves():
    sweep = Sweep([0.1] * 500, [1.0] * 500, [1] * 500)
    suggestion = Suggestion(None, None, "none", "it never improves")
    result = RangeTestResult(
        metric="loss", optimizer="all", rewards=sweep, losses=sweep, normalized=[], suggestion=suggestion,
        reason="budget reached",
    )  # fmt: skip
    assert len(repr(result)) < 200
    assert "it never improves" in repr(result)
    run = RunHistory("a", [1] * 500, [1.0] * 500, [], [], [], [], 500)
    assert repr(HistoriesData((run,), 100)) == (
        "HistoriesData(runs=(RunHistory('a', 500 episodes, 0 evaluations),), window=100)"
    )


def test_repr_of_studies_shows_the_name():
    rates = tuple({"learning_rate": float(rate)} for rate in np.geomspace(1e-5, 1e-1, 64))
    spec = StudySpec(name="x", storage="memory", agents=("ppo",), env=ENV, env_steps=100, seeds=(0,), trials=rates)
    assert repr(spec).startswith("StudySpec(name='x'")
    assert "n_trials=64" in repr(spec)
    assert len(repr(spec)) < 300
    with open_storage("memory") as storage, open_study(spec, storage) as study:
        assert repr(study) == "OpenStudy('x' in memory)"
    assert math.isfinite(len(repr(study)))
