"""Tests of processes whose fork server is killed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from processes import usual_signals

SCRIPT = """
import os, signal, sys
from multiprocess import forkserver
from agents.processes.fork_server import await_fork_server, has_lost_server, prepare_processes, start_child

context = prepare_processes("json")
await_fork_server(context)
waiting, sender = context.Pipe(duplex=False)
own = [start_child(context, os._exit, code, threads=1) for code in (1, 255)]
for process in own:
    process.join()
child = start_child(context, waiting.recv_bytes, threads=1)
lost = [has_lost_server(process) for process in (*own, child)]
os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
child.join()
lost += [child.exitcode, has_lost_server(child), has_lost_server(own[0])]
again = start_child(context, waiting.recv_bytes, threads=1)  # of a new server
lost += [has_lost_server(child), has_lost_server(again)]
sender.send_bytes(b"end")
print(*lost)
"""


@pytest.mark.real
def test_processes_whose_fork_server_was_killed_are_told_from_others() -> None:
    with usual_signals():
        ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600, check=False)
    assert ran.stdout.split() == ["False", "False", "False", "255", "True", "False", "True", "False"], ran.stderr
