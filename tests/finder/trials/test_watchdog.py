"""Tests of the limits and messages of the watchdog, whose clock ticks are triggered by the tests."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from agents.processes.hanging import CallRecord, HungError, under_way
from finder.trials.watchdog import Watchdog

TICKS = 30  # of a limit


@pytest.fixture(autouse=True)
def _nothing_under_way() -> Iterator[None]:
    yield
    under_way.end()


def ticks_until_hung(watchdog: Watchdog, most: int = 1_000) -> tuple[int, str]:
    for n in range(1, most + 1):
        try:
            watchdog._tick(signal.SIGALRM, None)
        except HungError as error:
            return n, str(error)
    return most, ""


def begin_step(copy: int | None, n_copies: int = 8, of_member: int = 2) -> None:
    under_way.environment, under_way.n_copies, under_way.of_member = "Arm-v0", n_copies, of_member
    under_way.begin("step", copy)


def test_error_names_the_hanging_call():
    watchdog = Watchdog(3.0)
    begin_step(5)
    n, message = ticks_until_hung(watchdog)
    assert n == TICKS
    assert message.startswith("step() of 'Arm-v0' (copy 1) did not return for 3 s. If it is only slow")
    under_way.end()
    watchdog.feed()
    assert ticks_until_hung(watchdog)[1].startswith("Nothing came back for 3 s: the environment or the agent hangs.")


def test_limit_applies_to_each_copy_separately():
    watchdog = Watchdog(3.0)
    for copy in range(8):
        begin_step(copy)
        assert ticks_until_hung(watchdog, TICKS - 1)[1] == ""


@pytest.mark.parametrize("n_members", [1, 2, 4, 8, 15])
def test_step_in_which_all_members_hang_takes_at_most_three_times_the_limit(n_members: int):
    watchdog, waited = Watchdog(3.0), 0
    for member in range(n_members):
        begin_step(2 * member, 2 * n_members)
        waited += ticks_until_hung(watchdog)[0]
    assert TICKS <= waited <= 3 * TICKS


def test_environments_of_others_keep_their_limit_after_one_has_hung():
    watchdog = Watchdog(3.0)
    begin_step(0, 8)
    assert ticks_until_hung(watchdog)[0] == TICKS
    for copy in (2, 4):  # slow, but within the limit
        begin_step(copy, 8)
        assert ticks_until_hung(watchdog, TICKS - 1)[1] == ""
    begin_step(6, 8)
    assert ticks_until_hung(watchdog)[0] == TICKS


def test_limit_restarts_after_a_step():
    watchdog = Watchdog(3.0)
    begin_step(0)
    ticks_until_hung(watchdog)
    watchdog.feed()
    begin_step(0)
    assert ticks_until_hung(watchdog)[0] == TICKS


def test_first_update_may_take_longer():
    watchdog = Watchdog(3.0)
    begin_step(0)
    under_way.end()
    watchdog.feed(12.0)
    assert ticks_until_hung(watchdog)[0] == 4 * TICKS
    watchdog.feed(1.0)
    assert ticks_until_hung(watchdog)[0] == TICKS


def test_time_of_a_suspended_watchdog_does_not_count():
    watchdog = Watchdog(3.0)
    begin_step(0)
    assert ticks_until_hung(watchdog, TICKS - 1)[1] == ""
    with watchdog.suspended():
        assert ticks_until_hung(watchdog)[1] == ""
    assert ticks_until_hung(watchdog)[0] == 1


def test_long_limits_do_not_delay_signs_of_life(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("finder.trials.watchdog.LISTEN_SECONDS", 0.001)
    alive = threading.Event()
    watchdog = Watchdog(1e6, alive=alive.set)  # a tick of hours
    with watchdog.watching():
        assert alive.wait(60)
    watchdog.close()


def test_hang_is_reported_by_another_thread_when_signals_are_blocked():
    reasons, reported = [], threading.Event()

    def deaf(reason: str) -> None:
        reasons.append(reason)
        reported.set()

    watchdog = Watchdog(0.5, deaf)
    with watchdog.watching():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            begin_step(0)
            time.sleep(0)  # as in compiled code, which delays signals until it returns
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            assert reported.wait(60)
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    watchdog.close()
    assert reasons[0].startswith("step() of 'Arm-v0' (copy 0) did not return for 0.5 s.")


def test_watchdog_does_nothing_outside_the_main_thread():
    ended = []

    def watch() -> None:
        with Watchdog(0.001).watching():
            time.sleep(0.1)
        ended.append("as if nobody watched")

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()
    assert ended == ["as if nobody watched"]


def test_call_of_all_copies_has_no_copy_number():
    state = CallRecord()
    state.environment = "Arm-v0"
    state.begin("reset")
    assert state.position is None
    assert state.members_left == 0
    assert state.message(2.0).startswith("reset() of 'Arm-v0' did not return for 2 s.")
