"""Evaluation of an agent during training, without effects on the training, and the measure that callbacks judge by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from agents.callbacks.callback import Callback
from agents.callbacks.intervals import Every, IntervalTimer
from agents.contract.agent import Agent
from agents.environments import EnvironmentSpec
from agents.environments.spec import canonical_vectorization
from agents.environments.time_limits import limit_without_one, time_limit
from agents.errors import ConfigurationError, check_at_least
from agents.training.evaluation import play_episodes
from agents.training.records import Evaluation
from agents.training.training import require_alone

if TYPE_CHECKING:
    from agents.training.trainer import Trainer

Judged = Sequence[float] | Mapping[str, Any]
"""Result of a user's evaluation function: returns of episodes, or a mapping with ``"returns"`` and further numbers by
name."""

JudgedBy = Literal["training", "evaluation"]
"""``"training"``: returns of the training's own episodes, played with exploration. ``"evaluation"``: mean returns of
the evaluations of `agents.Evaluate`."""


class Evaluate(Callback):
    """Play complete episodes at intervals with the current agent, by default without exploration.

    Evaluations do not affect the training: the environments are separate, with their own seeds, and the agent and its
    random streams are restored afterwards. Results are added to `trainer.history.evaluations`, and passed to all
    callbacks (`Callback.on_evaluation_end`). Several `Evaluate` of one training, in several environments for example,
    are not compared with each other.

    Args:
        every: Interval: environment steps, ``"50 episodes"`` or ``"60 s"``.
        n_episodes: Episodes of an evaluation, >= 1; rounded up to a multiple of `n_envs`. Defaults to 10.
        environment: The environment, an id or a spec. Defaults to that of the training.
        env_kwargs: Arguments of that environment. Defaults to those of training.
        explore: Whether actions are drawn as in training. Defaults to False.
        seed: Seed of the environments, the same for every evaluation. Training does not use the default.
        n_envs: Number of environments stepped in parallel. Defaults to 10, or to `n_episodes` if smaller.
        vectorization: How they are stepped (`agents.EnvironmentSpec`): ``"async"`` runs each in a process, and
            ``"ray"`` in an actor, which pays for slow steps. Defaults to that of training.
        max_steps: Steps after which an episode is truncated, >= 1; `Evaluation.n_cut` counts such episodes. Defaults to
            the environment's own time limit; without one, to ten times the longest episode of training, and at least
            1,000.
        function: Replaces the evaluation: agent, environment -> returns of episodes, or a mapping with ``"returns"``
            and other numbers by name. It may change the agent.
        stop_at: Training stops when the mean return reaches this.
        on_best: Called after an evaluation with a mean return above those of all earlier ones.

    Raises:
        ConfigurationError: A bad value.
    """

    def __init__(
        self,
        every: int | str | Every,
        *,
        n_episodes: int = 10,
        environment: str | Callable[..., Any] | EnvironmentSpec | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        explore: bool = False,
        seed: int = 1_000_000,
        n_envs: int = 10,
        vectorization: str | None = None,
        max_steps: int | None = None,
        function: Callable[[Agent, EnvironmentSpec], Judged] | None = None,
        stop_at: float | None = None,
        on_best: Callable[[Trainer, Evaluation], None] | None = None,
    ) -> None:
        check_at_least(1, n_episodes=n_episodes, n_envs=n_envs, max_steps=max_steps)
        self.every = Every.of(every)
        self.n_episodes = n_episodes
        self.environment = None if environment is None else EnvironmentSpec.of(environment)
        self.env_kwargs = env_kwargs
        self.explore = explore
        self.seed = seed
        self.n_envs = n_envs
        self.vectorization = None if vectorization is None else canonical_vectorization(vectorization)
        self.max_steps = max_steps
        self.function = function
        self.stop_at = stop_at
        self.on_best = on_best
        self._timer: IntervalTimer | None = None
        self._has_time_limit: bool | None = None
        self._pending = False
        self._best: float | None = None  # largest mean return so far

    def on_train_begin(self, trainer: Trainer) -> None:
        require_alone(trainer, "Evaluate")
        self._timer = IntervalTimer(self.every, trainer)
        self._has_time_limit = None
        if self._best is None:  # checkpoints of earlier versions lack it
            self._best = max((each.mean_return for each in trainer.history.evaluations), default=None)

    def on_rollout_begin(self, trainer: Trainer) -> None:
        self._make_up(trainer)

    def on_update_begin(self, trainer: Trainer) -> None:
        self._make_up(trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        if self._timer is not None and self._timer.due(trainer):
            self.evaluate(trainer)

    def reset_state(self) -> None:
        self._pending, self._best = False, None

    def get_state(self) -> dict[str, Any]:
        return {"pending": self._pending, "best": self._best}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._pending, self._best = bool(state["pending"]), state.get("best")

    def evaluate(self, trainer: Trainer) -> Evaluation | None:
        """Evaluate now, call all callbacks, and return the result.

        A stop of the training, for example by Ctrl-C, ends the evaluation too: then callbacks are not called, the
        result is None, and the same agent is evaluated first when the training is resumed.
        """
        agent = require_alone(trainer, "Evaluate")
        trainer.callbacks.call("on_evaluation_begin", trainer)
        played = self._play(trainer, agent, self._evaluation_environment(trainer))
        self._pending = played is None
        if played is None:
            return None
        returns, n_cut, metrics = played
        mean = float(returns.mean())
        evaluation = Evaluation(
            env_steps=trainer.env_steps,
            n_training_episodes=len(trainer.history.returns),
            mean_return=mean,
            std_return=float(returns.std(ddof=1)) if len(returns) > 1 else float("nan"),
            min_return=float(returns.min()),
            max_return=float(returns.max()),
            n_episodes=len(returns),
            is_best=self._best is None or mean > self._best,
            metrics=metrics,
            n_cut=n_cut,
        )
        if evaluation.is_best:
            self._best = mean
        trainer.history.evaluations.append(evaluation)
        trainer.callbacks.call("on_evaluation_end", trainer, evaluation)
        if evaluation.is_best and self.on_best is not None:
            self.on_best(trainer, evaluation)
        if self.stop_at is not None and mean >= self.stop_at:
            trainer.stop(f"an evaluation reached a mean return of {self.stop_at:g}")
        return evaluation

    def _make_up(self, trainer: Trainer) -> None:
        """Make an evaluation that a stop of the training prevented, before the agent changes."""
        if self._pending:
            self.evaluate(trainer)

    def _evaluation_environment(self, trainer: Trainer) -> EnvironmentSpec:
        environment = self.environment or trainer.environment
        if self.vectorization is not None:
            environment = replace(environment, vectorization=self.vectorization)
        return environment if self.env_kwargs is None else replace(environment, kwargs=dict(self.env_kwargs))

    def _play(
        self, trainer: Trainer, agent: Agent, environment: EnvironmentSpec
    ) -> tuple[np.ndarray[Any, Any], int, dict[str, float]] | None:
        if self.function is not None:
            returns, metrics = self._judged(self.function, agent, environment)
            return returns, 0, metrics
        reason = trainer.run.stop_reason  # a stopped run is evaluated for the last time
        state = agent.get_state() if self.explore else None  # without exploration the state does not change
        try:
            played = play_episodes(
                agent,
                environment,
                n_episodes=self.n_episodes,
                seed=self.seed,
                explore=self.explore,
                n_envs=self.n_envs,
                max_steps=self._limit(trainer, environment),
                abandoned=lambda: trainer.run.stop_reason != reason,
            )
        finally:
            if state is not None:
                agent.set_state(state)
        return None if played is None else (*played, {})

    def _limit(self, trainer: Trainer, environment: EnvironmentSpec) -> int | None:
        """Return the steps after which episodes are truncated, None if the environment has a time limit."""
        if self.max_steps is not None:
            return self.max_steps
        if self._has_time_limit is None:
            self._has_time_limit = time_limit(environment) is not None
        return None if self._has_time_limit else limit_without_one(each.length for each in trainer.history.episodes)

    @staticmethod
    def _judged(
        function: Callable[[Agent, EnvironmentSpec], Judged], agent: Agent, environment: EnvironmentSpec
    ) -> tuple[np.ndarray[Any, Any], dict[str, float]]:
        state = agent.get_state()
        try:
            played: Any = function(agent, environment)
        finally:
            agent.set_state(state)
        results = dict(played) if isinstance(played, Mapping) else {"returns": played}
        returns = np.asarray(results.pop("returns", ()), np.float64).ravel()
        if not (len(returns) and np.isfinite(returns).all()):
            raise ConfigurationError(
                f"The function of Evaluate must give the returns of episodes, finite numbers, or a mapping with "
                f"'returns'; it gave {played!r}."
            )
        return returns, {name: float(value) for name, value in results.items()}


def check_judge(trainer: Trainer, judged_by: JudgedBy, what: str) -> None:
    """Check that evaluations exist if a callback judges by them.

    Args:
        trainer: The trainer, with its callbacks.
        judged_by: The measure of the callback.
        what: The callback, for the message.

    Raises:
        ConfigurationError: The measure is unknown, or not exactly one callback evaluates.
    """
    if judged_by not in ("training", "evaluation"):
        raise ConfigurationError(f"judged_by must be 'training' or 'evaluation', got {judged_by!r}.")
    if judged_by == "training":
        return
    n = sum(isinstance(each, Evaluate) for each in trainer.callbacks.callbacks)
    if n == 0:
        raise ConfigurationError(
            f"{what} judges by evaluations, and no callback evaluates: add agents.Evaluate or set judged_by='training'."
        )
    if n > 1:
        raise ConfigurationError(
            f"{what} judges by evaluations, and {n} callbacks evaluate, whose returns may differ in kind: keep one "
            f"agents.Evaluate or set judged_by='training'."
        )
