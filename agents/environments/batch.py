"""Copies of an environment as agents and collectors use them: plain spaces, true successors, checked rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.environments.copies import Array, Called, Copies
from agents.environments.native import NativeCopies
from agents.environments.pool import PoolCopies
from agents.environments.spec import EnvironmentSpec
from agents.environments.sync import SyncCopies
from agents.environments.transforms import action_transform, observation_transform
from agents.errors import ConfigurationError, NonFiniteError

FEW = 8
"""Below so many copies single environments are faster than one expression over all of them."""


class Step(NamedTuple):
    """What one step of all N environments gave."""

    rewards: Array  # [N] float64, as the environments gave them
    terminated: Array  # [N] bool
    truncated: Array  # [N] bool
    successors: Array  # [N, ...] true next observations, final ones where an episode ended
    observations: Array  # [N, ...] where to act next: first observations of new episodes where one ended
    errors: dict[int, Exception]  # copy -> why it cannot go on: it raised, or gave a reward that is no number
    infos: list[dict[str, Any] | None] | None = None  # what each told beside, None with an error; None if not wanted


class Environments:
    """N copies of an environment that are stepped together.

    Args:
        spec: What to make.
        n_envs: How many copies, >= 1.
        infos: Whether what they tell beside each step is wanted. EnvPool gives none: then others step.
    """

    def __init__(self, spec: EnvironmentSpec, n_envs: int, *, infos: bool = False) -> None:
        if n_envs < 1:
            raise ConfigurationError(f"n_envs must be >= 1, got {n_envs}.")
        self.spec = spec
        self._copies = _make_copies(spec, n_envs, infos)
        self._observe = observation_transform(self._copies.single_observation_space, spec.label)
        self._act = action_transform(self._copies.single_action_space, spec.label)
        self.observation_space = self._observe.space
        self.action_space = self._act.space

    @property
    def n_envs(self) -> int:
        """How many copies there are."""
        return self._copies.n

    @property
    def kind(self) -> str:
        """How they are stepped: see `EnvironmentSpec.vectorization`."""
        return self._copies.kind

    def reset(self, seeds: Sequence[int]) -> Array:
        """Starts all episodes anew, each copy with its own seed; returns observations [N, ...]."""
        return self._observe(self._copies.reset(seeds))

    def step(self, actions: Array) -> Step:
        """Steps every copy once; a copy whose episode ends starts its next one in the same step.

        A copy that raises, or gives a reward that is NaN or infinite, is told of in `errors`; the others go on.

        Args:
            actions: [N] integers, or [N, D] floats of which [-1, 1] spans the environment's bounds.
        """
        stepped = self._copies.step(self._act(actions))
        observations, errors, rewards = self._observe(stepped.observations), stepped.errors, stepped.rewards
        if not np.isfinite(rewards).all():
            for i in np.flatnonzero(~np.isfinite(rewards)).tolist():
                told = f"Environment {self.spec.label!r} gave the reward {rewards[i]} (copy {i})."
                errors.setdefault(i, NonFiniteError(told))
        successors = observations
        if stepped.finals:
            successors = observations.copy()
            for i, final in stepped.finals.items():
                successors[i] = self._observe(np.asarray(final)[None])[0]
                if stepped.terminated[i] and not np.isfinite(successors[i]).all():
                    successors[i] = 0  # nothing follows, so nothing may depend on what broke there
        infos = None if stepped.infos is None else [None if i in errors else a for i, a in enumerate(stepped.infos)]
        return Step(rewards, stepped.terminated, stepped.truncated, successors, observations, errors, infos)

    def call(self, method: str, arguments: Sequence[Any], copies: Sequence[int]) -> dict[int, Called]:
        """Calls a method of some copies; see `Copies.call`."""
        return self._copies.call(method, arguments, copies)

    def keep(self, positions: Sequence[int]) -> None:
        """Goes on with these copies only, in this order."""
        self._copies.keep(positions)

    def close(self) -> None:
        """Closes every copy."""
        self._copies.close()

    def get_state(self) -> Any:
        """The environments as they stand; None where they cannot be copied.

        Those are Box2D's, MuJoCo's and EnvPool's, and those that are `async` or `ray-subproc`.
        """
        return self._copies.get_state()

    def set_state(self, state: Any) -> None:
        """Goes on from what `get_state` gave."""
        self._copies.set_state(state)


def _make_copies(spec: EnvironmentSpec, n: int, infos: bool) -> Copies:
    kind, id, kwargs = spec.vectorization, spec.id, spec.kwargs
    if kind == "async":
        from agents.environments.asynchronous import AsyncCopies

        return AsyncCopies(spec.make, n, infos=infos)
    if kind in ("ray", "ray-subproc"):
        from agents.environments.ray_copies import RayCopies

        return RayCopies(spec, n, kind, infos=infos)
    if kind == "native" and not NativeCopies.can_make(id, kwargs):
        raise ConfigurationError(f"Gymnasium has no vectorised {spec.label!r} that could be used; CartPole-v1 has one.")
    if kind == "envpool" and not PoolCopies.can_make(id, kwargs):
        raise ConfigurationError(
            f"EnvPool cannot step {spec.label!r}: it is not installed (pip install envpool), it does not have this "
            f"environment as Gymnasium has it, or there are arguments for it."
        )
    if kind == "envpool" and infos:
        raise ConfigurationError(
            f"EnvPool gives no infos of {spec.label!r}, and a callback (on_trajectory) wants them: use vectorization="
            f"'sync' or 'async'."
        )
    if kind == "auto":
        # CartPole gives the same numbers either way; in single environments where there are few of them.
        if NativeCopies.can_make(id, kwargs):
            kind = "native" if n >= FEW else "sync"
        else:
            kind = "envpool" if not infos and PoolCopies.can_make(id, kwargs) else "sync"
    if kind == "native":
        return NativeCopies(str(id), kwargs, n, infos=infos)
    return PoolCopies(str(id), n) if kind == "envpool" else SyncCopies(spec.make, n, infos=infos)
