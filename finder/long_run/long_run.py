"""The long run: an agent is trained in a folder, from which training can resume."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from agents.callbacks.callback import Callback, find_maker, make_callbacks
from agents.callbacks.checkpoint import Checkpoint
from agents.callbacks.evaluate import Evaluate, JudgedBy
from agents.callbacks.history_file import HistoryFile
from agents.callbacks.hyperparameter_schedule import HyperparameterSchedule
from agents.callbacks.plateaus import EarlyStopping, ReduceOnPlateau, refuse_schedules
from agents.callbacks.signals import REASON as INTERRUPTED
from agents.checkpoints.file import NewEpisodesWarning, why_new_episodes
from agents.checkpoints.file import resume as resume_training
from agents.config.agent_config import AgentConfig
from agents.contract.restoring import restoring
from agents.distributed.strategies import StrategySpec
from agents.errors import ConfigurationError
from agents.state_files.header import CheckpointHeader, find, header_of
from agents.training.records import History
from agents.training.run import Budget
from agents.training.trainer import Trainer
from finder.long_run.run_folder import RunFolder, RunSettings
from finder.trials.watchdog import Watchdog, WatchdogCallback
from studies.spaces.numbers import is_number
from studies.spaces.spaces import LARGEST
from studies.spec.fields import MOST_PROCESSES

TARGET_EPISODES = 100
"""Number of episodes of the mean return that is compared with the target."""


class RunResult(NamedTuple):
    """The result of a long run.

    Attributes:
        reason: Why the run ended.
        env_steps: Environment steps so far.
        episodes: Episodes so far.
        wall_seconds: Seconds of training so far.
        mean_return: Mean return of the last `mean_episodes` episodes, None without episodes.
        best_return: Largest return of an episode, None without episodes.
        checkpoint: The newest checkpoint.
        custom_metrics: Custom metrics of the same episodes: mean, min, max and number of episodes by name.
        mean_episodes: Number of episodes of `mean_return`: those of the last fifth of the environment steps, at least
            one for each copy of the environment, at most 100. In results of earlier versions always 100, or all.
        mean_of_100: Mean return of the last 100 episodes, which `target_reward` is compared with; None with fewer.
        evaluation: The last evaluation: `env_steps`, `mean_return`, `std_return` (None for a single episode) and
            `n_episodes`; None if there was none.
    """

    reason: str
    env_steps: int
    episodes: int
    wall_seconds: float
    mean_return: float | None
    best_return: float | None
    checkpoint: str | None
    custom_metrics: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    mean_episodes: int = 0
    mean_of_100: float | None = None
    evaluation: Mapping[str, Any] | None = None


class LongRun:
    """A run in its folder, ready to start or resume. A context manager that closes the environments.

    Args:
        folder: Folder of the run.
        state: Initial weights from `agents.load_weights`. Defaults to None: weights that the seed draws.
        callbacks: Further callbacks. Defaults to none.
        resumes: Whether `resume` follows: initial weights are then left out.

    Raises:
        ConfigurationError: The agent or environment cannot be made, or the run cannot resume from its checkpoint.
    """

    def __init__(
        self,
        folder: RunFolder,
        state: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        *,
        resumes: bool = False,
    ) -> None:
        self.folder = folder
        settings = folder.settings
        self.checkpoints = Checkpoint(
            folder.checkpoints,
            every=settings.checkpoint_every,
            keep=settings.keep,
            best_only=settings.best_only,
            weights_only=settings.weights_only,
            judged_by=_judge(settings),
        )
        # Checkpoints refuse a trainer with fewer steps than the newest one, before the history is truncated.
        schedule = [HyperparameterSchedule(settings.schedule)] if settings.schedule else []
        asked = [*schedule, *make_callbacks(settings.callbacks), *_callbacks(folder)]
        self.watchdog = Watchdog(settings.hang_seconds)
        self._history = HistoryFile(folder.path)
        own = [*asked, WatchdogCallback(self.watchdog), self.checkpoints, self._history]
        with restoring() if resumes else nullcontext():
            agent = replace(settings.agent_spec(), state=state).build(settings.seed, settings.strategy)
        self.trainer = Trainer(agent, seed=settings.seed, callbacks=[*own, *callbacks], pool=settings.pool)
        self.resumed_from: CheckpointHeader | None = None
        """The checkpoint from which the run resumed; None for a new run."""

    def resume(self, *, trust: bool = False) -> CheckpointHeader:
        """Resume from the newest checkpoint; return its header.

        Args:
            trust: See `agents.resume`. Defaults to False.

        Raises:
            UntrustedFileError: The checkpoint was not written by this user, and is not trusted.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NewEpisodesWarning)
            self.resumed_from = resume_training(self.trainer, find(self.folder.path), trust=trust)
        return self.resumed_from

    @property
    def why_new_episodes(self) -> str:
        """Why the run resumed with new episodes; empty if it resumed exactly, or is new."""
        header = self.resumed_from
        return "" if header is None or header.in_episodes else why_new_episodes(self.trainer)

    def write_initial_checkpoint(self) -> None:
        """Write a checkpoint before training, so that a run can resume even if it is killed early."""
        self.folder.checkpoints.mkdir(parents=True, exist_ok=True)
        self.checkpoints.write(self.trainer)

    def train(self, *, further: bool = False, hangs: Callable[[str], None] = lambda reason: None) -> RunResult:
        """Train to the end of the budget, or until the run is stopped.

        Args:
            further: Whether the budget of a finished run has been increased. Defaults to False.
            hangs: Called by another thread when this one hangs in compiled code, after all episodes have been written.
                The process has to be ended then.

        Raises:
            HungError: A step of the environment or an update did not return within `hang_seconds`.
        """

        def on_unresponsive(reason: str) -> None:
            self._history.write()
            hangs(reason)

        self.folder.write_result(None)
        self.watchdog.on_unresponsive = on_unresponsive
        with self.watchdog.watching():
            reason = self._train(further)
        result = self.result(reason)
        self.folder.write_result(result._asdict())
        return result

    def _train(self, further: bool) -> str:
        """Train the agent; return why training ended."""
        settings, trainer = self.folder.settings, self.trainer
        reason = trainer.run.stop_reason
        if reason not in (None, INTERRUPTED) and not further:
            return str(reason)  # the run was killed after it had stopped, before its result was written
        if further:
            trainer.clear_stops()
            self.checkpoints.write(trainer)  # else the run would end again if it were killed before its next checkpoint
        if not is_budget_used(settings, trainer.env_steps, len(trainer.history.returns)):
            return trainer.train(
                env_steps=None if settings.env_steps is None else settings.env_steps - trainer.env_steps,
                episodes=None if settings.episodes is None else settings.episodes - len(trainer.history.returns),
                criterion=settings.target_reward,
                trial_count=TARGET_EPISODES,
                progress=False,  # the command line has its own displays
            ).reason
        # The run was killed at its end, perhaps before the last update, which is made now.
        trainer.clear_stops()
        for _ in trainer.iterate(Budget(env_steps=trainer.env_steps)):
            pass
        return "budget reached"

    def result(self, reason: str) -> RunResult:
        """Return the present result."""
        history, trainer = self.trainer.history, self.trainer
        newest, n_recent = self.checkpoints.newest, history.n_recent(trainer.env_steps)
        has_target_mean = len(history.returns) >= TARGET_EPISODES
        return RunResult(
            reason=reason,
            env_steps=trainer.env_steps,
            episodes=len(history.returns),
            wall_seconds=trainer.wall_seconds,
            mean_return=history.mean_return(n_recent) if history.returns else None,
            best_return=max(history.returns, default=None),
            checkpoint=None if newest is None else str(newest),
            custom_metrics={name: own._asdict() for name, own in history.custom_metrics(n_recent).items()},
            mean_episodes=n_recent,
            mean_of_100=history.mean_return(TARGET_EPISODES) if has_target_mean else None,
            evaluation=_newest_evaluation(history),
        )

    def __enter__(self) -> LongRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.watchdog.close()
        self.trainer.close()


def check_settings(settings: RunSettings) -> None:
    """Check settings before a run starts.

    Raises:
        ConfigurationError: A setting is invalid or has no effect; the message names it.
    """
    check_numbers(settings)
    _callbacks(RunFolder(Path(), settings, None, ()))
    for place in settings.callbacks:
        find_maker(place)
    if settings.plateau is not None and settings.early_stop is not None and settings.early_stop <= settings.plateau:
        raise ConfigurationError(
            f"After {settings.early_stop} checks without improvement training would stop, before the learning rate is "
            f"ever lowered after {settings.plateau}: let it stop later, or lower the rate sooner."
        )
    if settings.plateau is not None and settings.schedule:
        raise ConfigurationError(
            "The pick follows a schedule, which would raise the learning rate again after a plateau has lowered it: "
            "leave plateau out."
        )
    StrategySpec.of(settings.strategy)
    spec = settings.agent_spec()
    if settings.plateau is not None:
        config = spec.config
        assert isinstance(config, AgentConfig)  # `agent_spec` refuses training functions
        refuse_schedules(config, ["default", *config.optimizers])
    spec.environment.interface().log_notes()


def check_numbers(settings: RunSettings) -> None:
    """Raise `ConfigurationError` for numbers that are not finite or exceed 64 bits, and too many processes."""
    for name, value in vars(settings).items():
        if is_number(value) and not abs(value) <= LARGEST:
            raise ConfigurationError(f"{name} is {value}: give a finite number, up to {LARGEST}.")
    if settings.pool is not None and settings.pool > MOST_PROCESSES:
        raise ConfigurationError(f"pool is {settings.pool}: give a number of processes up to {MOST_PROCESSES}.")


def has_budget_left(folder: RunFolder, settings: RunSettings) -> bool:
    """Return whether a run has not used all of a budget."""
    there = header_of(find(folder.path))
    return not is_budget_used(settings, there.env_steps, there.episodes)


def is_target_reached(settings: RunSettings, result: Mapping[str, Any] | None) -> bool:
    """Return whether the result of a run that has ended reaches the target of settings."""
    if settings.target_reward is None or result is None or result["episodes"] < TARGET_EPISODES:
        return False
    mean = result.get("mean_of_100")
    # Earlier versions had the mean of the last 100 episodes as `mean_return`.
    return bool((result["mean_return"] if mean is None else mean) >= settings.target_reward)


def is_budget_used(settings: RunSettings, env_steps: int, episodes: int) -> bool:
    """Return whether a number of environment steps or episodes uses up a budget."""
    steps_done = settings.env_steps is not None and env_steps >= settings.env_steps
    return steps_done or (settings.episodes is not None and episodes >= settings.episodes)


def _newest_evaluation(history: History) -> dict[str, Any] | None:
    if not history.evaluations:
        return None
    newest = history.evaluations[-1]
    return {
        "env_steps": newest.env_steps,
        "mean_return": newest.mean_return,
        "std_return": newest.std_return if isfinite(newest.std_return) else None,
        "n_episodes": newest.n_episodes,
    }


def _judge(settings: RunSettings) -> JudgedBy:
    return "training" if settings.evaluate_every is None else "evaluation"


def _callbacks(folder: RunFolder) -> list[Callback]:
    """Return the callbacks for the settings, without history and checkpoints, which every run has."""
    settings = folder.settings
    checks: dict[str, Any] = {"judged_by": _judge(settings), "from_step": settings.patience_from}
    callbacks: list[Callback] = []
    if settings.evaluate_every is not None:
        episodes, most = settings.evaluate_episodes, settings.eval_max_steps
        callbacks.append(Evaluate(settings.evaluate_every, n_episodes=episodes, max_steps=most))
    if settings.plateau is not None:
        lowest = settings.min_learning_rate
        reduce = ReduceOnPlateau(settings.plateau_factor, settings.plateau, min_learning_rate=lowest, **checks)
        callbacks.append(reduce)
    if settings.early_stop is not None:
        callbacks.append(EarlyStopping(settings.early_stop, **checks))
    if settings.tensorboard:
        from agents.callbacks.loggers.tensorboard import TensorBoard

        callbacks.append(TensorBoard(folder.tensorboard))
    if settings.info_metrics:
        callbacks.append(_InfoMetrics(settings.info_metrics))
    return callbacks


class _InfoMetrics(Callback):
    """Records numbers in the `info` of environments as custom metrics of episodes.

    Args:
        names: Their names.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.info_metrics = tuple(names)
