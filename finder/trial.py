"""The one way a trial is run: a configuration, trained once for each of its seeds.

The seeds of a trial advance together, from one report to the next, so that the value that is reported at an
environment step is the mean over all of them, and a trial that is pruned is pruned for all of them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import time
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from agents.agent import Agent
from agents.callbacks import Callback, Episode
from agents.spec import AgentSpec, start_from
from agents.trainer import Budget, Trainer
from studies.ranking import last_part_return, windowed_mean
from studies.records import EpisodeRecord
from studies.spaces import check_json

Metric = Literal["return", "loss"]
State = Literal["complete", "pruned", "failed", "interrupted"]

FLUSH_SECONDS = 0.5
"""How often episodes are handed to the listener between reports."""


@dataclass(frozen=True, kw_only=True)
class TrialSpec:
    """Everything that is needed to run a trial anywhere.

    Attributes:
        number: Its number in the study.
        agent: What is trained, with all hyperparameters.
        seeds: A run for each; distinct.
        env_steps: Budget of each run in environment steps, or None.
        episodes: Budget of each run in episodes, or None.
        report_marks: Environment steps at which a value is reported, the same for every trial of a study; with a
            budget in episodes nobody knows how many steps a run will take, and they may be left empty.
        metric: What is reported: the mean return of episodes, or the mean loss.
        name: What the study calls the agent, where it is not the agent's own label.
    """

    number: int
    agent: AgentSpec
    seeds: tuple[int, ...]
    env_steps: int | None = None
    episodes: int | None = None
    report_marks: tuple[int, ...] = ()
    metric: Metric = "return"
    name: str = ""

    @property
    def label(self) -> str:
        """What the study calls the agent."""
        return self.name or self.agent.label

    def report_steps(self) -> Iterator[int]:
        """The marks; without any, steps whose distance grows by a fifth each time, so that they stay few."""
        if self.env_steps is not None:
            yield from self.report_marks or (self.env_steps,)
            return
        step = 200.0
        while True:
            yield round(step)
            step *= 1.2


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a trial ended."""

    state: State
    value: float | None = None
    env_steps: int = 0
    seed_values: dict[int, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    reason: str = ""
    traceback: str = ""


class TrialListener(Protocol):
    """Who hears of a trial while it runs. The last two methods may answer with a reason to stop."""

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        """The trial's agents are built; this is all that is needed to run it again, as JSON."""

    def episodes(self, number: int, records: list[EpisodeRecord]) -> str | None:
        """Episodes that have ended; may be empty, just to ask whether to go on."""

    def report(self, number: int, env_steps: int, value: float) -> str | None:
        """The trial's value at this environment step."""


class AgentPool:
    """Agents that are built and compiled, waiting to be reset and used again.

    Compiling an agent costs a second or two, resetting it some milliseconds; and TensorFlow never quite forgets a
    graph. So trials of one process that differ only in seeds, rates and other live numbers share agents. Only
    agents of the newest structure are kept.
    """

    def __init__(self) -> None:
        self._free: list[Agent] = []
        self._structure: tuple[Any, ...] = ()

    def take(self, spec: AgentSpec, seed: int) -> Agent:
        """An agent as `spec.build(seed)` would make it."""
        where = spec.environment
        # Classes and functions themselves, not their names: those that a function makes are all called the same.
        structure = (spec.agent, where.id, repr(where.kwargs), repr(spec.config.structure()))
        if structure != self._structure:
            self._free, self._structure = [], structure
        if not self._free:
            return spec.build(seed)
        agent = self._free.pop()
        agent.reset(seed, spec.config.to_dict())
        if spec.state is not None:
            start_from(agent, spec.state)
        return agent

    def give_back(self, spec: AgentSpec, agents: list[Agent]) -> None:
        """Takes agents that nobody uses any more."""
        from agents.keras_agent import KerasAgent

        # An agent with an `__init__` of its own may keep state that a reset does not know of.
        self._free += [agent for agent in agents if type(agent).__init__ is KerasAgent.__init__]


class _ListenerError(BaseException):
    """Carries an error of the listener (the storage is gone, say) past what catches the errors of a trial."""


class _Shielded:
    """A listener whose errors are told apart from those of the agent and the environment."""

    def __init__(self, listener: TrialListener) -> None:
        self._listener = listener

    def started(self, number: int, configuration: dict[str, Any]) -> None:
        with self._shield():
            self._listener.started(number, configuration)

    def episodes(self, number: int, records: list[EpisodeRecord]) -> str | None:
        with self._shield():
            return self._listener.episodes(number, records)

    def report(self, number: int, env_steps: int, value: float) -> str | None:
        with self._shield():
            return self._listener.report(number, env_steps, value)

    @staticmethod
    @contextlib.contextmanager
    def _shield() -> Generator[None]:
        try:
            yield
        except Exception as error:
            raise _ListenerError from error


INTERRUPTED = "interrupted"
"""The reason that a listener gives when the whole study is being stopped."""


def run_trial(spec: TrialSpec, listener: TrialListener, pool: AgentPool | None = None) -> Outcome:
    """Trains every seed of a trial and says how it went.

    Errors of the agent or the environment are part of the outcome. `KeyboardInterrupt` and what the listener raises go
    through: a storage that fails is no failure of the trial.

    Args:
        spec: What to run.
        listener: Hears of episodes and reports, and may stop the trial.
        pool: Where built agents are taken from and given back to.
    """
    began = time.perf_counter()
    runs: list[_SeedRun] = []
    pool = pool or AgentPool()
    shielded = _Shielded(listener)
    try:
        outcome = _attempt(spec, runs, shielded, pool)
    except _ListenerError as carrier:
        raise (carrier.__cause__ or carrier) from None
    finally:
        for run in runs:
            run.close()
    pool.give_back(spec.agent, [run.trainer.agent for run in runs])
    return Outcome(**{**vars(outcome), "wall_seconds": time.perf_counter() - began})


def _attempt(spec: TrialSpec, runs: list[_SeedRun], listener: TrialListener, pool: AgentPool) -> Outcome:
    """Runs the trial; `runs` is filled on the way, so that the caller can close what was opened."""
    try:
        for seed in spec.seeds:
            runs.append(_SeedRun(spec, seed, pool.take(spec.agent, seed)))
        listener.started(spec.number, configuration_of(spec, runs[0].trainer.agent))
        return _run(spec, runs, listener)
    except Exception as error:  # noqa: BLE001 - whatever a user's agent or environment raises is the trial's failure
        outcome = Outcome(
            state="failed",
            env_steps=min((run.trainer.env_steps for run in runs), default=0),
            reason=f"{type(error).__name__}: {error}",
            traceback=traceback.format_exc(),
        )
    for run in runs:
        run.flush(spec.number, listener)
    return outcome


def _run(spec: TrialSpec, runs: list[_SeedRun], listener: TrialListener) -> Outcome:
    for env_steps in spec.report_steps():
        for run in runs:
            stop = run.advance(env_steps, listener)
            if stop:
                return _stopped(runs, stop)
        values = [run.value_at(env_steps) for run in runs]
        stop = listener.report(spec.number, env_steps, float(np.mean(values))) if np.isfinite(values).all() else None
        if stop and not all(run.finished for run in runs):
            return _stopped(runs, stop, env_steps, float(np.mean(values)))
        if all(run.finished for run in runs):
            break
    seed_values = {run.seed: run.final_value() for run in runs}
    if not np.isfinite(list(seed_values.values())).all():
        raise ValueError(
            f"No {'episode' if spec.metric == 'return' else 'update'} ended within the budget of a run "
            f"({spec.env_steps or spec.episodes} {'environment steps' if spec.env_steps else 'episodes'}): "
            f"there is nothing to judge it by. Give it a larger budget."
        )
    return Outcome(
        state="complete",
        value=float(np.mean(list(seed_values.values()))),
        env_steps=max(run.trainer.env_steps for run in runs),
        seed_values=seed_values,
    )


def _stopped(runs: list[_SeedRun], reason: str, env_steps: int | None = None, value: float | None = None) -> Outcome:
    reached = min(run.trainer.env_steps for run in runs) if env_steps is None else env_steps
    values = {run.seed: run.value_at(reached) for run in runs}
    return Outcome(
        state="interrupted" if reason == INTERRUPTED else "pruned",
        value=value,
        env_steps=reached,
        seed_values={seed: value for seed, value in values.items() if np.isfinite(value)},
        reason=reason,
    )


def configuration_of(spec: TrialSpec, agent: Agent) -> dict[str, Any]:
    """Everything that is needed to run a trial again, as JSON values.

    Raises:
        StudyError: The agent's configuration holds something that is not JSON.
    """
    packages = ("agentfinder", "tensorflow", "keras", "gymnasium", "optuna", "numpy")
    configuration = {
        "agent": spec.agent.label,
        "config": agent.config.to_dict(),
        "optimizers": {name: agent.optimizer_spec(name).serialised() for name in agent.optimizers},
        "env": spec.agent.environment.label,
        "env_kwargs": dict(spec.agent.environment.kwargs),
        "seeds": list(spec.seeds),
        "env_steps": spec.env_steps,
        "episodes": spec.episodes,
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }
    check_json(configuration)
    return configuration


def episode_record(seed: int, episode: Episode) -> EpisodeRecord:
    """An episode as studies keep it; a loss that is not finite is none."""
    return EpisodeRecord(
        seed=seed,
        episode=episode.index,
        env_steps=episode.env_steps,
        episode_return=episode.episode_return,
        length=episode.length,
        loss=episode.loss if episode.loss is not None and np.isfinite(episode.loss) else None,
        wall_seconds=episode.wall_seconds,
    )


class _SeedRun(Callback):
    """One run of a trial: a trainer, and what its episodes were."""

    def __init__(self, spec: TrialSpec, seed: int, agent: Agent) -> None:
        self.spec = spec
        self.seed = seed
        self.trainer = Trainer(agent, spec.agent.environment, callbacks=[self], seed=seed)
        self.finished = False
        self._loop: Generator[int] = self.trainer.iterate(Budget(env_steps=spec.env_steps, episodes=spec.episodes))
        self._steps: list[int] = []
        self._values: list[float] = []
        self._fresh: list[EpisodeRecord] = []
        self._flushed = time.monotonic()

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        """Notes the episode."""
        record = episode_record(self.seed, episode)
        self._fresh.append(record)
        value = record.episode_return if self.spec.metric == "return" else record.loss
        if value is not None:
            self._steps.append(episode.env_steps)
            self._values.append(value)

    def advance(self, env_steps: int, listener: TrialListener) -> str | None:
        """Trains on to this environment step; a listener's reason to stop is passed on at once."""
        while not self.finished and self.trainer.env_steps < env_steps:
            self.finished = next(self._loop, None) is None
            if time.monotonic() - self._flushed > FLUSH_SECONDS:
                stop = self.flush(self.spec.number, listener)
                if stop:
                    return stop
        if self.spec.env_steps is not None and self.trainer.env_steps >= self.spec.env_steps:
            self.finished = True
        return self.flush(self.spec.number, listener)

    def flush(self, number: int, listener: TrialListener) -> str | None:
        """Hands new episodes over."""
        self._flushed = time.monotonic()
        fresh, self._fresh = self._fresh, []
        return listener.episodes(number, fresh)

    def value_at(self, env_steps: int) -> float:
        """Mean over the episodes that ended in the stretch before this step; NaN before the first episode."""
        width = max(1, (self.spec.env_steps or env_steps) // 10)
        value = windowed_mean(self._steps, self._values, env_steps, width)
        return value if np.isfinite(value) else self._newest(env_steps)

    def final_value(self) -> float:
        """Mean over the last part of training."""
        budget = self.spec.env_steps or max(1, self.trainer.env_steps)
        value = last_part_return(self._steps, self._values, budget)
        return value if np.isfinite(value) else self._newest(budget)

    def _newest(self, env_steps: int) -> float:
        """Value of the last episode up to this step, for when episodes are longer than the stretch that is judged."""
        past = [value for at, value in zip(self._steps, self._values, strict=True) if at <= env_steps]
        return past[-1] if past else float("nan")

    def close(self) -> None:
        """Ends the loop and closes the environments."""
        self._loop.close()
        self.trainer.close()
