"""Runs the command line, in this process (fast) or in one of its own (real), in an empty directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from processes import end_session, started

RUN = "import sys; from finder.cli import main; sys.exit(main())"

SMALL = ("--env-steps=600", "--set=jit_compile=false", "--set=n_steps=32", "--set=n_epochs=1")
"""A run of a fraction of a second."""

ENVIRONMENTS = '''
import os
import time
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class Broken(CartPoleEnv):
    """The first `broken_steps` steps in this process raise, or give a reward that is no number."""

    n_steps = 0

    def __init__(self, broken_steps=10**9, nan=False, **kwargs):
        super().__init__(**kwargs)
        self.broken_steps, self.nan = broken_steps, nan

    def step(self, action):
        type(self).n_steps += 1
        observation, reward, terminated, truncated, info = super().step(action)
        if type(self).n_steps <= self.broken_steps:
            if not self.nan:
                raise RuntimeError("the robot fell off the table")
            reward = float("nan")
        return observation, reward, terminated, truncated, info


class Slow(CartPoleEnv):
    """Makes the file `running`; is slow while there is a file `slow`; may send this process a signal."""

    def __init__(self, signal_in_step=None, **kwargs):
        super().__init__(**kwargs)
        self.signal_in_step = signal_in_step

    def step(self, action):
        if self.signal_in_step is not None:
            os.kill(os.getpid(), self.signal_in_step)
        Path("running").touch()
        if Path("slow").exists():
            time.sleep(0.01)
        return super().step(action)


class Loud(CartPoleEnv):
    """Prints, in two ways; raises while there is a file `broken`."""

    def reset(self, **kwargs):
        print("hello from the environment")
        os.write(1, b"and from below\\n")
        return super().reset(**kwargs)

    def step(self, action):
        if Path("broken").exists():
            raise RuntimeError("no simulator")
        return super().step(action)


if "Broken-v0" not in gym.registry:
    gym.register("Broken-v0", entry_point="cli_envs:Broken", max_episode_steps=100)
    gym.register("Loud-v0", entry_point="cli_envs:Loud", max_episode_steps=100)
    gym.register("Slow-v0", entry_point="cli_envs:Slow", max_episode_steps=20)
'''


class Ran(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Finder:
    """Runs command lines in a folder, which holds the environments above as the module `cli_envs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        (folder / "cli_envs.py").write_text(ENVIRONMENTS)

    def __call__(self, *words: str) -> Ran:
        from finder.cli import main

        out, err = io.StringIO(), io.StringIO()
        with self._there(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        return Ran(code, out.getvalue(), err.getvalue())

    def small(self, *words: str) -> Ran:
        """Runs a search with a tiny budget and, unless `words` say otherwise, one seed."""
        seeds = () if any(word.startswith("--seeds") for word in words) else ("--seeds=1",)
        return self(*words, *SMALL, *seeds)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Starts a command in a process and a session of its own, which ends with the test; see `processes.started`."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = started([sys.executable, "-c", RUN, *words], cwd=self.folder, text=True, **{**pipes, **options})
        self._started.append(process)
        return process

    def close(self) -> None:
        """Ends what was started."""
        while self._started:
            end_session(self._started.pop())

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs Python in a process of its own."""
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )

    @contextlib.contextmanager
    def _there(self) -> Iterator[None]:
        path, before = list(sys.path), Path.cwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path
            sys.modules.pop("cli_envs", None)


@pytest.fixture(autouse=True)
def no_storage_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTUNA_STORAGE", raising=False)


@pytest.fixture
def finder(tmp_path: Path) -> Iterator[Finder]:
    made = Finder(tmp_path)
    yield made
    made.close()


class Searched(NamedTuple):
    """A learning-rate search that was run once for many tests, and who can run commands beside it."""

    finder: Finder
    words: tuple[str, ...]
    ran: Ran
    study: str


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    finder = Finder(tmp_path_factory.mktemp("searched"))
    words = ("lr", "ppo", "--env", "CartPole-v1", "--seeds", "2", "--n-rates", "3", "--start-lr", "1e-4")
    return Searched(finder, words, finder.small(*words), "lr-ppo-CartPole-v1")
