"""Vector environments as agents and collectors use them: plain spaces, true successors, checked rewards."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.environments.spec import EnvironmentSpec
from agents.environments.transforms import action_transform, observation_transform
from agents.environments.vector.envpool import PoolCopies
from agents.environments.vector.native import NativeCopies
from agents.environments.vector.sync import SyncCopies
from agents.environments.vector.vector_env import Array, Called, VectorEnv
from agents.errors import ConfigurationError, NonFiniteError, ObservationError, check_at_least, with_cause
from agents.processes.hanging import under_way

log = logging.getLogger(__name__)

FEW = 8
"""Number of copies below which single environments are faster than one vectorised expression."""


class Step(NamedTuple):
    """Result of one step of all N environments."""

    rewards: Array  # [N] float64, as returned by the environments
    terminated: Array  # [N] bool
    truncated: Array  # [N] bool
    successors: Array  # [N, ...] true next observations, final ones where an episode ended
    observations: Array  # [N, ...] next input of the agent: the first observation of a new episode where one ended
    errors: dict[int, Exception]  # copy -> error that it raised, or error of a reward that is not finite
    infos: list[dict[str, Any] | None] | None = None  # info of each copy, None with an error; None without `infos`


class Environments:
    """N copies of an environment that are stepped together.

    Args:
        spec: Specification of the environment.
        n_envs: Number of copies, >= 1.
        infos: Whether to return the infos of each step. EnvPool provides none.
        of_member: Number of copies per member of a population. Defaults to all copies, for a single agent.
    """

    def __init__(
        self, spec: EnvironmentSpec, n_envs: int, *, infos: bool = False, of_member: int | None = None
    ) -> None:
        check_at_least(1, n_envs=n_envs)
        self.spec, self._label = spec, spec.label
        self._of_member = of_member or n_envs
        self._copies = _make_copies(spec, n_envs, infos)
        self._observe = observation_transform(self._copies.single_observation_space, self._label)
        self._act = action_transform(self._copies.single_action_space, self._label)
        self._measured = self._observe.space.dtype.kind == "f"
        self._steps = 0
        self._bad_starts: dict[int, Exception] = {}  # errors of first observations, reported by the next step
        self.observation_space = self._observe.space
        self.action_space = self._act.space

    @property
    def n_envs(self) -> int:
        """Number of copies."""
        return self._copies.n

    @property
    def kind(self) -> str:
        """Kind of vector environment: see `EnvironmentSpec.vectorization`."""
        return self._copies.kind

    def reset(self, seeds: Sequence[int]) -> Array:
        """Start new episodes in all copies, each with its own seed; return observations [N, ...].

        Raises:
            ObservationError: An observation has another shape than declared.
        """
        self._begin_call("reset")
        try:
            observations = self._copies.reset(seeds)
        except ObservationError as error:
            message = f"Environment {self._label!r} gave {error} (at its first reset)."
            raise with_cause(ObservationError(message), "environment") from error
        except Exception as error:
            with_cause(error, "environment")
            raise
        finally:
            under_way.end()
        self._bad_starts = {}
        first = self._observations_of(observations, self._bad_starts, 0)
        _warn_of_bounds(self._label, self.observation_space, first)
        return first

    def step(self, actions: Array) -> Step:
        """Step every copy once; a copy whose episode ends starts its next one in the same step.

        A copy that raises, or returns a reward or an observation that is NaN, infinite or of another shape, is listed
        in `errors`; the other copies continue.

        Args:
            actions: [N] integers, or [N, D] floats of which [-1, 1] spans the environment's bounds.
        """
        self._steps += 1
        self._begin_call("step")
        try:
            stepped = self._copies.step(self._act(actions))
        finally:
            under_way.end()
        errors = self._with_positions(stepped.errors) if stepped.errors else stepped.errors
        rewards = stepped.rewards
        observations = self._observations_of(stepped.observations, errors, self._steps)
        if self._bad_starts:
            errors, self._bad_starts = {**errors, **self._bad_starts}, {}
        if not np.vdot(rewards, rewards) <= _LARGEST**2:  # one may be NaN, or infinite in float32, which learners get
            for i in np.flatnonzero(~(np.abs(rewards) <= _LARGEST)).tolist():
                message = f"Environment {self._label!r} gave the reward {rewards[i]} ({self._copy_text(i)})."
                errors.setdefault(i, NonFiniteError(message))
        successors = observations
        if stepped.finals:
            successors = observations.copy()
            for i, final in stepped.finals.items():
                # After a termination there is no bootstrap: an invalid final observation must not fail the copy.
                ignored: dict[int, Exception] = {}
                last = self._observations_of(
                    np.asarray(final)[None], ignored if stepped.terminated[i] else errors, self._steps, i
                )
                successors[i] = last[0]
        for error in errors.values():
            with_cause(error, "environment")
        infos = None if stepped.infos is None else [None if i in errors else a for i, a in enumerate(stepped.infos)]
        return Step(rewards, stepped.terminated, stepped.truncated, successors, observations, errors, infos)

    def _begin_call(self, call: str) -> None:
        under_way.environment, under_way.n_copies, under_way.of_member = self._label, self._copies.n, self._of_member
        under_way.begin(call)

    def _with_positions(self, errors: dict[int, Exception]) -> dict[int, Exception]:
        """Return the same errors, with environment, copy and step added to bare observation errors."""
        for i, error in errors.items():
            if isinstance(error, ObservationError):
                errors[i] = self._with_context(error, i, self._steps)
        return errors

    def _observations_of(self, values: Array, errors: dict[int, Exception], step: int, first: int = 0) -> Array:
        """Return observations as agents see them, with 0 for invalid ones, which are added to `errors`.

        Args:
            values: Observations of the environments.
            errors: Copy -> error; present errors are kept.
            step: Number of the step that returned the observations, 0 for the first reset.
            first: Copy of the first observation. Defaults to 0.
        """
        try:
            seen = self._observe(values)
        except ObservationError:
            seen = np.zeros((len(values), *self.observation_space.shape), self.observation_space.dtype)
            for i in range(len(values)):
                try:
                    seen[i] = self._observe(values[i : i + 1])[0]
                except ObservationError as error:
                    errors.setdefault(first + i, self._with_context(error, first + i, step))
        return self._without_bad_numbers(seen, errors, step, first)

    def _with_context(self, error: ObservationError, copy: int, step: int) -> ObservationError:
        return ObservationError(
            f"Environment {self._label!r} gave {error} ({self._copy_text(copy)}, {_step_text(step)})."
        )

    def _without_bad_numbers(self, observations: Array, errors: dict[int, Exception], step: int, first: int) -> Array:
        """Return the observations with 0 in place of those with NaN or infinity; see `_observations_of`."""
        if not self._measured:
            return observations
        if _all_finite(observations.ravel()):
            return observations
        observations = observations.copy()
        for i in np.flatnonzero(~np.isfinite(observations.reshape(len(observations), -1)).all(axis=1)).tolist():
            errors.setdefault(first + i, self._bad_numbers(observations[i], first + i, step))
            observations[i] = 0
        return observations

    def _bad_numbers(self, observation: Array, copy: int, step: int) -> NonFiniteError:
        bad = observation[~np.isfinite(observation)]
        return NonFiniteError(
            f"Environment {self._label!r} gave an observation with {bad[0]} in {len(bad)} of {observation.size} "
            f"places ({self._copy_text(copy)}, {_step_text(step)})."
        )

    def _copy_text(self, copy: int) -> str:
        """Return the number of a copy among those of its member, for errors."""
        return f"copy {copy % self._of_member}"

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        """Call a method of some copies; see `VectorEnv.call`."""
        return self._copies.call(method, arguments, copies)

    def select(self, positions: Sequence[int]) -> None:
        """Keep only these copies, in this order."""
        self._copies.select(positions)
        errors = self._bad_starts
        self._bad_starts = {new: errors[old] for new, old in enumerate(positions) if old in errors}

    def close(self) -> None:
        """Close every copy."""
        self._copies.close()

    def get_state(self) -> Any:
        """Return the state of the environments; None where they cannot be copied.

        Environments of Box2D, MuJoCo and EnvPool cannot be copied, nor the kinds `async` and `ray-subproc`.
        """
        return self._copies.get_state()

    def set_state(self, state: Any) -> None:
        """Continue from a state of `get_state`."""
        self._copies.set_state(state)


_warned_of_bounds: set[str] = set()


def _warn_of_bounds(label: str, space: Any, observations: Array) -> None:
    """Warn once in a process if first observations are outside of their declared bounds: one of both is wrong."""
    if label in _warned_of_bounds:
        return
    reach = 1e-5 * np.maximum(np.abs(space.low), np.abs(space.high)).astype(np.float64)  # for rounding
    outside = (observations < space.low - reach) | (observations > space.high + reach)
    if outside.any():
        _warned_of_bounds.add(label)
        copy, *place = np.argwhere(outside)[0].tolist()
        low, high = space.low[tuple(place)], space.high[tuple(place)]
        log.warning(
            "Environment %r begins with %g in place %s of its observation, which it declares to be from %g to %g: "
            "training goes on, but one of both is wrong.",
            *(label, observations[(copy, *place)], place if len(place) > 1 else place[0], low, high),
        )


_LARGEST = float(np.finfo(np.float32).max)


def _all_finite(numbers: Array) -> bool:
    """Return whether all numbers [K] are finite."""
    # The sum of squares is finite only if all numbers are, and is faster. `dot` would warn of an overflow.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def _step_text(step: int) -> str:
    """Return the step of an event in words, for errors."""
    return f"step {step:,}" if step else "at its first reset"


def can_be_pooled(spec: EnvironmentSpec) -> bool:
    """Return whether EnvPool is installed and can step an environment."""
    return not spec.wrappers and spec.max_episode_steps is None and PoolCopies.can_make(spec.id, spec.kwargs)


def _make_copies(spec: EnvironmentSpec, n: int, infos: bool) -> VectorEnv:
    kind, id, kwargs = spec.vectorization, spec.id, spec.kwargs
    if kind == "async":
        from agents.environments.vector.asynchronous import AsyncCopies

        return AsyncCopies(spec.make, n, infos=infos)
    if kind in ("ray", "ray-subproc"):
        from agents.environments.vector.ray import RayCopies

        return RayCopies(spec, n, kind, infos=infos)
    native = not spec.wrappers and NativeCopies.can_make(id, kwargs)
    if kind == "native" and not native:
        raise ConfigurationError(
            f"Gymnasium has no vectorised {spec.label!r} that could be used; CartPole-v1 without wrappers has one."
        )
    if kind == "envpool" and not can_be_pooled(spec):
        raise ConfigurationError(
            f"EnvPool cannot step {spec.label!r}: it is not installed (pip install envpool), it does not have this "
            f"environment as Gymnasium has it, or there are arguments, wrappers or a step limit for it."
        )
    if kind == "envpool" and infos:
        raise ConfigurationError(
            f"EnvPool gives no infos of {spec.label!r}, and a callback or the metric of the study needs them: use "
            f"vectorization='sync' or 'async'."
        )
    if kind == "auto":
        # CartPole gives the same numbers in both kinds; single environments are faster for few copies. EnvPool draws
        # other numbers than Gymnasium, and its runs cannot be resumed exactly: it must be chosen explicitly.
        kind = "native" if native and n >= FEW else "sync"
    if kind == "native":
        return NativeCopies(str(id), kwargs, n, infos=infos, max_episode_steps=spec.max_episode_steps)
    return PoolCopies(str(id), n) if kind == "envpool" else SyncCopies(spec.make, n, infos=infos)
