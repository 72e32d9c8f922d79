"""Tests of distributional DQN: the projection and the loss by hand, acting, and Rainbow."""

import math

import keras
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import agents
from agents.algorithms.dqn import DQN, DQNConfig
from agents.algorithms.rainbow import Rainbow, RainbowConfig
from agents.buffers import Batches, PrioritizedReplay
from agents.config.agent_config import AgentConfig
from agents.errors import ConfigurationError
from agents.networks.builders import Atoms
from agents.networks.categorical_values import CategoricalValues, project
from agents.networks.dueling import Dueling

PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
TWO = spaces.Discrete(2)


def projected(returns, probabilities, v_min, v_max, n_atoms):
    arrays = (np.array([values], np.float32) for values in (returns, probabilities))
    return np.array(project(*arrays, v_min, v_max, n_atoms))[0]


# --- projection


@pytest.mark.parametrize(
    ("returns", "probabilities", "expected"),
    [
        ([0, 1, 2], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),  # returns on atoms
        ([0.25], [1], [0.75, 0.25, 0]),  # a return between two atoms, nearer to the first
        ([1.5], [1], [0, 0.5, 0.5]),
        ([-7, 9], [0.4, 0.6], [0.4, 0, 0.6]),  # returns beyond the support
        ([2, 0.5, 0.5], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]),  # several returns on one atom
    ],
)
def test_projection_by_hand(returns, probabilities, expected):
    np.testing.assert_allclose(projected(returns, probabilities, 0.0, 2.0, 3), expected, atol=1e-6)


def naive(returns, probabilities, v_min, v_max, n_atoms):
    """Return the projection by algorithm 1 of the paper, in double precision."""
    result = np.zeros(n_atoms)
    for value, probability in zip(returns, probabilities, strict=True):
        position = (min(max(value, v_min), v_max) - v_min) / (v_max - v_min) * (n_atoms - 1)
        lower, upper = math.floor(position), math.ceil(position)
        if lower == upper:
            result[lower] += probability
        else:
            result[lower] += probability * (upper - position)
            result[upper] += probability * (position - lower)
    return result


@settings(max_examples=60, deadline=None)
@given(
    n_atoms=st.integers(2, 60),
    v_min=st.floats(-50, 0),
    width=st.floats(1, 100),
    step=st.tuples(st.floats(-5, 5), st.floats(0, 1)),
    seed=st.integers(0, 1000),
)
def test_projection_equals_algorithm_of_paper(n_atoms, v_min, width, step, seed):
    reward, discount = step
    returns = reward + discount * np.linspace(v_min, v_min + width, n_atoms)
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(n_atoms))
    result = projected(returns, probabilities, v_min, v_min + width, n_atoms)
    assert result.sum() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(result, naive(returns, probabilities, v_min, v_min + width, n_atoms), atol=2e-3)


# --- DQN


def logs(*probabilities):
    return np.log(np.maximum(np.array(probabilities), 1e-12))


def dqn(**params):
    """Return an agent with fixed probabilities of returns 0, 1, 2: values 0.5 and 1.5, of the target 1.75 and 0.25."""
    fixed = {"hidden_sizes": (), "jit_compile": False, "max_grad_norm": None, "n_atoms": 3, "v_min": 0.0, "v_max": 2.0}
    agent = DQN(PLANE, TWO, DQNConfig.from_dict({**fixed, "gamma": 0.5, **params}))
    agent.networks["q"].set_weights([np.zeros((2, 6)), logs(0.5, 0.5, 0, 0, 0.5, 0.5)])
    agent.networks["target"].set_weights([np.zeros((2, 6)), logs(0, 0.25, 0.75, 0.75, 0.25, 0)])
    return agent


ROWS = {
    "observations": np.ones((3, 2), np.float32),
    "actions": np.array([0, 1, 1], np.int32),
    "rewards": np.array([0.5, 0.0, 3.0], np.float32),
    "lengths": np.array([1, 2, 1], np.int32),
    "next_observations": np.ones((3, 2), np.float32),
    "terminated": np.array([False, False, True]),
    "weights": np.array([1.0, 0.5, 0.25], np.float32),
}


def loss_of(agent, rows=ROWS):
    return {
        name: np.array(value).tolist()
        for name, value in agent.loss({n: keras.ops.convert_to_tensor(v) for n, v in rows.items()}).items()
    }


def cross_entropy(target, probabilities):
    return -sum(t * math.log(max(p, 1e-12)) for t, p in zip(target, probabilities, strict=True) if t)


# The best action of the target is 0, with returns 1 and 2 at 0.25 and 0.75.
TARGETS = [
    [0, 0.25 + 0.75 * 0.5, 0.75 * 0.5],  # 0.5 plus half of the returns: 1 and 1.5
    [0.25 * 0.75 + 0.75 * 0.5, 0.25 * 0.25 + 0.75 * 0.5, 0],  # a quarter of the returns, two steps ahead: 0.25 and 0.5
    [0, 0, 1],  # 3, at a termination
]
PREDICTED = [[0.5, 0.5, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]


def test_loss_is_cross_entropy_with_projected_target():
    loss = loss_of(dqn())
    each = [cross_entropy(target, own) for target, own in zip(TARGETS, PREDICTED, strict=True)]
    assert loss["default"] == pytest.approx(np.mean(each), rel=1e-4)
    assert loss["q_mean"] == pytest.approx((0.5 + 1.5 + 1.5) / 3)
    expected = np.array(TARGETS) @ [0, 1, 2]
    assert loss["td_error"] == pytest.approx(np.abs(expected - [0.5, 1.5, 1.5]).mean(), rel=1e-5)
    assert set(loss) == {"default", "q_mean", "td_error", "beyond_support"}


def test_loss_reports_share_beyond_support():
    assert loss_of(dqn())["beyond_support"] == pytest.approx(1 / 3)  # the reward of 3
    assert loss_of(dqn(v_max=3.0))["beyond_support"] == 0


def test_double_dqn_uses_action_of_online_network():
    double = loss_of(dqn(double=True))
    # The online network prefers action 1, whose target returns are 0 with 0.75 and 1 with 0.25.
    targets = [[0.75 * 0.5, 0.75 * 0.5 + 0.25, 0], [0.75 + 0.25 * 0.75, 0.25 * 0.25, 0], TARGETS[2]]
    each = [cross_entropy(target, own) for target, own in zip(targets, PREDICTED, strict=True)]
    assert double["default"] == pytest.approx(np.mean(each), rel=1e-4)


def test_priority_is_divergence_and_loss_is_weighted():
    loss = loss_of(dqn(replay="prioritized"))
    each = [cross_entropy(target, own) for target, own in zip(TARGETS, PREDICTED, strict=True)]
    entropies = [cross_entropy(target, target) for target in TARGETS]
    assert loss["default"] == pytest.approx(np.mean(np.array(each) * ROWS["weights"]), rel=1e-4)
    np.testing.assert_allclose(loss["priorities"], np.array(each) - entropies, rtol=1e-4)


def test_priority_of_exact_prediction_is_zero():
    agent = dqn(replay="prioritized", gamma=1.0)
    agent.networks["q"].set_weights(agent.networks["target"].get_weights())
    rows = {
        **ROWS,
        "rewards": np.zeros(3, np.float32),
        "actions": np.zeros(3, np.int32),
        "terminated": np.zeros(3, bool),
    }
    np.testing.assert_allclose(loss_of(agent, rows)["priorities"], 0, atol=1e-5)


def test_actions_maximise_expected_return():
    agent = dqn()
    observations = np.ones((3, 2), np.float32)
    outputs = agent.infer("q", observations)
    assert outputs.shape == (3, 2, 3)
    np.testing.assert_allclose(agent.values.expected(outputs, agent.number), [[0.5, 1.5]] * 3, rtol=1e-5)
    assert agent.act(observations, explore=False).tolist() == [1, 1, 1]


def test_population_members_have_their_own_support():
    outputs = np.tile(logs(0.5, 0.5, 0), (3, 1, 1)).astype(np.float32)
    numbers = {"v_min": np.array([0.0, 0.0, -4.0], np.float32), "v_max": np.array([2.0, 20.0, 0.0], np.float32)}
    values = CategoricalValues(3).expected(outputs, numbers.__getitem__)
    np.testing.assert_allclose(values[:, 0], [0.5, 5, -3], rtol=1e-5)


def test_dueling_combines_logits_of_each_atom():
    agent = DQN(PLANE, TWO, DQNConfig(n_atoms=3, dueling=True, hidden_sizes=(1,)))
    streams, atoms, dueling = agent.networks["q"].layers
    assert ([layer.units for layer in streams.parts], type(atoms), type(dueling)) == ([1, 3, 1, 6], Atoms, Dueling)
    value, first, second = np.array([[1, 2, 3], [0, 1, 4], [2, 1, 0]], np.float32)
    hidden, outputs = [np.zeros((2, 1)), np.zeros(1)], [value, np.concatenate([first, second])]
    weights = [[*hidden, np.zeros((1, len(biases))), biases] for biases in outputs]
    agent.networks["q"].set_weights([*weights[0], *weights[1]])
    agent.refresh()
    mean = (first + second) / 2
    expected = [[value + first - mean, value + second - mean]]
    np.testing.assert_allclose(agent.infer("q", np.ones((1, 2), np.float32)), expected, rtol=1e-6)
    np.testing.assert_allclose(agent.networks["q"](np.ones((1, 2), np.float32)), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v_min": 1.0, "v_max": 1.0}, "v_max must be more than v_min = 1, got 1"),
        ({"v_min": 11.0}, "v_max must be more than v_min = 11, got 10"),
        ({"n_atoms": 0}, "n_atoms must be >= 1, got 0"),
    ],
)
def test_invalid_supports_are_refused(params, message):
    with pytest.raises(ConfigurationError, match=message):
        DQNConfig(**params)


def test_support_is_live_only_for_distributional_dqn():
    assert {"v_min", "v_max"} <= set(DQNConfig(n_atoms=51).live_values())
    assert not {"v_min", "v_max"} & set(DQNConfig().live_values())
    agent = dqn()
    agent.set_hyperparameter("v_max", 4.0)
    assert loss_of(agent)["q_mean"] == pytest.approx((1 + 3 + 3) / 3)
    with pytest.raises(ConfigurationError, match="v_max must be more than v_min"):
        agent.set_hyperparameter("v_max", -1.0)


# --- Rainbow


def test_rainbow_is_dqn_with_all_components():
    agent = agents.make("rainbow", "CartPole-v1")
    config = agent.config
    assert isinstance(agent, Rainbow)
    assert config.double
    assert config.dueling
    assert config.noisy
    assert (config.n_step, config.n_atoms) == (3, 51)
    assert isinstance(agent.make_buffer(1, np.random.default_rng(0)), PrioritizedReplay)
    assert isinstance(agent.values, CategoricalValues)
    changed = {name for name, value in RainbowConfig().to_dict().items() if value != DQNConfig().to_dict()[name]}
    assert changed == {"double", "dueling", "noisy", "n_step", "n_atoms", "replay", "priority_alpha"}
    assert issubclass(RainbowConfig, AgentConfig)


def test_rainbow_refuses_continuous_actions():
    with pytest.raises(ConfigurationError, match="Rainbow takes discrete actions"):
        Rainbow(PLANE, spaces.Box(-1.0, 1.0, (1,), np.float32))


@pytest.mark.slow
def test_rainbow_fits_repeated_minibatch():
    agent = agents.make("rainbow", "CartPole-v1", hidden_sizes=(16,), batch_size=3, jit_compile=False, v_min=0.0)
    rng = np.random.default_rng(0)
    observations = {name: rng.normal(size=(3, 4)).astype(np.float32) for name in ("observations", "next_observations")}
    rows = {**ROWS, **observations, "weights": np.ones(3, np.float32), "terminated": np.ones(3, bool)}
    divergences = []
    for _ in range(300):
        update = agent.update(Batches(agent.preprocess_batch(dict(rows)), np.arange(3, dtype=np.int32)[None]))
        divergences.append(update.priorities.mean())
    assert np.mean(divergences[-20:]) < 0.1 * np.mean(divergences[:20])
