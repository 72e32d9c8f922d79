"""Tests of the worker pool: processes that wait for capacity, and processes that need time to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import SMALL_PPO, RecordingListener

from agents import AgentSpec
from finder.executors.batches import Batching
from finder.executors.message_broker import MessageBroker
from finder.executors.trial_dispatcher import TrialDispatcher
from finder.executors.worker_pool import Workers
from finder.trials.trial import INTERRUPTED, BudgetSpent, Outcome, TrialSpec
from studies.errors import StudyError


def trials_of(n: int) -> Callable[[], TrialSpec | None]:
    """Return a function that returns `n` trials, one at a time, and then None."""
    agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
    trials = (
        TrialSpec(number=number, agent=agent, env_steps=32, report_marks=(32,), seeds=(0,)) for number in range(n)
    )
    return lambda: next(trials, None)


class Waiting:
    """A process that waits for capacity before it runs its trials, which end at once."""

    def __init__(self, broker: MessageBroker, seconds: float, number: int = 0) -> None:
        self._broker, self._seconds, self._number = broker, seconds, number
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.killed = False

    def _run(self) -> None:
        time.sleep(self._seconds)
        while (batch := self._broker.receive_batch(self._number)) is not None:
            for number in batch[0]:
                self._broker.post("started", self._number, (number, {"seeds": [0]}))
                self._broker.post("ended", self._number, (number, Outcome(state="complete", value=1.0)))

    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self.killed

    def kill(self) -> None:
        self.killed = True

    def join(self, seconds: float | None = None) -> None:
        if not self.killed:
            self._thread.join(seconds)


class WaitingCrew:
    """A crew with capacity for a process after a second."""

    def __init__(self) -> None:
        self.broker = MessageBroker()

    def start(self, number: int) -> Waiting:
        return Waiting(self.broker, 1.0)

    def wait(self, processes: Any) -> None:
        time.sleep(0.02)

    def cause(self, process: Any) -> str:
        return "is gone"


def test_trial_that_waits_for_capacity_is_not_hanging(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.executors.trial_dispatcher.STOP_SECONDS", 0.1)
    monkeypatch.setattr("finder.executors.trial_dispatcher.MAX_CRASHES", 1)
    agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", SMALL_PPO)
    trials = iter(
        TrialSpec(number=number, agent=agent, env_steps=32, report_marks=(32,), seeds=(0,), hang_seconds=0.1)
        for number in range(2)
    )
    listener = RecordingListener()
    dispatcher = TrialDispatcher(
        Workers(WaitingCrew()), listener, n_jobs=1, batching=Batching(), name="waiting", reuses=True
    )
    dispatcher.run(lambda: next(trials, None))
    assert {number: outcome.state for number, outcome in listener.outcomes.items()} == {0: "complete", 1: "complete"}


class Spent(RecordingListener):
    """A listener of a search whose budget is spent when it is asked for the first time."""

    def episodes(self, records: Any) -> None:
        raise BudgetSpent


def test_budget_is_kept_while_no_process_sends_an_event(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.executors.trial_dispatcher.BEAT_SECONDS", 0.1)
    monkeypatch.setattr("finder.executors.trial_dispatcher.STOP_SECONDS", 0.1)
    listener = Spent()
    dispatcher = TrialDispatcher(
        Workers(Endless()), listener, n_jobs=1, batching=Batching(), name="waiting", reuses=True
    )
    with pytest.raises(BudgetSpent):
        dispatcher.run(trials_of(1))
    assert listener.outcomes[0].state == "interrupted"


class Stopping(Waiting):
    """A process that ends its trial a moment after it was stopped."""

    def _run(self) -> None:
        [number] = self._broker.receive_batch(0)[0]
        self._broker.post("started", 0, (number, {"seeds": [0]}))
        assert self._broker.receive_batch(0) is None
        time.sleep(self._seconds)
        self._broker.post("ended", 0, (number, Outcome(state="interrupted", reason="saved")))


class StoppingCrew(WaitingCrew):
    """A crew of one such process."""

    def start(self, number: int) -> Waiting:
        self.process = Stopping(self.broker, 0.3)
        return self.process


class Interrupting(RecordingListener):
    """A listener of a search that is interrupted when its first trial starts."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        raise KeyboardInterrupt


def test_interrupted_processes_have_time_to_stop():
    crew, listener = StoppingCrew(), Interrupting()
    dispatcher = TrialDispatcher(Workers(crew), listener, n_jobs=1, batching=Batching(), name="stopping", reuses=True)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.run(trials_of(1))
    assert not crew.process.killed
    assert listener.outcomes[0] == Outcome(state="interrupted", reason="saved")


class Endless(WaitingCrew):
    """A crew whose processes wait for capacity for as long as a test takes."""

    def start(self, number: int) -> Waiting:
        return Waiting(self.broker, 60.0)


def test_batch_goes_to_the_process_that_has_compiled_its_structure():
    def trial(number: int, units: int) -> TrialSpec:
        agent = AgentSpec.of("ppo", "fakes:TwoStep-v0", {**SMALL_PPO, "hidden_sizes": [units]})
        return TrialSpec(number=number, agent=agent, env_steps=32, report_marks=(32,), seeds=(0,))

    batching = Batching(members=8)
    workers = Workers(Endless())
    dispatcher = TrialDispatcher(workers, RecordingListener(), n_jobs=2, batching=batching, name="kept", reuses=True)
    for number, units in enumerate((8, 16)):
        dispatcher._assign([trial(number, units)])
    for worker in workers.values():
        worker.running.clear()
    for number, units in ((2, 16), (3, 8)):
        dispatcher._assign([trial(number, units)])
    assert [[each.number for each in worker.batch] for worker in workers.values()] == [[3], [2]]


class NoWait(WaitingCrew):
    """A crew whose processes run at once, and that counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.n_started = 0

    def start(self, number: int) -> Waiting:
        self.n_started += 1
        return Waiting(self.broker, 0.0)


def test_workers_of_populations_serve_another_run_with_its_own_listener():
    crew = NoWait()
    workers, listeners = Workers(crew), [RecordingListener(), RecordingListener()]
    for listener in listeners:
        TrialDispatcher(workers, listener, n_jobs=1, batching=Batching(members=8), name="kept").run(trials_of(1))
    assert [list(listener.outcomes) for listener in listeners] == [[0], [0]]
    assert crew.n_started == len(workers) == 1
    workers.close()
    assert not workers


class Saving:
    """A process that was interrupted, and that is running until a test says otherwise."""

    def __init__(self) -> None:
        self.alive, self.killed = True, False

    def is_alive(self) -> bool:
        return self.alive and not self.killed

    def kill(self) -> None:
        self.killed = True

    def join(self, seconds: float | None = None) -> None:
        if self.is_alive():
            raise AssertionError("waits for a process that was to be killed")


class SavingCrew:
    """A crew of one process, which saves its trial for some rounds of six seconds, with signs of life or without."""

    def __init__(self, clock: list[float], rounds: int, *, is_silent: bool) -> None:
        self.broker, self.process = MessageBroker(), Saving()
        self._clock, self._left, self._is_silent = clock, rounds, is_silent

    def start(self, number: int) -> Saving:
        self.broker.post("started", number, (0, {"seeds": [0]}))
        return self.process

    def wait(self, processes: Any) -> None:
        self._clock[0] += 6.0
        if self.broker.post("episodes", 0, {}) != INTERRUPTED:
            return
        if self._is_silent:
            self.broker.drain_events()
        self._left -= 1
        if not self._left:
            self.broker.post("ended", 0, (0, Outcome(state="interrupted", reason="saved")))
            self.process.alive = False

    def cause(self, process: Any) -> str:
        return "is gone"


@pytest.mark.parametrize(
    ("rounds", "is_silent", "reason"),
    [(4, False, "saved"), (4, True, INTERRUPTED), (10, False, INTERRUPTED)],
    ids=["alive", "silent", "alive for too long"],
)
def test_process_that_saves_its_trials_is_killed_when_it_is_silent_or_takes_too_long(
    rounds: int, is_silent: bool, reason: str, monkeypatch: pytest.MonkeyPatch
):
    clock = [0.0]
    monkeypatch.setattr("finder.executors.trial_dispatcher.time", SimpleNamespace(monotonic=lambda: clock[0]))
    crew, listener = SavingCrew(clock, rounds, is_silent=is_silent), Interrupting()
    dispatcher = TrialDispatcher(Workers(crew), listener, n_jobs=1, batching=Batching(), name="saving", reuses=True)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.run(trials_of(1))
    assert crew.process.killed == (reason == INTERRUPTED)
    assert listener.outcomes[0] == Outcome(state="interrupted", reason=reason)


class InterruptedTwice(SavingCrew):
    """A crew whose search is interrupted again while it waits for its process."""

    def wait(self, processes: Any) -> None:
        raise KeyboardInterrupt


def test_second_interrupt_kills_processes_at_once():
    crew, listener = InterruptedTwice([0.0], 1, is_silent=True), RecordingListener()
    dispatcher = TrialDispatcher(Workers(crew), listener, n_jobs=1, batching=Batching(), name="saving", reuses=True)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.run(trials_of(1))
    assert crew.process.killed
    dispatcher.workers.close()  # waits for no process


class GoneBroker(MessageBroker):
    """A broker whose process has ended."""

    def drain_events(self) -> Any:
        raise EOFError

    def stop(self, worker: int, reason: str) -> None:
        raise BrokenPipeError

    def values(self) -> Any:
        raise ConnectionResetError


def test_end_of_the_broker_is_an_error_that_commands_print():
    crew, listener = SavingCrew([0.0], 1, is_silent=True), RecordingListener()
    crew.broker = GoneBroker()
    dispatcher = TrialDispatcher(Workers(crew), listener, n_jobs=1, batching=Batching(), name="gone", reuses=True)
    with pytest.raises(StudyError, match="start the study again"):
        dispatcher.run(trials_of(1))
    assert crew.process.killed
    assert listener.outcomes[0].state == "interrupted"


class Dead(Waiting):
    """A process that has died as soon as it had its trials."""

    def _run(self) -> None:
        self._broker.receive_batch(0)

    def is_alive(self) -> bool:
        return self._thread.is_alive()


class DyingOnce(WaitingCrew):
    """A crew whose first process dies under its trials."""

    def start(self, number: int) -> Waiting:
        return (Waiting if number else Dead)(self.broker, 0.0, number)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (None, "Trial 0 resumes in another process: its process is gone"),
        (8, "2 trials resume in another process: their process is gone"),
    ],
)
def test_trials_of_a_process_that_has_died_are_named(
    caplog: pytest.LogCaptureFixture, members: int | None, message: str
):
    listener = RecordingListener()
    batching, workers = Batching(members=members), Workers(DyingOnce())
    dispatcher = TrialDispatcher(workers, listener, n_jobs=1, batching=batching, name="dying", reuses=True)
    dispatcher.run(trials_of(1 if members is None else 2))
    assert message in caplog.text
    assert {outcome.state for outcome in listener.outcomes.values()} == {"complete"}
