"""Tests of self-play: sides and opponents of episodes, versions, populations, resuming, published agents, bad input."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agents
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, SelfPlay, Trainer
from agents.environments import Environments
from agents.environments.multi_agent.opponents import Opponents, drawn_within
from agents.population import Population
from agents.self_play.self_play import EarlierAgent, PublishedAgent

SMALL = {"hidden_sizes": (8,), "jit_compile": False, "n_envs": 2, "n_steps": 8, "batch_size": 8, "n_epochs": 1}
WRAPPER = "agents.environments.multi_agent.opponents:Opponents"


class Bids(gym.Env[Any, Any]):
    """Two players bid 0, 1 or 2 for `length` rounds; the higher bid wins a point from the lower one."""

    def __init__(self, length: int = 3) -> None:
        self.length = length
        seen = gym.spaces.Box(-1.0, 9.0, (2,), np.float32)
        self.observation_space = gym.spaces.Tuple([seen, seen])
        self.action_space = gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.Discrete(3)])

    def _seen(self) -> Any:
        return tuple(np.array([self.time, player], np.float32) for player in range(2))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        gain = float(np.sign(action[0] - action[1]))
        return self._seen(), [gain, -gain], self.time >= self.length, False, {}


class Fixed:
    """Opponent that always bids the same, and counts episodes."""

    def __init__(self, bid: int) -> None:
        self.bid, self.episodes = bid, 0

    def begin(self) -> None:
        self.episodes += 1

    def act(self, vectors: Any) -> Any:
        return np.full((len(vectors), 2), self.bid)


def spec(**kwargs: Any) -> EnvironmentSpec:
    return EnvironmentSpec(Bids, kwargs, wrappers=[WRAPPER])


def mappo(seed: int = 0, **params: Any) -> agents.Agent:
    return agents.make("mappo", spec(), seed=seed, **{**SMALL, "team_reward": False, **params})


# --- episodes


def test_opponent_plays_the_other_side_and_the_reward_is_the_learners():
    environment = spec().make()
    opponent = Fixed(1)
    environment.get_wrapper_attr("set_opponents")([opponent])
    view, sides = environment.observation_space.view, []
    for seed in range(20):
        alive = view(environment.reset(seed=seed)[0]).alive.copy()
        assert sorted(alive.tolist()) == [0.0, 1.0]
        sides.append(int(np.argmax(alive)))
        bids = np.array([2, 0]) if sides[-1] == 0 else np.array([0, 2])  # the learner's 2; its 0 is replaced by 1
        vector, reward, *_ = environment.step(bids)
        np.testing.assert_array_equal(view(vector).alive, alive)
        assert reward == 1.0
        assert view(vector).rewards[sides[-1]] == 1.0
        assert environment.step(np.array([0, 0]))[1] == -1.0
    assert set(sides) == {0, 1}
    assert opponent.episodes == 20


def test_without_opponents_the_other_side_acts_at_random():
    environment = spec(length=1000).make()
    environment.reset(seed=0)
    rewards = [environment.step(np.array([1, 1]))[1] for _ in range(300)]
    assert {-1.0, 0.0, 1.0} == set(rewards)
    assert abs(np.mean(rewards)) < 0.2


class Throws(Bids):
    """The same with continuous actions that have no bounds."""

    def __init__(self) -> None:
        super().__init__()
        one = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Tuple([one, one])

    def step(self, action: Any) -> Any:
        return super().step([action[0].sum(), action[1].sum()])


def test_random_play_has_actions_without_bounds():
    environment = EnvironmentSpec(Throws, wrappers=[WRAPPER]).make()
    environment.reset(seed=0)
    environment.step(np.zeros(4, np.float32))
    low, high = np.array([-2, -np.inf, 5, -np.inf], np.float32), np.array([-1, np.inf, np.inf, 3], np.float32)
    space, rng = gym.spaces.Box(low, high), np.random.default_rng(0)
    drawn = np.stack([drawn_within(space, rng) for _ in range(2000)])
    assert drawn.dtype == np.float32
    assert all(space.contains(each) for each in drawn)
    np.testing.assert_allclose(drawn.mean(axis=0), [-1.5, 0.0, 5 + 1, 3 - 1], atol=0.1)
    np.testing.assert_allclose(drawn.std(axis=0), [1 / np.sqrt(12), 1, 1, 1], atol=0.1)


def games(environment: Any, n_steps: int) -> list[float]:
    """Return the rewards of a learner that always bids 1, which show the bids of its opponent."""
    return [float(environment.step(np.array([1, 1]))[1]) for _ in range(n_steps)]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copy_of_the_environment_continues_with_the_draws_of_its_opponent(copied: Any):
    environment = spec(length=200).make()
    environment.get_wrapper_attr("set_opponents")([_version_of(mappo())])
    environment.reset(seed=1)
    before = games(environment, 20)
    other = copied(environment)
    ours, theirs = games(environment, 40), games(other, 40)
    assert len(set(ours)) > 1
    assert ours == theirs != [*before, *before]
    np.testing.assert_array_equal(environment.reset()[0], other.reset()[0])
    assert games(environment, 40) == games(other, 40)


def test_opponents_of_environments_draw_differently():
    version, drawn = _version_of(mappo()), []
    for seed in range(6):
        environment = spec(length=200).make()
        environment.get_wrapper_attr("set_opponents")([pickle.loads(pickle.dumps(version))])  # as in processes
        environment.reset(seed=seed)
        drawn.append(games(environment, 40))
    assert all(one != other for i, one in enumerate(drawn) for other in drawn[:i])


def _version_of(agent: agents.Agent) -> EarlierAgent:
    with Trainer(agent, callbacks=[callback := SelfPlay()]) as trainer:
        trainer.train(env_steps=2, progress=False)
    return callback._versions[0][0]


def test_version_acts_as_the_agent_did_also_in_another_process():
    agent = mappo()
    version = _version_of(agent)
    vectors = np.random.default_rng(0).standard_normal((400, *agent.observation_space.shape)).astype(np.float32)
    agent.observation_space.view(vectors).allowed[:] = 1.0
    other = pickle.loads(pickle.dumps(version))
    assert version.act(vectors).shape == (400, 2)
    np.testing.assert_array_equal(other.act(vectors), EarlierAgent(version.recipe, 0, version.state).act(vectors))


def _moved(agent: agents.Agent, rng: np.random.Generator) -> None:
    """Add normal numbers to the weights of the actor."""
    actor = agent.networks["actor"]
    actor.set_weights([weight + rng.standard_normal(weight.shape) for weight in actor.get_weights()])
    agent.refresh()


def test_version_keeps_the_weights_of_its_time():
    agent, rng = mappo(seed=3), np.random.default_rng(0)
    _moved(agent, rng)
    version = _version_of(agent)
    vectors = rng.standard_normal((400, *agent.observation_space.shape)).astype(np.float32)
    agent.observation_space.view(vectors).allowed[:] = 1.0

    def drawn_by_both() -> tuple[Any, Any]:
        version.rng, agent.rng = np.random.default_rng(5), np.random.default_rng(5)
        return version.act(vectors), agent.interface.convert_actions(agent.act(vectors, explore=True))

    before, learners = drawn_by_both()
    np.testing.assert_array_equal(before, learners)
    _moved(agent, rng)
    after, learners = drawn_by_both()
    np.testing.assert_array_equal(after, before)
    assert (learners != before).any()


def test_checkpoint_has_a_version_once_for_all_environments():
    together, version = Environments(spec(length=200), 4), _version_of(mappo())
    together.call("set_opponents", [[version]], range(4))
    together.reset([1, 2, 3, 4])
    actions = np.ones((4, 2), int)
    state = pickle.dumps(together.get_state())
    weights = max(version.state, key=lambda each: each.size).tobytes()
    assert len(weights) > 100
    assert state.count(weights) == 1
    first = [together.step(actions).rewards.tolist() for _ in range(20)]
    together.set_state(pickle.loads(state))
    assert first == [together.step(actions).rewards.tolist() for _ in range(20)]


# --- training


@pytest.mark.slow
def test_versions_are_added_at_intervals_and_spread_over_the_training():
    callback = SelfPlay(every=32, keep=3)
    with Trainer(mappo(), callbacks=[callback]) as trainer:
        trainer.train(env_steps=160, progress=False)
        assert callback.versions() == [0, 64, 160]
        [known] = {tuple(map(id, each)) for each in trainer.call_environments("get_wrapper_attr", "_opponents")}
        assert len(known) == 3


@pytest.mark.slow
def test_resumed_training_has_the_versions_of_before():
    def run() -> tuple[Trainer, SelfPlay]:
        callback = SelfPlay(every=32, keep=2)
        return Trainer(mappo(), callbacks=[callback]), callback

    (straight, first), (resumed, second) = run(), run()
    with straight, resumed:
        straight.train(env_steps=64, progress=False)
        state = straight.get_state()
        second.set_state(first.get_state())
        resumed.set_state(state)
        assert second.versions() == first.versions() == [0, 64]
        for one, other in zip(first._versions[0], second._versions[0], strict=True):
            for ours, theirs in zip(one.state, other.state, strict=True):
                np.testing.assert_array_equal(ours, theirs)
        resumed.train(env_steps=32, progress=False)
        assert second.versions() == [0, 96]


@pytest.mark.slow
def test_members_of_a_population_play_against_their_own_versions():
    callback = SelfPlay(every=16)
    members = [{"seed": 0}, {"seed": 1, "learning_rate": 1e-2}]
    population = Population(AgentSpec.of("mappo", spec(), {**SMALL, "team_reward": False}), members)
    with Trainer(population, callbacks=[callback]) as trainer:
        trainer.train(env_steps=32, progress=False)
    assert callback.versions(0) == callback.versions(1) == [0, 16, 32]
    one, other = (callback._versions[member][0].state for member in range(2))
    assert any(not np.array_equal(ours, theirs) for ours, theirs in zip(one, other, strict=True))


@pytest.mark.slow
def test_published_agents_are_opponents():
    learner = mappo(seed=1)
    with Trainer(mappo(seed=2), callbacks=[agents.Publish("rival")]) as rival:
        rival.train(env_steps=16, progress=False)
        with Trainer(learner, callbacks=[SelfPlay(names=["rival"])]) as trainer:
            trainer.train(env_steps=64, progress=False)
            assert trainer.history.returns
        environment = spec(length=200).make()
        environment.get_wrapper_attr("set_opponents")([PublishedAgent("rival", learner.observation_space)])
        environment.reset(seed=1)
        other = copy.deepcopy(environment)
        assert games(environment, 40) == games(other, 40)


def test_published_agents_that_cannot_be_opponents_are_refused_by_name():
    environment, learner = spec().make(), mappo(seed=1)
    environment.get_wrapper_attr("set_opponents")([PublishedAgent("rival", learner.observation_space)])
    with Trainer(mappo(gru_units=4), callbacks=[agents.Publish("rival")]) as rival:
        rival.train(env_steps=2, progress=False)
        with pytest.raises(ConfigurationError, match=r"The agent 'rival' has memory \(gru_units\), and cannot be"):
            environment.reset(seed=0)
    other = agents.make("ppo", "CartPole-v1", **SMALL)
    environment.get_wrapper_attr("set_opponents")([PublishedAgent("pole", learner.observation_space)])
    with Trainer(other, callbacks=[agents.Publish("pole")]) as rival:
        rival.train(env_steps=2, progress=False)
        with pytest.raises(ConfigurationError, match=r"The agent 'pole' cannot .* acts on Box.* learner on JointSpace"):
            environment.reset(seed=0)


@pytest.mark.parametrize("algorithm", ["vdn", "qmix"])
def test_joint_values_are_learned_against_opponents(algorithm: str):
    """The rewards of the other side oppose those of the learner, which are those of one team."""
    params = {"hidden_sizes": (8,), "jit_compile": False, "learning_starts": 70, "batch_size": 64, "train_freq": 10}
    agent = agents.make(algorithm, spec(), **params)
    with Trainer(agent, callbacks=[SelfPlay()]) as trainer:
        trainer.train(env_steps=200, progress=False)
    assert agent.gradient_steps > 0


@pytest.mark.slow
def test_self_play_finds_the_best_bid():
    callback = SelfPlay(every=1000)
    agent = mappo(n_envs=8, n_steps=16, batch_size=64, n_epochs=4, learning_rate=3e-3)
    with Trainer(agent, callbacks=[callback]) as trainer:
        trainer.train(env_steps=10_000, progress=False)
    against_random = agents.evaluate(agent, n_episodes=100).mean()
    assert against_random > 1.5  # always bidding 2 gains 2/3 in each of three rounds
    np.testing.assert_array_equal(np.unique(agent.act(_all_observations(agent))), [2])


def _all_observations(agent: agents.Agent) -> Any:
    environment = spec().make()
    vector, _ = environment.reset(seed=0)
    return np.stack([vector, *(environment.step(np.array([2, 2]))[0] for _ in range(2))])


# --- bad input


def test_environment_without_opponents_is_refused():
    agent = agents.make("mappo", EnvironmentSpec(Bids), **SMALL)
    with Trainer(agent, callbacks=[SelfPlay()]) as trainer, pytest.raises(ConfigurationError, match="give 'Bids' the"):
        trainer.train(env_steps=8)


def test_agents_with_memory_are_refused():
    learner = Trainer(mappo(gru_units=4), callbacks=[SelfPlay()])
    with learner as trainer, pytest.raises(ConfigurationError, match="Agents with memory"):
        trainer.train(env_steps=8)


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        ([["agent_0"]], r"Each agent must be in one of at least two sides, got \[\['agent_0'\]\]"),
        ([["agent_0", "agent_1"]], "at least two sides"),
        ([["agent_0"], ["agent_2"]], "Unknown agent 'agent_2'"),
    ],
)
def test_sides_have_every_agent_once(sides: Any, message: str):
    with pytest.raises(ConfigurationError, match=message):
        Opponents(EnvironmentSpec(Bids).make(), sides)
    with pytest.raises(ConfigurationError, match="has a single agent"):
        Opponents(EnvironmentSpec("CartPole-v1").make())
    with pytest.raises(ConfigurationError, match="every must be"):
        SelfPlay(every=0)


def test_critics_of_all_actions_are_refused_where_some_are_replaced():
    with pytest.raises(ConfigurationError, match="The critics of maddpg learn from the actions of all agents"):
        agents.make("maddpg", spec(), hidden_sizes=(4,))
