"""Tests of the access control of `finder serve` and `finder dashboard`: tokens and TLS, with real processes."""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificate
from processes import running

RUN = "import sys; from finder.cli import main; sys.exit(main())"
DEADLINE_SECONDS = 1200
TOKEN = "the-token-of-this-test"
STUDY = """
name = "shared"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 200
seeds = 1
n_trials = 2
sampler = "random"
pruner = "none"
confirm = 0
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


@pytest.fixture(autouse=True)
def without_token_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FINDER_TOKEN", raising=False)
    monkeypatch.delenv("FINDER_TLS_CA", raising=False)


@pytest.mark.parametrize("command", ["serve", "dashboard"])
def test_public_address_without_a_token_is_refused(finder: Any, command: str) -> None:
    ran = finder(command, "--storage", "kept.db", "--host", "0.0.0.0")
    assert ran.code == 2
    assert ran.out == ""
    message = " ".join(ran.err.split())
    assert message.startswith("Error: 0.0.0.0 is open to other machines, and there is no token: set FINDER_TOKEN")
    assert "--insecure" in message
    assert not (finder.folder / "kept.db").exists()


def test_new_token_is_printed_and_that_of_the_environment_is_not(finder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.servers.dashboard._ThreadedServer.serve_forever", lambda *_, **__: None)
    words = ("serve", "--storage", "kept.db", "--port", "0", "--dashboard-port", "0")
    made = finder(*words, "--new-token")
    assert made.code == 0, made.err
    [token] = [line.split("FINDER_TOKEN=")[1].split()[0] for line in made.err.splitlines() if "FINDER_TOKEN=" in line]
    assert len(token) > 40
    assert f"/dashboard?token={token}" in made.err
    monkeypatch.setenv("FINDER_TOKEN", TOKEN)
    given = finder(*words)
    assert given.code == 0, given.err
    assert TOKEN not in given.out + given.err
    assert "export FINDER_TOKEN=... " in given.err
    assert "on every machine with a worker: the token of this server" in given.err


@pytest.mark.parametrize(
    "command", [("serve", "--host", "0.0.0.0", "--dashboard-port", "0"), ("dashboard", "--host", "0.0.0.0")]
)
@pytest.mark.slow
def test_insecure_option_allows_every_machine(
    finder: Any, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("studies.servers.dashboard._ThreadedServer.serve_forever", lambda *_, **__: None)
    assert finder.small("tune", "ppo", "--env", "CartPole-v1", "--n-trials", "1", "-p", "gamma", "--quiet").code == 0
    ran = finder(*command, "--port", "0", "--insecure")
    assert ran.code == 0, ran.err
    assert "Every machine that can connect can read and change every study (--insecure)." in ran.err
    assert "token" not in ran.err


def run(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=folder, env={**os.environ, **changes}, capture_output=True, text=True,
        timeout=DEADLINE_SECONDS, check=False,
    )  # fmt: skip


def page(address: str, authority: Path, token: str) -> tuple[int, str]:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    context = ssl.create_default_context(cafile=authority)
    try:
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.real
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_workers_and_dashboard_need_the_token(finder: Any) -> None:
    folder = finder.folder
    (folder / "study.toml").write_text(STUDY)
    certificate, key = make_certificate(folder)
    right = {"FINDER_TOKEN": TOKEN, "FINDER_TLS_CA": str(certificate)}
    wrong = {**right, "FINDER_TOKEN": "another-token-of-this-length"}
    served = ("--storage", "served.db", "--port", "0", "--dashboard-port", "0")
    with running(
        [sys.executable, "-c", RUN, "serve", *served, "--tls-cert", str(certificate), "--tls-key", str(key)],
        cwd=folder, env={**os.environ, **right}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            storage, dashboard = server.stdout.readline().strip(), server.stdout.readline().strip()
            assert storage.startswith("grpcs://127.0.0.1:")
            assert dashboard.startswith("https://127.0.0.1:")
            submitted = run(folder, "submit", "study.toml", "--storage", storage, **right)
            assert submitted.returncode == 0, submitted.stderr
            for command in (("worker", "shared"), ("studies",), ("delete", "shared", "--yes")):
                refused = run(folder, *command, "--storage", storage, **wrong)
                assert refused.returncode == 2
                assert "UNAUTHENTICATED" in refused.stderr
                assert "shared" not in refused.stdout
            worked = run(folder, "worker", "shared", "--storage", storage, "--json", **right)
            assert worked.returncode in (0, 1), worked.stderr  # a study this short may have no pick
            listed = run(folder, "studies", "--storage", storage, **right)
            assert "2/2" in listed.stdout, worked.stderr
            assert TOKEN not in submitted.stderr + worked.stderr + worked.stdout
            studies = dashboard.removesuffix("/dashboard") + "/api/studies"
            status, body = page(studies, certificate, TOKEN)
            assert (status, '"study_name": "shared"' in body) == (200, True)
            for token in ("", "another-token-of-this-length"):
                status, body = page(studies, certificate, token)
                assert (status, "shared" in body) == (401, False)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=600) == 0


@pytest.mark.real
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_dashboard_uses_tls_and_needs_its_new_token(finder: Any) -> None:
    assert finder.small("tune", "ppo", "--env", "CartPole-v1", "--n-trials", "1", "-p", "gamma", "--quiet").code == 0
    certificate, key = make_certificate(finder.folder)
    secured = ("--new-token", "--tls-cert", str(certificate), "--tls-key", str(key))
    with subprocess.Popen(
        [sys.executable, "-c", RUN, "dashboard", "--port", "0", *secured],
        cwd=finder.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            address = server.stdout.readline().strip()
            assert address.startswith("https://127.0.0.1:")
            line = next(line for line in iter(server.stderr.readline, "") if "?token=" in line)
            token = line.split("?token=")[1].split()[0]
            studies = address.removesuffix("/dashboard") + "/api/studies"
            status, body = page(studies, certificate, token)
            assert (status, "tune-ppo-CartPole-v1" in body) == (200, True)
            assert page(studies, certificate, "another-token-of-this-length")[0] == 401
            with pytest.raises((urllib.error.URLError, OSError)):
                urllib.request.urlopen(studies.replace("https:", "http:"), timeout=60)
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=600)
