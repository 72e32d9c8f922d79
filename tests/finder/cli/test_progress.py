"""Tests of the progress displays, with a clock controlled by the tests."""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TextIO, cast

import pytest
from rich.console import Console, RenderableType

from agents.contract.spec import AgentSpec
from finder import LRFinder
from finder.executors.choice import make_executor
from finder.progress.best import Best
from finder.progress.best_effort_stream import BestEffortStream
from finder.progress.search_progress import LiveProgress, PlainProgress, end_line, headline
from finder.progress.text_layout import truncate_words
from finder.progress.tracker import Tracker
from finder.search.observer import Observer, guarded
from finder.trials.trial import Outcome, TrialSpec
from studies.database.records import EpisodeRecord
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.study.study import OpenStudy, store_spec


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
        confirm=0,
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


def play(progress: Tracker | Observer, study: OpenStudy, clock: Clock) -> None:
    """Report a complete trial, and one that has used a quarter of its budget after 30 s."""
    progress.study_opened(study, 2, make_executor("inline"))
    progress.trial_started(trial(0), {"learning_rate": 0.001, "gamma": 0.9})
    clock.now += 20
    progress.trial_ended(0, complete(20.0, 18.0, 22.0))
    progress.trial_started(trial(1), {"learning_rate": 0.01, "gamma": 0.9})
    clock.now += 10
    progress.trial_episodes(1, [episode(0, 300, 5.0), episode(1, 200, 8.0)])


def test_tracker_reports_progress_speed_and_time_left(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    play(tracker, study, clock)
    assert tracker.share == pytest.approx((1 + 0.25) / 2)
    assert tracker.elapsed == 30
    assert tracker.steps_per_second == pytest.approx((2 * 1000 + 500) / 30)
    assert tracker.seconds_left == 10  # as long as the first one, which took 20 s
    assert tracker.running[1].mean_done == 250
    assert tracker.running[1].latest == 6.5


@pytest.mark.parametrize("width", [*range(40, 82), 150])
def test_end_of_a_trial_is_one_line_at_any_width(study: OpenStudy, clock: Clock, width: int) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 1, make_executor("inline"))
    tracker.trial_started(trial(0), {"optimizer": "sgd(momentum=0.9)", "learning_rate": 0.1})
    outcomes = {
        "✓ #0  20.0 ± 2.8  1:01 min  ": complete(20.0, 18.0, 22.0),
        "◦ #0  pruned at 3 after 200 steps  ": Outcome(state="pruned", value=3.0, env_steps=200),
        "✗ #0  failed": Outcome(state="failed", reason=f"ValueError: {'it broke ' * 9}"),
    }
    for begin, outcome in outcomes.items():
        line = end_line(0, tracker.running[0], outcome, width, shorten=True).plain
        assert line.startswith(begin)
        assert len(line) <= width
        assert "optimizer sgd(momentum=0.9)" in line or line.endswith("…")
    whole = end_line(0, tracker.running[0], outcomes["✓ #0  20.0 ± 2.8  1:01 min  "], width).plain
    assert whole.endswith("optimizer sgd(momentum=0.9), learning_rate 1e-1")


def test_time_left_of_a_slow_trial_follows_its_own_speed(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    play(tracker, study, clock)
    clock.now += 30  # 40 s for a quarter of its budget, where the first one took 20 s
    assert tracker.seconds_left == pytest.approx(120)
    tracker.running[1].env_steps = {}
    assert tracker.seconds_left is None


def test_time_left_is_unknown_at_the_start(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 2, make_executor("inline"))
    assert tracker.seconds_left is None


def test_time_left_of_parallel_trials_uses_their_own_speeds(study: OpenStudy, clock: Clock) -> None:
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


def together(study: OpenStudy, **fields: Any) -> OpenStudy:
    """Return a study whose trials are trained together, without a confirmation unless one is given."""
    given = {"trials": (), "params": {"learning_rate": "1e-4:1e-1:log"}, "confirm": 0, "pruner": "none", **fields}
    changed = replace(study, spec=StudySpec.from_json_dict({**study.spec.to_json_dict(), **given}))
    store_spec(changed)
    return changed


def advance(tracker: Tracker, clock: Clock, numbers: Iterable[int], env_steps: int, seconds: float) -> None:
    """Let trials reach an environment step after some seconds."""
    clock.now += seconds
    for number in numbers:
        tracker.trial_episodes(number, [episode(seed, env_steps, 5.0) for seed in (0, 1)])


def test_time_left_of_trials_that_are_trained_together_leaves_the_start_out(study: OpenStudy, clock: Clock) -> None:
    """Compilation takes 60 s, a step of the two trials 10 ms; two further trials follow."""
    tracker = Tracker(clock)
    tracker.study_opened(together(study, n_trials=4), 4, make_executor("population", 1, population=4))
    for number in (0, 1):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
    advance(tracker, clock, (0, 1), 100, 60)
    assert tracker.seconds_left is None  # no speed is known yet
    advance(tracker, clock, (0, 1), 600, 5)
    assert tracker.seconds_left == pytest.approx(0.01 * (400 + 1000))
    clock.now += 1
    assert tracker.seconds_left == pytest.approx(0.01 * (400 + 1000) - 1)
    assert tracker.share == pytest.approx(600 / 2000)


def test_time_left_is_that_of_the_speed_since_the_last_network_was_compiled(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(together(study, n_trials=2), 2, make_executor("population", 1, population=4))
    for number in (0, 1):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
    advance(tracker, clock, (0,), 100, 20)
    advance(tracker, clock, (0,), 200, 3)
    assert tracker.seconds_left is not None
    advance(tracker, clock, (1,), 100, 20)  # the network of the other trial is another one
    assert tracker.seconds_left is None
    advance(tracker, clock, (0, 1), 600, 9)
    assert tracker.seconds_left == pytest.approx(9 / 1800 * (4 * 400), rel=0.01)
    for number in (0, 1):
        tracker.trial_ended(number, complete(5.0, 5.0, 5.0))
    tracker.confirmation_begins(2)
    for number in (2, 3):
        tracker.trial_started(replace(trial(number), confirms=number - 2), {"learning_rate": 0.001})
    advance(tracker, clock, (2,), 100, 5)
    advance(tracker, clock, (3,), 100, 5)
    assert tracker.seconds_left is None


def test_members_that_change_their_parameters_have_initial_ones(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    changed = StudySpec(
        name="p", storage="memory", agents=("ppo",), env="CartPole-v1", env_steps=1000, seeds=(0, 1), n_trials=2,
        params={"learning_rate": "1e-4:1e-1:log"}, pruner="pbt",
    )  # fmt: skip
    tracker.study_opened(replace(study, spec=changed), 2, make_executor("population", 1, population=4))
    tracker.trial_started(trial(0), {"learning_rate": 0.001})
    tracker.trial_ended(0, complete(5.0, 5.0, 5.0))
    assert tracker.best is not None
    assert tracker.best.params == {"initial learning_rate": 0.001}
    tracker.trial_started(replace(trial(2), confirms=0), {"learning_rate": "1e-3 → 2e-3"})
    assert tracker.running[2].params == {"learning_rate": "1e-3 → 2e-3"}


def test_time_left_and_share_contain_the_confirmation_from_the_beginning(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    spec = together(study, n_trials=2, confirm=1, confirm_seeds=4)
    tracker.study_opened(spec, 2, make_executor("population", 1, population=4))
    for number in (0, 1):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
    advance(tracker, clock, (0, 1), 100, 60)
    advance(tracker, clock, (0, 1), 600, 5)
    work, of_confirmation = 2 * 2 * 1000, 4 * 1000
    assert tracker.share == pytest.approx(4 * 600 / (work + of_confirmation))
    assert tracker.seconds_left == pytest.approx(5 / 2000 * (4 * 400 + of_confirmation))
    assert tracker.counts == (0, 2)
    for number in (0, 1):
        tracker.trial_ended(number, complete(5.0, 5.0, 5.0))
    tracker.confirmation_begins(1)
    assert tracker.share == pytest.approx(work / (work + of_confirmation))
    assert tracker.counts == (0, 1)
    tracker.trial_started(replace(trial(2), seeds=(2, 3, 4, 5), confirms=0), {"learning_rate": 0.001})
    assert tracker.share == pytest.approx(work / (work + of_confirmation))
    assert tracker.seconds_left is None  # its processes start and compile again


def test_confirmations_are_counted_by_themselves_where_other_processes_may_run(study: OpenStudy, clock: Clock) -> None:
    study.storage.shared = True
    tracker = Tracker(clock)
    play(tracker, study, clock)
    tracker.trial_ended(1, complete(5.0, 4.0, 6.0))
    tracker.confirmation_begins(2)
    tracker.trial_started(trial(2), {"learning_rate": 0.001})
    tracker.trial_ended(2, complete(20.0, 18.0, 22.0))
    assert tracker.counts == (1, 2)
    tracker.others_run(1)
    assert tracker.counts == (1, 2)


def test_paused_trials_are_not_done(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    kwargs = {"min_resource": 200, "reduction_factor": 2}
    spec = together(study, n_trials=4, pruner="asha", pruner_kwargs=kwargs)
    tracker.study_opened(spec, 4, make_executor("population", 1, population=8))
    for number in range(4):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
    advance(tracker, clock, range(4), 10, 30)
    advance(tracker, clock, range(4), 200, 4)
    shares = [tracker.share]
    for number in range(3):
        tracker.trial_ended(number, Outcome(state="paused", value=5.0, env_steps=200, seed_values={0: 5.0, 1: 5.0}))
    assert (tracker.n_done, tracker.n_paused, tracker.counts) == (0, 3, (0, 4))
    shares.append(tracker.share)
    tracker.trial_started(replace(trial(0), promoted_from=200), {"learning_rate": 0.001})
    assert (tracker.n_done, tracker.n_paused) == (0, 2)
    shares.append(tracker.share)
    assert shares == [pytest.approx(shares[0])] * 3
    assert tracker.seconds_left is not None
    for number in (0, 3):
        tracker.trial_ended(number, complete(5.0, 5.0, 5.0))
    tracker.paused_ended()
    assert (tracker.n_done, tracker.n_paused, tracker.counts) == (4, 0, (4, 4))


def test_best_so_far_is_the_trial_with_the_highest_value(clock: Clock, study: OpenStudy) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 2, make_executor("inline"))
    for number, value in enumerate((3.0, 7.0, 5.0)):
        tracker.trial_started(trial(number), {"learning_rate": 0.001})
        tracker.trial_ended(number, complete(value, value))
    assert tracker.best is not None
    assert (tracker.best.number, tracker.best.value) == (1, 7.0)


def test_plain_progress_prints_lines(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=1000, highlight=False), clock)
    progress.measuring_begins()
    play(progress, study, clock)
    progress.trial_ended(1, Outcome(state="failed", reason="TypeError: in user code:\n\n  File x\n\n  it broke\n"))
    assert out.getvalue().splitlines() == [
        "Measuring the speed of the search ...",
        "Study a study in memory only",
        "Plan  2 trials × 2 seeds (0, 1) × 1,000 environment steps",
        "      ppo on CartPole-v1, metric return, scheduler median, inline",
        "▸ #0 learning_rate 1e-3 started",
        "✓ #0  20.0 ± 2.8  1:01 min  learning_rate 1e-3",
        "best so far 20.0 ± 2.8 with learning_rate 1e-3 (#0)",
        "▸ #1 learning_rate 1e-2 started",
        "  #1 250 of 1,000 steps, lately 6.5 · 1/2 trials · 83 steps/s · 30 s so far · about 10 s left",
        "✗ #1  failed: it broke  learning_rate 1e-2",
    ]


def test_progress_lines_are_two_seconds_apart_and_later_ten(study: OpenStudy, clock: Clock) -> None:
    def lines(seconds: int) -> int:
        before = out.getvalue().count("so far ·")
        for _ in range(seconds):
            clock.now += 1
            progress.trial_episodes(1, [episode(0, 400, 5.0)])
        return out.getvalue().count("so far ·") - before

    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=1000), clock)
    play(progress, study, clock)
    assert lines(9) == 4
    clock.now += 1000
    assert lines(40) == 4


def test_time_limit_is_named_where_the_estimate_is_longer(study: OpenStudy, clock: Clock) -> None:
    def left(limit: float) -> str:
        progress = PlainProgress(Console(file=io.StringIO(), width=1000), own := Clock())
        progress.time_limited(limit)
        play(progress, study, own)  # 30 seconds, with about 10 left
        return progress.summary()[-1]

    assert left(41.0) == "about 10 s left"
    assert left(35.0) == "at most 5 s left (time limit)"
    assert left(25.0) == "at most 0 s left (time limit)"


def test_live_display_shows_running_trials(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    progress = LiveProgress(console, clock)
    with progress:
        play(progress, study, clock)
        with console.capture() as drawn:
            console.print(progress._draw())
    assert "1/2 trials · 83 steps/s · 30 s so far · about 10 s left" in drawn.get()
    assert "#1  learning_rate 1e-2  250 of 1,000 steps  lately 6.5" in drawn.get()
    assert max(map(len, drawn.get().splitlines())) <= 100
    assert "best so far 20.0 ± 2.8 with learning_rate 1e-3 (#0)" in drawn.get()
    assert "✓ #0  20.0 ± 2.8  1:01 min  learning_rate 1e-3" in out.getvalue()


def test_confirmation_is_part_of_the_work_from_the_beginning(study: OpenStudy, clock: Clock) -> None:
    """A finalist has four runs, which are as long as those of two trials."""
    spec = study.spec.model_copy(update={"confirm": 1, "confirm_seeds": 4})
    longer = replace(study, spec=spec)
    store_spec(longer)
    tracker = Tracker(clock)
    play(tracker, longer, clock)
    before = tracker.seconds_left
    assert tracker.share == (1 + 0.25) / (2 + 2)
    tracker.trial_ended(1, complete(7.0, 6.0, 8.0))
    assert tracker.share == 0.5
    tracker.confirmation_begins(1)
    assert tracker.share == 0.5
    alone = Tracker(clock)
    play(alone, study, clock)
    assert before is not None
    assert alone.seconds_left is not None
    assert before == pytest.approx(alone.seconds_left + 2 * 20.0)  # the complete trial took 20 s


def test_steps_before_an_interruption_are_not_counted_again(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    tracker.study_opened(study, 2, make_executor("inline"))
    tracker.trial_started(trial(0), {})
    clock.now += 10
    resumed = [replace(episode(seed, 900, 1.0), episode=90) for seed in (0, 1)]
    tracker.trial_episodes(0, resumed)
    assert tracker.steps_per_second == 2.0  # two episodes of ten steps in ten seconds
    clock.now += 10
    tracker.trial_ended(0, complete(7.0, 6.0, 8.0))
    assert tracker.steps_per_second == 1.0  # the outcome has the steps before the interruption too


def test_best_of_a_resumed_search_has_its_value_in_the_search(study: OpenStudy, clock: Clock) -> None:
    with Recorder(study) as recorder:
        for value in (5.0, 3.0):
            ask = recorder.ask()
            assert ask is not None
            recorder.completed(ask.number, value, {0: value, 1: value})
    tracker = Tracker(clock)
    tracker.study_opened(study, 0, make_executor("inline"))
    assert tracker.best == Best(0, {"learning_rate": 0.001}, 5.0, 0.0)
    by_loss = replace(study, spec=study.spec.model_copy(update={"metric": "loss"}))
    tracker.study_opened(by_loss, 0, make_executor("inline"))
    assert tracker.best == Best(1, {"learning_rate": 0.01}, 3.0, 0.0, "loss")


def test_time_left_is_unknown_without_running_and_queued_trials(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    play(tracker, study, clock)
    tracker.trial_ended(1, complete(7.0, 6.0, 8.0))
    assert tracker.seconds_left is None
    assert tracker.share == 1.0


class Faulty(LiveProgress):
    """A display that cannot draw once `broken` is set."""

    broken = False

    def _draw(self) -> RenderableType:
        if self.broken:
            raise ZeroDivisionError("a bug of ours")
        return super()._draw()


@pytest.mark.parametrize("drawn_by", ["a line above it", "its thread", "its end"])
def test_failed_display_is_replaced_by_plain_lines(study: OpenStudy, clock: Clock, drawn_by: str) -> None:
    out = io.StringIO()
    progress = Faulty(Console(file=out, width=120, force_terminal=True, color_system=None), clock)
    with progress:
        progress.study_opened(study, 2, make_executor("inline"))
        progress.broken = True
        if drawn_by == "its thread":
            deadline = time.monotonic() + 60
            while not progress._live.failed:
                assert time.monotonic() < deadline, "the thread of the display has not drawn for a minute"
                time.sleep(0.01)
        if drawn_by != "its end":
            progress._live.refresh()
            play(progress, study, clock)
    output = out.getvalue()
    assert output.count("Note  the live display failed (ZeroDivisionError: a bug of ours); plain lines follow.") == 1
    assert ("▸ #1 learning_rate 1e-2 started" in output) is (drawn_by != "its end")
    assert output.count("\x1b[?25h") >= 1  # the cursor is visible again


def test_closed_terminal_is_not_an_error(study: OpenStudy, clock: Clock) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "Input/output error")

    progress = LiveProgress(Console(file=Gone(), width=120, force_terminal=True), clock)
    with progress:
        play(guarded(progress), study, clock)
    assert progress.best is not None


@pytest.mark.slow
def test_error_in_an_observer_does_not_end_the_search(capfd: pytest.CaptureFixture[str]) -> None:
    class Watches(Tracker):
        def trial_ended(self, number: int, outcome: Outcome) -> None:
            raise RuntimeError("no place to draw")

    rates = {"start_lr": 1e-4, "end_lr": 1e-3, "n_rates": 2, "extend": False}
    small = {"jit_compile": False, "n_steps": 16, "n_epochs": 1, "n_envs": 1, "batch_size": 16}
    result = LRFinder("ppo", "CartPole-v1").grid(
        **rates,
        env_steps=200,
        seeds=1,
        confirm=0,
        params=small,
        executor="inline",
        storage="memory",
        observer=Watches(),
    )
    with result.study:
        assert result.stopped is None
    note = "Note: the progress display failed (RuntimeError: no place to draw); the search continues."
    assert capfd.readouterr().err.count(note) == 1


def test_output_that_cannot_be_written_is_dropped() -> None:
    class Unread(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    console = Console(file=cast(TextIO, BestEffortStream(Unread())), width=80)
    console.print("hello")  # rich ends the program when it gets this error
    console.print("hello again")
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    lasting = BestEffortStream(ascii_only)
    lasting.write("✓ done")
    lasting.flush()
    assert ascii_only.buffer.getvalue() == b"? done"  # type: ignore[attr-defined]


def test_lines_are_cut_between_words_in_a_narrow_terminal(study: OpenStudy, clock: Clock) -> None:
    out = io.StringIO()
    console = Console(file=out, width=60, force_terminal=True, color_system=None)
    progress = LiveProgress(console, clock)
    params = {"optimizer": "sgd(momentum=0.9, nesterov=True)", "learning_rate": 0.01, "ent_coef": 0.01}
    reason = "ValueError: the observation of environment 3 at step 17 has the shape (1,) and not (4,)"
    with progress:
        play(progress, study, clock)
        progress.running[1].params = params
        progress.others_run(3)
        drawn = io.StringIO()
        Console(file=drawn, width=60).print(progress._draw())
        progress.trial_ended(1, Outcome(state="failed", reason=reason))
    assert [line.rstrip() for line in drawn.getvalue().splitlines()] == [
        "━━━━━━━╸      1/2 trials · waiting for 3 in other processes",
        "              83 steps/s · 30 s so far · about 10 s left",
        "  #1  optimizer sgd(momentum=0.9, …  25%  lately 6.5",
        "  best so far 20.0 ± 2.8 with learning_rate 1e-3 (#0)",
    ]
    output = "\n".join(line.rstrip() for line in out.getvalue().splitlines())
    assert (
        "    ValueError: the observation of environment 3 at step 17\n    has the shape (1,) and not (4,)\n" in output
    )
    assert "      ppo on CartPole-v1, metric return, scheduler median,\n      inline" in output


@pytest.mark.parametrize("width", [80, 150])
def test_reason_that_does_not_fit_has_lines_of_its_own_once(study: OpenStudy, clock: Clock, width: int) -> None:
    out = io.StringIO()
    progress = PlainProgress(Console(file=out, width=width, highlight=False), clock)
    play(progress, study, clock)
    reason = f"RuntimeError: {'the motor is hot, ' * 8}and the robot stops"
    for number in (1, 2):
        if number == 2:
            progress.trial_started(trial(number), {"learning_rate": 0.1})
        progress.trial_ended(number, Outcome(state="failed", failure="environment", reason=reason))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    at = lines.index("✗ #1  environment failed  learning_rate 1e-2")
    last = lines.index("✗ #2  environment failed as #1  learning_rate 1e-1")
    told = [line for line in lines[at + 1 : last] if line.startswith("    ")]
    assert " ".join(line.strip() for line in told) == reason
    assert max(map(len, told)) <= width
    assert not any("…" in line for line in lines)


def test_kind_of_a_failure_is_named_at_any_width(study: OpenStudy, clock: Clock) -> None:
    outcome = Outcome(state="failed", failure="environment", reason="OSError: no sensor")
    lines = [end_line(0, None, outcome, width).plain.rstrip() for width in (40, 150)]
    assert lines == [
        "✗ #0  environment failed  default settings",
        "✗ #0  environment failed: OSError: no sensor  default settings",
    ]


def test_phases_have_names_and_no_time_left(study: OpenStudy, clock: Clock) -> None:
    tracker = Tracker(clock)
    assert tracker.phase == "starting"
    tracker.trial_started(trial(0), {"learning_rate": 0.01})
    guarded(tracker).trial_built(0)
    assert (tracker.phase, tracker.seconds_left) == ("compiling", None)
    play(tracker, study, clock)
    assert tracker.phase == ""
    tracker.trial_ended(1, complete(7.0, 6.0, 8.0))
    tracker.confirmation_begins(2)
    tracker.trial_started(trial(2), {"learning_rate": 0.01})
    assert tracker.phase == "confirming 2 finalists"
    assert tracker.seconds_left is None
    clock.now += 10
    tracker.trial_episodes(2, [episode(0, 100, 5.0)])
    assert tracker.seconds_left is not None


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("one two", 7, "one two"),
        ("one two three", 9, "one two …"),
        ("one two three", 8, "one …"),
        ("unbreakable", 5, "…"),
    ],
)
def test_truncate_words_cuts_between_words(text: str, width: int, short: str) -> None:
    assert truncate_words(text, width) == short


@pytest.mark.parametrize(
    ("reason", "line"),
    [("one", "one"), ("one\ntwo", "one"), ("TypeError: in user code:\n\n a\n\n b\n", "b"), ("", "")],
)
def test_headline_is_the_most_informative_line_of_a_reason(reason: str, line: str) -> None:
    assert headline(reason) == line
