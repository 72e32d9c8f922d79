"""Tests of `finder submit`, `worker` and `serve`: one study in several processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import session_members, wait_until_alone

from agents.shared_objects.addresses import reachable
from studies.database.retries import RETRY_VARIABLE

DEADLINE_SECONDS = 1200

FILE = """
name = "shared"
agents = ["ppo"]
env = "{env}"
env_steps = 400
seeds = 1
n_trials = {n_trials}
sampler = "random"
pruner = "none"
confirm = 2
confirm_seeds = 1
executor = "inline"

[fixed]
jit_compile = false
n_envs = 1
n_steps = 16
n_epochs = 1
batch_size = 16

[params]
learning_rate = "1e-4:1e-2:log"
"""


def write(folder: Path, env: str = "CartPole-v1", n_trials: int = 3) -> None:
    (folder / "study.toml").write_text(FILE.format(env=env, n_trials=n_trials))


@contextlib.contextmanager
def served(finder: Any) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server in a new process; yield its address and the process."""
    process = finder.start("serve", "--storage", "served.db", "--port", "0", "--dashboard-port", "0")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("grpc://127.0.0.1:"), process.communicate()[1]
        yield address, process
    finally:
        process.kill()
        process.communicate()


def wait_until_running(finder: Any, worker: subprocess.Popen[str]) -> None:
    """Wait until a worker steps an environment."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (finder.folder / "running").exists():
        assert worker.poll() is None, worker.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_submitted_study_is_run_by_a_worker(finder: Any) -> None:
    write(finder.folder)
    ran = finder("submit", "study.toml", "--storage", "kept.db")
    assert ran.code == 0, ran.err
    assert ran.out == "shared in kept.db: 3 trials to run\n"
    assert "finder worker shared --storage kept.db" in ran.err
    again = finder("submit", "study.toml", "--storage", "kept.db", "--n-trials", "4", "--json")
    assert again.json == {"study": "shared", "storage": "kept.db", "n_left": 4}
    worked = finder("worker", "shared", "--storage", "kept.db", "--json")
    assert worked.code == 0, worked.err
    assert worked.json["trials"] == {"complete": 4, "pruned": 0, "failed": 0}
    assert finder("best", "shared", "--storage", "kept.db", "--json").json["complete"] is True
    nothing = finder("worker", "shared", "--storage", "kept.db")
    assert nothing.code == 0
    assert "All trials have ended; this is the result." in nothing.err


def test_population_based_training_is_not_submitted(finder: Any) -> None:
    (finder.folder / "pbt.toml").write_text(
        'name = "pbt"\nagents = ["ppo"]\nenv = "CartPole-v1"\nenv_steps = 20000\nn_trials = 4\n'
        'pruner = "pbt"\nseeds = [0]\n[params]\nlearning_rate = "1e-5:1e-2:log"\n'
    )
    ran = finder("submit", "pbt.toml", "--storage", "kept.db")
    assert ran.code == 2
    assert "run it with finder run pbt.toml" in ran.err


@pytest.mark.parametrize("line", ["minutes = 3", "total_env_steps = 90000", "minutes = 3\nenv_steps = 100"])
def test_study_with_a_budget_of_the_whole_search_is_not_submitted(finder: Any, line: str) -> None:
    (finder.folder / "some.toml").write_text(
        f'name = "some"\nagents = ["ppo"]\nenv = "CartPole-v1"\n{line}\n[params]\nlearning_rate = "1e-5:1e-2:log"\n'
    )
    ran = finder("submit", "some.toml", "--storage", "kept.db")
    assert ran.code == 2
    shown = " ".join(ran.err.split())
    assert f"{line.partition(' =')[0]} is " in shown
    assert "give env_steps and n_trials instead, or run the search with finder run some.toml" in shown
    assert not (finder.folder / "kept.db").exists()


def test_serve_prints_reachable_addresses(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.servers.dashboard._ThreadedServer.serve_forever", lambda *_, **__: None)
    monkeypatch.setattr(
        "finder.cli.commands.machines.reachable", {"127.0.0.2": "10.1.2.3", "127.0.0.1": "127.0.0.1"}.get
    )
    for host, address in (("127.0.0.2", "10.1.2.3"), ("127.0.0.1", "127.0.0.1")):
        ran = finder("serve", "--storage", "kept.db", "--host", host, "--port", "0", "--dashboard-port", "0")
        assert ran.code == 0, ran.err
        proxy, dashboard = ran.out.split()
        assert proxy.startswith(f"grpc://{address}:")
        assert dashboard.startswith(f"http://{address}:")
        assert "on this machine" in ran.err  # both are addresses that no other machine reaches
        assert "from any machine" not in ran.err
        assert f"finder worker STUDY --storage {proxy}" in ran.err


@pytest.mark.slow
def test_occupied_dashboard_port_is_reported_with_its_flag(finder: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = finder("serve", "--storage", "new.db", "--port", "0", "--dashboard-port", port)
    assert ran.code == 2
    assert "There is no study in new.db yet." in ran.err
    assert "choose another --dashboard-port" in ran.err
    assert finder("serve", "--storage", "new.db", "--dashboard-port", "-3").code == 2


@pytest.mark.slow
def test_storage_of_a_study_file_overrides_the_environment_variable(
    finder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine"\nstorage = "named.db"\nagents = "ppo"\nenv = "CartPole-v1"\nenv_steps = 100\nn_trials = 1\n'
        '[params]\nlearning_rate = "1e-4:1e-3"\n'
    )
    monkeypatch.setenv("OPTUNA_STORAGE", "sqlite:///exported.db")
    ran = finder("submit", str(file))
    assert ran.code == 0, ran.err
    assert "is written to named.db, the storage in its file, not to OPTUNA_STORAGE" in " ".join(ran.err.split())
    assert "mine in named.db: 1 trial to run" in ran.out
    assert "one process at a time; finder serve allows more" in " ".join(ran.err.split())
    overridden = finder("submit", str(file), "--storage", "flagged.db")
    assert "OPTUNA_STORAGE" not in overridden.err
    assert "flagged.db" in overridden.out


def test_reachable_replaces_the_wildcard_address() -> None:
    assert reachable("127.0.0.1") == "127.0.0.1"
    assert reachable("node-3") == "node-3"
    with socket.create_server(("0.0.0.0", 0)) as server:
        socket.create_connection((reachable("0.0.0.0"), server.getsockname()[1]), timeout=10).close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("submit", "none.toml"), "none.toml"),
        (("submit", "study.toml", "--storage", "memory"), "ends with this command: give a --storage"),
        (("submit", "study.toml", "--n-trials", "0"), "n-trials"),
        (("worker", "shored", "--storage", "kept.db"), "Did you mean 'shared'?"),
        (("worker", "shared", "--storage", "none.db"), "there is no storage 'none.db'"),
        (("worker", "shared", "--storage", "grpc://127.0.0.1:1"), "nothing answers at grpc://127.0.0.1:1"),
        (("worker", "shared", "--storage", "grpc://:x"), "write grpc://host:13000"),
        (("serve", "--storage", "memory"), "cannot be served"),
        (("serve", "--storage", "kept.log"), "cannot be served"),
        (("serve", "--storage", "kept.db", "--host", "no.such.host.invalid"), "choose another"),
    ],
)
def test_mistakes_are_reported(
    finder: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.setattr("studies.storage.proxy_client.READY_SECONDS", 0.5)
    write(finder.folder)
    assert finder("submit", "study.toml", "--storage", "kept.db").code == 0
    ran = finder(*words)
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_worker_reports_an_agent_defined_in_a_script(finder: Any) -> None:
    write(finder.folder)
    assert finder("submit", "study.toml", "--storage", "kept.db").code == 0
    from studies.recording.opening import open_study
    from studies.spec.spec import StudySpec

    spec = StudySpec(
        name="theirs", storage=f"sqlite:///{finder.folder}/kept.db", agents=("Mine",), env="CartPole-v1", env_steps=100,
        params={"learning_rate": "1e-4:1e-2:log"},
    )  # fmt: skip
    open_study(spec).close()
    ran = finder("worker", "theirs", "--storage", "kept.db")
    assert ran.code == 2
    assert "Mine" in ran.err


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_workers_share_a_served_study_and_a_killed_one_loses_nothing(finder: Any) -> None:
    write(finder.folder, "cli_envs:Slow-v0", n_trials=6)
    (finder.folder / "slow").touch()
    with served(finder) as (address, server):
        assert finder("submit", "study.toml", "--storage", address).code == 0
        allowed = ("--storage", address, "--allow-module", "cli_envs")
        first = finder.start("worker", "shared", *allowed)
        wait_until_running(finder, first)
        first.kill()
        first.communicate()
        wait_until_alone(first.pid)
        (finder.folder / "slow").unlink()
        others = [finder.start("worker", "shared", *allowed, "--json") for _ in range(2)]
        outputs = [other.communicate(timeout=DEADLINE_SECONDS) for other in others]
        assert [other.returncode for other in others] == [0, 0], outputs
        shown = finder("show", "shared", "--storage", address, "--json").json
        assert [trial["state"] for trial in shown["trials"]] == ["complete"] * (6 + 2)
        assert finder("best", "shared", "--storage", address, "--json").json["complete"] is True
        assert finder("serve", "--storage", "served.db", "--port", address.rpartition(":")[2]).code == 2
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=600) == 0
        assert session_members(server.pid) == []


@pytest.mark.real
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_workers_that_a_signal_ends_return_their_trials(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDER_CHECKPOINTS", str(finder.folder / "checkpoints"))
    write(finder.folder, "cli_envs:Slow-v0")
    (finder.folder / "slow").touch()
    with served(finder) as (address, _):
        assert finder("submit", "study.toml", "--storage", address).code == 0
        words = ("worker", "shared", "--storage", address, "--allow-module", "cli_envs")
        for number, executor, send in (
            (signal.SIGINT, "inline", os.killpg),
            (signal.SIGTERM, "process", os.kill),
            (signal.SIGHUP, "process", os.killpg),
        ):
            worker = finder.start(*words, "--executor", executor)
            wait_until_running(finder, worker)
            send(worker.pid, number)
            _, err = worker.communicate(timeout=DEADLINE_SECONDS)
            assert worker.returncode == 128 + number, err
            assert "Traceback" not in err
            assert f"Stopped. 0 of 3 trials are done and recorded in {address}." in err
            assert f"Resume:  finder {' '.join(words)} --executor {executor}" in err
            wait_until_alone(worker.pid)
            shown = finder("show", "shared", "--storage", address, "--json").json
            assert {trial["state"] for trial in shown["trials"]} == {"interrupted"}
            (finder.folder / "running").unlink()
        (finder.folder / "slow").unlink()
        worked = finder(*words, "--json")
        assert "interrupted and continue" in worked.err
        assert worked.json["trials"] == {"complete": 3, "pruned": 0, "failed": 0}


@pytest.mark.real
def test_worker_ends_when_its_server_does_not_answer_in_time(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write(finder.folder, "cli_envs:Slow-v0", n_trials=50)
    (finder.folder / "slow").touch()
    with served(finder) as (address, server):
        assert finder("submit", "study.toml", "--storage", address).code == 0
        monkeypatch.setenv(RETRY_VARIABLE, "3")
        monkeypatch.setenv("FINDER_CHECKPOINTS", str(finder.folder / "checkpoints"))
        worker = finder.start("worker", "shared", "--storage", address, "--allow-module", "cli_envs")
        wait_until_running(finder, worker)
        os.kill(server.pid, signal.SIGSTOP)
        (finder.folder / "slow").unlink()
        try:
            _, err = worker.communicate(timeout=DEADLINE_SECONDS)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert worker.returncode == 2
        assert f"{address} has not answered for " in " ".join(err.split())
        assert "Traceback" not in err
