"""Tests of the signals that are sent to all processes of a program."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from processes import usual_signals

from agents.distributed.loopback import exit_with_parent
from agents.processes import ending, fork_server
from agents.processes.interrupts import END_REQUESTS, block_interrupts
from agents.processes.orphans import leave_signals_to_parent

TO_ALL = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

PROCESSES = """
import os, signal, time
from multiprocess import forkserver, resource_tracker
from multiprocess.managers import BaseManager
from agents.processes.fork_server import await_fork_server, prepare_processes, start_child
from agents.processes.orphans import end_with_parent

def server():
    return forkserver._forkserver._forkserver_pid

context = prepare_processes("json")
await_fork_server(context)
manager = BaseManager(ctx=context)
manager.start(initializer=end_with_parent)
print(server(), manager._process.pid, resource_tracker._resource_tracker._pid, flush=True)
input()
os.kill(server(), signal.SIGKILL)
os.waitid(os.P_PID, server(), os.WEXITED | os.WNOWAIT)
child = start_child(context, time.sleep, 3600, threads=1)
print(server(), child.pid, *(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())), flush=True)
input()
"""


def is_deaf(pid: int) -> bool:
    """Return whether a process blocks or ignores all signals that are sent to all processes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    deaf_to = int(values["SigBlk"], 16) | int(values["SigIgn"], 16)
    return all(deaf_to >> (number - 1) & 1 for number in TO_ALL)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the signal masks of processes in /proc")
def test_fork_servers_and_their_managers_are_deaf_to_signals_and_end_with_the_program() -> None:
    with (
        usual_signals(),
        subprocess.Popen(
            [sys.executable, "-c", PROCESSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent,
    ):
        assert parent.stdout is not None
        assert parent.stdin is not None
        server, manager, tracker = map(int, parent.stdout.readline().split())
        assert [is_deaf(pid) for pid in (server, manager, tracker)] == [True] * 3
        parent.stdin.write("\n")
        parent.stdin.flush()
        second_server, _child = map(int, parent.stdout.readline().split())  # the program itself blocks no signals
        assert second_server != server
        assert is_deaf(second_server)
        parent.communicate("\n", timeout=60)  # the child, which does not end by SIGTERM, is killed at exit


@pytest.mark.parametrize("leave", [leave_signals_to_parent, partial(exit_with_parent, threading.Event().wait)])
def test_children_leave_signals_to_their_parent_and_programs_that_they_start_do_not(leave: Callable[[], None]) -> None:
    with usual_signals():
        signal.signal(signal.SIGTERM, raise_error)
        with block_interrupts():
            leave()
            END_REQUESTS.reset()
            for number in TO_ALL:
                signal.raise_signal(number)
            assert END_REQUESTS.first == signal.SIGTERM
            END_REQUESTS.reset()
            with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
                program.terminate()
        assert program.returncode == -signal.SIGTERM


def raise_error(number: int, frame: Any) -> None:
    raise AssertionError("the handler of the parent was called")


class Interrupted:
    """Process during whose start Ctrl-C is pressed."""

    def start(self) -> None:
        signal.raise_signal(signal.SIGINT)

    def kill(self) -> None:
        pass


def test_a_process_is_killed_at_exit_although_its_start_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    process: Any = Interrupted()
    context = SimpleNamespace(Process=lambda **_: process)
    monkeypatch.setattr(fork_server, "_ensure_server", lambda: None)
    with usual_signals(), pytest.raises(KeyboardInterrupt):
        fork_server.start_child(context, print, threads=1)
    assert process in ending._killed_at_exit
