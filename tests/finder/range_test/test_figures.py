"""Tests of the values in the figures of a range test, and of the rate that is read from its curve."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import SMALL_PPO

from agents import AgentSpec, ConfigurationError
from finder import LRFinder
from finder.range_test.metric import Metric
from finder.range_test.range_test import RangeTestResult
from finder.range_test.suggestion import no_suggestion
from finder.range_test.sweep import Sweep

RATES = (1e-4, 1e-3, 1e-2, 1e-1)  # a decade apart, so that changes per decade are differences
RETURNS = (1.0, 3.0, 7.0, 5.0)
LOSSES = (9.0, 5.0, 4.0, 8.0)


def found(metric: Metric = "return", losses: tuple[float, ...] = LOSSES) -> LRFinder:
    """Return a finder after a range test with these points."""
    steps = [10, 20, 30, 40]
    finder = LRFinder(AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO))
    finder.result = RangeTestResult(
        metric=metric,
        optimizer="all",
        rewards=Sweep(list(RATES), list(RETURNS), steps),
        losses=Sweep(list(RATES), list(losses), steps),
        normalized=[0.0, 1.0, 2.0, -1.0],
        suggestion=no_suggestion("minimum", "made by hand"),
        reason="every rate was tried",
    )
    return finder


@pytest.mark.parametrize("y_lim", [3, (1.0,), "ab", (0.0, float("nan")), ("0", "1")])
def test_limits_of_an_axis_are_two_numbers(y_lim: Any):
    with pytest.raises(ConfigurationError, match="give the lower and the upper limit"):
        found().plot_loss_change(y_lim=y_lim)


def test_plots_show_each_value_at_its_rate():
    finder = found()
    for figure, values in (
        (finder.plot_reward(), RETURNS),
        (finder.plot_loss(), LOSSES),
        (finder.plot_reward(normalized=True), (0.0, 1.0, 2.0, -1.0)),
    ):
        (points,) = figure.data
        assert tuple(points.x) == RATES
        assert tuple(points.y) == values


def test_changes_are_differences_per_decade_at_the_later_rate():
    finder = found()
    for figure, values in (
        (finder.plot_reward_change(), (2.0, 4.0, -2.0)),
        (finder.plot_reward_change(sma=2), (1.0, 3.0, 1.0)),  # of the means 1, 2, 5, 6
        (finder.plot_loss_change(), (-4.0, -1.0, 4.0)),
        (finder.plot_loss_change(sma=2), (-2.0, -2.5, 1.5)),  # of the means 9, 7, 4.5, 6
    ):
        (points,) = figure.data
        assert tuple(points.x) == RATES[1:]
        assert tuple(points.y) == pytest.approx(values)


@pytest.mark.parametrize(("beginning", "end"), [(1, 0), (0, 1), (1, 1)])
def test_skipped_points_are_left_out_on_their_own_side(beginning: int, end: int):
    finder = found()
    rates, last = RATES[beginning : 4 - end], 4 - end
    for figure, values in ((finder.plot_reward(beginning, end), RETURNS), (finder.plot_loss(beginning, end), LOSSES)):
        assert tuple(figure.data[0].x) == rates
        assert tuple(figure.data[0].y) == values[beginning:last]
    # The first of the points that are left has no change.
    skipped = {"n_skip_beginning": beginning, "n_skip_end": end}
    assert tuple(finder.plot_reward_change(**skipped).data[0].y) == pytest.approx(
        (2.0, 4.0, -2.0)[beginning : last - 1]
    )
    assert tuple(finder.plot_loss_change(**skipped).data[0].x) == rates[1:]


def test_four_points_are_too_few_to_suggest_a_rate():
    with pytest.raises(ConfigurationError, match="suggests no learning rate: nothing can be read from this curve"):
        found().get_best_lr()
    with pytest.raises(ConfigurationError, match="leave some of the 4 points, got 3 and 2"):
        found().get_best_lr(n_skip_beginning=3, n_skip_end=2)


def test_best_rate_is_a_tenth_of_that_of_the_best_return(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.range_test.reading.p_value", lambda *_, **__: 0.0)
    # The best return, 7, is at 1e-2.
    assert found().get_best_lr(sma=1) == pytest.approx(1e-3)


def test_best_rate_is_where_the_loss_falls_most_within_a_decade(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.range_test.reading.p_value", lambda *_, **__: 0.0)
    # By 1 to 1e-3, and by 5 to 1e-2.
    assert found("loss", (9.0, 8.0, 3.0, 6.0)).get_best_lr(sma=1) == 1e-2


@pytest.mark.parametrize(
    ("rule", "rate"),
    [
        ("minimum", 1e-3),  # a tenth of 1e-2, where the loss is lowest
        ("slide", 1e-2 / 3),  # at 1e-1 it is back where it began
        ("steepest", 1e-2),  # by 0.5 to 1e-3, and by 4.5 to 1e-2
    ],
)
def test_rate_by_a_rule_of_that_name(monkeypatch: pytest.MonkeyPatch, rule: str, rate: float):
    monkeypatch.setattr("finder.range_test.reading.p_value", lambda *_, **__: 0.0)
    finder = found("loss", (9.0, 8.5, 4.0, 9.0))
    assert finder.get_best_lr(sma=1, rule=rule) == pytest.approx(rate)


def test_valley_is_two_thirds_along_the_longest_fall(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.range_test.reading.p_value", lambda *_, **__: 0.0)
    assert found("loss", (9.0, 7.0, 5.0, 4.0)).get_best_lr(sma=1, rule="valley") == 1e-2


@pytest.mark.parametrize("name", ["sma", "n_skip_beginning", "n_skip_end"])
@pytest.mark.parametrize("number", [2.5, "2", -1])
def test_numbers_of_points_are_whole(name: str, number: object):
    with pytest.raises(ConfigurationError, match=rf"{name}.* must be .*whole number.* >= .*{number}"):
        found().get_best_lr(**{name: number})
    with pytest.raises(ConfigurationError, match=rf"{name}.* must be .*whole number.* >= .*{number}"):
        found().plot_reward_change(**{name: number})


def test_moving_average_has_a_point():
    with pytest.raises(ConfigurationError, match="sma must be a whole number >= 1, got 0"):
        found().get_best_lr(sma=0)


def test_rule_of_an_unknown_name_is_refused():
    with pytest.raises(ConfigurationError, match=r"Unknown rule 'steep'\. Did you mean steepest"):
        found().get_best_lr(rule="steep")
    with pytest.raises(ConfigurationError, match=r"suggests no learning rate: nothing can be read from this curve"):
        found().get_best_lr(rule="valley")  # noise is refused by every rule
