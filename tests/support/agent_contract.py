"""Contract of agents, built-in and user-defined: tests subclass `AgentContract` and set its class attributes."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import AgentSpec, Trainer
from agents.errors import ConfigurationError

SMALL = {"hidden_sizes": (8,), "jit_compile": False}


def flatten(value):
    """Return every leaf of a state, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in flatten(value[key])]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(flatten(one), flatten(other), strict=True))


class AgentContract:
    """Contract of every agent. Each class shares one agent, because building and compiling take most of the time."""

    agent_class = "dqn"
    environment = "CartPole-v1"
    params = {}  # noqa: RUF012
    live = "gamma"  # a live hyperparameter on which the update depends, with its changed value
    live_value = 0.5
    env_steps = 64  # enough for several updates

    @pytest.fixture(scope="class")
    def built(self):
        return agents.make(self.agent_class, self.environment, seed=0, **self.params)

    @pytest.fixture(scope="class")
    def first_state(self, built):
        return built.get_state()

    @pytest.fixture
    def agent(self, built, first_state):
        built.reset(0, built.config_class.from_dict(self.params).to_dict() | {"learning_rate": 1e-2})
        return built

    @pytest.fixture
    def observations(self, agent):
        rng = np.random.default_rng(0)
        return rng.normal(size=(5, *agent.observation_space.shape)).astype(np.float32)

    def train(self, agent, env_steps=None):
        updates = []
        watch = agents.LambdaCallback(on_update_end=lambda trainer, update: updates.append(update))
        with Trainer(agent, callbacks=[watch]) as trainer:
            trainer.train(env_steps=env_steps or self.env_steps)
        return updates

    # Acting

    @pytest.mark.parametrize("explore", [True, False])
    @pytest.mark.parametrize("n", [1, 2, 5])
    def test_actions_have_shape_and_dtype_of_space(self, agent, observations, n, explore):
        actions = agent.act(observations[:n], explore)
        space = agent.action_space
        if isinstance(space, spaces.Discrete):
            assert (actions.shape, actions.dtype) == ((n,), np.int64)
            assert all(space.contains(action) for action in actions)
        else:
            assert (actions.shape, actions.dtype) == ((n, *space.shape), np.float32)
            assert np.isfinite(actions).all()

    def test_greedy_actions_depend_on_observations_alone(self, agent, observations):
        before = agent.get_state()
        first = agent.act(observations, explore=False)
        np.testing.assert_array_equal(agent.act(observations, explore=False), first)
        one_by_one = np.concatenate([agent.act(row[None], explore=False) for row in observations])
        np.testing.assert_allclose(one_by_one, first, rtol=1e-5, atol=1e-6)
        assert same(agent.get_state(), before)  # no random number was drawn

    def test_exploration_is_determined_by_state(self, agent, observations):
        state = agent.get_state()
        first = [agent.act(observations, explore=True) for _ in range(10)]
        agent.set_state(state)
        again = [agent.act(observations, explore=True) for _ in range(10)]
        np.testing.assert_array_equal(first, again)
        assert len({actions.tobytes() for actions in first}) > 1

    def test_acting_changes_no_networks_or_optimizers(self, agent, observations):
        before = agent.get_state()
        agent.act(observations, explore=True)
        after = agent.get_state()
        assert same(before["networks"], after["networks"])
        assert same(before["optimizers"], after["optimizers"])
        assert agent.fresh

    def test_acting_does_not_change_observations(self, agent, observations):
        kept = observations.copy()
        agent.act(observations, explore=True)
        np.testing.assert_array_equal(observations, kept)

    # Learning

    def test_updates_change_networks_and_give_finite_losses(self, agent, first_state):
        updates = self.train(agent)
        assert updates
        for update in updates:
            assert update.losses.keys() == agent.optimizers.keys()
            assert update.finite
            n_steps = {len(values) for values in (*update.losses.values(), *update.metrics.values())}
            assert len(n_steps) == 1
        assert agent.gradient_steps == sum(len(next(iter(update.losses.values()))) for update in updates)
        assert agent.env_steps == self.env_steps
        assert not agent.fresh
        after = agent.get_state()["networks"]
        for name, values in first_state["networks"].items():
            changed = [not np.array_equal(a, b) for a, b in zip(values, after[name], strict=True)]
            assert all(changed), (name, changed)

    def test_restored_agent_continues_identically(self, agent):
        self.train(agent)
        state = agent.get_state()
        self.train(agent)
        straight = agent.get_state()
        agent.set_state(copy.deepcopy(state))
        assert same(agent.get_state(), state)
        self.train(agent)
        assert same(agent.get_state(), straight)

    def test_state_can_be_pickled(self, agent):
        self.train(agent)
        assert same(pickle.loads(pickle.dumps(agent.get_state())), agent.get_state())

    def test_reset_agent_equals_new_agent(self, built, first_state):
        built.reset(7)
        self.train(built)
        built.reset(0, built.config_class.from_dict(self.params).to_dict())
        assert same(built.get_state(), first_state)

    def test_seed_determines_training(self, agent):
        states = []
        for seed in (0, 0, 1):
            agent.reset(seed)
            self.train(agent)
            states.append(agent.get_state()["networks"])
        assert same(states[0], states[1])
        assert not same(states[0], states[2])

    def test_live_hyperparameter_changes_update(self, agent):
        states = []
        for change in (False, True):
            agent.reset(0)
            if change:
                agent.set_hyperparameter(self.live, self.live_value)
            self.train(agent)
            states.append(agent.get_state()["networks"])
        assert not same(*states)
        assert getattr(agent.config, self.live) == self.live_value

    def test_learning_rates_are_set_per_optimizer_or_for_all(self, agent):
        for name in agent.optimizers:
            agent.set_hyperparameter(f"{name}.learning_rate", 0.125)
            assert agent.get_learning_rate(name) == 0.125
        agent.set_learning_rate(0.25)
        assert {agent.get_learning_rate(name) for name in agent.optimizers} == {0.25}

    def test_change_of_structural_hyperparameter_is_refused(self, agent):
        with pytest.raises(ConfigurationError, match="cannot change while"):
            agent.set_hyperparameter("hidden_sizes", 3)

    def test_spec_of_fresh_agent_has_its_config(self, agent):
        spec = AgentSpec.of(agent)
        assert spec.agent is type(agent)
        assert spec.config == agent.config
        assert spec.state is None
