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


def test_speed_waits_for_all_trials_that_report_together() -> None:
    """Four members whose episodes end together, 10 s apart: 40 units of work in 10 s, of which the first reports 10."""
    speed = WorkSpeed()
    for trial in range(4):
        speed.record(10.0 + trial / 1_000, 10.0 * (trial + 1), trial)
    for trial in range(3):
        speed.record(20.0 + trial / 1_000, 40.0 + 10.0 * (trial + 1), trial)
        assert speed.seconds(100.0, 20.0 + trial / 1_000) is None
    speed.record(20.003, 80.0, 3)
    assert speed.seconds(120.0, 20.003) == pytest.approx(30.0, rel=0.01)
    speed.record(30.0, 90.0, 0)
    assert speed.seconds(110.0, 30.0) == pytest.approx(27.5 - 10.0, rel=0.01)  # the speed until 20 s
    assert speed.seconds(110.0, 30.2) == pytest.approx(110.0 / 2.5, rel=0.01)  # the others have ended
