"""Fixtures that run the command line in an empty directory, in this process (fast) or in a new one (real)."""

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
"""Options of a run that takes a fraction of a second."""

ENVIRONMENTS = '''
import contextlib
import os
import subprocess
import time
from pathlib import Path

import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class Broken(CartPoleEnv):
    """Raises, or returns a NaN reward, in the first `broken_steps` steps of this process."""

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
    """Creates the file `running`; is slow while the file `slow` exists; may send this process a signal."""

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


class Simulated(Slow):
    """Has a simulator in a process of its own, which the signals that it sends end too."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.simulator = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def step(self, action):
        stepped = super().step(action)
        if self.signal_in_step is not None:
            self.simulator.kill()
            self.simulator.wait()
        self.simulator.stdin.write(b"step\\n")
        self.simulator.stdin.flush()
        if not self.simulator.stdout.readline():
            raise RuntimeError("the simulator has ended")
        return stepped

    def close(self):
        self.simulator.kill()
        with contextlib.suppress(BrokenPipeError), self.simulator:  # closes the pipes
            pass


class Loud(CartPoleEnv):
    """Prints in two ways; raises while the file `broken` exists."""

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
    gym.register("Simulated-v0", entry_point="cli_envs:Simulated", max_episode_steps=20)
    gym.register("Slow-v0", entry_point="cli_envs:Slow", max_episode_steps=20)
'''


class Ran(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Finder:
    """Runs commands in a folder that contains the environments above as the module `cli_envs`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []
        (folder / "cli_envs.py").write_text(ENVIRONMENTS)

    def __call__(self, *words: str) -> Ran:
        from finder.cli import main

        out, err = io.StringIO(), io.StringIO()
        with self._in_folder(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        return Ran(code, out.getvalue(), err.getvalue())

    def small(self, *words: str) -> Ran:
        """Run a search with a tiny budget, and with one seed unless `words` contain `--seeds`."""
        seeds = () if any(word.startswith("--seeds") for word in words) else ("--seeds=1",)
        return self(*words, *SMALL, *seeds)

    def start(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command in a new process and session, which end with the test; see `processes.started`."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = started([sys.executable, "-c", RUN, *words], cwd=self.folder, text=True, **{**pipes, **options})
        self._started.append(process)
        return process

    def close(self) -> None:
        """End all started processes."""
        while self._started:
            end_session(self._started.pop())

    def python(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run Python in a new process."""
        return subprocess.run(
            [sys.executable, *words], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )

    @contextlib.contextmanager
    def _in_folder(self) -> Iterator[None]:
        path, before = list(sys.path), Path.cwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path[:] = path
            sys.modules.pop("cli_envs", None)


@pytest.fixture(autouse=True)
def without_storage_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPTUNA_STORAGE", raising=False)


@pytest.fixture
def finder(tmp_path: Path) -> Iterator[Finder]:
    made = Finder(tmp_path)
    yield made
    made.close()


class Searched(NamedTuple):
    """A learning-rate search that is run once for many tests, and the command runner of its folder."""

    finder: Finder
    words: tuple[str, ...]
    ran: Ran
    study: str


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    finder = Finder(tmp_path_factory.mktemp("searched"))
    words = ("lr", "ppo", "--env", "CartPole-v1", "--seeds", "2", "--n-rates", "3", "--start-lr", "1e-4")
    return Searched(finder, words, finder.small(*words), "lr-ppo-CartPole-v1")
