"""Tests of agent states: restored states are identical, resets equal new agents, and seeds determine everything."""

import dataclasses
import random

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

import agents
from agents import AgentSpec, Trainer
from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.ppo import PPO, PPOConfig
from agents.backend.variables import values_of
from agents.buffers import Batches, RolloutBuffer
from agents.checkpoints.file import weights_of
from agents.config.agent_config import AgentConfig
from agents.config.optimizers import KERAS_OPTIMIZERS, variables_of
from agents.contract.agent import Agent
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError, NonFiniteError

PLANE = spaces.Box(-1.0, 1.0, (3,), np.float32)
TWO = spaces.Discrete(2)
SMALL = {"hidden_sizes": (8,), "jit_compile": False}
SMALL_DQN = {**SMALL, "learning_starts": 20, "batch_size": 8, "buffer_size": 200, "target_update_interval": 7}
SMALL_PPO = {**SMALL, "n_steps": 16, "batch_size": 8, "n_epochs": 2, "n_envs": 2}


def flatten(value, path=""):
    """Return (path, leaf) of everything in a state."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in flatten(value[key], f"{path}.{key}")]
    if isinstance(value, list | tuple):
        return [leaf for i, item in enumerate(value) for leaf in flatten(item, f"{path}[{i}]")]
    return [(path, value)]


def assert_same(one, other):
    """Assert that two states are equal in every bit."""
    pairs = list(zip(flatten(one), flatten(other), strict=True))
    assert pairs
    for (path, a), (other_path, b) in pairs:
        assert path == other_path
        assert np.array_equal(a, b, equal_nan=isinstance(a, float | np.ndarray)), path


def rows(seed, n=8):
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.normal(size=(n, 3)).astype(np.float32),
        "actions": rng.integers(0, 2, n).astype(np.int32),
        "rewards": rng.normal(size=n).astype(np.float32),
        "lengths": np.ones(n, np.int32),
        "next_observations": rng.normal(size=(n, 3)).astype(np.float32),
        "terminated": rng.random(n) < 0.2,
    }


def learn(agent, seeds):
    for seed in seeds:
        agent.act(rows(seed)["observations"], explore=True)
        agent.advance(8)
        agent.update(Batches(rows(seed), np.random.default_rng(seed).permutation(8).reshape(2, 4).astype(np.int32)))


# --- every optimizer

ARGUMENTS = {
    "sgd": {"optimizer.momentum": 0.9},
    "rmsprop": {"optimizer.centered": True},
    "adam": {"optimizer.amsgrad": True},
}
WRAPPED = {"use_ema": True, "ema_overwrite_frequency": 2, "gradient_accumulation_steps": 3}
EVERY = [*sorted(KERAS_OPTIMIZERS), "wrapped"]


def dqn_with(optimizer, seed=0):
    extra = ARGUMENTS.get(optimizer, {})
    if optimizer == "wrapped":
        optimizer, extra = "adam", {f"optimizer.{name}": value for name, value in WRAPPED.items()}
    params = {**SMALL, "optimizer": optimizer, "learning_rate": 0.05, "target_update_interval": 3, "tau": 0.5, **extra}
    return DQN(PLANE, TWO, DQNConfig.from_dict(params), seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", EVERY)
def test_restored_agent_continues_identically_with_every_optimizer(optimizer):
    agent = dqn_with(optimizer)
    built = agent.get_state()
    learn(agent, range(3))
    saved = agent.get_state()
    agent.set_hyperparameter("gamma", 0.5)
    agent.set_hyperparameter("learning_rate", 0.01)
    learn(agent, range(3, 6))
    straight = agent.get_state()
    assert not np.array_equal(saved["networks"]["q"][0], straight["networks"]["q"][0])

    agent.set_state(saved)
    assert_same(agent.get_state(), saved)
    assert agent.get_learning_rate() == pytest.approx(0.05)
    agent.set_hyperparameter("gamma", 0.5)
    agent.set_hyperparameter("learning_rate", 0.01)
    learn(agent, range(3, 6))
    assert_same(agent.get_state(), straight)

    agent.reset(0, {"gamma": 0.99, "learning_rate": 0.05})  # and from the beginning again
    assert_same(agent.get_state(), built)
    learn(agent, range(3))
    assert_same(agent.get_state(), saved)


@pytest.mark.slow
def test_state_can_be_restored_to_another_agent():
    one, other = dqn_with("nadam", seed=0), dqn_with("nadam", seed=5)
    learn(one, range(3))
    learn(other, range(2))
    other.set_state(one.get_state())
    assert (other.seed, other.gradient_steps, other.env_steps) == (0, 6, 24)
    np.testing.assert_array_equal(other.infer("q", rows(0)["observations"]), one.infer("q", rows(0)["observations"]))
    learn(one, range(3, 5))
    learn(other, range(3, 5))
    assert_same(one.get_state(), other.get_state())


def test_state_is_independent_of_later_training():
    agent = dqn_with("adam")
    learn(agent, range(1))
    state = agent.get_state()
    kept = [np.copy(leaf) for _, leaf in flatten(state)]
    learn(agent, range(1, 3))
    agent.set_state(state)
    learn(agent, range(1, 3))
    for (path, leaf), before in zip(flatten(state), kept, strict=True):
        assert np.array_equal(leaf, before), path


@pytest.mark.parametrize("params", [{"optimizer": "sgd"}, {"hidden_sizes": (4,)}, {"double": True}])
def test_state_of_different_structure_is_refused(params):
    one = DQN(PLANE, TWO, DQNConfig.from_dict({**SMALL, **params}))
    other = DQN(PLANE, TWO, DQNConfig.from_dict(SMALL))
    before = other.get_state()
    with pytest.raises(ConfigurationError, match=f"cannot be restored to {next(iter(params))}="):
        other.set_state(one.get_state())
    assert_same(other.get_state(), before)


def test_state_includes_exploration_settings():
    slow = {**SMALL, "exploration_steps": 100_000}
    one = DQN(PLANE, TWO, DQNConfig.from_dict(slow))
    one.advance(50_000)
    other = DQN(PLANE, TWO, DQNConfig.from_dict({**SMALL, "exploration_steps": 100}))
    other.set_state(one.get_state())
    assert other.config.exploration_steps == 100_000
    assert other.policy.epsilon == one.policy.epsilon == pytest.approx(0.525)
    boltzmann = DQN(PLANE, TWO, DQNConfig.from_dict({**SMALL, "policy": "boltzmann"}))
    other.set_state(boltzmann.get_state())
    assert type(other.policy) is type(boltzmann.policy)


def test_jit_compile_is_not_part_of_state():
    one = DQN(PLANE, TWO, DQNConfig.from_dict({**SMALL, "jit_compile": None}))
    other = DQN(PLANE, TWO, DQNConfig.from_dict(SMALL))
    other.set_state(one.get_state())
    assert other.config.jit_compile is False


# --- whole runs


def run_of(algorithm, seed=0, **params):
    small = {"dqn": SMALL_DQN, "ppo": SMALL_PPO}[algorithm]
    return Trainer(agents.make(algorithm, "CartPole-v1", seed=seed, **{**small, **params}))


def state_of(run):
    """Return everything but environments (whose results are compared) and times."""
    state = run.get_state()
    collector = {name: value for name, value in state["collector"].items() if name != "environments"}
    [run] = state["runs"]
    episodes = [episode._replace(wall_seconds=0.0) for episode in run["episodes"]]
    # The stop reason belongs to the call of `train`, not to the state of the run.
    run = {**run, "episodes": episodes, "stop_reason": None}
    return {**state, "collector": collector, "runs": [run], "wall_seconds": 0.0}


RUNS = [
    ("dqn", {}, 100, 90),
    ("dqn", {"n_step": 3, "double": True, "dueling": True, "n_envs": 3, "gradient_steps": 2}, 99, 90),
    ("dqn", {"policy": "boltzmann-gumbel"}, 100, 60),
    ("ppo", {}, 16 * 2 * 2, 64),  # between two rollouts
    ("ppo", {"normalize_observations": True, "normalize_rewards": True}, 16 * 2 * 2 + 14, 64),  # within a rollout
]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "params", "before", "after"), RUNS)
def test_resumed_run_equals_uninterrupted_run(algorithm, params, before, after):
    run = run_of(algorithm, **params)
    run.train(env_steps=before)
    saved = run.get_state()
    run.train(env_steps=after)
    straight = state_of(run)
    assert straight["agent"]["gradient_steps"] > saved["agent"]["gradient_steps"] > 0

    run.set_state(saved)
    run.train(env_steps=after)
    assert_same(state_of(run), straight)

    other = run_of(algorithm, seed=1, **params)  # another trainer, another agent, another seed
    other.train(env_steps=before // 2)
    other.set_state(saved)
    other.train(env_steps=after)
    assert_same(state_of(other), straight)


def test_changed_discount_is_restored_in_replay():
    run, other = run_of("dqn", n_step=3), run_of("dqn", n_step=3)
    run.set_hyperparameter("gamma", 0.5)
    other.set_state(run.get_state())
    assert (other.agent.config.gamma, other.buffer.gammas.tolist()) == (0.5, [0.5])


# --- reset


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("dqn", {}),
        ("dqn", {"gamma": 0.9, "tau": 0.5, "learning_rate": 0.02}),
        ("dqn", {"default.learning_rate": 0.02}),
        ("ppo", {"clip_range": 0.3, "ent_coef": 0.01, "learning_rate": 0.02}),
    ],
)
def test_reset_agent_equals_new_agent(algorithm, values):
    used = run_of(algorithm, seed=3)
    used.set_hyperparameter("gamma", 0.7)
    used.train(env_steps=100)
    used.agent.reset(5, {"gamma": 0.99, **values})
    new = run_of(algorithm, seed=5, **values)
    assert_same(used.agent.get_state(), new.agent.get_state())
    assert used.agent.fresh
    again = Trainer(used.agent)
    again.train(env_steps=100)
    new.train(env_steps=100)
    assert_same(state_of(again), state_of(new))


def test_reset_does_not_compile_again():
    run = run_of("ppo")
    run.train(env_steps=64)
    before = dict(run.agent._update._compiled)
    run.agent.reset(1, {"clip_range": 0.1})
    Trainer(run.agent).train(env_steps=64)
    assert run.agent._update._compiled == before
    assert before


def test_reset_to_different_structure_is_refused():
    agent = dqn_with("adam")
    before = agent.get_state()
    message = r"cannot be reset to hidden_sizes=\[4\] \(it has \[8\]\), double=True \(it has False\): build another one"
    with pytest.raises(ConfigurationError, match=message):
        agent.reset(0, {"hidden_sizes": [4], "double": True})
    with pytest.raises(ConfigurationError, match="gamma must be"):
        agent.reset(0, {"gamma": 3.0})
    assert_same(agent.get_state(), before)


# --- live hyperparameters


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("gamma", 1.5, "gamma must be .*<= 1, got 1.5"),
        ("learning_rate", -1.0, "learning_rate must be > 0, got -1"),
        ("learning_rate", float("nan"), "learning_rate must be finite"),
        ("default.learning_rate", 0.0, "learning_rate must be a finite number > 0, got 0"),
        (
            "batch_size",
            32,
            "'batch_size' cannot change while a DQN trains; these can: learning_rate, max_grad_norm, gamma, tau",
        ),
        ("gama", 0.9, "'gama' cannot change"),
        ("actor.learning_rate", 0.1, "Unknown optimizer 'actor' of DQN"),
        ("default.momentum", 0.1, "cannot change"),
    ],
)
def test_refused_change_does_not_change_state(name, value, message):
    agent = dqn_with("adam")
    before = agent.get_state()
    with pytest.raises(ConfigurationError, match=message):
        agent.set_hyperparameter(name, value)
    assert_same(agent.get_state(), before)


@pytest.mark.slow
def test_scheduled_learning_rate_cannot_be_set():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    agent = DQN(PLANE, TWO, DQNConfig.from_dict({**SMALL, "optimizer": keras.optimizers.SGD(schedule)}))
    learn(agent, range(1))
    assert agent.get_learning_rate() == pytest.approx(0.05)  # after two gradient steps
    with pytest.raises(ConfigurationError, match="follows a learning-rate schedule"):
        agent.set_learning_rate(0.1)
    state = agent.get_state()
    learn(agent, range(1, 2))
    agent.set_state(state)
    assert agent.get_learning_rate() == pytest.approx(0.05)


def test_set_learning_rate_checks_its_value():
    agent = dqn_with("adam")
    with pytest.raises(ConfigurationError, match="finite number > 0, got nan"):
        agent.set_learning_rate(float("nan"))
    agent.set_learning_rate(0.25)
    assert agent.get_learning_rate() == 0.25


# --- seeds


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_seed_determines_run(algorithm):
    def trained(seed):
        run = run_of(algorithm, seed=seed)
        run.train(env_steps=128)
        return state_of(run)

    zero, again, one = trained(0), trained(0), trained(1)
    assert_same(zero, again)
    for part in ("agent", "collector"):
        assert not all(
            np.array_equal(a, b) for (_, a), (_, b) in zip(flatten(zero[part]), flatten(one[part]), strict=True)
        )


def test_every_random_generator_depends_on_seed():
    zero, one = run_of("ppo", seed=0), run_of("ppo", seed=1)
    assert not np.array_equal(
        zero.agent.networks["actor"].get_weights()[0], one.agent.networks["actor"].get_weights()[0]
    )
    states = [run.agent.rng.bit_generator.state["state"]["state"] for run in (zero, one)]
    states += [run.buffer.get_state()["rngs"][0]["state"]["state"] for run in (zero, one)]
    assert len(set(states)) == 4
    assert not set(zero.collector._seeds[0]) & set(one.collector._seeds[0])
    other = Trainer(zero.agent, seed=1)  # the seed of the trainer: environments and buffer
    assert other.collector._seeds == one.collector._seeds


def test_networks_of_one_agent_have_different_initial_weights():
    agent = PPO(PLANE, TWO, PPOConfig.from_dict(SMALL))
    actor, critic = (agent.networks[name].get_weights()[0] for name in ("actor", "critic"))
    assert not np.array_equal(actor, critic)


@pytest.mark.parametrize("seed", [-1, -7])
def test_negative_seeds_are_refused(seed):
    with pytest.raises(ConfigurationError, match=f"seed must be >= 0, got {seed}"):
        agents.make("dqn", "CartPole-v1", seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_global_random_generators_are_unused(algorithm):
    def trained(global_seed):
        random.seed(global_seed)
        np.random.seed(global_seed)
        tf.random.set_seed(global_seed)
        before = (random.getstate(), np.random.get_state()[1].copy(), np.random.get_state()[2])
        tensorflow = tf.random.get_global_generator().state.numpy()
        run = run_of(algorithm)
        run.train(env_steps=64)
        run.agent.reset(0)
        after = (random.getstate(), np.random.get_state()[1], np.random.get_state()[2])
        assert before[0] == after[0]
        assert np.array_equal(before[1], after[1])
        assert before[2] == after[2]
        assert np.array_equal(tensorflow, tf.random.get_global_generator().state.numpy())
        return run.agent.get_state()

    keras_seed = keras.src.backend.common.global_state.get_global_attribute("global_seed_generator")
    assert_same(trained(0), trained(1))
    assert keras.src.backend.common.global_state.get_global_attribute("global_seed_generator") is keras_seed


# --- specs


def test_spec_builds_same_agent_as_make():
    spec = AgentSpec.of("dqn", "CartPole-v1", SMALL_DQN)
    assert_same(spec.build(3).get_state(), agents.make("dqn", "CartPole-v1", seed=3, **SMALL_DQN).get_state())
    assert spec.label == "dqn"
    assert spec.with_params({"gamma": 0.5}).config.gamma == 0.5


@pytest.mark.slow
def test_spec_of_trained_agent_contains_its_weights():
    agent = agents.make("dqn", "CartPole-v1", seed=3, **SMALL_DQN)
    assert AgentSpec.of(agent).state is None
    Trainer(agent).train(env_steps=30)
    spec = AgentSpec.of(agent)
    started = spec.build(8)
    for name in ("q", "target"):
        assert_same(started.get_state()["networks"][name], agent.get_state()["networks"][name])
    assert (started.gradient_steps, started.env_steps, started.seed) == (0, 0, 8)
    assert all((values == 0).all() for values in values_of(started.optimizers["default"]._momentums))
    # The weights did not come from the seed, so the spec contains them too.
    assert_same(AgentSpec.of(started).build(9).get_state()["networks"], agent.get_state()["networks"])
    assert_same(AgentSpec.of(spec, "CartPole-v1").state["networks"], agent.get_state()["networks"])
    started.reset(8)
    assert AgentSpec.of(started).state is None


@pytest.mark.parametrize(
    ("agent", "environment", "message"),
    [
        ("dqnn", "CartPole-v1", r"Unknown agent 'dqnn'\. Did you mean dqn"),
        ("dqn", None, "which environment 'dqn' is for"),
        ("dqn", "CartPol-v1", "Did you mean CartPole-v1"),
        ("nowhere:Agent", "CartPole-v1", "'nowhere:Agent' cannot be loaded"),
        ("nowhere.py:Agent", "CartPole-v1", "no Python file 'nowhere.py'"),
        ("agents.errors:ConfigurationError", "CartPole-v1", "is not an agent"),
        (3, "CartPole-v1", "3 is not an agent"),
    ],
)
def test_invalid_specs_are_refused(agent, environment, message):
    with pytest.raises(ConfigurationError, match=message):
        AgentSpec.of(agent, environment)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agents.make("dqn", "Pendulum-v1"), "DQN takes discrete actions, and 'Pendulum-v1' has Box"),
        (lambda: agents.make("dqn", "CartPole-v1", gama=0.9), "Did you mean gamma"),
        (lambda: agents.make("dqn", "CartPole-v1", activation="rellu"), "Unknown activation 'rellu'.* relu"),
        (
            lambda: agents.make("ppo", "CartPole-v1", hidden_sizes=(8, 0)),
            r"hidden_sizes must be .* >= 1 and <= 1,000,000, .* got \[8, 0\]",
        ),
        (
            lambda: agents.make("ppo", "CartPole-v1", **{"critics.learning_rate": 1.0}),
            "Unknown optimizer 'critics' of PPO",
        ),
        (lambda: agents.make("dqn", "CartPole-v1", policy="boltzman"), "Did you mean boltzmann"),
        (lambda: agents.make("dqn", "CartPole-v1", **{"optimizer.momentum": 0.9}), "of the optimizer 'adam'"),
        (lambda: DQN(PLANE, TWO, PPOConfig()), "DQN takes a DQNConfig, not PPOConfig"),
    ],
)
def test_invalid_agents_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_weights_set_in_networks_are_detected():
    agent = agents.make("dqn", "CartPole-v1", **SMALL_DQN)
    observations = np.ones((1, 4), np.float32)
    agent.infer("q", observations)
    assert agent.fresh
    assert AgentSpec.of(agent).state is None
    network = agent.networks["q"]
    network.set_weights([np.full_like(weights, 0.5) for weights in network.get_weights()])
    assert not agent.fresh
    kept = AgentSpec.of(agent).build(seed=3).networks["q"].get_weights()
    np.testing.assert_array_equal(kept[0], network.get_weights()[0])
    expected = network(observations).numpy()
    assert not np.allclose(agent.infer("q", observations), expected)  # `infer` uses old weights until a refresh
    agents.evaluate(agent, n_episodes=1, n_envs=1)
    np.testing.assert_allclose(agent.infer("q", observations), expected, rtol=1e-5)


@pytest.mark.parametrize("params", [{"hidden_sizes": [16]}, {"policy": "boltzmann"}])
def test_weights_of_different_structure_are_refused(params):
    agent = agents.make("dqn", "CartPole-v1", **SMALL_DQN)
    agent.networks["q"].set_weights([weights + 1 for weights in agent.networks["q"].get_weights()])
    with pytest.raises(
        ConfigurationError, match="trained with another algorithm, environment or other hyperparameters"
    ):
        AgentSpec.of(agent).with_params(params).build()


def test_weights_of_different_agent_or_environment_are_refused():
    state = weights_of(agents.make("dqn", "CartPole-v1", **SMALL_DQN))
    with pytest.raises(ConfigurationError, match="are of the networks q, target; this agent has actor, critic"):
        dataclasses.replace(AgentSpec.of("ppo", "CartPole-v1", SMALL_PPO), state=state).build()
    with pytest.raises(ConfigurationError, match=r"network q has weights of the shapes \[\[4, .*has \[\[6, "):
        dataclasses.replace(AgentSpec.of("dqn", "Acrobot-v1", SMALL_DQN), state=state).build()


def test_agent_file_is_imported_once(tmp_path):
    text = """
from dataclasses import dataclass
from agents.algorithms.dqn import DQN, DQNConfig

@dataclass(frozen=True, kw_only=True)
class MineConfig(DQNConfig):
    pass

class Mine(DQN):
    config_class = MineConfig
"""
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name")
    spec = AgentSpec.of(f"{tmp_path}/mine.py:Mine", "CartPole-v1", SMALL_DQN)
    assert type(spec.build()) is type(spec.build())
    for _ in range(2):  # a file that failed is not partly imported the second time
        with pytest.raises(ConfigurationError, match="nothing_of_that_name"):
            AgentSpec.of(f"{tmp_path}/broken.py:Mine", "CartPole-v1")


def test_agent_class_is_loaded_from_file(tmp_path):
    (tmp_path / "mine.py").write_text("from agents.algorithms.dqn import DQN\n\nclass Mine(DQN):\n    pass\n")
    spec = AgentSpec.of(f"{tmp_path}/mine.py:Mine", "CartPole-v1", SMALL_DQN)
    assert type(spec.build()).__name__ == "Mine"


def test_optimizer_overrides_may_be_labels():
    config = AgentConfig.from_dict(
        {"optimizer": "adam(beta_1=0.5)", "actor.optimizer": "sgd(momentum=0.9)", "critic.optimizer": "Adam"}
    )
    spec_of = lambda name: Agent.optimizer_spec(type("Of", (), {"config": config}), name)  # noqa: E731
    assert (spec_of("actor").name, spec_of("actor").arguments) == ("sgd", {"momentum": 0.9})
    assert (spec_of("critic").name, spec_of("critic").arguments) == ("adam", {"beta_1": 0.5})


# --- networks with random layers and running statistics


class Noisy(KerasAgent):
    """Agent with a target network and with dropout and batch normalisation in both networks."""

    config_class = DQNConfig
    target_networks = {"target": "q"}  # noqa: RUF012

    def build(self):
        layers = keras.layers

        def made(name):
            body = [layers.Dense(4, "relu"), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(2)]
            return keras.Sequential([keras.Input(self.observation_space.shape), *body], name=name)

        return {name: made(name) for name in ("q", "target")}

    def act(self, observations, explore=True):
        return np.argmax(self.infer("q", observations), axis=1)

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=4, rng=rng)

    def loss(self, batch):
        values = self.networks["q"](batch["observations"], training=True)
        return {"default": keras.ops.mean((values - self.networks["target"](batch["next_observations"])) ** 2)}


@pytest.mark.slow
def test_random_layers_and_running_statistics_are_in_state():
    agent = Noisy(PLANE, TWO, DQNConfig.from_dict({**SMALL, "target_update_interval": 2, "learning_rate": 0.1}), seed=2)
    built = agent.get_state()
    learn(agent, range(2))
    saved = agent.get_state()
    for target, online in zip(agent.networks["target"].weights, agent.networks["q"].weights, strict=True):
        np.testing.assert_array_equal(target.numpy(), online.numpy())  # tau 1, after an even number of steps
    learn(agent, range(2, 4))
    straight = agent.get_state()
    agent.set_state(saved)
    learn(agent, range(2, 4))
    assert_same(agent.get_state(), straight)
    agent.reset(2)
    assert_same(agent.get_state(), built)
    assert any("int" in variable.dtype for variable in agent.networks["q"].variables)


# --- non-finite numbers


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_diverged_network_raises_when_acting(algorithm, value):
    agent = run_of(algorithm).agent
    name = {"dqn": "q", "ppo": "actor"}[algorithm]
    observation = np.zeros((1, 4), np.float32)
    agent.act(observation, explore=True)
    weights = agent.networks[name].get_weights()
    agent.networks[name].set_weights([*weights[:-1], np.full_like(weights[-1], value)])
    agent.set_state(agent.get_state())
    with pytest.raises(NonFiniteError, match=f"network '{name}' became NaN or infinite: its learning rate"):
        agent.act(observation, explore=True)


def test_non_finite_observations_are_named_in_error():
    with pytest.raises(NonFiniteError, match="so did its observations"):
        run_of("ppo").agent.act(np.full((1, 4), np.nan, np.float32))


def test_masked_actions_are_not_divergence():
    agent = run_of("ppo").agent
    weights = agent.networks["actor"].get_weights()
    agent.networks["actor"].set_weights([*weights[:-1], np.array([0.0, -np.inf], np.float32)])
    agent.set_state(agent.get_state())
    assert agent.act(np.zeros((5, 4), np.float32)).tolist() == [0] * 5


def test_state_contains_all_optimizer_variables():
    agent = dqn_with("wrapped")
    optimizer = agent.optimizer_spec().build()
    optimizer.build(agent.networks["q"].trainable_variables)
    shapes = [value.shape for value in agent.get_state()["optimizers"]["default"]]
    assert shapes == [tuple(variable.shape) for variable in variables_of(optimizer)]
