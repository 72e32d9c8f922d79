"""The displays, driven by hand with a clock that only the test moves."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from agents.spec import AgentSpec
from finder.cli.progress import LiveProgress, PlainProgress, headline
from finder.cli.tracker import Tracker
from finder.executors import make_executor
from finder.trial import Outcome, TrialSpec
from studies.opening import open_study
from studies.records import EpisodeRecord
from studies.spec import StudySpec
from studies.study import OpenStudy


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def study() -> Iterator[OpenStudy]:
    spec = StudySpec(
        name="a study",
        storage="memory",
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=1000,
        seeds=(0, 1),
        trials=({"learning_rate": 0.001}, {"learning_rate": 0.01}),
        fixed={"gamma": 0.9},
    )
    with open_study(spec) as opened:
        yield opened


def trial(number: int) -> TrialSpec:
    return TrialSpec(number=number, agent=AgentSpec.of("ppo", "CartPole-v1"), seeds=(0, 1), env_steps=1000)


def episode(seed: int, env_steps: int, value: float) -> EpisodeRecord:
    return EpisodeRecord(
        seed=seed, episode=0, env_steps=env_steps, episode_return=value, length=10, loss=None, wall_seconds=1.0
    )


def complete(value: float, *seeds: float) -> Outcome:
    return Outcome(state="complete", value=value, env_steps=1000, seed_values=dict(enumerate(seeds)), wall_seconds=61)


def play(progress: Tracker, study: OpenStudy, clock: Clock) -> None:
    """One trial that is complete, one that has used a quarter of its budget after 30 s."""
    progress.study_opened(study, 2, make_executor("inline"))
    progress.trial_started(trial(0), {"learning_rate": 0.001, "gamma": 0.9})
    clock.now += 20
    progress.trial_ended(0, complete(20.0, 18.0, 22.0))
    progress.trial_started(trial(1), {"learning_rate": 0.01, "gamma": 0.9})
    clock.now += 10
    progress.trial_episodes(1, [episode(0, 300, 5.0), episode(1, 200, 8.0)])


def test_work_speed_and_time_left(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    play(tracker, study, clock)
    assert tracker.share == pytest.approx((1 + 0.25) / 2)
    assert tracker.elapsed == 30
    assert tracker.steps_per_second == pytest.approx((2 * 1000 + 500) / 30)
    assert tracker.seconds_left == 10  # as long as the first one, which took 20 s
    assert tracker.running[1].mean_steps == 250
    assert tracker.running[1].latest == 6.5


def test_no_guess_of_the_time_left_at_the_beginning(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 2, make_executor("inline"))
    assert tracker.seconds_left is None


def test_trials_at_the_same_time_go_on_at_their_own_speed(study: OpenStudy, clock: Clock) -> None:
    """Two processes take 30 s to start; then one trial is done in 10 s and the other in 20 s."""
    tracker = Tracker(clock)
    tracker.study_opened(study, 5, make_executor("process", 2))
    for number in (0, 1):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
    clock.now += 30
    for seconds in range(5):
        for number, speed in ((0, 100), (1, 50)):
            steps = seconds * speed
            tracker.trial_episodes(number, [episode(0, steps, 5.0), episode(1, steps, 5.0)])
        clock.now += 1
    assert tracker.running[0].seconds_left(clock.now) == pytest.approx(5)
    assert tracker.running[1].seconds_left(clock.now) == pytest.approx(15)
    assert tracker.seconds_left == pytest.approx(5 + 2 * 45)  # three more of 45 s, two of them after the first


def test_the_best_so_far_keeps_its_direction(clock: Clock, study: OpenStudy) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 2, make_executor("inline"))
    for number, value in enumerate((3.0, 7.0, 5.0)):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
        tracker.trial_ended(number, complete(value, value))
    assert tracker.best is not None
    assert (tracker.best.number, tracker.best.value) == (1, 7.0)


def test_plain_lines(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=1000, highlight=False), clock)
    play(progress, study, clock)
    progress.trial_ended(1, Outcome(state="failed", reason="TypeError: in user code:\n\n  File x\n\n  it broke\n"))
    assert out.getvalue().splitlines() == [
        "Study a study in memory only",
        "Plan  2 trials × 2 seeds (0, 1) × 1,000 environment steps, then the best 2 again on 5 further seeds",
        "      ppo on CartPole-v1, pruner median, inline",
        "▸ #0 learning_rate 1e-3 started",
        "✓ #0 learning_rate 1e-3  20.0 ± 2.8  1:01 min",
        "best so far 20.0 ± 2.8 with learning_rate 1e-3 (#0)",
        "▸ #1 learning_rate 1e-2 started",
        "  #1 250 of 1,000 steps, lately 6.5 · 1/2 trials · 83 steps/s · 30 s so far · about 10 s left",
        "✗ #1 learning_rate 1e-2  failed: it broke",
    ]


def test_lines_in_between_are_five_seconds_apart(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=1000), clock)
    play(progress, study, clock)
    for _ in range(9):
        clock.now += 1
        progress.trial_episodes(1, [episode(0, 400, 5.0)])
    assert sum("so far ·" in line for line in out.getvalue().splitlines()) == 2


def test_the_live_display(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    progress = LiveProgress(console, clock)
    with progress:
        play(progress, study, clock)
        with console.capture() as drawn:
            console.print(progress._draw())
    assert "1/2 trials · 83 steps/s · 30 s so far · about 10 s left" in drawn.get()
    assert "#1  learning_rate 1e-2  250 of 1,000 steps  lately 6.5" in drawn.get()
    assert "best so far 20.0 ± 2.8 with learning_rate 1e-3 (#0)" in drawn.get()
    assert "✓ #0 learning_rate 1e-3  20.0 ± 2.8" in out.getvalue()


@pytest.mark.parametrize(
    ("reason", "line"),
    [("one", "one"), ("one\ntwo", "one"), ("TypeError: in user code:\n\n a\n\n b\n", "b"), ("", "")],
)
def test_the_line_of_a_reason_that_says_what_happened(reason: str, line: str) -> None:
    assert headline(reason) == line
