"""Tests of the losses and gradient steps of DQN and PPO, against examples worked out by hand."""

import keras
import numpy as np
import pytest
from gymnasium import spaces

from agents import LambdaCallback, Trainer, make
from agents.algorithms.a2c import A2C, A2CConfig
from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.ppo import PPO, PPOConfig
from agents.buffers import Batches, RolloutBuffer, Transition, UniformReplay
from agents.contract.agent import UpdateMetrics
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.networks.dueling import Dueling
from agents.updates.normalization import RewardScaler

PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
TWO = spaces.Discrete(2)
PLAIN = {"jit_compile": False, "hidden_sizes": (), "max_grad_norm": None}


def dqn(**params):
    """Return an agent with q(x) = (x0, 2 x1) and target(x) = (3 x0, x1)."""
    config = DQNConfig.from_dict({**PLAIN, "gamma": 0.5, "optimizer": "sgd", "learning_rate": 0.3, **params})
    agent = DQN(PLANE, TWO, config)
    agent.networks["q"].set_weights([np.diag([1.0, 2.0]), np.zeros(2)])
    agent.networks["target"].set_weights([np.diag([3.0, 1.0]), np.zeros(2)])
    return agent


# q(observations) = (1, 2); q(next) = (1, 4) is best at 1; target(next) = (3, 2) is best at 0.
ROWS = {
    "observations": np.ones((3, 2), np.float32),
    "actions": np.array([0, 1, 0], np.int32),
    "rewards": np.ones(3, np.float32),
    "lengths": np.array([1, 2, 1], np.int32),
    "next_observations": np.tile(np.array([1.0, 2.0], np.float32), (3, 1)),
    "terminated": np.array([False, False, True]),
}


def tensors(rows):
    return {name: keras.ops.convert_to_tensor(values) for name, values in rows.items()}


def loss_of(agent, rows):
    return {name: float(value) for name, value in agent.loss(agent.preprocess_minibatch(tensors(rows))).items()}


# --- DQN


def test_dqn_loss():
    # targets 1 + 3/2, 1 + 3/4 (two steps), 1 (terminated); values 1, 2, 1; errors 1.5, -0.25, 0.
    loss = loss_of(dqn(), ROWS)
    assert loss["default"] == pytest.approx((1.5 - 0.5 + 0.25**2 / 2 + 0) / 3)
    assert loss["q_mean"] == pytest.approx(4 / 3)
    assert loss["td_error"] == pytest.approx(1.75 / 3)


def test_double_dqn_loss():
    # The online network chooses action 1, whose target value is 2: errors 1, -0.5, 0.
    assert loss_of(dqn(double=True), ROWS)["default"] == pytest.approx((0.5 + 0.125) / 3)


def test_dqn_loss_uses_live_discount():
    agent = dqn()
    agent.set_hyperparameter("gamma", 0.0)
    assert loss_of(agent, ROWS)["default"] == pytest.approx((0 + 0.5 + 0) / 3)  # targets are the rewards


def test_dqn_gradient_step():
    # The derivative of the loss is -error clipped to 1, over 3 rows: +1/3 for action 0 and -0.25/3 for action 1.
    agent = dqn()
    agent.update(Batches(ROWS, np.arange(3, dtype=np.int32)[None]))
    kernel, bias = agent.networks["q"].get_weights()
    step = 0.3 / 3 * np.array([1.0, -0.25])
    np.testing.assert_allclose(kernel, np.diag([1.0, 2.0]) + step, rtol=1e-6)
    np.testing.assert_allclose(bias, step, rtol=1e-6)


def test_dqn_target_bootstraps_at_truncation_but_not_at_termination():
    def target(terminated, truncated):
        buffer = UniformReplay(buffer_size=10, batch_size=1, n_envs=1, rng=np.random.default_rng(0))
        flags = (np.array([terminated]), np.array([truncated]))
        reward = np.ones(1, np.float32)
        observation, successor = ROWS["observations"][:1], ROWS["next_observations"][:1]
        buffer.add(Transition(observation, np.array([0]), reward, successor, *flags))
        error = loss_of(dqn(), buffer.draw(1))["td_error"]
        return 1.0 + error  # the value is 1 and below the target

    assert target(False, True) == target(False, False) == 1 + 0.5 * 3
    assert target(True, False) == target(True, True) == 1


@pytest.mark.parametrize("numpy", [True, False])
def test_dueling_layer_by_hand(numpy):
    both = np.array([[5.0, 1.0, 7.0]], np.float32)  # value 5, advantages 1 and 7 of mean 4
    layer = Dueling()
    layer.build(both.shape)
    result = layer.numpy_call(both, []) if numpy else layer(both)
    np.testing.assert_allclose(result, [[5 - 3, 5 + 3]])


@pytest.mark.parametrize("noisy", [False, True])
def test_dueling_splits_last_hidden_layer(noisy):
    agent = DQN(PLANE, TWO, DQNConfig.from_dict({**PLAIN, "dueling": True, "noisy": noisy, "hidden_sizes": [7, 5]}))
    for name in ("q", "target"):
        *_, streams, last = agent.networks[name].layers
        units = [layer.units for layer in streams.parts if hasattr(layer, "units")]
        assert (units, type(last)) == ([5, 1, 5, 2], Dueling)
    shapes = [tuple(weight.shape) for weight in agent.networks["q"].layers[-2].weights if len(weight.shape) == 2]
    assert shapes == [shape for shape in ((7, 5), (5, 1), (7, 5), (5, 2)) for _ in range(1 + noisy)]


def test_dueling_network_by_hand():
    """The value of (x, y) is relu(x); the advantages are relu(y) and -relu(y)."""
    agent = DQN(PLANE, TWO, DQNConfig.from_dict({**PLAIN, "dueling": True, "hidden_sizes": [1], "activation": "relu"}))
    x, y, nothing = np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]), np.zeros(1)
    weights = [x, nothing, np.ones((1, 1)), nothing, y, nothing, np.array([[1.0, -1.0]]), np.zeros(2)]
    agent.networks["q"].set_weights(weights)
    agent.refresh()
    rows = np.array([[3.0, 2.0], [-3.0, 2.0], [3.0, -2.0]], np.float32)
    expected = [[5.0, 1.0], [2.0, -2.0], [3.0, 3.0]]
    np.testing.assert_allclose(agent.infer("q", rows), expected)
    np.testing.assert_allclose(agent.networks["q"](rows), expected)


def test_dueling_without_a_hidden_layer_is_refused():
    with pytest.raises(ConfigurationError, match="give hidden_sizes at least one size"):
        DQN(PLANE, TWO, DQNConfig(dueling=True, hidden_sizes=()))


# --- target networks


def test_target_networks_start_equal_to_online_networks():
    agent = DQN(PLANE, TWO, DQNConfig.from_dict(PLAIN), seed=3)
    for target, online in zip(agent.networks["target"].weights, agent.networks["q"].weights, strict=True):
        assert (target.numpy() == online.numpy()).all()
    assert not agent.networks["target"].trainable_variables


@pytest.mark.parametrize("at_once", [True, False])
def test_target_networks_are_updated_at_interval_by_tau(at_once):
    agent = dqn(target_update_interval=3, tau=0.25, learning_rate=1e-6)
    online, target = np.diag([1.0, 2.0]), np.diag([3.0, 1.0])
    batches = [Batches(ROWS, np.zeros((1, 3), np.int32)) for _ in range(7)]
    if at_once:
        agent.update(Batches(ROWS, np.zeros((7, 3), np.int32)))
    expected = {2: target, 3: 0.25 * online + 0.75 * target, 5: 0.25 * online + 0.75 * target}
    for k in range(1, 8):
        if not at_once:
            agent.update(batches[k - 1])
            if k in expected:
                np.testing.assert_allclose(agent.networks["target"].get_weights()[0], expected[k], atol=1e-4)
    np.testing.assert_allclose(
        agent.networks["target"].get_weights()[0], 0.25 * online + 0.75 * expected[3], atol=1e-4
    )  # after the third and the sixth step


def test_tau_1_copies_bit_for_bit():
    agent = dqn(target_update_interval=1, tau=1.0)
    agent.update(Batches(ROWS, np.zeros((1, 3), np.int32)))
    for target, online in zip(agent.networks["target"].weights, agent.networks["q"].weights, strict=True):
        assert (target.numpy() == online.numpy()).all()


def test_optimizer_does_not_change_target_network():
    agent = dqn(target_update_interval=1000)
    agent.update(Batches(ROWS, np.zeros((4, 3), np.int32)))
    np.testing.assert_array_equal(agent.networks["target"].get_weights()[0], np.diag([3.0, 1.0]))


# --- gradient clipping


@pytest.mark.parametrize(("limit", "expected"), [(0.01, 0.01), (100.0, None), (None, None)])
def test_gradients_are_clipped_to_a_global_norm(limit, expected):
    agent, free = dqn(learning_rate=1.0, max_grad_norm=limit), dqn(learning_rate=1.0)
    batch = Batches(ROWS, np.arange(3, dtype=np.int32)[None])

    def step(agent):
        before = [weight.numpy() for weight in agent.networks["q"].weights]
        agent.update(batch)
        return np.concatenate(
            [(w.numpy() - b).ravel() for w, b in zip(agent.networks["q"].weights, before, strict=True)]
        )

    clipped, full = step(agent), step(free)
    if expected is None:
        np.testing.assert_array_equal(clipped, full)
    else:
        assert np.linalg.norm(clipped) == pytest.approx(expected, rel=1e-4)
        np.testing.assert_allclose(clipped / np.linalg.norm(clipped), full / np.linalg.norm(full), atol=1e-4)


# --- PPO


def ppo(**params):
    """Return an agent with equal action probabilities and the value 1 everywhere."""
    config = {**PLAIN, "clip_range": 0.25, "vf_coef": 0.5, "ent_coef": 0.0, "normalize_advantages": False, **params}
    agent = PPO(PLANE, TWO, PPOConfig.from_dict(config))
    agent.networks["actor"].set_weights([np.zeros((2, 2)), np.zeros(2)])
    agent.networks["critic"].set_weights([np.zeros((2, 1)), np.ones(1)])
    return agent


# Probability ratios 2, 2, 1/2, 1/2 with advantages of both signs.
PPO_ROWS = {
    "observations": np.zeros((4, 2), np.float32),
    "actions": np.array([0, 1, 0, 1], np.int32),
    "log_probs": np.log(np.array([0.25, 0.25, 1.0, 1.0], np.float32)),
    "advantages": np.array([1, -1, 1, -1], np.float32),
    "returns": np.array([1, 2, 3, 4], np.float32),
}
# The clipped objective bounds improvements alone: 1.25, -2, 0.5, -0.75.
POLICY_LOSS = -(1.25 - 2 + 0.5 - 0.75) / 4
VALUE_LOSS = (0 + 1 + 4 + 9) / 4


def test_ppo_loss():
    loss = loss_of(ppo(), PPO_ROWS)
    assert loss["policy_loss"] == pytest.approx(POLICY_LOSS)
    assert loss["value_loss"] == pytest.approx(VALUE_LOSS)
    assert loss["entropy"] == pytest.approx(np.log(2))
    assert loss["default"] == pytest.approx(POLICY_LOSS + 0.5 * VALUE_LOSS)
    assert loss["approx_kl"] == pytest.approx(((2 - 1 - np.log(2)) + (0.5 - 1 + np.log(2))) / 2)
    assert loss["clip_fraction"] == 1.0


def test_ppo_loss_uses_live_hyperparameters():
    agent = ppo()
    for name, value in {"vf_coef": 2.0, "ent_coef": 0.1, "clip_range": 1.5}.items():
        agent.set_hyperparameter(name, value)
    loss = loss_of(agent, PPO_ROWS)
    unclipped = -(2 - 2 + 0.5 - 0.5) / 4
    assert loss["default"] == pytest.approx(unclipped + 2.0 * VALUE_LOSS - 0.1 * np.log(2))
    assert loss["clip_fraction"] == 0.0


def test_advantages_are_normalised_within_a_minibatch():
    rows = PPO_ROWS | {"advantages": np.array([8, 2, 8, 2], np.float32)}  # of mean 5 and standard deviation 3
    assert loss_of(ppo(normalize_advantages=True), rows)["policy_loss"] == pytest.approx(POLICY_LOSS)


def test_continuous_ppo_loss():
    agent = PPO(
        PLANE, spaces.Box(-1, 1, (1,), np.float32), PPOConfig.from_dict({**PLAIN, "normalize_advantages": False})
    )
    agent.networks["actor"].set_weights([np.zeros((2, 1)), np.zeros(1), np.zeros(1)])  # standard normal
    agent.networks["critic"].set_weights([np.zeros((2, 1)), np.zeros(1)])
    actions = np.array([[0.0], [2.0]], np.float32)
    old = -0.5 * actions[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    rows = {
        "observations": np.zeros((2, 2), np.float32),
        "actions": actions,
        "log_probs": old.astype(np.float32),
        "advantages": np.array([1.0, 3.0], np.float32),
        "returns": np.zeros(2, np.float32),
    }
    loss = loss_of(agent, rows)
    assert loss["policy_loss"] == pytest.approx(-2.0)  # the ratio is 1
    assert loss["entropy"] == pytest.approx(0.5 + 0.5 * np.log(2 * np.pi))
    assert loss["approx_kl"] == pytest.approx(0.0, abs=1e-6)


def rollout(terminated, truncated):
    """Prepare a rollout of two steps with rewards 1 and 2; the value of an observation is its first number."""
    buffer = RolloutBuffer(n_steps=2, rng=np.random.default_rng(0))
    flags = [(False, False), (False, False)]
    flags[0] = (terminated, truncated)
    observations, successors = [[10.0, 0.0], [20.0, 0.0]], [[40.0, 0.0], [60.0, 0.0]]
    for t in range(2):
        row = (observations[t], [0], [t + 1.0], successors[t])
        arrays = (np.array([row[0]], np.float32), np.array(row[1]), np.array(row[2], np.float32))
        buffer.add(Transition(*arrays, np.array([row[3]], np.float32), *(np.array([flag]) for flag in flags[t])))
    agent = ppo(gamma=0.5, gae_lambda=1.0)
    agent.networks["critic"].set_weights([np.array([[1.0], [0.0]]), np.zeros(1)])
    return agent.preprocess_batch(buffer.sample())


def test_ppo_preprocessing_computes_advantages_and_returns():
    data = rollout(False, False)
    assert data["advantages"][:, 0].tolist() == [(1 + 20 - 10) + (2 + 30 - 20) / 2, 2 + 30 - 20]
    assert data["returns"][:, 0].tolist() == [17 + 10, 12 + 20]
    np.testing.assert_allclose(data["log_probs"], np.log(0.5), rtol=1e-6)


def test_ppo_bootstraps_at_truncation_but_not_at_termination():
    assert rollout(False, True)["returns"][0, 0] == 1 + 40 / 2  # bootstraps from the final observation
    assert rollout(True, False)["returns"][0, 0] == 1


def test_ppo_preprocessing_uses_live_discount():
    agent = ppo(gamma=0.5)
    agent.set_hyperparameter("gamma", 1.0)
    data = {
        "observations": np.zeros((1, 1, 2), np.float32),
        "next_observations": np.zeros((1, 1, 2), np.float32),
        "actions": np.zeros((1, 1), np.int64),
        "rewards": np.ones((1, 1), np.float32),
        "terminated": np.zeros((1, 1), bool),
        "truncated": np.zeros((1, 1), bool),
    }
    assert agent.preprocess_batch(data)["advantages"].item() == 1.0  # 1 + 1 * 1 - 1


def test_log_probabilities_are_those_of_acting_policy():
    agent = ppo(normalize_observations=True, n_steps=2, n_envs=1)
    agent.networks["actor"].set_weights([np.array([[1.0, 0.0], [0.0, 0.0]]), np.zeros(2)])
    buffer = RolloutBuffer(n_steps=2, rng=np.random.default_rng(0))
    flag = np.array([False])
    for rollouts in range(2):
        seen = []
        for t in range(2):
            observation = np.array([[1.0 + t + rollouts, 0.0]], np.float32)
            seen.append(agent.infer("actor", agent.normalizer(observation)))
            arrays = (observation, np.array([0]), np.zeros(1, np.float32), observation)
            buffer.add(Transition(*arrays, flag, flag))
        data = agent.preprocess_batch(buffer.sample())
        expected = [agent.distribution.log_prob_numpy(logits, np.array([0])) for logits in seen]
        np.testing.assert_allclose(data["log_probs"], expected, rtol=1e-6)
    assert agent.normalizer.count == 4


def test_first_rollout_is_normalised_with_updated_statistics():
    """The observations are far from 0: a critic trained on raw ones would be wrong about normalised ones."""
    agent = ppo(normalize_observations=True, n_steps=4, n_envs=2, learning_rate=0.05)
    agent.networks["critic"].set_weights([np.zeros((2, 1)), np.zeros(1)])
    rng = np.random.default_rng(0)
    no = np.zeros((4, 2), bool)
    observations = rng.normal([100.0, -3.0], [10.0, 0.1], (4, 2, 2)).astype(np.float32)
    data = {
        "observations": observations,
        "next_observations": observations,
        "actions": np.zeros((4, 2), np.int64),
        "rewards": np.ones((4, 2), np.float32),
        "terminated": ~no,
        "truncated": no,
    }
    prepared = agent.preprocess_batch(data)
    rows = prepared["observations"].reshape(8, 2)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(rows.std(axis=0), 1.0, rtol=1e-4)
    np.testing.assert_array_equal(prepared["observations"], agent.normalizer(observations))

    buffer = RolloutBuffer(n_steps=4, n_epochs=50, rng=np.random.default_rng(0))
    losses = agent.update(buffer.batches(prepared)).metrics["value_loss"]
    values = agent.infer("critic", agent.normalizer(observations.reshape(8, 2)))[:, 0]  # normalised as in later steps
    error = np.square(values - prepared["returns"].ravel()).mean()
    assert error < 1.1 * losses[-1] + 1e-6 < 0.5 * losses[0]


def test_rewards_are_divided_by_standard_deviation_of_discounted_sums():
    scaler, no = RewardScaler(), np.zeros((2, 1), bool)
    # Sums 1, then 3 + 0.5 * 1 = 3.5: mean 2.25, standard deviation 1.25.
    np.testing.assert_allclose(scaler(np.array([[1.0], [3.0]]), no, 0.5), [[1 / 1.25], [3 / 1.25]], rtol=1e-6)
    # The next sum is 2 + 0.5 * 3.5 = 3.75, where the episode ends; then 1: the standard deviation of 1, 3.5, 3.75 and
    # 1.
    deviation = np.std([1, 3.5, 3.75, 1])
    scaled = scaler(np.array([[2.0], [1.0]]), np.array([[True], [False]]), 0.5)
    np.testing.assert_allclose(scaled, np.array([[2.0], [1.0]]) / deviation, rtol=1e-6)
    other = RewardScaler()
    other.set_state(scaler.get_state())
    other.sums = scaler.sums
    rows = np.array([[5.0], [-100.0]])
    expected = scaler(rows, no, 0.5)
    np.testing.assert_array_equal(other(rows, no, 0.5), expected)
    assert expected.min() > -10
    assert RewardScaler(clip=0.5)(np.array([[1.0], [-3.0]]), no, 0.5).tolist() == [[0.5], [-0.5]]


def test_returns_are_computed_from_scaled_rewards():
    """The unit of the rewards does not change the returns."""
    agents_of_units = [ppo(normalize_rewards=True, n_envs=1) for _ in range(2)]
    data = {
        "observations": np.ones((3, 1, 2), np.float32),
        "next_observations": np.ones((3, 1, 2), np.float32),
        "actions": np.zeros((3, 1), np.int64),
        "terminated": np.zeros((3, 1), bool),
        "truncated": np.zeros((3, 1), bool),
    }
    rewards = np.array([[1.0], [3.0], [-2.0]], np.float32)
    cents, thousands = (
        agent.preprocess_batch({**data, "rewards": unit * rewards})
        for agent, unit in zip(agents_of_units, (0.01, 1000.0), strict=True)
    )
    np.testing.assert_allclose(cents["returns"], thousands["returns"], rtol=1e-3)
    assert not np.allclose(ppo(n_envs=1).preprocess_batch({**data, "rewards": rewards})["returns"], cents["returns"])


# --- an agent with two optimizers


class TwoHeads(KerasAgent):
    """Agent with two networks that learn the same line, each with its own optimizer."""

    def build(self):
        return {name: keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]) for name in ("actor", "critic")}

    def optimized_networks(self):
        return {"actor": ["actor"], "critic": ["critic"]}

    def act(self, observations, explore=True):
        return (self.infer("actor", observations)[:, 0] > 0).astype(np.int64)

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=2, rng=rng)

    def loss(self, batch):
        return {name: keras.ops.mean(self.networks[name](batch["observations"])) for name in ("actor", "critic")}


def test_each_optimizer_updates_its_network_at_its_learning_rate():
    config = TwoHeads.config_class.from_dict(
        {"optimizer": "sgd", "learning_rate": 0.5, "critic.learning_rate": 0.25, "jit_compile": False}
    )
    agent = TwoHeads(PLANE, TWO, config)
    before = {name: network.get_weights() for name, network in agent.networks.items()}
    update = agent.update(Batches({"observations": np.ones((2, 2), np.float32)}, np.array([[0, 1]], np.int32)))
    assert set(update.losses) == {"actor", "critic"}
    for name, rate in {"actor": 0.5, "critic": 0.25}.items():
        for old, new in zip(before[name], agent.networks[name].get_weights(), strict=True):
            np.testing.assert_allclose(old - new, rate, rtol=1e-5)


def test_learning_rates_of_two_optimizers_are_set_by_name():
    config = TwoHeads.config_class.from_dict({"learning_rate": 0.5, "critic.learning_rate": 0.25})
    agent = TwoHeads(PLANE, TWO, config)
    rates = lambda: (agent.get_learning_rate("actor"), agent.get_learning_rate("critic"))  # noqa: E731
    agent.set_hyperparameter("actor.learning_rate", 0.125)
    assert rates() == (0.125, 0.25)
    agent.set_hyperparameter("learning_rate", 1.0)
    assert rates() == (1.0, 1.0)
    assert agent.optimizer_spec("critic").learning_rate == 1.0  # from which a reset builds the optimizer
    agent.reset(0)
    assert rates() == (1.0, 1.0)
    with pytest.raises(ValueError, match=r"optimizer 'aktor' of TwoHeads. Did you mean actor"):
        agent.set_hyperparameter("aktor.learning_rate", 1.0)
    with pytest.raises(ValueError, match="'default'"):
        agent.get_learning_rate()


@pytest.mark.parametrize(
    ("kind", "divergence"), [("a2c", "approx_kl"), ("ppo", "approx_kl"), ("trpo", "kl"), ("acer", "approx_kl")]
)
def test_actor_critics_report_mean_value_and_policy_divergence(kind: str, divergence: str):
    extra = {"learning_starts": 32} if kind == "acer" else {}
    agent = make(kind, "CartPole-v1", n_envs=2, n_steps=8, hidden_sizes=[4], jit_compile=False, **extra)
    updates: list[UpdateMetrics] = []
    watch = LambdaCallback(on_update_end=lambda trainer, update: updates.append(update))
    with Trainer(agent, callbacks=[watch]) as trainer:
        trainer.train(env_steps=128)
    values = updates[-1].metrics["value_mean"]
    assert np.isfinite(values).all()
    assert np.abs(values).max() > 0.0
    moved = np.concatenate([update.metrics[divergence] for update in updates])
    assert (moved >= -1e-6).all()
    assert moved.max() > 0.0


def a2c(**params):
    """Return an agent with equal action probabilities and the value 1 everywhere."""
    config = {**PLAIN, "vf_coef": 0.5, "ent_coef": 0.1, "normalize_advantages": False, **params}
    agent = A2C(PLANE, TWO, A2CConfig.from_dict(config))
    agent.networks["actor"].set_weights([np.zeros((2, 2)), np.zeros(2)])
    agent.networks["critic"].set_weights([np.zeros((2, 1)), np.ones(1)])
    return agent


A2C_ROWS = {
    **PPO_ROWS,
    "log_probs": np.full(4, np.log(0.5), np.float32),
    "advantages": np.array([1, -1, 3, 1], np.float32),
}


def test_a2c_loss():
    loss = loss_of(a2c(), A2C_ROWS)
    assert loss["policy_loss"] == pytest.approx(np.log(2))  # log 2 times the mean advantage
    assert loss["value_loss"] == pytest.approx((0 + 1 + 4 + 9) / 4)
    assert loss["entropy"] == pytest.approx(np.log(2))
    assert loss["default"] == pytest.approx(0.9 * np.log(2) + 0.5 * 3.5)


def test_a2c_gradient_step():
    # The policy's gradient is -(1 + 1 + 3 - 1) / 2 / 4 for the first action, that of the entropy 0 at its maximum; the
    # critic's is the mean of 1 - return, -1.5.
    agent = a2c(optimizer="sgd", learning_rate=0.1)
    agent.update(Batches(A2C_ROWS, np.arange(4, dtype=np.int32)[None]))
    np.testing.assert_allclose(agent.networks["actor"].get_weights()[1], [0.05, -0.05], rtol=1e-5)
    np.testing.assert_allclose(agent.networks["critic"].get_weights()[1], [1.15], rtol=1e-5)


def test_a2c_reports_divergence_of_its_step():
    agent = make("a2c", "CartPole-v1", n_envs=2, n_steps=8, hidden_sizes=[4], learning_rate=0.05, jit_compile=False)
    rows = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)

    def probability_of_the_first_action():
        logits = np.exp(agent.infer("actor", rows))
        return logits[:, 0] / logits.sum(axis=1)

    before = probability_of_the_first_action()
    data = {
        "observations": rows,
        "actions": np.zeros(16, np.int32),
        "log_probs": np.log(before).astype(np.float32),
        "advantages": np.ones(16, np.float32),
        "returns": np.zeros(16, np.float32),
    }
    update = agent.update(Batches(data, np.arange(16, dtype=np.int32)[None]))
    ratio = probability_of_the_first_action() / before
    assert ratio.min() > 1.0  # the probability of the action taken increased
    assert update.metrics["approx_kl"] == pytest.approx([np.mean(ratio - 1.0 - np.log(ratio))], rel=1e-3)
