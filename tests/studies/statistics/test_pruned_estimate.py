"""Estimated final values of pruned trials, and the test that finds them clearly worse."""

from __future__ import annotations

import pytest

from studies.judging.confirmation import pruned_estimates
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.statistics.pruned_estimate import clearly_worse, estimate_final
from studies.storage.storage import StudyStorage


def test_pruned_trial_gains_the_mean_gain_of_the_survivors() -> None:
    value, error, df = estimate_final([10.0, 12.0, 14.0], [(20.0, 50.0), (30.0, 70.0)])
    assert value == pytest.approx(12.0 + 35.0)
    # the variance of the seeds, 4, over three seeds, and that of the gains 30 and 40, 50, for a third gain
    assert error == pytest.approx((4 / 3 + 50 * 1.5) ** 0.5)
    assert df == 1.0


def test_one_survivor_uses_its_gain_as_the_error() -> None:
    assert estimate_final([10.0], [(20.0, 50.0)]) == pytest.approx((40.0, (2 * 30.0**2) ** 0.5, 1.0))


def test_trial_far_behind_is_clearly_worse() -> None:
    assert clearly_worse([[100.0, 103.0, 98.0], [101.0, 99.0, 102.0], [10.0, 12.0, 8.0]]) == [False, False, True]


def test_noise_is_not_clearly_worse() -> None:
    assert clearly_worse([[3.0, 1.0, 2.0], [2.0, 2.5, 1.0], [1.5, 3.5, 2.0]]) == [False] * 3


def test_single_seeds_are_never_clearly_worse() -> None:
    assert clearly_worse([[100.0], [1.0]]) == [False, False]
    assert clearly_worse([[100.0, 101.0]]) == [False]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_pruned_trial_is_compared_at_its_last_rung(storage: StudyStorage, sign: float) -> None:
    rows = [{"learning_rate": rate} for rate in (1e-4, 1e-3, 1e-2, 1e-1)]
    spec = StudySpec(
        name="s", agents=["ppo"], env="CartPole-v1", trials=rows, env_steps=1_000, seeds=[0, 1, 2], pruner="race",
        metric="return" if sign > 0 else "loss",
    )  # fmt: skip
    opened = open_study(spec, storage)
    at_200 = {0: (50.0, 52.0, 51.0), 1: (100.0, 101.0, 99.0), 2: (98.0, 103.0, 100.0), 3: (97.0, 102.0, 96.0)}
    with Recorder(opened) as recorder:
        for _ in rows:
            assert recorder.ask() is not None
        recorder.rung(200, {n: {seed: sign * own for seed, own in enumerate(values)} for n, values in at_200.items()})
        for number in (0, 3):
            seeds = {seed: sign * own for seed, own in enumerate(at_200[number])}
            recorder.pruned(number, 200, seeds[1], seeds)
        for number in (1, 2):
            recorder.completed(number, sign * 120.0, {0: sign * 119.0, 1: sign * 120.0, 2: sign * 121.0})
    assert {each.params["learning_rate"]: each.clearly_worse for each in pruned_estimates(opened)} == {
        1e-4: True,
        1e-1: False,
    }
