"""Tests of the signals that a terminal sends to all processes of a program."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import usual_signals

from agents.distributed.loopback import exit_with_parent
from agents.processes.orphans import leave_signals_to_parent

OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)

PROCESSES = """
import signal
from multiprocess import forkserver, resource_tracker
from multiprocess.managers import BaseManager
from agents.processes.fork_server import await_fork_server, prepare_processes

context = prepare_processes("json")
await_fork_server(context)
with BaseManager(ctx=context) as manager:
    pids = [forkserver._forkserver._forkserver_pid, manager._process.pid, resource_tracker._resource_tracker._pid]
    print(*pids, *(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())), flush=True)
    input()
"""


def masks(pid: int) -> tuple[int, int]:
    """Return the signals that a process blocks, and those that it ignores."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    return int(values["SigBlk"], 16), int(values["SigIgn"], 16)


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the signal masks of processes in /proc")
def test_fork_server_and_its_managers_are_deaf_to_signals_of_terminals() -> None:
    with (
        usual_signals(),
        subprocess.Popen(
            [sys.executable, "-c", PROCESSES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent,
    ):
        assert parent.stdout is not None
        (*pids,) = map(int, parent.stdout.readline().split())
        assert len(pids) == 3, "the program itself blocks no signals"
        deaf = []
        for pid in pids:
            blocked, ignored = masks(pid)
            deaf.append([number for number in OF_TERMINALS if (blocked | ignored) >> (number - 1) & 1])
        parent.communicate("\n")
    assert deaf == [list(OF_TERMINALS)] * 3


def test_processes_of_strategies_leave_signals_of_terminals_to_their_parent() -> None:
    with usual_signals():
        exit_with_parent(threading.Event().wait)
        assert [signal.getsignal(number) for number in OF_TERMINALS] == [signal.SIG_IGN] * 2


def test_children_do_not_handle_sigterm_as_their_parent_does() -> None:
    with usual_signals():
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        leave_signals_to_parent()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
