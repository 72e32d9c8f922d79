"""Training functions of a user: toys that are best at a known rate, and some that do not behave."""

from __future__ import annotations

import functools
import math
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import agents
from agents import Hyperparameter, TrainingRun

BEST_RATE = 0.02


def quality(learning_rate: float) -> float:
    """1 at the best rate, next to nothing a decade away from it."""
    return math.exp(-((5 * math.log10(learning_rate / BEST_RATE)) ** 2))


def train(run: TrainingRun, learning_rate: float = 1e-4, width: int = 64) -> None:
    """Comes the nearer to a return of 100 the longer it trains; episodes are of 50 steps."""
    rng = np.random.default_rng(run.seed)
    skill, steps = 0.0, 0
    while True:
        skill += 0.1 * (quality(learning_rate) - skill)
        steps += 50
        run.report(episode_return=100 * skill + rng.normal(), length=50, loss=1 - skill, env_steps=steps)


def with_ranges(
    run: TrainingRun,
    rate: Annotated[float, Hyperparameter(help="Step size.", above=0.0, search=(1e-3, 1e-1), log=True)] = 1e-2,
) -> None:
    """Declares its range itself, and tells of no losses."""
    while True:
        run.report(100 * quality(rate), length=50)


def by_global_generators(run: TrainingRun, offset: float = 0.0) -> None:
    """Draws from what a user draws from."""
    while True:
        run.report(offset + random.random() + float(np.random.random()), length=10)


def tidy(run: TrainingRun, log: str = "", gain: float = 1.0) -> None:
    """Writes down how it ends."""
    try:
        while True:
            run.report(gain, length=10)
    except BaseException as error:
        told = type(error).__name__
        raise
    finally:
        with Path(log).open("a") as file:
            file.write(f"{gain:g} {run.seed} {told} after {len(run.history.returns)}\n")


def ends_early(run: TrainingRun, gain: float = 1.0) -> None:
    """Returns after a fifth of a budget of 1,000 steps; the last part of that counts."""
    for i in range(20):
        run.report(gain * i, length=10)


def silent(run: TrainingRun, gain: float = 1.0) -> None:
    """Never reports."""


def raises(run: TrainingRun, gain: float = 1.0) -> None:
    """Fails in the middle."""
    run.report(gain, length=10)
    raise RuntimeError("the arm fell off")


def exits(run: TrainingRun, gain: float = 1.0) -> None:
    """Would end the whole process."""
    run.report(gain, length=10)
    sys.exit(3)


def nan(run: TrainingRun, gain: float = 1.0) -> None:
    """Diverges, and does not want to know it: returns, or with a gain of 2 raises something else."""
    run.report(gain, length=10)
    try:
        run.report(float("nan"), length=10)
    except Exception:  # noqa: BLE001 - as users do
        if gain == 2:
            raise RuntimeError("it did not work") from None


def untidy(run: TrainingRun, gain: float = 1.0) -> None:
    """Fails when its run has ended."""
    try:
        while True:
            run.report(gain, length=10)
    finally:
        raise OSError("no space left")


def dies_once(run: TrainingRun, mark: str = "", gain: float = 1.0) -> None:
    """Its process is killed after seven episodes, the first time."""
    for i in range(20):
        if i == 7 and not Path(mark).exists():
            time.sleep(1.0)  # so that what it has told is written
            run.report(gain + i, length=10)
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        run.report(gain + i, length=10)


def hangs(run: TrainingRun, mark: str = "", gain: float = 1.0) -> None:
    """Does not come back; notes when it is ended."""
    run.report(gain, length=10)
    try:
        while True:
            time.sleep(0.01)
    finally:
        Path(mark).touch()


def no_default(run: TrainingRun, width: int) -> None:
    """A parameter that nobody gives."""


def misnamed(run: TrainingRun, structure: int = 1) -> None:
    """A name that configs have already."""


def takes_no_run() -> None:
    """Not a training function."""


def counts(run: Any, gain: float = 1.0, optimizer: str = "adam", layers: tuple[int, ...] = (64,)) -> None:
    """An `optimizer` and lists of its own."""
    bonus = {"adam": 1.0, "mine": 2.0}[optimizer]
    assert isinstance(layers, tuple)
    while True:
        run.report(bonus * gain, length=10)


def measured(run: Any, gain: float = 1.0) -> None:
    """Tells of something else beside returns."""
    while True:
        run.report(gain, length=10, custom_metrics={"height": 2 * gain})


def steady(run: Any, gain: float = 1.0, width: int = 0) -> None:
    """The same return again and again."""
    while True:
        run.report(gain, length=10)


class Doubles(agents.Callback):
    """Measures something of every episode."""

    def on_episode_end(self, trainer: Any, episode: agents.Episode) -> None:
        episode.custom_metrics["doubled"] = 2 * episode.episode_return


class Steps(agents.Callback):
    """Listens to what nobody tells of."""

    def on_step_end(self, trainer: Any) -> None:
        """Is never called."""


def logged(function: Any) -> Any:
    """A decorator, as users have them."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


@logged
def decorated(run: Any, gain: Annotated[float, Hyperparameter(help="G.", search=(0.5, 2.0))] = 1.0) -> None:
    """Says what its parameter may be."""
    run.report(gain, length=10)


def phases() -> agents.Callback:
    """A curriculum."""
    return agents.Curriculum(["easy", "hard"], promote_at=1.0)
