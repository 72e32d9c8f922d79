"""Evaluating an agent while it trains, without any effect on its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.agent import Agent
from agents.callbacks import Callback, Evaluation, require_alone
from agents.environments import EnvironmentSpec
from agents.environments.spec import canonical_vectorization
from agents.errors import ConfigurationError
from agents.evaluation import evaluate
from agents.intervals import Beat, Every

if TYPE_CHECKING:
    from agents.trainer import Trainer

Judged = Sequence[float] | Mapping[str, Any]
"""What a function of the user's gives: returns of episodes, or a mapping that has them as ``"returns"`` and further
numbers by name."""


class Evaluate(Callback):
    """Plays whole episodes now and then with the agent as it is, by itself without exploration.

    Training goes on as if nobody had looked: the environments are others, with seeds of their own, and the agent and
    its random streams are afterwards what they were. The result is in `trainer.history.evaluations`, and is told to
    all callbacks (`Callback.on_evaluation_end`).

    Args:
        every: How often: environment steps, ``"50 episodes"`` or ``"60 s"``.
        n_episodes: Episodes of an evaluation, >= 1; rounded up to a multiple of `n_envs`. Defaults to 10.
        environment: Where, an id or a spec. Defaults to where the agent trains.
        env_kwargs: Arguments of that environment. Defaults to those of training.
        explore: Whether actions are drawn as in training. Defaults to False.
        seed: Of the environments, the same for every evaluation. The default is one that training does not use.
        n_envs: Copies that are stepped together. Defaults to 10, or as many as there are episodes.
        vectorization: How they are stepped (`agents.EnvironmentSpec`): ``"async"`` gives each a process of its own, and
            ``"ray"`` an actor, which pays where a step is slow. Defaults to how training steps its own.
        function: Evaluates instead: agent, environment -> returns of episodes, or a mapping that has them as
            ``"returns"`` and other numbers by name. It may do with the agent what it likes.
        stop_at: Training stops when the mean return reaches this.
        on_best: Called after an evaluation whose mean return is above those of all before it.

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
        function: Callable[[Agent, EnvironmentSpec], Judged] | None = None,
        stop_at: float | None = None,
        on_best: Callable[[Trainer, Evaluation], None] | None = None,
    ) -> None:
        if n_episodes < 1:
            raise ConfigurationError(f"n_episodes must be >= 1, got {n_episodes}.")
        if n_envs < 1:
            raise ConfigurationError(f"n_envs must be >= 1, got {n_envs}.")
        self.every = Every.of(every)
        self.n_episodes = n_episodes
        self.environment = None if environment is None else EnvironmentSpec.of(environment)
        self.env_kwargs = env_kwargs
        self.explore = explore
        self.seed = seed
        self.n_envs = n_envs
        self.vectorization = None if vectorization is None else canonical_vectorization(vectorization)
        self.function = function
        self.stop_at = stop_at
        self.on_best = on_best
        self._beat: Beat | None = None

    def on_train_begin(self, trainer: Trainer) -> None:
        require_alone(trainer, "Evaluate")
        self._beat = Beat(self.every, trainer)

    def on_step_end(self, trainer: Trainer) -> None:
        if self._beat is not None and self._beat.due(trainer):
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer) -> Evaluation:
        """Evaluates now, tells everybody, and returns the result."""
        agent = require_alone(trainer, "Evaluate")
        before = trainer.history.evaluations
        returns, metrics = self._play(agent, self._where(trainer))
        mean = float(returns.mean())
        evaluation = Evaluation(
            env_steps=trainer.env_steps,
            n_training_episodes=len(trainer.history.returns),
            mean_return=mean,
            std_return=float(returns.std(ddof=1)) if len(returns) > 1 else float("nan"),
            min_return=float(returns.min()),
            max_return=float(returns.max()),
            n_episodes=len(returns),
            is_best=all(mean > each.mean_return for each in before),
            metrics=metrics,
        )
        before.append(evaluation)
        trainer.callbacks.call("on_evaluation_end", trainer, evaluation)
        if evaluation.is_best and self.on_best is not None:
            self.on_best(trainer, evaluation)
        if self.stop_at is not None and mean >= self.stop_at:
            trainer.stop(f"an evaluation reached a mean return of {self.stop_at:g}")
        return evaluation

    def _where(self, trainer: Trainer) -> EnvironmentSpec:
        where = self.environment or trainer.environment
        if self.vectorization is not None:
            where = replace(where, vectorization=self.vectorization)
        return where if self.env_kwargs is None else replace(where, kwargs=dict(self.env_kwargs))

    def _play(self, agent: Agent, where: EnvironmentSpec) -> tuple[np.ndarray[Any, Any], dict[str, float]]:
        if self.function is None and not self.explore:  # which touches nothing
            played: Any = evaluate(agent, where, n_episodes=self.n_episodes, seed=self.seed, n_envs=self.n_envs)
            return played, {}
        state = agent.get_state()
        try:
            if self.function is not None:
                played = self.function(agent, where)
            else:
                played = evaluate(
                    agent, where, n_episodes=self.n_episodes, seed=self.seed, n_envs=self.n_envs, explore=True
                )
        finally:
            agent.set_state(state)
        told = dict(played) if isinstance(played, Mapping) else {"returns": played}
        returns = np.asarray(told.pop("returns", ()), np.float64).ravel()
        if not (len(returns) and np.isfinite(returns).all()):
            raise ConfigurationError(
                f"The function of Evaluate must give the returns of episodes, finite numbers, or a mapping with "
                f"'returns'; it gave {played!r}."
            )
        return returns, {name: float(value) for name, value in told.items()}
