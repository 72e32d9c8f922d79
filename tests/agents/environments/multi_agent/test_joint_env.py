"""Tests of joint environments: observations, masks, rewards, ends of episodes, copies, bad input."""

from __future__ import annotations

import copy
import functools
import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("pettingzoo")

from several_agents import Countdown, InTurns, Masked

import agents
from agents import ConfigurationError, EnvironmentSpec, Trainer
from agents.environments import Environments
from agents.environments.joint_space import JointSpace
from agents.environments.multi_agent.joint_env import JointEnv
from agents.environments.multi_agent.wrappers import reward_done_func_ma


def made(kind: Any, **kwargs: Any) -> JointEnv:
    environment = EnvironmentSpec(kind, kwargs).make()
    assert isinstance(environment, JointEnv)
    return environment


def view(environment: JointEnv, vector: Any) -> Any:
    return environment.observation_space.view(vector)


def test_reset_joins_observations_and_state():
    environment = made(Countdown, lives=(1, 3))
    seen = view(environment, environment.reset(seed=0)[0])
    assert environment.observation_space == JointSpace(
        ["agent_0", "agent_1"], [2, 2], [2, 2], discrete=True, state_size=1
    )
    np.testing.assert_array_equal(seen.observations, [[0, 0], [0, 1]])
    np.testing.assert_array_equal(seen.state, [0])
    np.testing.assert_array_equal(seen.alive, [1, 1])
    np.testing.assert_array_equal(seen.rewards, [0, 0])
    np.testing.assert_array_equal(seen.allowed, [[1, 1], [1, 1]])
    assert environment.action_space == spaces.MultiDiscrete([2, 2])


def test_agent_that_left_has_a_zero_observation():
    environment = made(Countdown, lives=(1, 3))
    environment.reset(seed=0)
    vector, reward, terminated, truncated, info = environment.step(np.array([0, 0]))
    seen = view(environment, vector)
    assert (reward, terminated, truncated) == (3.0, False, False)
    assert "agent_returns" not in info
    np.testing.assert_array_equal(seen.alive, [0, 1])
    np.testing.assert_array_equal(seen.observations, [[0, 0], [1, 1]])
    np.testing.assert_array_equal(seen.rewards, [1, 2])
    assert environment.step(np.array([1, 1]))[1] == 2.0  # the first agent's action is ignored
    vector, reward, terminated, truncated, info = environment.step(np.array([1, 1]))
    assert (reward, terminated, truncated) == (2.0, True, False)
    assert info["agent_returns"] == {"agent_0": 1.0, "agent_1": 6.0}
    np.testing.assert_array_equal(view(environment, vector).alive, [0, 0])
    with pytest.raises(ConfigurationError, match=r"have left the episode: call reset\(\)"):
        environment.step(np.array([0, 0]))


def test_truncated_agents_stay_alive_for_the_bootstrap():
    environment = made(Countdown, lives=(1, 3), truncates=True)
    environment.reset(seed=0)
    for _ in range(3):
        vector, _, terminated, truncated, _ = environment.step(np.array([0, 0]))
    assert (terminated, truncated) == (False, True)
    np.testing.assert_array_equal(view(environment, vector).alive, [0, 1])
    np.testing.assert_array_equal(view(environment, vector).observations, [[0, 0], [3, 1]])


class CutsAlone(Countdown):
    """Agents that leave are truncated."""

    def step(self, actions: Any) -> Any:
        observations, rewards, ended, cut, infos = super().step(actions)
        return observations, rewards, cut, ended, infos


def test_agent_that_is_truncated_alone_counts_as_terminated():
    environment = made(CutsAlone)
    environment.reset(seed=0)
    vector, _, terminated, truncated, _ = environment.step(np.array([0, 0]))
    assert (terminated, truncated) == (False, False)
    np.testing.assert_array_equal(view(environment, vector).alive, [0, 1])


@pytest.mark.parametrize("in_info", [False, True])
def test_masks_come_from_observations_or_infos(in_info: bool):
    environment = made(Masked, in_info=in_info)
    seen = view(environment, environment.reset(seed=0)[0])
    assert environment.observation_space.observation_sizes == (2, 1)
    np.testing.assert_array_equal(seen.allowed, [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(seen.observations, [[1, 1], [1, 0]])
    vector = environment.step(np.array([0, 0]))[0]
    np.testing.assert_array_equal(view(environment, vector).allowed, [[0, 1, 0], [0, 1, 0]])
    vector = environment.step(np.array([1, 1]))[0]
    np.testing.assert_array_equal(view(environment, vector).allowed, [[1, 0, 0], [0, 0, 1]])


def test_state_that_repeats_the_observations_is_left_out():
    class Repeats(Countdown):
        def __init__(self) -> None:
            super().__init__()
            self.state = lambda: np.concatenate([*self._seen(self.possible_agents).values()])

    assert made(Repeats).observation_space.state_size == 0
    assert made(Countdown, with_state=False).observation_space.state_size == 0


def test_turn_based_environment_is_converted():
    environment = made(InTurns)
    environment.reset(seed=0)
    rewards = [view(environment, environment.step(np.array([1, 1]))[0]).rewards.tolist() for _ in range(2)]
    assert rewards == [[1.0, 0.0], [0.0, 1.0]]


def test_steps_without_the_checks_of_pettingzoo_equal_its_own():
    games = pytest.importorskip("mpe2.simple_spread_v3")
    ours, theirs = made("mpe2.simple_spread_v3:parallel_env"), games.parallel_env()
    ours.reset(seed=3)
    theirs.reset(seed=3)
    for number in range(5):
        vector, *_ = ours.step(np.full(3, number))
        observations, rewards, *_ = theirs.step(dict.fromkeys(ours.agent_names, number))
        seen = view(ours, vector)
        np.testing.assert_array_equal(seen.observations, np.stack([*observations.values()]))
        np.testing.assert_array_equal(seen.rewards, np.array([*rewards.values()], np.float32))


def test_gymnasium_environment_with_tuples_of_spaces():
    environment = EnvironmentSpec("agents.environments.multi_agent.games:TwoStepGame").make()
    vector, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(view(environment, vector).observations, [[1, 0, 0], [1, 0, 0]])
    environment.step(np.array([1, 0]))
    vector, reward, terminated, _, info = environment.step(np.array([1, 1]))
    assert (reward, terminated, info["agent_returns"]) == (8.0, True, {"agent_0": 4.0, "agent_1": 4.0})


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("name", ["simple_spread_v3", "simple_speaker_listener_v4"])
def test_copy_continues_the_episode(copied: Any, name: str):
    pytest.importorskip("mpe2")
    environment = EnvironmentSpec(f"mpe2.{name}:parallel_env").make()
    environment.reset(seed=3)
    actions = [np.array([space.n - 1 for space in environment._own_actions])] * 40
    for action in actions[:5]:
        environment.step(action)
    other = copied(environment)
    for action in actions[5:]:
        (ours, *rest), (theirs, *same) = environment.step(action), other.step(action)
        np.testing.assert_array_equal(ours, theirs)
        assert rest == same
        if rest[1] or rest[2]:
            np.testing.assert_array_equal(environment.reset()[0], other.reset()[0])


def test_vector_environments_restore_their_episodes():
    pytest.importorskip("mpe2")
    together = Environments(EnvironmentSpec("mpe2.simple_spread_v3:parallel_env"), 2)
    together.reset([1, 2])
    together.step(np.array([[1, 2, 3], [3, 2, 1]]))
    state = together.get_state()
    first = [together.step(np.full((2, 3), i % 5)) for i in range(30)]
    together.set_state(state)
    again = [together.step(np.full((2, 3), i % 5)) for i in range(30)]
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.successors, other.successors)
        np.testing.assert_array_equal(one.rewards, other.rewards)


@pytest.mark.real
def test_async_copies_give_what_sync_ones_give():
    pytest.importorskip("mpe2")
    spec = EnvironmentSpec("mpe2.simple_spread_v3:parallel_env")
    sync, apart = Environments(spec, 2), Environments(EnvironmentSpec(spec.id, vectorization="async"), 2)
    try:
        np.testing.assert_array_equal(sync.reset([1, 2]), apart.reset([1, 2]))
        for i in range(30):
            ours, theirs = (each.step(np.full((2, 3), i % 5)) for each in (sync, apart))
            np.testing.assert_array_equal(ours.observations, theirs.observations)
            np.testing.assert_array_equal(ours.rewards, theirs.rewards)
    finally:
        apart.close()


# --- bad input


class NoReward(Countdown):
    def step(self, actions: Any) -> Any:
        observations, rewards, *rest = super().step(actions)
        return observations, {"agent_0": rewards["agent_0"]}, *rest


class NoObservation(Countdown):
    def step(self, actions: Any) -> Any:
        observations, *rest = super().step(actions)
        return {"agent_0": observations["agent_0"]}, *rest


class Stranger(Countdown):
    def step(self, actions: Any) -> Any:
        answer = super().step(actions)
        self.agents = [*self.agents, "stranger"]
        return answer


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (NoReward, r"gave no reward for its agent 'agent_1', only for 'agent_0'"),
        (NoObservation, r"gave no observation for its agent 'agent_1'"),
        (Stranger, r"has the agent 'stranger', which is not in its possible_agents \(agent_0, agent_1\)"),
    ],
)
def test_missing_and_unknown_agents_are_named(kind: Any, message: str):
    environment = made(kind, lives=(2, 2))
    environment.reset(seed=0)
    with pytest.raises(ConfigurationError, match=message):
        environment.step(np.array([0, 0]))


class Mixed(Countdown):
    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2) if agent == "agent_0" else spaces.Box(-1.0, 1.0, (1,), np.float32)


class Images(Countdown):
    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 255, (40, 40, 3), np.uint8)


class Nobody(Countdown):
    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = []


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Mixed, r"must all have Discrete actions, or all Box actions \(floats\); they have agent_0: Discrete\(2\)"),
        (Images, r"gives the agent 'agent_0' images .* convert them to vectors"),
        (Nobody, r"has no agents: its possible_agents is empty"),
    ],
)
def test_spaces_that_cannot_be_joined_are_refused(kind: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        EnvironmentSpec(kind).make()


# --- rewards and ends of a user's own


def halved(rewards: dict[str, float], dones: dict[str, bool]) -> Any:
    return {agent: reward / 2 for agent, reward in rewards.items()}, {
        agent: done or rewards[agent] == 2.0 for agent, done in dones.items()
    }


@pytest.mark.parametrize("function", [halved, f"{__file__}:halved"])
def test_own_function_decides_on_rewards_and_ends(function: Any):
    own = functools.partial(reward_done_func_ma, function=function)
    environment = EnvironmentSpec(Countdown, {"lives": (4, 4, 4)}, wrappers=[own]).make()
    environment.reset(seed=0)
    vector, reward, terminated, *_ = environment.step(np.zeros(3, int))
    seen = environment.observation_space.view(vector)
    assert (reward, terminated) == (3.0, False)
    np.testing.assert_array_equal(seen.rewards, [0.5, 1.0, 1.5])
    np.testing.assert_array_equal(seen.alive, [1, 0, 1])  # the second agent is done, and the environment still has it
    vector, reward, *_ = environment.step(np.zeros(3, int))
    assert reward == 2.0
    np.testing.assert_array_equal(environment.observation_space.view(vector).observations[1], [0, 0])
    environment.step(np.zeros(3, int))
    *_, terminated, truncated, info = environment.step(np.zeros(3, int))
    assert (terminated, truncated) == (True, False)
    assert info["agent_returns"] == {"agent_0": 2.0, "agent_1": 1.0, "agent_2": 6.0}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rewards, dones: rewards, r"must return two dictionaries, \(rewards, dones\)"),
        (
            lambda rewards, dones: ({"agent_0": 1.0}, dones),
            r"returned rewards for 'agent_0'; the agents of the episode",
        ),
        (lambda rewards, dones: (rewards, {**dones, "other": True}), r"returned dones for .*'other'"),
        (
            lambda rewards, dones: (rewards, dict.fromkeys(dones, False)),
            r"returned done=False for 'agent_0', which has left",
        ),
    ],
)
def test_own_function_with_wrong_agents_is_refused(function: Any, message: str):
    environment = EnvironmentSpec(
        Countdown, wrappers=[functools.partial(reward_done_func_ma, function=function)]
    ).make()
    environment.reset(seed=0)
    with pytest.raises(ConfigurationError, match=message):
        environment.step(np.array([0, 0]))


def test_judged_by_returns_the_reward_of_one_agent():
    wrapper = "agents.environments.multi_agent.wrappers:JudgedBy:agent=agent_1"
    environment = EnvironmentSpec(Countdown, wrappers=[wrapper]).make()
    environment.reset(seed=0)
    assert environment.step(np.array([0, 0]))[1] == 2.0
    with pytest.raises(ConfigurationError, match=r"Unknown agent 'agent_7'\. Did you mean agent_1"):
        EnvironmentSpec(Countdown, wrappers=[wrapper.replace("_1", "_7")]).make()
    with pytest.raises(ConfigurationError, match="has a single agent"):
        EnvironmentSpec("CartPole-v1", wrappers=[wrapper]).make()


@pytest.mark.slow
def test_episodes_have_the_return_of_each_agent():
    agent = agents.make("ppo", EnvironmentSpec(Countdown), n_envs=2, n_steps=8, hidden_sizes=(4,), jit_compile=False)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=7, progress=False)
        state = trainer.get_state()
        trainer.train(env_steps=9, progress=False)
        metrics = [episode.custom_metrics for episode in trainer.history.episodes]
        assert metrics
        assert all(each == {"return/agent_0": 1.0, "return/agent_1": 6.0} for each in metrics)
        trainer.set_state(state)
        trainer.train(env_steps=9, progress=False)
        assert [episode.custom_metrics for episode in trainer.history.episodes] == metrics


def test_callbacks_may_call_methods_of_the_environment():
    agent = agents.make("ppo", EnvironmentSpec(Countdown), n_envs=2, n_steps=8, hidden_sizes=(4,), jit_compile=False)
    with Trainer(agent) as trainer:
        trainer.collector.call("set_lives", [5])
        trainer.train(env_steps=20, progress=False)
        assert {episode.length for episode in trainer.history.episodes} == {5}
        with pytest.raises(ConfigurationError, match="has no method 'set_nothing'"):
            trainer.collector.call("set_nothing", [])
