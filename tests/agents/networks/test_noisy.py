"""Tests of noisy networks: the layer by hand, and the noise of DQN."""

import gymnasium as gym
import keras
import numpy as np
import pytest
from gymnasium import spaces
from movements import assert_same_movement, values_of

import agents
from agents import AgentSpec, seeding
from agents.algorithms.dqn import DQN, DQNConfig
from agents.errors import ConfigurationError
from agents.exploration import EpsilonGreedy, Greedy
from agents.networks.builders import noisy_network
from agents.networks.noisy import NoisyDense, NoisyNetwork, draw_noise
from agents.population import Population

PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
TWO = spaces.Discrete(2)
ROWS = {
    "observations": np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32),
    "actions": np.array([0, 1, 0, 1], np.int32),
    "rewards": np.ones(4, np.float32),
    "lengths": np.ones(4, np.int32),
    "next_observations": np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32),
    "terminated": np.zeros(4, bool),
}


def layer():
    """Return a layer with means 1, 2 | 3, 4 and biases 5, 6; deviations 0.1 to 0.4 and 0.5, 0.6."""
    made = NoisyDense(2)
    made.build((None, 2))
    kernel = np.array([[1, 2], [3, 4]], np.float32)
    made.set_weights([kernel, np.array([5, 6], np.float32), kernel / 10, np.array([0.5, 0.6], np.float32)])
    return made


# --- the layer


@pytest.mark.parametrize("numpy", [True, False])
def test_noisy_layer_by_hand(numpy):
    made = layer()
    x = np.array([[1.0, 2.0]], np.float32)
    call = (lambda *a: made.numpy_call(a[0], made.get_weights(), *a[1:])) if numpy else made
    np.testing.assert_allclose(call(x), [[1 + 6 + 5, 2 + 8 + 6]])
    noise = np.array([[2.0, -3.0, -1.0, 4.0]], np.float32)
    # The weight noise is 2 * -1 and 2 * 4 | -3 * -1 and -3 * 4 times the deviations, the bias noise -1 and 4.
    first = (1 - 0.2) + 2 * (3 + 0.9) + (5 - 0.5)
    second = (2 + 0.2 * 8) + 2 * (4 - 0.4 * 12) + (6 + 0.6 * 4)
    np.testing.assert_allclose(call(x, noise), [[first, second]], rtol=1e-6)


def test_noise_is_per_row_or_shared():
    x = np.ones((3, 2), np.float32)
    noise = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    made = layer()
    apart = np.concatenate([made(x[:1], noise=row[None]) for row in noise])
    np.testing.assert_allclose(made(x, noise=noise), apart, rtol=1e-6)
    np.testing.assert_allclose(made(x, noise=noise[:1]), np.tile(apart[:1], (3, 1)), rtol=1e-6)


def test_initial_weights_and_deviations():
    with seeding.seeded_initializers(0):
        made = NoisyDense(100, sigma=0.4)
        made.build((None, 25))
    kernel, bias, kernel_sigma, bias_sigma = made.get_weights()
    for means in (kernel, bias):
        assert 0.15 < np.abs(means).max() <= 0.2  # uniform within 1 / sqrt(25)
        assert abs(means.mean()) < 0.05
    for sizes in (kernel_sigma, bias_sigma):
        np.testing.assert_allclose(sizes, 0.4 / 5)


def test_every_layer_gets_its_own_part_of_noise():
    with seeding.seeded_initializers(0):
        network = noisy_network(PLANE, (3,), 2, sigma=0.5, activation="tanh")
    assert isinstance(network, NoisyNetwork)
    assert network.n_noise == (2 + 3) + (3 + 2)
    first, _, second = network.layers
    x, noise = np.ones((4, 2), np.float32), np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
    expected = second(np.tanh(first(x, noise=noise[:, :5])), noise=noise[:, 5:])
    np.testing.assert_allclose(network(x, noise=noise), expected, rtol=1e-5)


def test_weight_noise_is_product_of_input_and_output_noise():
    """The variance is sigma^2 E|n| E|n'| = sigma^2 2 / pi for weights, and sigma^2 E|n| for biases."""
    made = layer()
    noise = draw_noise(np.random.default_rng(0), 200_000, 4)
    assert noise.dtype == np.float32
    np.testing.assert_allclose(noise[0] * np.abs(noise[0]), np.random.default_rng(0).standard_normal(4), rtol=1e-6)
    drawn = made.numpy_call(np.ones((1, 2), np.float32), made.get_weights(), noise)
    expected = [np.sqrt((0.1**2 + 0.3**2) * 2 / np.pi + 0.5**2 * np.sqrt(2 / np.pi)),
                np.sqrt((0.2**2 + 0.4**2) * 2 / np.pi + 0.6**2 * np.sqrt(2 / np.pi))]  # fmt: skip
    np.testing.assert_allclose(drawn.std(axis=0), expected, rtol=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), [9, 12], atol=0.02)


# --- DQN


def dqn(**params):
    return DQN(PLANE, TWO, DQNConfig.from_dict({"hidden_sizes": (4,), "noisy": True, "batch_size": 4, **params}))


def tensors(rows):
    return {name: keras.ops.convert_to_tensor(values) for name, values in rows.items()}


def test_noisy_dqn_explores_by_noise_alone():
    agent = dqn(noisy_sigma=3.0)
    assert isinstance(agent.policy, Greedy)
    observations = np.tile(np.ones((1, 2), np.float32), (200, 1))
    assert set(agent.act(observations, explore=True)) == {0, 1}  # every row has its own noise
    assert len(set(agent.act(observations, explore=False))) == 1
    for name in ("kernel_sigma", "bias_sigma"):
        for made in agent.networks["q"].layers:
            if isinstance(made, NoisyDense):
                getattr(made, name).assign(keras.ops.zeros_like(getattr(made, name)))
    agent.refresh()
    assert len(set(agent.act(observations, explore=True))) == 1


def test_policy_may_explore_in_addition_to_noise():
    agent = dqn(noisy_sigma=1e-6, policy="epsilon-greedy", policy_kwargs={"epsilon": 1.0})
    assert isinstance(agent.policy, EpsilonGreedy)
    assert set(agent.act(np.ones((50, 2), np.float32), explore=True)) == {0, 1}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"noisy_sigma": 0.0}, r"noisy_sigma must be > 0, got 0\.0"),
        ({"policy_kwargs": {"epsilon": 0.1}}, "need a policy"),
    ],
)
def test_invalid_settings_are_refused(params, message):
    with pytest.raises(ConfigurationError, match=message):
        dqn(**params)


@pytest.mark.parametrize(("batch_size", "share"), [(4, 9), (1, 36), (100, 1)])
def test_noise_of_minibatch_is_divided_among_its_rows(batch_size, share):
    agent = dqn(batch_size=batch_size)
    assert agent.n_noise == (2 + 4) + (4 + 2) == 12
    data = agent.preprocess_batch({"rewards": np.zeros(3 * batch_size, np.float32)})
    assert (data["noise"].shape, data["noise"].dtype) == ((3 * batch_size, share), np.float32)


def test_passes_of_loss_have_independent_noise():
    agent = dqn()
    data = agent.preprocess_batch(dict(ROWS))
    batch = agent.preprocess_minibatch(tensors(data))
    passes = [np.array(each["noise"]) for each in agent.noise_of_passes(batch)]
    assert [noise.shape for noise in passes] == [(1, agent.n_noise)] * 3
    np.testing.assert_allclose(np.concatenate(passes, axis=1)[0], data["noise"].ravel()[: 3 * agent.n_noise])


def test_parts_of_minibatch_share_noise():
    """The replicas of a strategy get such parts."""
    agent = dqn(double=True)
    batch = agent.preprocess_minibatch(tensors(agent.preprocess_batch(dict(ROWS))))
    parts = [{name: values[rows] for name, values in batch.items()} for rows in (slice(0, 1), slice(1, 4))]
    losses = [float(agent.loss(part)["default"]) for part in parts]
    assert (losses[0] + 3 * losses[1]) / 4 == pytest.approx(float(agent.loss(batch)["default"]), rel=1e-5)


def test_loss_uses_noisy_values():
    agent = dqn(double=True, gamma=0.5)
    batch = agent.preprocess_minibatch(tensors(agent.preprocess_batch(dict(ROWS))))
    online, target, choosing = agent.noise_of_passes(batch)
    values = np.array(agent.networks["q"](ROWS["observations"], **online))[np.arange(4), ROWS["actions"]]
    chosen = np.array(agent.networks["q"](ROWS["next_observations"], **choosing)).argmax(axis=1)
    following = np.array(agent.networks["target"](ROWS["next_observations"], **target))[np.arange(4), chosen]
    errors = np.abs(1 + 0.5 * following - values)
    expected = np.where(errors <= 1, errors**2 / 2, errors - 0.5).mean()
    assert float(agent.loss(batch)["default"]) == pytest.approx(expected, rel=1e-5)


def test_plain_network_draws_no_noise():
    agent = dqn(noisy=False)
    assert "noise" not in agent.preprocess_batch(dict(ROWS))
    assert agent.preprocess_minibatch({}) == {}


class Pixels(gym.Env):
    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = TWO

    def _seen(self):
        return self.np_random.integers(0, 256, (36, 36, 1)).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        return self._seen(), float(action), self.t == 5, False, {}


@pytest.mark.slow
def test_population_members_with_compiled_networks_have_noise():
    """Images are processed by convolutions, which NumPy does not compute."""
    params = {"noisy": True, "hidden_sizes": (4,), "learning_starts": 8, "batch_size": 2, "jit_compile": False}
    spec = AgentSpec.of("dqn", Pixels, params)
    with agents.Trainer(Population(spec, [{"seed": 0}, {"seed": 1}])) as trainer, agents.Trainer(spec.build(1)) as own:
        began = values_of(own.agent.networks["q"].weights)
        trainer.train(env_steps=16)
        own.train(env_steps=16)
        ours, theirs = trainer.agent.extract(1).networks["q"], own.agent.networks["q"]
        assert_same_movement(values_of(ours.weights), values_of(theirs.weights), began)
        np.testing.assert_array_equal(trainer.buffer._arrays["actions"][:16, 1], own.buffer._arrays["actions"][:16, 0])
