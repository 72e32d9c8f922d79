"""Area under a learning curve and steps to a threshold, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies import StudyError
from studies.statistics.objectives import area_under_curve, steps_to_threshold


def test_area_of_a_step_function() -> None:
    # 10 during steps 0 to 100, 20 during 100 to 150, and 20 on to the end at 200: (1000 + 1000 + 1000) / 200
    assert area_under_curve([100, 150], [10.0, 20.0], 200) == pytest.approx(15.0)


def test_area_ignores_order_and_what_ends_later() -> None:
    assert area_under_curve([150, 100, 900], [20.0, 10.0, 1e9], 200) == pytest.approx(15.0)


def test_area_of_a_constant_is_the_constant() -> None:
    steps = np.cumsum(np.random.default_rng(0).integers(1, 50, 40))
    assert area_under_curve(steps, np.full(40, 7.0), float(steps[-1])) == pytest.approx(7.0)


def test_area_prefers_the_run_that_learns_early() -> None:
    steps = [100, 200, 300, 400]
    assert area_under_curve(steps, [0, 9, 9, 9], 400) > area_under_curve(steps, [0, 0, 0, 9], 400)


def test_area_weighs_by_steps_and_not_by_episodes() -> None:
    # Many short bad episodes at the beginning must not outweigh one long good one.
    assert area_under_curve([*range(1, 11), 100], [0.0] * 10 + [10.0], 100) == pytest.approx(9.0)


def test_steps_to_a_threshold() -> None:
    steps, returns = [10, 20, 30, 40], [0.0, 6.0, 10.0, 10.0]
    assert steps_to_threshold(steps, returns, 8.0, 100, n_episodes=2) == 30  # (6 + 10) / 2 = 8
    assert steps_to_threshold(steps, returns, 8.1, 100, n_episodes=2) == 40
    assert steps_to_threshold(steps, returns, 6.5, 100, n_episodes=4) == 40  # 26 / 4
    assert steps_to_threshold(steps, returns, 10.1, 100, n_episodes=1) == 100  # never


def test_a_single_lucky_episode_is_not_enough() -> None:
    assert steps_to_threshold([10, 20, 30], [0.0, 500.0, 0.0], 400.0, 60) == 60


def test_episodes_after_the_end_do_not_count() -> None:
    assert steps_to_threshold([10, 70], [0.0, 9.0], 5.0, 60, n_episodes=1) == 60
    assert steps_to_threshold([10, 70], [0.0, 9.0], 5.0, 60, n_episodes=1, unreached=100) == 100


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.7, -0.1, 200.3, -150.2])
@pytest.mark.parametrize("before", [0, 7, 33, 200])
def test_a_mean_that_equals_the_threshold_reaches_it(threshold: float, before: int) -> None:
    returns = [threshold - 1.0] * before + [threshold] * 60
    assert steps_to_threshold(range(1, len(returns) + 1), returns, threshold, len(returns)) == before + 20


@pytest.mark.parametrize("function", [area_under_curve, lambda *given: steps_to_threshold(*given[:2], 1.0, given[2])])
def test_without_an_episode_there_is_no_value(function: object) -> None:
    assert math.isnan(function([], [], 10))  # type: ignore[operator]
    assert math.isnan(function([20], [1.0], 10))  # type: ignore[operator]
    with pytest.raises(StudyError, match="above 0"):
        function([5], [1.0], 0)  # type: ignore[operator]
    with pytest.raises(StudyError, match="one length"):
        function([5, 6], [1.0], 10)  # type: ignore[operator]
