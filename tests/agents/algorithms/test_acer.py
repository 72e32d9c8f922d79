"""Tests of ACER: Retrace, the policy gradient and the trust region, against examples worked out by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from movements import assert_same_movement, values_of

from agents import AgentSpec, Trainer
from agents.algorithms.acer import ACER, ACERConfig, policy_gradient, within_trust_region
from agents.buffers import Batches
from agents.errors import ConfigurationError
from agents.functional.retrace import retrace
from agents.population import Population

PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
TWO = spaces.Discrete(2)


def column(*values, dtype=np.float32):
    """Return the values of one environment as a column [T, 1]."""
    return np.array(values, dtype)[:, None]


# --- Retrace, by hand: gamma 0.5, so that products are exact

NEVER = column(False, False, False, dtype=bool)
MIDDLE = column(False, True, False, dtype=bool)
TRAJECTORY = {
    "rewards": column(1, 2, 3),
    "taken": column(10, 20, 30),
    "next_values": column(24, 32, 40),
    "ratios": column(0.125, 0.5, 8),
    "terminated": NEVER,
    "truncated": NEVER,
}


def targets(gamma=0.5, **changes):
    return np.array(retrace(**{**TRAJECTORY, **changes}, gamma=gamma))[:, 0].tolist()


def test_retrace_within_an_episode():
    # The last step: 3 + 20 = 23. Its error is fully weighted, 23 - 30 = -7: 2 + (32 - 7) / 2 = 14.5. The error of that
    # step is weighted by one half, (14.5 - 20) / 2 = -2.75: 1 + (24 - 2.75) / 2.
    assert targets() == [1 + (24 - 2.75) / 2, 14.5, 23]


def test_retrace_termination_ends_bootstrap_and_sum():
    assert targets(terminated=MIDDLE) == [1 + (24 + (2 - 20) / 2) / 2, 2, 23]


def test_retrace_truncation_ends_sum_but_bootstraps():
    assert targets(truncated=MIDDLE) == [1 + (24 + (18 - 20) / 2) / 2, 2 + 32 / 2, 23]


def test_retrace_termination_takes_precedence_over_truncation():
    assert targets(terminated=MIDDLE, truncated=MIDDLE) == targets(terminated=MIDDLE)


def test_retrace_ignores_values_of_terminal_states():
    assert np.isfinite(targets(terminated=MIDDLE, next_values=column(24, np.nan, 40))).all()


def test_retrace_with_zero_ratios_gives_one_step_targets():
    assert targets(ratios=column(0, 0, 0)) == [1 + 12, 2 + 16, 3 + 20]


@st.composite
def pieces(draw):
    n_steps, n_envs, seed = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    shape = (n_steps, n_envs)
    numbers = {name: rng.normal(size=shape).astype(np.float32) for name in ("rewards", "taken", "next_values")}
    flags = {name: rng.random(shape) < 0.2 for name in ("terminated", "truncated")}
    return numbers | flags | {"ratios": rng.lognormal(size=shape).astype(np.float32)}


@settings(max_examples=40, deadline=None)
@given(data=pieces(), gamma=st.floats(0, 1))
def test_retrace_equals_explicit_sum_of_paper(data, gamma):
    result = np.array(retrace(**data, gamma=gamma))
    n_steps, n_envs = data["rewards"].shape
    for n in range(n_envs):
        for t in range(n_steps):
            expected, trace = float(data["taken"][t, n]), 1.0
            for k in range(t, n_steps):  # equations 3 and 4 of 1606.02647
                if k > t:
                    trace *= gamma * min(1.0, data["ratios"][k, n])
                bootstrap = 0.0 if data["terminated"][k, n] else gamma * data["next_values"][k, n]
                expected += trace * (data["rewards"][k, n] + bootstrap - data["taken"][k, n])
                if data["terminated"][k, n] or data["truncated"][k, n]:
                    break
            assert result[t, n] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_retrace_compiles(jit_compile):
    compiled = tf.function(lambda: retrace(**TRAJECTORY, gamma=0.5), jit_compile=jit_compile, autograph=False)
    assert compiled().numpy()[:, 0].tolist() == targets()


# --- the gradient of the policy


def gradient(policy, behaviour, action, values, *, target, importance_c):
    rows = (np.array([row], np.float32) for row in (policy, behaviour))
    arrays = [*rows, np.array([action]), np.array([values], np.float32), np.array([target], np.float32)]
    return np.array(policy_gradient(*map(keras.ops.convert_to_tensor, arrays), importance_c=importance_c))[0]


def test_on_policy_gradient_is_advantage_over_probability():
    # The value of the state is 0.25 * 4 + 0.75 * 8 = 7 and the target is 9: the advantage 2, over the probability 0.25.
    assert gradient((0.25, 0.75), (0.25, 0.75), 0, (4, 8), target=9, importance_c=10.0).tolist() == [8, 0]


def test_bias_correction_adds_truncated_share_of_gradient():
    # The ratio of action 0 is 4, truncated to 2: (9 - 5) * 2 / 0.5. The correction is 1 - 2 / 4 times its value minus
    # that of the state, 4 - 5 (4 / 2 + 6 / 2 = 5). The ratio of action 1 is less than 1: nothing is truncated.
    assert gradient((0.5, 0.5), (0.125, 0.875), 0, (4, 6), target=9, importance_c=2.0).tolist() == [
        (9 - 5) * 2 / 0.5 - 0.5,
        0,
    ]
    # Action 1 was taken: its ratio is 4 / 7, and the correction of action 0 stays the same.
    assert gradient((0.5, 0.5), (0.125, 0.875), 1, (4, 6), target=9, importance_c=2.0) == pytest.approx(
        [-0.5, (9 - 5) * (4 / 7) / 0.5]
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), importance_c=st.floats(0.1, 5))
def test_truncated_gradient_is_unbiased_for_any_truncation(seed, importance_c):
    """With targets equal to the values, the sum of both terms is the gradient of the policy's value (equation 7)."""
    rng = np.random.default_rng(seed)
    policy, behaviour = rng.dirichlet(np.full(3, 3.0), 2)
    values = rng.normal(size=3)
    mean = sum(
        behaviour[action]
        * gradient(policy, behaviour, action, values, target=values[action], importance_c=importance_c)
        for action in range(3)
    )
    np.testing.assert_allclose(mean, values - policy @ values, rtol=1e-3, atol=1e-4)


def test_actions_of_probability_zero_give_finite_gradients():
    assert np.isfinite(gradient((1, 0), (0, 1), 0, (1, 2), target=3, importance_c=10.0)).all()
    assert np.isfinite(gradient((1, 0), (1, 0), 1, (1, 2), target=3, importance_c=10.0)).all()


# --- the trust region


def bounded(gradient, policy, average, delta):
    arrays = (np.array([row], np.float32) for row in (gradient, policy, average))
    return np.array(within_trust_region(*map(keras.ops.convert_to_tensor, arrays), delta=delta))[0]


def test_trust_region_by_hand():
    # The divergence grows by k = (-0.5 / 0.25, -0.5 / 0.75) = (-2, -2 / 3) times the gradient.
    policy, average = (0.25, 0.75), (0.5, 0.5)
    assert bounded((3, 0), policy, average, 1.0).tolist() == [3, 0]  # the divergence would change by -6
    assert bounded((-0.5, 0), policy, average, 1.0).tolist() == [-0.5, 0]  # the divergence would change by 1
    # A change of 4, which is 3 too much: minus 3 k / |k|^2, where |k|^2 = 4 + 4 / 9.
    np.testing.assert_allclose(
        bounded((-2, 0), policy, average, 1.0), np.array([-2, 0]) - 3 / (40 / 9) * np.array([-2, -2 / 3]), rtol=1e-5
    )


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), delta=st.floats(0.01, 2))
def test_bounded_gradient_is_projection_onto_trust_region(seed, delta):
    rng = np.random.default_rng(seed)
    policy, average = rng.dirichlet(np.full(3, 3.0), 2)
    raw = 10 * rng.normal(size=3)
    away = -average / policy
    result = bounded(raw, policy, average, delta)
    assert away @ result <= delta + 1e-2
    if away @ raw > delta:
        assert away @ result == pytest.approx(delta, abs=1e-2)
    np.testing.assert_allclose(np.cross(result - raw, away) / (away @ away), 0, atol=1e-3)


# --- losses

PLAIN = {"jit_compile": False, "hidden_sizes": (), "max_grad_norm": None, "gamma": 0.5, "optimizer": "sgd"}
SMALL = {
    "hidden_sizes": (8,),
    "jit_compile": False,
    "n_envs": 2,
    "n_steps": 5,
    "replay_ratio": 2,
    "learning_starts": 15,
}


def acer(**params):
    """Return an agent with equal probabilities, also of the average policy, and the values x0 and 2 x1."""
    agent = ACER(PLANE, TWO, ACERConfig.from_dict({**PLAIN, "n_steps": 2, "n_envs": 1, "ent_coef": 0.0, **params}))
    for name in ("actor", "average"):
        agent.networks[name].set_weights([np.zeros((2, 2)), np.zeros(2)])
    agent.networks["critic"].set_weights([np.diag([1.0, 2.0]), np.zeros(2)])
    return agent


# Two trajectories of two steps. The action values of observations (4, 4) and (8, 8) are (4, 8) and (8, 16), so the
# values of the states are 6 and 12.
ROWS = {
    "observations": np.array([[4, 4], [8, 8], [4, 4], [8, 8]], np.float32),
    "actions": np.array([0, 1, 0, 1], np.int32),
    "rewards": np.array([1, 2, 1, 2], np.float32),
    "next_observations": np.array([[8, 8], [4, 4], [8, 8], [4, 4]], np.float32),
    "terminated": np.array([False, False, False, True]),
    "truncated": np.zeros(4, bool),
    "probabilities": np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.25, 0.75]], np.float32),
}
# The first trajectory: 2 + 6 / 2 = 5, which is 11 less than 16: 1 + (12 - 11) / 2. The second terminates with target 2,
# 14 less than 16, weighted by a ratio of two thirds.
TARGETS = [1.5, 5, 1 + (12 - 14 * 2 / 3) / 2, 2]


def tensors(rows):
    return {name: keras.ops.convert_to_tensor(values) for name, values in rows.items()}


def test_targets_are_computed_within_each_trajectory():
    np.testing.assert_allclose(acer().preprocess_minibatch(tensors(ROWS))["targets"], TARGETS, rtol=1e-6)


def loss_of(agent, rows=ROWS):
    return {name: float(value) for name, value in agent.loss(agent.preprocess_minibatch(tensors(rows))).items()}


def test_loss_terms_by_hand():
    loss = loss_of(acer(delta=1000.0, vf_coef=0.25, ent_coef=0.1))
    weights = np.array([1, 1, 1, 2 / 3])
    policy_loss = -(weights * (np.array(TARGETS) - [6, 12, 6, 12])).mean()
    value_loss = 0.5 * ((np.array(TARGETS) - [4, 16, 4, 16]) ** 2).mean()
    assert loss["policy_loss"] == pytest.approx(policy_loss)
    assert loss["value_loss"] == pytest.approx(value_loss)
    assert loss["entropy"] == pytest.approx(np.log(2))
    assert loss["default"] == pytest.approx(policy_loss + 0.25 * value_loss - 0.1 * np.log(2))
    assert loss["kl_of_average"] == pytest.approx(0, abs=1e-6)
    assert loss["bounded_fraction"] == 0.0


def test_loss_within_trust_region_by_hand():
    # k = (-1, -1). The gradient g of one action changes the divergence by -g: gradients below -1 are bounded.
    loss = loss_of(acer(delta=1.0))
    gradients = 2 * np.array([1, 1, 1, 2 / 3]) * (np.array(TARGETS) - [6, 12, 6, 12])
    too_fast = np.maximum(-gradients - 1, 0)
    assert loss["policy_loss"] == pytest.approx(-(gradients / 2 + too_fast / 2).mean())
    assert loss["bounded_fraction"] == 1.0


def test_gradient_step_by_hand():
    agent = acer(delta=1000.0, vf_coef=0.25, learning_rate=0.1, tau=0.5)
    agent.update(Batches(ROWS, np.arange(4, dtype=np.int32)[None]))
    errors = np.array([4, 16, 4, 16]) - TARGETS
    _, bias = agent.networks["critic"].get_weights()
    by_action = np.array([errors[[0, 2]].sum(), errors[[1, 3]].sum()]) / 4
    np.testing.assert_allclose(bias, -0.1 * 0.25 * by_action, rtol=1e-5)
    # The derivative of the probability of an action is 1/4 with respect to its logit, and -1/4 to the other logit.
    gradients = 2 * np.array([1, 1, 1, 2 / 3]) * (np.array(TARGETS) - [6, 12, 6, 12])
    up = 0.1 * 0.25 * (gradients * [1, -1, 1, -1]).mean()
    _, bias = agent.networks["actor"].get_weights()
    np.testing.assert_allclose(bias, [up, -up], rtol=1e-5)
    np.testing.assert_allclose(agent.networks["average"].get_weights()[1], [up / 2, -up / 2], rtol=1e-5)


def test_preprocessing_adds_probabilities_of_all_actions():
    agent = acer()
    agent.networks["actor"].set_weights([np.zeros((2, 2)), np.log([0.2, 0.8])])
    agent.refresh()
    data = {"observations": np.zeros((3, 2, 2), np.float32), "rewards": np.zeros((3, 2), np.float32)}
    probabilities = agent.preprocess_batch(data)["probabilities"]
    assert (probabilities.shape, probabilities.dtype) == ((3, 2, 2), np.float32)
    np.testing.assert_allclose(probabilities, np.tile([0.2, 0.8], (3, 2, 1)), rtol=1e-5)


def test_replayed_rollouts_keep_their_behaviour_probabilities():
    agent = ACER(PLANE, TWO, ACERConfig.from_dict({**SMALL, "buffer_size": 20}))
    buffer = agent.make_buffer(2, np.random.default_rng(0))
    assert buffer.n_actions == 2
    for rollouts in range(3):
        agent.networks["actor"].set_weights([np.zeros((2, 8)), np.zeros(8), np.zeros((8, 2)), np.array([rollouts, 0])])
        agent.refresh()
        data = {name: np.zeros((5, 2, *values.shape[1:]), values.dtype) for name, values in ROWS.items()}
        batches = buffer.batches(agent.preprocess_batch(data))
    of_minibatches = batches.data["probabilities"][:, 0].reshape(3, 2, 5)  # [K, N, T]
    now, before = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(of_minibatches[0], now, rtol=1e-5)
    replayed = of_minibatches[1:].ravel()
    assert np.isclose(replayed, before, rtol=1e-5).any()
    assert (np.isclose(replayed, before, rtol=1e-5) | np.isclose(replayed, now, rtol=1e-5)).all()


# --- population members


def weights_of(agent):
    return [weight for network in agent.networks.values() for weight in network.weights]


@pytest.mark.parametrize("params", [{}, {"jit_compile": True, "replay_ratio": 1}, {"replay_ratio": 0}])
@pytest.mark.slow
def test_population_members_equal_agents_trained_alone(params):
    spec = AgentSpec.of("acer", "CartPole-v1", {**SMALL, "buffer_size": 60, **params})
    members = [
        {"seed": 0, "learning_rate": 1e-2, "gamma": 0.9, "importance_c": 1.5},
        {"seed": 1, "delta": 0.1, "ent_coef": 0.1},
        {"seed": 1, "tau": 0.5, "vf_coef": 0.1},
    ]
    population = Population(spec, members)
    with Trainer(population) as together:
        together.train(env_steps=150)
    for position, member in enumerate(members):
        params = {name: value for name, value in member.items() if name != "seed"}
        alone = spec.with_params(params).build(member["seed"])
        began = values_of(weights_of(alone))
        with Trainer(alone) as trainer:
            trainer.train(env_steps=150)
        assert together.runs[position].history.returns == trainer.history.returns
        own = population.extract(position)
        assert_same_movement(values_of(weights_of(own)), values_of(weights_of(alone)), began)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.slow
def test_restored_run_continues_identically(together):
    spec = AgentSpec.of("acer", "CartPole-v1", {**SMALL, "buffer_size": 60})

    def made():
        return Trainer(Population(spec, [{"seed": 0}, {"seed": 1}]) if together else spec.build(0))

    straight = made()
    straight.train(env_steps=144)  # in the middle of a rollout
    state = straight.get_state()
    straight.train(env_steps=60)
    other = made()
    other.set_state(state)
    other.train(env_steps=60)
    agents = [each.agent.extract(1) if together else each.agent for each in (straight, other)]
    assert straight.history.returns == other.history.returns
    for one, two in zip(*(agent.state_variables() for agent in agents), strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


@pytest.mark.slow
def test_update_compiles_once_with_and_once_without_replays():
    agent = AgentSpec.of("acer", "CartPole-v1", SMALL).build(0)
    with Trainer(agent) as trainer:
        trainer.train(env_steps=200)
    assert len(agent._update._compiled) == 2  # before the first replayed rollout, and with replayed rollouts


@pytest.mark.slow
def test_update_on_image_observations_is_finite():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    agent = ACER(space, TWO, ACERConfig(hidden_sizes=(8,), n_steps=2, jit_compile=False))
    images = np.random.default_rng(0).integers(0, 256, (4, 36, 36, 1)).astype(np.uint8)
    rows = {**ROWS, "observations": images, "next_observations": images[::-1]}
    assert agent.update(Batches(rows, np.arange(4, dtype=np.int32)[None])).finite


# --- validation errors


def test_continuous_actions_are_refused():
    with pytest.raises(
        ConfigurationError, match=r"ACER takes discrete actions.*a value for each.* has Box.*a2c, ddpg, ppo"
    ):
        ACER(PLANE, spaces.Box(-1.0, 1.0, (1,), np.float32))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"buffer_size": 159}, r"buffer_size must be at least n_envs \* n_steps = 160, got 159"),
        ({"replay_ratio": -1}, "replay_ratio must be >= 0, got -1"),
        ({"importance_c": 0.0}, r"importance_c must be > 0, got 0\.0"),
        ({"delta": 0.0}, r"delta must be > 0, got 0\.0"),
        ({"tau": 1.5}, r"tau must be > 0 and <= 1, got 1\.5"),
    ],
)
def test_invalid_hyperparameters_are_refused(params, message):
    with pytest.raises(ConfigurationError, match=message):
        ACERConfig.from_dict({"n_envs": 8, "n_steps": 20, **params})
