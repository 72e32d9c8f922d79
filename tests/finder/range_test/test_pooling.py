"""Tests of pooling several range tests into one result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from range_curves import range_test_of

from agents import ConfigurationError
from finder import LRFinder
from finder.range_test.pooling import pool_results
from finder.range_test.range_test import RangeTestResult
from studies.figures.range_tests import range_tests_data

RATES = [float(rate) for rate in np.geomspace(1e-6, 1.0, 121)]


def run_of(losses: list[float], diverged: bool = False) -> RangeTestResult:
    """Return a range test with these losses at the first of `RATES`."""
    return range_test_of(losses, RATES, diverged)


def falling(at: float, noise: float = 0.0, seed: int = 0) -> list[float]:
    """Return losses that fall by 1, steepest at this rate."""
    drawn = np.random.default_rng(seed).normal(size=len(RATES))
    return [1 / (1 + (rate / at) ** 3) + noise * each for rate, each in zip(RATES, drawn, strict=True)]


def test_pooling_one_run_leaves_it_unchanged():
    run = run_of(falling(1e-3))
    assert pool_results([run], [7]).seeds == (7,)
    assert pool_results([run], [7]).runs == ()
    assert math.isnan(pool_results([run], [7]).low)


def test_pooled_curve_is_the_mean_with_an_interval_over_runs():
    runs = [run_of(falling(10**-x)) for x in (2.9, 3.0, 3.1)]
    result = pool_results(runs, [0, 1, 2])
    rates, values = result.curve()
    assert rates == RATES
    assert values[60] == pytest.approx(np.mean([run.losses.values[60] for run in runs]))
    assert result.suggestion.rate == pytest.approx(1e-3, rel=0.15)
    # The rates are 0.1 decades apart: 4.303 * 0.1 / sqrt(3) = 0.248 decades either way (points are 0.05 apart).
    assert math.log10(result.high / result.suggestion.rate) == pytest.approx(0.248, abs=0.07)
    assert result.low < 1e-3 < result.high
    assert result.seeds == (0, 1, 2)
    assert len(result.runs) == 3


def test_runs_that_disagree_give_no_suggestion():
    result = pool_results([run_of(falling(10**-x)) for x in (1.5, 3.0, 4.5)], [0, 1, 2])
    assert result.suggestion.rate is None
    assert "the 3 runs disagree" in result.suggestion.reason


def test_noise_gives_no_suggestion():
    rng = np.random.default_rng(0)
    result = pool_results([run_of(list(rng.normal(size=121))) for _ in range(3)], [0, 1, 2])
    assert result.suggestion.rate is None
    assert "noise alone" in result.suggestion.reason


def test_pooled_runs_reveal_a_fall_hidden_by_noise():
    runs = [run_of(falling(1e-3, noise=2.0, seed=seed)) for seed in range(12)]
    together = pool_results(runs, range(12))
    assert sum(run.read().rate is not None for run in runs) <= 6
    assert "noise alone" not in together.suggestion.reason


def test_rates_beyond_the_first_divergence_are_not_used():
    short = run_of(falling(1e-3)[:100], diverged=True)
    result = pool_results([run_of(falling(1e-3)), short], [0, 1])
    assert result.curve()[0][-1] == RATES[99]
    assert result.diverged
    assert result.reason == "the loss diverged at 0.1"


@pytest.mark.parametrize("rule", [None, "valley"])
def test_finder_suggests_nothing_where_the_runs_disagree(rule: str | None):
    finder = LRFinder("ppo", "CartPole-v1")
    finder.result = pool_results(
        [run_of(falling(10**-x, noise=0.001, seed=int(x))) for x in (1.5, 3.0, 4.5)], [0, 1, 2]
    )
    with pytest.raises(ConfigurationError, match="the 3 runs disagree"):
        finder.get_best_lr(rule=rule)


@pytest.mark.parametrize("growth", [1.2, 1.5, 2.0])
def test_divergence_does_not_hide_a_clear_fall(growth: float):
    def diverging(seed: int) -> list[float]:
        losses = falling(1e-3, noise=0.01, seed=seed)
        return [loss * growth ** max(0, i - 100) for i, loss in enumerate(losses[:100])] + [
            growth**k for k in range(1, 12)
        ]

    result = pool_results([run_of(diverging(seed), diverged=True) for seed in range(3)], [0, 1, 2])
    assert result.suggestion.rate == pytest.approx(1e-3, rel=0.3)


def test_slide_takes_the_end_of_a_diverged_run_as_the_edge():
    run = run_of(falling(1e-3, noise=0.001)[:101], diverged=True)  # up to 0.1, where the loss became NaN
    assert run.read(rule="slide").rate == pytest.approx(RATES[100] / 3)
    assert "do not diverge" in run.read(rule="slide", n_skip_end=3).reason
    pooled = pool_results([run, run_of(falling(1e-3, noise=0.001, seed=1)[:101], diverged=True)], [0, 1])
    finder = LRFinder("ppo", "CartPole-v1")
    finder.result = pooled
    assert finder.get_best_lr(rule="slide") == pytest.approx(RATES[100] / 3)


def test_lowest_loss_is_read_at_the_middle_of_its_window():
    losses = [abs(math.log10(rate) + 2) for rate in RATES]  # lowest at 1e-2
    run = run_of(losses)
    assert run.read(rule="minimum").rate == pytest.approx(1e-3, rel=0.2)
    assert "best at the last rates" in run_of(losses[:75]).read(rule="minimum").reason
    assert run.read(rule="valley").rate == pytest.approx(run.read(rule="valley", sma=1).rate, rel=0.6)


@pytest.mark.slow
def test_range_test_of_several_seeds_is_recorded_as_one_trial(tmp_path: object):
    small = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "hidden_sizes": [8], "jit_compile": False}
    from agents import AgentSpec
    from studies import load_study

    finder = LRFinder(AgentSpec.of("ppo", "CartPole-v1", small), seed=5)
    result = finder.find(1e-5, 1e-1, N=20, metric="loss", storage=f"sqlite:///{tmp_path}/s.db")
    assert result.seeds == (5, 6, 7)
    assert len(result.losses.values) == sum(len(run.losses.values) for run in result.runs)
    assert result.runs[0].losses.values != result.runs[1].losses.values
    with load_study(str(finder.study_name), f"sqlite:///{tmp_path}/s.db") as study:
        (trial,) = study.trials()
        assert study.spec.seeds == (5, 6, 7)
        assert set(trial.user_attrs["seed_values"]) == {"5", "6", "7"}
        seeds = {episode.seed for episode in study.storage.episodes.curve(study.episodes_key, trial.number)}
        assert seeds == {5, 6, 7}
        band = result.band()
        assert band is not None
        (test,) = range_tests_data(study)
        assert test.band == band
