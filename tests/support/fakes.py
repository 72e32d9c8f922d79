"""Small agents, failing environments and a recording listener, shared by tests.

The module is on the path, so that child processes can import it; environments are `fakes:NAME`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents.distributed import shared
from finder.trials.trial import Outcome
from studies.database.records import EpisodeRecord
from studies.statistics.values import mean_of_seeds

SMALL_PPO = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "hidden_sizes": [8], "jit_compile": False}
SMALL_DQN = {"learning_starts": 32, "batch_size": 8, "hidden_sizes": [8], "train_freq": 8, "jit_compile": False}


class RecordingListener:
    """A listener for trials that records everything, and prunes at `prune_at` steps if given."""

    def __init__(self, prune_at: int | None = None) -> None:
        self.prune_at = prune_at
        self.configurations: dict[int, dict[str, Any]] = {}
        self.records: dict[int, list[EpisodeRecord]] = {}
        self.reports: dict[int, list[tuple[int, float]]] = {}
        self.outcomes: dict[int, Outcome] = {}

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        self.configurations[number] = configuration

    share = None
    n_to_resume = 0

    pauses = False

    @property
    def prunes(self) -> bool:
        return self.prune_at is not None

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> Any:
        for number, own in records.items():
            self.records.setdefault(number, []).extend(own)

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Any:
        for number, value in values.items():
            self.reports.setdefault(number, []).append((env_steps, float(mean_of_seeds(list(value.values())))))
        if self.prune_at is None or env_steps < self.prune_at:
            return {}
        return dict.fromkeys(values, "pruned: it fell behind")

    def alive(self) -> None:
        pass

    def hangs(self, numbers: Any, reason: str, fresh: Any) -> None:
        raise AssertionError(f"{numbers} hang: {reason}")

    def ended(self, number: int, outcome: Outcome) -> None:
        assert number not in self.outcomes, "a trial ended twice"
        self.outcomes[number] = outcome


class TwoStep(gym.Env[np.ndarray, int]):
    """Episodes of five steps whose reward is the action, with failures at given steps."""

    def __init__(
        self,
        *,
        fail_after: int | None = None,
        kill_after: int | None = None,
        nan_after: int | None = None,
        kill_once: tuple[int, str] | None = None,  # after this number of steps, if this file does not exist; creates it
        hang_after: int | None = None,
        deaf: bool = False,  # whether it hangs like compiled code, which handles no signals
        counter: str | None = None,  # name of a shared counter of steps
    ) -> None:
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._fail_after, self._kill_after, self._nan_after = fail_after, kill_after, nan_after
        self._kill_once = kill_once
        self._hang_after, self._deaf = hang_after, deaf
        self._counter = shared(counter) if counter else None
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self._steps += 1
        if self._counter is not None:
            self._counter.add()
        if self._steps == self._fail_after:
            raise RuntimeError("the arm fell off")
        if self._steps == self._kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._steps == self._hang_after:
            if self._deaf:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(3600)
        if self._kill_once is not None and self._steps == self._kill_once[0] and not Path(self._kill_once[1]).exists():
            Path(self._kill_once[1]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        reward = float("nan") if self._steps == self._nan_after else float(action)
        observation = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return observation, reward, self._steps % 5 == 0, False, {}


gym.register("TwoStep-v0", entry_point=TwoStep)


class Uncopyable(TwoStep):
    """An environment with an attribute that cannot be copied, such as a connection to a simulator."""

    def __deepcopy__(self, memo: dict[int, object]) -> Uncopyable:
        raise TypeError("a connection cannot be copied")


gym.register("Uncopyable-v0", entry_point=Uncopyable)
