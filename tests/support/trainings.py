"""User-defined training functions: toy problems with a known best rate, and functions with errors."""

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
    """Return 1 at the best rate, and nearly 0 a decade away from it."""
    return math.exp(-((5 * math.log10(learning_rate / BEST_RATE)) ** 2))


def train(run: TrainingRun, learning_rate: float = 1e-4, width: int = 64) -> None:
    """Approach a return of 100 at the best rate, in episodes of 50 steps."""
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
    """Declare a search range, and report no losses."""
    while True:
        run.report(100 * quality(rate), length=50)


def by_global_generators(run: TrainingRun, offset: float = 0.0) -> None:
    """Draw from the global generators of Python and NumPy."""
    while True:
        run.report(offset + random.random() + float(np.random.random()), length=10)


def tidy(run: TrainingRun, log: str = "", gain: float = 1.0) -> None:
    """Record the error that ends the function."""
    try:
        while True:
            run.report(gain, length=10)
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        with Path(log).open("a") as file:
            file.write(f"{gain:g} {run.seed} {outcome} after {len(run.history.returns)}\n")


def ends_early(run: TrainingRun, gain: float = 1.0) -> None:
    """Return after a fifth of a budget of 1,000 steps; the last part of these steps gives the value."""
    for i in range(20):
        run.report(gain * i, length=10)


def silent(run: TrainingRun, gain: float = 1.0) -> None:
    """Return without a report."""


def raises(run: TrainingRun, gain: float = 1.0) -> None:
    """Raise an error after the first report."""
    run.report(gain, length=10)
    raise RuntimeError("the arm fell off")


def exits(run: TrainingRun, gain: float = 1.0) -> None:
    """Exit the process after the first report."""
    run.report(gain, length=10)
    sys.exit(3)


def nan(run: TrainingRun, gain: float = 1.0) -> None:
    """Catch the error of a divergence; then return, or raise another error if the gain is 2."""
    run.report(gain, length=10)
    try:
        run.report(float("nan"), length=10)
    except Exception:  # noqa: BLE001 - like code of users
        if gain == 2:
            raise RuntimeError("it did not work") from None


def untidy(run: TrainingRun, gain: float = 1.0) -> None:
    """Raise an error after the end of the run."""
    try:
        while True:
            run.report(gain, length=10)
    finally:
        raise OSError("no space left")


def dies_once(run: TrainingRun, mark: str = "", gain: float = 1.0) -> None:
    """Kill the process after seven episodes, the first time."""
    for i in range(20):
        if i == 7 and not Path(mark).exists():
            time.sleep(1.0)  # until the reports are written
            run.report(gain + i, length=10)
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        run.report(gain + i, length=10)


def hangs(run: TrainingRun, mark: str = "", gain: float = 1.0) -> None:
    """Sleep forever after the first report; create the file `mark` at the end, in the report or later."""
    try:
        run.report(gain, length=10)
        while True:
            time.sleep(0.01)
    finally:
        Path(mark).touch()


def no_default(run: TrainingRun, width: int) -> None:
    """Have a parameter without a default."""


def misnamed(run: TrainingRun, structure: int = 1) -> None:
    """Have a parameter with a reserved name."""


def begins_with_a_rate(learning_rate: float = 1e-3) -> None:
    """Lack the parameter `run`, and have a hyperparameter."""


def takes_no_run() -> None:
    """Lack the parameter `run`."""


def counts(run: Any, gain: float = 1.0, optimizer: str = "adam", layers: tuple[int, ...] = (64,)) -> None:
    """Have parameters named `optimizer` and of type tuple."""
    bonus = {"adam": 1.0, "mine": 2.0}[optimizer]
    assert isinstance(layers, tuple)
    while True:
        run.report(bonus * gain, length=10)


def measured(run: Any, gain: float = 1.0) -> None:
    """Report a custom metric besides returns."""
    while True:
        run.report(gain, length=10, custom_metrics={"height": 2 * gain})


def steady(run: Any, gain: float = 1.0, width: int = 0) -> None:
    """Report the same return in every episode."""
    while True:
        run.report(gain, length=10)


class Doubles(agents.Callback):
    """Adds a custom metric to every episode."""

    def on_episode_end(self, trainer: Any, episode: agents.Episode) -> None:
        episode.custom_metrics["doubled"] = 2 * episode.episode_return


class Steps(agents.Callback):
    """Has a method for an event that training functions do not have."""

    def on_step_end(self, trainer: Any) -> None:
        """Never called."""


def logged(function: Any) -> Any:
    """Return a wrapped function, like a decorator of users."""

    @functools.wraps(function)
    def wrapper(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    return wrapper


@logged
def decorated(run: Any, gain: Annotated[float, Hyperparameter(help="G.", search=(0.5, 2.0))] = 1.0) -> None:
    """Declare the range of a parameter."""
    run.report(gain, length=10)


def phases() -> agents.Callback:
    """Return a curriculum."""
    return agents.Curriculum(["easy", "hard"], promote_at=1.0)
