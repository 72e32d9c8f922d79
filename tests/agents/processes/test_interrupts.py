"""Tests of the signals that ask a program to end: which of them count, and when they are handled."""

from __future__ import annotations

import signal

import pytest

from agents.processes import interrupts
from agents.processes.interrupts import DUPLICATE_SECONDS, EndRequests, defer_interrupts

HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        ([(0.0, HUP), (0.1, HUP), (0.2, TERM)], [True, False, False]),
        ([(0.0, TERM), (0.1, TERM), (DUPLICATE_SECONDS + 0.1, TERM)], [True, False, True]),
        ([(0.0, INT), (0.1, INT)], [True, True]),
        ([(0.0, INT), (9.0, HUP), (9.1, HUP), (12.0, HUP)], [True, False, False, True]),
        ([(0.0, INT), (0.1, TERM), (60.0, TERM), (60.1, TERM)], [True, False, True, False]),
        ([(0.0, TERM), (0.1, INT)], [True, True]),
    ],
)
def test_requests_that_count(
    monkeypatch: pytest.MonkeyPatch, sent: list[tuple[float, int]], counted: list[bool]
) -> None:
    now = iter([seconds for seconds, _ in sent])
    monkeypatch.setattr(interrupts.time, "monotonic", lambda: next(now))
    requests = EndRequests()
    assert [requests.counts(number) for _, number in sent] == counted


@pytest.mark.parametrize(("numbers", "begun", "done"), [([HUP, HUP, TERM], [], [HUP]), ([HUP, INT], [INT], [INT, HUP])])
@pytest.mark.usefixtures("usual_signals")
def test_deferred_signal_is_handled_at_the_end_and_a_second_ctrl_c_at_once(
    numbers: list[int], begun: list[int], done: list[int]
) -> None:
    handled: list[int] = []
    before = {number: signal.signal(number, lambda number, _: handled.append(number)) for number in (HUP, INT, TERM)}
    try:
        with defer_interrupts():
            for number in numbers:
                signal.raise_signal(number)
            assert handled == begun
        assert handled == done
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
