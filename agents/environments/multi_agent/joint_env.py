"""An environment with several agents as a Gymnasium environment with one joint observation and one joint action."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agents.environments.joint_space import JointSpace
from agents.environments.multi_agent.conversion import ParallelEnvironment
from agents.environments.multi_agent.copying import complete_copy
from agents.environments.transforms import Transform, batch_of_one, observation_transform, space_text
from agents.errors import ConfigurationError

Array = np.ndarray[Any, Any]

RewardDone = Callable[[dict[str, float], dict[str, bool]], tuple[Mapping[str, Any], Mapping[str, Any]]]

MASK = "action_mask"
"""Key of the allowed actions in an agent's `info`, or in its `Dict` observation beside ``observation``."""


class JointEnv(gym.Env[Array, Array]):
    """All agents of an environment as one: their observations in a vector (`JointSpace`), their actions in another.

    The reward is the sum of all agents' rewards; each agent's own is part of the next observation. An episode ends
    when all agents have left it. Its last `info` has ``agent_returns``, the sum of each agent's rewards.

    An agent that is truncated while others stay counts as terminated: targets do not bootstrap from its last
    observation, as they do where the whole episode is truncated.

    Actions are `MultiDiscrete` with one number per agent, or a `Box` with the dimensions of all agents one after the
    other. Actions of agents that have left are ignored.

    Args:
        parallel: The environment, in PettingZoo's parallel interface.
        label: Its name, for messages.

    Raises:
        ConfigurationError: Observations are images or of an unsupported kind, agents have actions of different kinds,
            or there are no agents.
    """

    observation_space: JointSpace
    action_space: spaces.MultiDiscrete | spaces.Box

    def __init__(self, parallel: ParallelEnvironment, label: str) -> None:
        self.parallel, self.label = parallel, label
        self.agent_names = tuple(parallel.possible_agents)
        if not self.agent_names:
            raise ConfigurationError(f"Environment {label!r} has no agents: its possible_agents is empty.")
        self.metadata = dict(getattr(parallel, "metadata", {}))
        self.render_mode = getattr(parallel, "render_mode", None)
        self._numbers = {agent: i for i, agent in enumerate(self.agent_names)}
        self._observe = {agent: self._observation_transform(agent) for agent in self.agent_names}
        own: list[Any] = [parallel.action_space(agent) for agent in self.agent_names]
        self.action_space = _joint_actions(own, self.agent_names, label)
        discrete = isinstance(self.action_space, spaces.MultiDiscrete)
        self._own_actions = own
        self.observation_space = JointSpace(
            self.agent_names,
            [each.space.shape[0] for each in self._observe.values()],
            [int(space.n) if discrete else int(np.prod(space.shape)) for space in own],
            discrete=discrete,
            state_size=self._state_size(),
        )
        self._alive = np.zeros(len(self.agent_names), np.float32)
        self._allowed = self.observation_space.existing.copy()  # [A, n]
        self._returns = np.zeros(len(self.agent_names))
        self._done: set[str] = set()  # agents that left by `reward_done_func_ma`, and that the environment still has
        self.reward_done_func_ma: RewardDone | None = None

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the environment, so that callbacks may call its methods."""
        if name.startswith("_") or name == "parallel":  # not there yet while a copy is restored
            raise AttributeError(name)
        return getattr(self.parallel, name)

    @property
    def unwrapped(self) -> gym.Env[Any, Any]:
        """This environment."""
        return self

    def _observation_transform(self, agent: str) -> Transform:
        space = self.parallel.observation_space(agent)
        if _has_mask(space):
            space = space["observation"]  # type: ignore[index]
        where = f"{self.label}, {agent}"
        made = observation_transform(space, where)
        if made.space.dtype == np.uint8:
            raise ConfigurationError(
                f"Environment {self.label!r} gives the agent {agent!r} images ({space_text(space)}), and observations "
                f"of several agents are joined as vectors: convert them to vectors, for example with "
                f"supersuit.flatten_v0."
            )
        flat = spaces.Box(-np.inf, np.inf, (int(np.prod(made.space.shape)),), np.float32)
        return Transform(flat, lambda values: made(values).reshape(len(values), -1))

    def _state_size(self) -> int:
        """Return the length of the global state; 0 without one, or where it only repeats the observations."""
        if not hasattr(self.parallel, "state"):
            return 0
        observations, _ = self.parallel.reset(seed=0)
        try:
            state = np.asarray(self.parallel.state(), np.float32).ravel()
        except NotImplementedError:
            return 0
        except AttributeError as error:
            if error.name == "state":  # a wrapper asked an environment that has none
                return 0
            raise
        if len(observations) == len(self.agent_names):
            seen = [self._seen(agent, observations[agent]) for agent in self.agent_names]
            if np.array_equal(np.concatenate(seen), state):
                return 0
        return len(state)

    # Steps ----------------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Begin an episode with all agents that the environment starts with."""
        super().reset(seed=seed)
        observations, infos = self.parallel.reset(seed=seed, options=options)
        self._returns[:] = 0.0
        self._alive[:] = 0.0
        self._done.clear()
        present = list(self.parallel.agents)
        self._check_known(present)
        self._alive[[self._numbers[agent] for agent in present]] = 1.0
        self._check_complete("observation", observations, present)
        return self._joined(observations, infos, self._by_number({})), {"infos": dict(infos)}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Let every agent of the episode act once."""
        acting = list(self.parallel.agents)
        if not acting:
            raise ConfigurationError(f"All agents of {self.label!r} have left the episode: call reset().")
        taken = self._split(action)
        answer = self.parallel.step({agent: taken[self._numbers[agent]] for agent in acting})
        observations, rewards, terminations, truncations, infos = answer
        for what, values in (("reward", rewards), ("termination", terminations), ("truncation", truncations)):
            self._check_complete(what, values, acting)
        present = list(self.parallel.agents)
        self._check_known(present)
        self._check_complete("observation", observations, present)
        if self.reward_done_func_ma is not None:
            rewards, terminations = self._decided(rewards, terminations, truncations, acting)
            acting = [agent for agent in acting if agent not in self._done]
            self._done |= {agent for agent in acting if terminations[agent]}
            present = [agent for agent in present if agent not in self._done]
        over = not present or all(terminations[agent] or truncations[agent] for agent in acting)
        cut = over and any(truncations[agent] and not terminations[agent] for agent in acting)
        self._alive[:] = 0.0
        staying = [agent for agent in acting if not terminations[agent]] if over else present
        self._alive[[self._numbers[agent] for agent in staying]] = 1.0
        by_number = self._by_number(rewards)
        self._returns += by_number
        info: dict[str, Any] = {"infos": dict(infos)}
        if over:
            info["agent_returns"] = dict(zip(self.agent_names, self._returns.tolist(), strict=True))
        joined = self._joined(observations, infos, by_number)
        return joined, float(sum(rewards[agent] for agent in acting)), over and not cut, cut, info

    def _decided(
        self,
        rewards: Mapping[str, Any],
        terminations: Mapping[str, Any],
        truncations: Mapping[str, Any],
        acting: list[str],
    ) -> tuple[dict[str, float], dict[str, bool]]:
        """Return rewards and terminations as `reward_done_func_ma` decides."""
        assert self.reward_done_func_ma is not None
        there = [agent for agent in acting if agent not in self._done]
        ended = {agent: bool(terminations[agent] or truncations[agent]) for agent in there}
        given = self.reward_done_func_ma({agent: float(rewards[agent]) for agent in there}, dict(ended))
        if not isinstance(given, tuple) or len(given) != 2 or not all(isinstance(part, Mapping) for part in given):
            raise ConfigurationError(
                f"reward_done_func_ma must return two dictionaries, (rewards, dones), it returned {given!r}."
            )
        for what, values in zip(("rewards", "dones"), given, strict=True):
            if set(values) != set(there):
                raise ConfigurationError(
                    f"reward_done_func_ma returned {what} for {', '.join(map(repr, values)) or 'no agent'}; the agents "
                    f"of the episode are {', '.join(map(repr, there))}."
                )
        own, dones = given
        for agent in there:
            if ended[agent] and not dones[agent]:
                raise ConfigurationError(
                    f"reward_done_func_ma returned done=False for {agent!r}, which has left the environment."
                )
        gone = dict.fromkeys(self._done, True)
        own_rewards = {agent: float(own[agent]) for agent in there} | dict.fromkeys(self._done, 0.0)
        cut = {agent: bool(truncations[agent]) and not terminations[agent] for agent in there}
        return own_rewards, {agent: bool(dones[agent]) and not cut[agent] for agent in there} | gone

    def _joined(self, observations: Mapping[str, Any], infos: Mapping[str, Any], rewards: Array) -> Array:
        space = self.observation_space
        vector = np.zeros(space.shape, np.float32)
        view = space.view(vector)  # writes go through
        self._allowed[:] = space.existing
        for agent, observation in observations.items():
            i = self._numbers[agent]
            if self._alive[i]:
                seen = self._seen(agent, observation)
                view.observations[i, : len(seen)] = seen
                self._note_mask(i, observation, infos.get(agent) or {})
        if space.state_size:
            view.state[:] = np.asarray(self.parallel.state(), np.float32).ravel()  # type: ignore[attr-defined]
        if view.allowed is not None:
            view.allowed[:] = self._allowed
        view.alive[:] = self._alive
        view.rewards[:] = rewards
        return vector

    def _seen(self, agent: str, observation: Any) -> Array:
        """Return an agent's observation as a vector."""
        space = self.parallel.observation_space(agent)
        if _has_mask(space):
            space, observation = space["observation"], observation["observation"]  # type: ignore[index]
        seen: Array = self._observe[agent](batch_of_one(space, observation))[0]
        return seen

    def _note_mask(self, i: int, observation: Any, info: Mapping[str, Any]) -> None:
        if not self.observation_space.discrete:
            return
        mask = observation[MASK] if isinstance(observation, Mapping) and MASK in observation else info.get(MASK)
        if mask is None:
            return
        mask, n = np.asarray(mask).ravel(), self.observation_space.action_sizes[i]
        if len(mask) != n:
            raise ConfigurationError(
                f"The {MASK} of {self.agent_names[i]!r} in {self.label!r} has {len(mask)} entries, and the agent has "
                f"{n} actions."
            )
        if mask.any():  # without any allowed action, the agent is not at turn: its action is ignored
            self._allowed[i, :n] = mask != 0

    def _split(self, action: Array) -> list[Any]:
        """Return each agent's action in its own space."""
        if self.observation_space.discrete:
            numbers = np.asarray(action).ravel()
            return [int(number) + int(space.start) for number, space in zip(numbers, self._own_actions, strict=True)]
        ends = np.cumsum(self.observation_space.action_sizes)[:-1]
        parts = np.split(np.asarray(action).ravel(), ends)
        return [
            part.reshape(space.shape).astype(space.dtype) for part, space in zip(parts, self._own_actions, strict=True)
        ]

    def _by_number(self, values: Mapping[str, Any]) -> Array:
        return np.array([float(values.get(agent, 0.0)) for agent in self.agent_names])

    def _check_complete(self, what: str, values: Mapping[str, Any], agents: list[str]) -> None:
        for agent in agents:
            try:
                values[agent]
            except KeyError:
                raise ConfigurationError(
                    f"Environment {self.label!r} gave no {what} for its agent {agent!r}, only for "
                    f"{', '.join(map(repr, values)) or 'none'}: an agent that has left must not be in `agents`."
                ) from None

    def _check_known(self, agents: list[str]) -> None:
        for agent in agents:
            if agent not in self._numbers:
                raise ConfigurationError(
                    f"Environment {self.label!r} has the agent {agent!r}, which is not in its possible_agents "
                    f"({', '.join(self.agent_names)}): list every agent there that may join."
                )

    # Rendering and copies -------------------------------------------------------------------------------------

    def render(self) -> Any:
        """Return the frame of the environment."""
        return self.parallel.render()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Close the environment."""
        self.parallel.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> JointEnv:
        copied: JointEnv = pickle.loads(cloudpickle.dumps(self))  # `reward_done_func_ma` may be a lambda
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in vars(self).items() if name not in ("parallel", "_observe")}
        return _restored, (complete_copy(self.parallel), self.label, state)


def _restored(content: bytes, label: str, state: dict[str, Any]) -> JointEnv:
    made = JointEnv.__new__(JointEnv)
    made.parallel, made.label = pickle.loads(content), label
    made.agent_names = state["agent_names"]
    made._observe = {agent: made._observation_transform(agent) for agent in made.agent_names}
    vars(made).update(state)
    return made


def _has_mask(space: gym.Space[Any]) -> bool:
    return isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", MASK}


def _joint_actions(own: list[Any], agents: tuple[str, ...], label: str) -> spaces.MultiDiscrete | spaces.Box:
    if all(isinstance(space, spaces.Discrete) for space in own):
        return spaces.MultiDiscrete([int(space.n) for space in own])
    if all(isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) for space in own):
        low, high = (np.concatenate([getattr(space, side).ravel() for space in own]) for side in ("low", "high"))
        return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    listed = "; ".join(f"{agent}: {space_text(space)}" for agent, space in zip(agents, own, strict=True))
    raise ConfigurationError(
        f"The agents of {label!r} must all have Discrete actions, or all Box actions (floats); they have {listed}."
    )
