"""Streak of failed trials that stops a study."""

from __future__ import annotations

from studies.queue.trial_endings import completion, failure, pruning
from studies.recording.failure_streak import FailureStreak


def test_failure_streak_stops_the_study_at_its_limit() -> None:
    streak = FailureStreak()
    for reason in ("first", "second"):
        assert streak.stop_reason is None
        streak.add(failure(reason), 2)
    assert streak.stop_reason == "2 trials failed in a row; the last one: second"
    streak.add(failure("third"), 2)
    assert streak.stop_reason.endswith("second"), "the reason must be the error that stopped the study"


def test_completion_or_pruning_resets_the_streak() -> None:
    for ending in (completion(1.0), pruning("median", 10, 1.0)):
        streak = FailureStreak()
        streak.add(failure("first"), 2)
        streak.add(ending, 2)
        streak.add(failure("second"), 2)
        assert streak.stop_reason is None


def test_pause_ends_the_streak() -> None:
    streak = FailureStreak()
    streak.add(failure("first"), 2)
    streak.interrupt()
    streak.add(failure("second"), 2)
    assert streak.stop_reason is None


def test_failure_with_counts_false_does_not_extend_the_streak() -> None:
    streak = FailureStreak()
    streak.add(failure("first"), 2)
    streak.add(failure("diverged"), 2, counts=False)
    assert streak.stop_reason is None
    streak.add(failure("second"), 2)
    assert streak.stop_reason is not None
