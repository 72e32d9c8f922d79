"""Tests of pooling several range tests into one result."""

from __future__ import annotations

import math

import numpy as np
import pytest
from range_curves import range_test_of

from agents import ConfigurationError
from finder import LRFinder
from finder.range_test.pooling import agreed, pool_results
from finder.range_test.range_test import RangeTestResult
from finder.range_test.sweep import Sweep, comparable
from studies.figures.range_tests import range_tests_data

RATES = [float(rate) for rate in np.geomspace(1e-6, 1.0, 121)]


def run_of(losses: list[float], diverged: bool = False) -> RangeTestResult:
    """Return a range test with these losses at the first of `RATES`."""
    return range_test_of(losses, RATES, diverged)


def falling(at: float, noise: float = 0.0, seed: int = 0) -> list[float]:
    """Return losses that fall by 1, steepest at this rate."""
    drawn = np.random.default_rng(seed).normal(size=len(RATES))
    return [1 / (1 + (rate / at) ** 3) + noise * each for rate, each in zip(RATES, drawn, strict=True)]


def stepping(*at: int, height: float = 1.0) -> list[float]:
    """Return losses that fall by equal parts of a height, at these indices of `RATES`: by all of it, fastest there."""
    return [height * sum(index < place for place in at) / len(at) for index in range(len(RATES))]


def log_ends(result: RangeTestResult) -> list[float]:
    return [math.log10(result.low), math.log10(result.high)]


def test_pooling_one_run_leaves_it_unchanged():
    run = run_of(falling(1e-3))
    assert pool_results([run], [7]).seeds == (7,)
    assert pool_results([run], [7]).runs == ()
    assert math.isnan(pool_results([run], [7]).low)


def test_pooled_curve_is_the_mean_of_the_runs():
    runs = [run_of(falling(10**-x)) for x in (2.9, 3.0, 3.1)]
    result = pool_results(runs, [0, 1, 2])
    rates, values = result.curve()
    assert rates == RATES
    assert values[60] == pytest.approx(np.mean([run.losses.values[60] for run in runs]))
    assert result.suggestion.rate == pytest.approx(1e-3, rel=0.15)
    assert result.low < 1e-3 < result.high
    assert result.seeds == (0, 1, 2)
    assert len(result.runs) == 3


def test_interval_is_that_of_the_mean_of_the_runs():
    """A step of an index is 0.05 decades, and the quantile of Student's distribution with 2 degrees 4.3027."""
    result = pool_results([run_of(stepping(at)) for at in (58, 60, 62)], [0, 1, 2])
    assert result.suggestion.rate == pytest.approx(1e-3)
    # Logarithms -3.1, -3.0 and -2.9: 4.3027 * 0.1 / sqrt(3) = 0.2484 either way.
    assert log_ends(result) == pytest.approx([-3.2484, -2.7516], abs=1e-4)
    result = pool_results([run_of(stepping(at)) for at in (58, 60, 65)], [0, 1, 2])
    # Mean -2.95, deviations -0.15, -0.05 and 0.2: 4.3027 * sqrt(0.065 / 2) / sqrt(3) = 0.4478 either way.
    assert log_ends(result) == pytest.approx([-3.3978, -2.5022], abs=1e-4)


def test_interval_by_the_minimum_is_around_the_suggestion():
    """Single runs are read as their mean is: a tenth of the middle of the best window."""
    runs = [run_of([abs(math.log10(rate) + 2) for rate in RATES]) for _ in range(3)]
    found = agreed(pool_results(runs, [0, 1, 2]), rule="minimum")
    assert found.suggestion.rate == pytest.approx(1e-3, rel=0.2)
    # Equal runs: half a step either way.
    ends = [math.log10(end / (found.suggestion.rate or 0.0)) for end in (found.low, found.high)]
    assert ends == pytest.approx([-0.025, 0.025], abs=1e-6)


def test_interval_includes_a_suggestion_that_single_runs_do_not_tell_apart_from_it():
    """Of 40 runs 32 fall at 1e-3, as their mean does, and 8 four steps later, less than half the window of 12."""
    result = pool_results([run_of(stepping(64 if i % 5 == 0 else 60)) for i in range(40)], range(40))
    assert result.suggestion.rate == pytest.approx(1e-3)
    # In steps: mean 0.8, deviation sqrt((32 * 0.8**2 + 8 * 3.2**2) / 39) = 1.620, 2.0227 * 1.620 / sqrt(40) = 0.518.
    assert log_ends(result) == pytest.approx([-3.0, -3.0 + 1.318 * 0.05], abs=1e-4)


def test_run_with_large_losses_does_not_decide():
    """Seven of eight runs fall at 1e-3, one with 60 times the loss at 1e-1."""
    runs = [run_of(falling(10 ** (-3.3 + 0.1 * i), noise=0.01, seed=i)) for i in range(7)]
    large = run_of([60 * loss for loss in falling(1e-1, noise=0.01, seed=7)])
    result = pool_results([*runs, large], range(8))
    assert result.suggestion.rate == pytest.approx(1e-3, rel=0.3)
    assert result.low < 1e-3 < result.high
    assert sum(result.low < 10 ** (-3.3 + 0.1 * i) < result.high for i in range(7)) >= 5
    assert result.losses.values[0] == runs[0].losses.values[0], "the curve shows the losses as they were"


@pytest.mark.parametrize("small", [0.0, 1e-6])
def test_runs_that_learn_nothing_are_not_scaled_up(small: float):
    rng = np.random.default_rng(0)
    idle = [run_of(list(small * rng.normal(size=121))) for _ in range(2)]
    result = pool_results([run_of(falling(1e-3, noise=0.01, seed=i)) for i in range(3)] + idle, range(5))
    assert "noise alone" not in result.suggestion.reason
    assert result.read().rate == pytest.approx(1e-3, rel=0.3)


def test_run_that_ends_early_is_no_improvement_by_its_absence():
    rng = np.random.default_rng(0)
    short, *others = (list(level + 0.1 * rng.normal(size=n)) for level, n in ((10.0, 70), (1.0, 121), (1.0, 121)))
    result = pool_results([run_of(short), *map(run_of, others)], [0, 1, 2])
    assert result.suggestion.rate is None
    assert "noise alone" in result.suggestion.reason


def test_mean_that_no_run_suggests_is_a_disagreement():
    """All runs fall fastest at a place of their own, around 2e-4, and half as much at 1e-1, where their mean does."""
    runs = [run_of(stepping(at, at, 100)) for at in range(30, 61, 5)]
    result = pool_results(runs, range(7))
    assert result.suggestion.rate is None
    # Logarithms -4.5, -4.25 to -3.0: mean -3.75, deviation 0.5401, 2.4469 * 0.5401 / sqrt(7) = 0.4995 either way.
    assert log_ends(result) == pytest.approx([-4.2495, -3.2505], abs=1e-4)
    assert result.suggestion.reason == (
        "the 7 runs disagree: their mean suggests 0.1, and the suggestions of the single runs have the 95% interval "
        "5.63e-05 to 0.000562"
    )


def sweep_of(*values: float) -> Sweep:
    return Sweep([10.0**-k for k in range(5, 5 - len(values), -1)], list(values), [0] * len(values))


@pytest.mark.parametrize(
    ("curves", "maximize", "expected"),
    [
        # Falls of 2, 1 and 60: the third has a thirtieth. Levels 1, 1.5 and 2, together 1.5.
        (
            [[3, 1, 1, 1], [2, 2, 1, 1], [60, 60, 60, 0]],
            False,
            [[3.5, 1.5, 1.5, 1.5], [2, 2, 1, 1], [1.5, 1.5, 1.5, -0.5]],
        ),
        # Rises of 10 and 40, so that the second has a quarter. Levels 5 and 10, together 7.5.
        ([[0, 0, 10, 10], [0, 40, 40, 40]], True, [[2.5, 2.5, 12.5, 12.5], [-2.5, 7.5, 7.5, 7.5]]),
        # A fall of 2 from the worst value before the best: what comes after it does not count. Levels 1.5 and 2.5.
        ([[1, 2, 0, 90], [4, 3, 2, 2]], False, [[1.5, 2.5, 0.5, 90.5], [3.5, 2.5, 1.5, 1.5]]),
        # The second never falls, and stays as it is. Levels 1 and 6.
        ([[2, 1, 1, 1], [5, 6, 6, 7]], False, [[4.5, 3.5, 3.5, 3.5], [2.5, 3.5, 3.5, 4.5]]),
        # The first ends after two rates, where both have the levels 11 and 1.
        ([[11, 11], [1, 1, 1, 1]], False, [[6, 6], [6, 6, 6, 6]]),
        # An infinite value at the end is no level and no fall; a run without points has none either.
        ([[3, 1, 1, math.inf], []], False, [[2.5, 0.5, 0.5, math.inf], []]),
    ],
)
def test_comparable_curves_have_one_size_and_one_level(
    curves: list[list[float]], maximize: bool, expected: list[list[float]]
):
    found = comparable([sweep_of(*values) for values in curves], maximize=maximize)
    assert [each.values for each in found] == [pytest.approx(values) for values in expected]


def test_skipped_points_do_not_scale_a_run():
    """Three of five runs fall at 1e-3, two of them with a first loss that would scale their fall to nothing."""
    large = [run_of([1e6, *stepping(60)[1:]]) for _ in range(2)]
    runs = [*large, *(run_of(stepping(at)) for at in (60, 50, 50))]
    result = pool_results(runs, range(5))
    assert result.read(n_skip_beginning=1).rate == pytest.approx(1e-3)


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
