"""Measures the speed of runs that are trained together, by training them for a few seconds, in any process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.callbacks.callback import Callback
from agents.config.agent_config import AgentConfig
from agents.contract.keras_agent import KerasAgent
from agents.contract.pickling import unpickled
from agents.contract.registry import import_all
from agents.contract.spec import AgentSpec, FunctionSpec
from agents.environments.time_limits import episodes_or_none
from agents.errors import ConfigurationError
from agents.population import TemplateCache, bytes_of_member
from agents.trust.allowed_modules import restricted
from finder.trials.groups import Group, make_groups
from finder.trials.runs import TrialRun
from finder.trials.speed import KEPT_STRUCTURES, Speed, steps_before_update
from finder.trials.trial import TrialSpec

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

ALL_SECONDS, FEW_SECONDS = 2.0, 1.0
"""Seconds of the measurement with all runs, and with a third of them, at least one."""

PART = 0.1
"""Share of the measurement for which one speed is computed."""

_SHORT_START, _SHORT_ROLLOUT = 256, 1_024
"""Environment steps before the first update of a measured agent with a replay, and between its updates of one with
rollouts, if their batches are not larger."""

Clock = Callable[[], float]


class SpeedError(Exception):
    """A run failed while its speed was measured; the cause is its error."""


def measure_speed(trials: Sequence[TrialSpec], clock: Clock = time.perf_counter) -> Speed:
    """Build the agents of trials as a cohort does, train them for a few updates, and return their speed.

    The callbacks of the trials are left out, because they may write files. Agents with a replay begin to learn early,
    and those with rollouts have shorter ones, whose environment steps cost as much: else a population collects for
    minutes before it learns anything, where rollouts are long and environments slow.

    Args:
        trials: The trials, of equal structure. All their seeds are trained.
        clock: Returns the time in seconds.

    Raises:
        SpeedError: A run failed.
    """
    watch = _StepWatch(clock)
    function = isinstance(trials[0].agent, FunctionSpec)
    callbacks = () if function else (lambda: watch,)
    measured = [replace(t, agent=_that_starts_early(t.agent), callbacks=callbacks, checkpoints=None) for t in trials]
    templates = TemplateCache(KEPT_STRUCTURES)
    began = clock()
    groups: list[Group] = []
    try:
        try:
            runs = [(run, seed) for run in map(TrialRun, measured) for seed in run.spec.seeds]
            # Runs that cannot be members are trained one after another: one of them is enough.
            for group in make_groups(runs, templates):
                groups.append(group)
                break
            if not groups:
                raise runs[0][0].first_error()
        except Exception as error:
            raise SpeedError(f"{type(error).__name__}: {error}") from error
        _step(groups[0])
        return _speed_of(groups[0], trials[0].agent, watch, clock() - began, clock)
    finally:
        for group in groups:
            group.close(templates)


def _speed_of(group: Group, agent: AgentSpec, watch: _StepWatch, start_seconds: float, clock: Clock) -> Speed:
    """Return the speed of a group that has made its first update."""
    first = group.trainer.env_steps
    collected = watch.seconds_per_step or 0.0
    _step(group)  # further shapes of data are compiled here
    each, seconds, steps = _timed(group, ALL_SECONDS, clock)
    evaluating = 0.0
    if group.evaluations is not None:
        evaluating = group.evaluations.seconds_at_most(clock)
    n_runs = max(1, len(group.trainer.present))
    shared, own = 0.0, each / n_runs
    if not group.alone and n_runs > 1:
        few = max(1, n_runs // 3)
        for member in list(group.trainer.present)[few:]:
            group.remove_member(member, "measured")
        _step(group)
        each_of_few, _, _ = _timed(group, FEW_SECONDS, clock)
        own = (each - each_of_few) / (n_runs - few)
        own = min(max(own, 0.1 * each / n_runs), each / n_runs)
        shared = each - own * n_runs
    starts = getattr(agent.config, "learning_starts", 0)
    return Speed(
        n_runs=n_runs,
        start_seconds=max(0.0, start_seconds - collected * first),
        shared_seconds=shared,
        run_seconds=own,
        first_update=steps_before_update(agent) or first,
        start_share=min(1.0, collected / each) if starts and collected else 1.0,
        run_bytes=_bytes_of(group, agent),
        measured_seconds=seconds,
        measured_steps=steps * n_runs,
        evaluation_seconds=evaluating,
    )


def _step(group: Group) -> None:
    """Run one step of the training loop. A run that diverges, as some learning rates of a search do, leaves the others.

    Raises:
        SpeedError: All runs have failed.
    """
    group.step()
    errors = [run.error for run in group.trainer.runs]
    error = group.error or (errors[0] if all(errors) else None)
    if error is not None:
        raise SpeedError(f"{type(error).__name__}: {error}") from error


def _timed(group: Group, seconds: float, clock: Clock) -> tuple[float, float, int]:
    """Train for about so many seconds.

    Returns:
        The median of the seconds of an environment step of all runs, over parts of the time, as other programs and
        processes that are still compiling make some parts slower; all seconds; and the environment steps of each run.
    """
    began, first = clock(), group.trainer.env_steps
    parts: list[float] = []
    since, reached = began, first
    while not group.finished:
        _step(group)
        now, steps = clock(), group.trainer.env_steps
        if now - since >= PART * seconds and steps > reached:
            parts.append((now - since) / (steps - reached))
            since, reached = now, steps
        if now - began >= seconds and parts:
            break
    spent, steps = max(clock() - began, 1e-9), max(1, group.trainer.env_steps - first)
    return statistics.median(parts) if parts else spent / steps, spent, steps


def _that_starts_early(agent: AgentSpec) -> AgentSpec:
    """Return the agent with a short time before its first update."""
    config = agent.config
    if not isinstance(config, AgentConfig):
        return agent
    given = getattr(config, "batch_size", None)
    rows = given if isinstance(given, int) else 0
    if starts := getattr(config, "learning_starts", None):
        return agent.with_params({"learning_starts": min(starts, max(_SHORT_START, rows))})
    n_steps = getattr(config, "n_steps", 0)
    while n_steps % 2 == 0 and n_steps * config.n_envs >= 2 * max(_SHORT_ROLLOUT, rows):
        n_steps //= 2
    try:
        return agent.with_params({"n_steps": n_steps}) if n_steps else agent
    except ConfigurationError:  # sequences of a network with memory are longer
        return agent


def _bytes_of(group: Group, agent: AgentSpec) -> int:
    learner = group.learner
    measured = getattr(learner, "agent", learner)
    if not isinstance(measured, KerasAgent):
        return 0
    has_short_rollouts = getattr(measured.config, "n_steps", 0) != getattr(agent.config, "n_steps", 0)
    whole = agent.build() if has_short_rollouts else measured
    assert isinstance(whole, KerasAgent)
    return bytes_of_member(whole)


class _StepWatch(Callback):
    """Measures the steps before the first update.

    Args:
        clock: Returns the time in seconds.
    """

    of_members = True

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None
        self._updated = False

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds of an environment step before the first update; None if there were too few."""
        if self._first is None or self._last is None or self._last[1] == self._first[1]:
            return None
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])

    def on_step_end(self, trainer: Trainer) -> None:
        if not self._updated:
            self._last = (self._clock(), trainer.env_steps)
            self._first = self._first or self._last

    def on_update_begin(self, trainer: Trainer) -> None:
        self._updated = True


def speed_main(payload: Sequence[bytes], end: Any) -> None:
    """The main function of a process: measure the speed of trials, and send it or the reason of a failure.

    Args:
        payload: The pickled trials.
        end: Connection to the parent.
    """
    import_all()
    try:
        trials = [unpickled(each) for each in payload]
        with restricted(trials[0].only_modules):
            answer: Any = measure_speed(trials)
    except SpeedError as error:
        answer = str(error)
    except Exception as error:  # noqa: BLE001 - importing a module of the user may raise anything
        answer = f"{type(error).__name__}: {error}"
    end.send(answer)


def episodes_main(payload: bytes, end: Any) -> None:
    """The main function of a process: play a few random episodes, and send their length, or None after an error.

    Args:
        payload: The pickled agent, whose environment is stepped.
        end: Connection to the parent.
    """
    import_all()
    end.send(episodes_or_none(unpickled(payload).environment))
