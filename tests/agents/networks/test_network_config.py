"""Tests of networks described in a config, of shared layers, and of one learning rate per network."""

import numpy as np
import pytest
from gymnasium import spaces

import agents
from agents import AgentSpec, Trainer
from agents.algorithms.a2c import A2C, A2CConfig
from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.ppo import PPO, PPOConfig
from agents.algorithms.sac import SAC, SACConfig
from agents.algorithms.trpo import TRPOConfig
from agents.buffers import Batches
from agents.contract.registry import agent_class
from agents.contract.spec import config_class
from agents.errors import ConfigurationError
from agents.population import Population

LINE = spaces.Box(-10.0, 10.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (20, 20, 1), np.uint8)
TWO = spaces.Discrete(2)
PUSH = spaces.Box(-1.0, 1.0, (2,), np.float32)


def shapes(network):
    return [weight.shape for weight in network.get_weights() if weight.ndim > 1]


def test_each_network_has_its_own_layers():
    config = PPOConfig(hidden_sizes=(4,), networks={"critic": {"hidden_sizes": (8, 5), "activation": "relu"}})
    agent = PPO(LINE, TWO, config)
    assert shapes(agent.networks["actor"]) == [(3, 4), (4, 2)]
    assert shapes(agent.networks["critic"]) == [(3, 8), (8, 5), (5, 1)]
    assert [layer.activation.__name__ for layer in agent.networks["critic"].layers] == ["relu", "relu", "linear"]


@pytest.mark.parametrize("name", ["a2c", "acer", "ppo", "trpo"])
def test_policy_gradient_networks_are_initialized_orthogonally(name):
    """Convolutions too: filters are columns whose norm is the gain, at right angles to each other."""
    convolutions = ((8, 4, 2), (6, 3, 1))
    agent = agent_class(name)(IMAGE, TWO, config_class(name)(convolutions=convolutions, hidden_sizes=(16,)))
    for network, last_gain in (("actor", 0.01), ("critic", 1.0)):
        kernels = [each for each in agent.networks[network].get_weights() if each.ndim > 1]
        assert [kernel.ndim for kernel in kernels] == [4, 4, 2, 2]
        gains = [np.sqrt(2)] * 3 + [last_gain]
        for kernel, gain in zip(kernels, gains, strict=True):
            columns = kernel.reshape(-1, kernel.shape[-1])
            np.testing.assert_allclose(columns.T @ columns, gain**2 * np.eye(columns.shape[1]), atol=1e-5)


@pytest.mark.parametrize("name", ["ppo", "trpo"])
def test_ppo_and_trpo_set_epsilon_of_adam(name):
    agent = agent_class(name)(LINE, TWO)
    for optimizer in agent.optimizers.values():
        assert (type(optimizer).__name__, optimizer.epsilon) == ("Adam", 1e-5)
    assert config_class(name)(optimizer="adam").optimizer_kwargs == {}  # a name alone means the defaults of Keras


def test_target_network_has_layers_of_its_online_network():
    agent = SAC(LINE, PUSH, SACConfig(hidden_sizes=(4,), networks={"second_critic": {"hidden_sizes": (6,)}}))
    assert shapes(agent.networks["second_critic"]) == shapes(agent.networks["target_second_critic"]) == [(5, 6), (6, 1)]
    assert shapes(agent.networks["critic"]) == [(5, 4), (4, 1)]
    agent = DQN(LINE, TWO, DQNConfig(networks={"q": {"hidden_sizes": (7,)}}))
    assert shapes(agent.networks["target"]) == [(3, 7), (7, 2)]


def test_convolutions_of_config_are_built():
    agent = DQN(IMAGE, TWO, DQNConfig(hidden_sizes=(6,), convolutions=((3, 4, 2), (5, 3, 3))))
    # 20 -> (20 - 4) // 2 + 1 = 9 -> (9 - 3) // 3 + 1 = 3
    assert shapes(agent.networks["q"]) == [(4, 4, 1, 3), (3, 3, 3, 5), (3 * 3 * 5, 6), (6, 2)]
    assert agent.act(np.zeros((2, 20, 20, 1), np.uint8)).shape == (2,)


@pytest.mark.parametrize(
    ("space", "params", "message"),
    [
        (LINE, {"networks": {"actr": {"hidden_sizes": [4]}}}, "actor"),
        (LINE, {"networks": {"actor": {"hidden_size": [4]}}}, "hidden_sizes"),
        (LINE, {"convolutions": [[3, 4, 2]]}, "convolutions are for images"),
        (IMAGE, {"convolutions": [[3, 4]]}, r"\[filters, kernel, stride\], whole numbers >= 1, got \[3, 4\]"),
        (IMAGE, {"convolutions": [[3, 4, 0]]}, "whole numbers >= 1"),
        (IMAGE, {}, r"large enough for the convolutions \[32, 8, 4\].*got \(20, 20, 1\)"),
        (
            LINE,
            {"networks": {"actor": {"hidden_sizes": [0]}}},
            r"hidden_sizes must be a list of whole numbers >= 1 and <= 1,000,000, such as \[64, 64\], got \[0\]",
        ),
        (
            LINE,
            {"networks": {"actor": {"hidden_sizes": 64}}},
            "hidden_sizes must be a list of whole numbers or null, got 64",
        ),
        (IMAGE, {"convolutions": [8]}, "convolutions must be"),
        (LINE, {"networks": {"actor": {"activation": "rely"}}}, "relu"),
        (LINE, {"share_layers": True, "actor.learning_rate": 0.1}, "Networks with shared layers"),
    ],
)
def test_invalid_network_configs_are_refused(space, params, message):
    with pytest.raises(ConfigurationError, match=message):
        PPO(space, TWO, PPOConfig.from_dict(params))


@pytest.mark.parametrize(
    ("agent", "environment", "network"),
    [
        ("sac", "Pendulum-v1", "temperature"),
        ("qmix", "agents.environments.multi_agent.games:TwoStepGame", "mixer"),
        ("dqn", "CartPole-v1", "target"),
    ],
)
def test_settings_of_networks_with_layers_of_their_own_are_refused(agent: str, environment: str, network: str):
    with pytest.raises(ConfigurationError, match=f"Unknown network with settings '{network}'"):
        agents.make(agent, environment, networks={network: {"hidden_sizes": [8]}})


@pytest.mark.parametrize("algorithm", ["mappo", "maddpg", "vdn", "qmix"])
def test_convolutions_of_a_network_of_several_agents_are_refused(algorithm: str):
    networks = {"actor": {"convolutions": [[3, 4, 2]]}}
    with pytest.raises(ConfigurationError, match="convolutions are for images, which several agents cannot have"):
        agents.make(algorithm, "agents.environments.multi_agent.games:TwoStepGame", networks=networks)


# --- one learning rate per network


def test_list_of_learning_rates_sets_one_per_network():
    agent = PPO(LINE, TWO, PPOConfig.from_dict({"learning_rate": [1e-3, 1e-2]}))
    assert {name: agent.get_learning_rate(name) for name in agent.optimizers} == pytest.approx(
        {"actor": 1e-3, "critic": 1e-2}
    )
    again = PPOConfig.from_dict(agent.config.to_dict())
    assert again == agent.config
    agent = SAC(LINE, PUSH, SACConfig.from_dict({"learning_rate": [1e-3, 1e-2], "hidden_sizes": [4]}))
    assert agent.get_learning_rate("critic") == pytest.approx(1e-2)


@pytest.mark.parametrize(
    ("config", "n", "message"),
    [
        (PPOConfig, 3, r"3 learning rates for PPO: it has 2 networks with optimizers of their own \(actor, critic\)"),
        (A2CConfig, 1, "1 learning rates for A2C: it has 2 networks"),
        (DQNConfig, 2, "2 learning rates for DQN: it takes one"),
    ],
)
def test_wrong_number_of_learning_rates_is_refused(config, n, message):
    with pytest.raises(ValueError, match=message):
        config.from_dict({"learning_rate": [1e-3] * n})


ROWS = {
    "observations": np.eye(3, dtype=np.float32),
    "actions": np.array([0, 1, 0], np.int32),
    "log_probs": np.full(3, -0.7, np.float32),
    "advantages": np.array([1.0, -1.0, 2.0], np.float32),
    "returns": np.array([1.0, 0.0, 3.0], np.float32),
}


@pytest.mark.parametrize(("kind", "config"), [(PPO, PPOConfig), (A2C, A2CConfig)])
def test_two_optimizers_at_one_rate_equal_one_optimizer(kind, config):
    """Without momentum and gradient clipping, both make the same step."""
    plain = {"optimizer": "sgd", "max_grad_norm": None, "jit_compile": False, "hidden_sizes": [4], "ent_coef": 0.1}
    weights = []
    for rate in (0.1, [0.1, 0.1]):
        agent = kind(LINE, TWO, config.from_dict({**plain, "learning_rate": rate}))
        update = agent.update(Batches(ROWS, np.arange(3, dtype=np.int32)[None]))
        weights.append([each for network in agent.networks.values() for each in network.get_weights()])
        assert set(update.losses) == ({"default"} if rate == 0.1 else {"actor", "critic"})
    for one, two in zip(*weights, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_population_members_have_same_number_of_optimizers():
    spec = AgentSpec.of("ppo", "CartPole-v1", {"hidden_sizes": (4,), "n_envs": 2, "n_steps": 8, "jit_compile": False})
    with pytest.raises(ConfigurationError, match="n_optimizers"):
        Population(spec, [{"seed": 0}, {"seed": 1, "actor.learning_rate": 1e-3}])
    population = Population(spec, [{"seed": seed, "learning_rate": [1e-3, 10.0**-seed]} for seed in (1, 2)])
    with Trainer(population) as trainer:
        trainer.train(env_steps=32)


def test_shared_layers_are_refused_for_trpo():
    with pytest.raises(ConfigurationError, match="out of its trust region"):
        TRPOConfig(share_layers=True)


# --- shared layers


def test_shared_layers_learn_from_both_losses():
    config = {
        "hidden_sizes": [4],
        "share_layers": True,
        "jit_compile": False,
        "optimizer": "sgd",
        "max_grad_norm": None,
    }
    agent = A2C(LINE, TWO, A2CConfig.from_dict({**config, "learning_rate": 0.1}))
    body = [network.layers[0].kernel for network in agent.networks.values()]
    assert body[0] is body[1]
    before = np.array(body[0].numpy())
    moved = []
    for changes in ({"advantages": 0}, {"returns": 0}):
        # Without advantages only the value loss remains; with returns equal to the values, only the policy loss.
        values = agent.infer("critic", ROWS["observations"])[:, 0]
        rows = {**ROWS, **({"advantages": np.zeros(3, np.float32)} if "advantages" in changes else {"returns": values})}
        agent.update(Batches(rows, np.arange(3, dtype=np.int32)[None]))
        moved.append(np.array(body[0].numpy()) - before)
        before = np.array(body[0].numpy())
    assert all(np.abs(step).max() > 1e-4 for step in moved)
    assert len({id(variable) for variable in agent.state_variables()}) == len(agent.state_variables())


@pytest.mark.slow
def test_agent_with_shared_layers_trains_and_resets():
    params = {"hidden_sizes": (8,), "share_layers": True, "n_envs": 2, "n_steps": 8, "batch_size": 8}
    agent = agents.make("ppo", "CartPole-v1", seed=0, **params)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=64)
        state = agent.get_state()
        trainer.train(env_steps=64)
    expected = np.array(agent.networks["critic"](np.ones((1, 4), np.float32)))
    np.testing.assert_allclose(agent.infer("critic", np.ones((1, 4), np.float32)), expected, rtol=1e-5)
    agent.set_state(state)
    agent.reset(0)
    fresh = agents.make("ppo", "CartPole-v1", seed=0, **params)
    for ours, theirs in zip(agent.state_variables(), fresh.state_variables(), strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
