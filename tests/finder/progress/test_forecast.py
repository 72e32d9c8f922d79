"""Tests of the estimated time of searches whose trials are trained together."""

from __future__ import annotations

import pytest

from finder.progress.forecast import WorkSpeed


def test_speed_while_updates_are_compiled_is_forgotten() -> None:
    speed = WorkSpeed()
    done = 0.0
    for tenth in range(401):  # 100 steps/s for 20 s, then 1,000
        speed.record(tenth / 10, done)
        if tenth == 10:
            assert speed.seconds(1000, 1.0) is None  # too short a time
        if tenth == 200:
            assert speed.seconds(1000, 20.0) == pytest.approx(10.0, rel=0.02)
        done += 10 if tenth < 200 else 100
    assert speed.seconds(10_000, 40.0) == pytest.approx(10.0, rel=0.01)
    assert speed.seconds(10_000, 43.0) == pytest.approx(7.0, rel=0.02)  # nothing was reported for three seconds
    speed.restart()
    assert speed.seconds(10_000, 44.0) is None


def test_reports_of_trials_that_are_trained_together_are_one() -> None:
    speed = WorkSpeed()
    for trial in range(10):
        speed.record(0.001 * trial, 100.0 * (trial + 1))
    for trial in range(10):
        speed.record(4.0 + 0.001 * trial, 1000.0 + 100.0 * (trial + 1))
    assert speed.seconds(500, 4.01) == pytest.approx(2.0, rel=0.01)
