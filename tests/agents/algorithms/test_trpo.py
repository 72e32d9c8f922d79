"""Tests of TRPO: conjugate gradients and line searches against NumPy, steps against examples worked out by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from movements import assert_same_movement, difference

import agents
from agents import AgentSpec, Trainer
from agents.algorithms.trpo import TRPO, TRPOConfig
from agents.buffers import Batches
from agents.distributed.replicas import DistributedSteps
from agents.errors import ConfigurationError
from agents.functional.trust_region import conjugate_gradients, largest_step, line_search
from agents.population import Population

PLANE = spaces.Box(-10.0, 10.0, (2,), np.float32)
TWO = spaces.Discrete(2)
PUSH = spaces.Box(-1.0, 1.0, (1,), np.float32)

# --- conjugate gradients


def matrix_of(n, seed=0):
    """Return a symmetric positive definite matrix."""
    root = np.random.default_rng(seed).normal(size=(n, n)).astype(np.float32)
    return root @ root.T + np.eye(n, dtype=np.float32)


def product_with(matrix):
    return lambda vector: tf.linalg.matvec(tf.constant(matrix), vector)


def compiled(function, jit_compile):
    """Return the result of a function run as a graph, in which its conditions are tensors."""
    return tf.function(function, jit_compile=jit_compile, autograph=False)()


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_conjugate_gradients_solve_linear_system(n, jit_compile):
    matrix, b = matrix_of(n), np.arange(1, n + 1, dtype=np.float32)
    x = compiled(lambda: conjugate_gradients(product_with(matrix), tf.constant(b), 3 * n), jit_compile)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-3, atol=1e-4)


def test_first_conjugate_gradient_step_is_steepest_descent():
    matrix, b = matrix_of(4), np.arange(1, 5, dtype=np.float32)
    x = conjugate_gradients(product_with(matrix), tf.constant(b), 1)
    np.testing.assert_allclose(x, b * (b @ b) / (b @ matrix @ b), rtol=1e-5)


def test_conjugate_gradients_stop_at_small_residual():
    products = []

    def product(vector):
        products.append(vector)
        return 2.0 * vector

    x = conjugate_gradients(product, tf.constant([1.0, 3.0]), 10)
    np.testing.assert_allclose(x, [0.5, 1.5])
    assert len(products) == 1
    np.testing.assert_array_equal(conjugate_gradients(product, tf.zeros(2), 10), [0, 0])
    assert len(products) == 1


@pytest.mark.parametrize("jit_compile", [True, False])
def test_largest_step_has_maximum_divergence_along_natural_gradient(jit_compile):
    matrix, gradient = matrix_of(5), np.array([1.0, -2.0, 0.5, 0.0, 3.0], np.float32)
    step = compiled(lambda: largest_step(tf.constant(gradient), product_with(matrix), 0.02, 20), jit_compile).numpy()
    assert 0.5 * step @ matrix @ step == pytest.approx(0.02, rel=1e-4)
    natural = np.linalg.solve(matrix, gradient)
    np.testing.assert_allclose(step / np.linalg.norm(step), natural / np.linalg.norm(natural), rtol=1e-3, atol=1e-4)


def test_largest_step_of_zero_gradient_is_zero():
    np.testing.assert_array_equal(largest_step(tf.zeros(3), product_with(matrix_of(3)), 0.02, 20), np.zeros(3))


# --- line searches


def searched(evaluate, step=(4.0,), limit=100.0, max_tries=5, jit_compile=False):
    numbers = {"limit": limit, "shrinking": tf.constant(0.5), "max_tries": max_tries}
    found = compiled(lambda: line_search(evaluate, tf.zeros(1), tf.constant(step), **numbers), jit_compile)
    return float(found.point[0]), float(found.gain), float(found.distance), bool(found.accepted)


def height_and_distance(point):
    """Return a height, with maximum 5 at 1.5 and 2.75 at 0, and the square of the point as distance."""
    return 5.0 - tf.reduce_sum(tf.square(point - 1.5)), tf.reduce_sum(tf.square(point))


@pytest.mark.parametrize("jit_compile", [True, False])
def test_line_search_takes_first_improving_step_within_distance(jit_compile):
    shared = {"jit_compile": jit_compile}
    assert searched(height_and_distance, **shared) == (2.0, 2.25 - 0.25, 4.0, True)  # the height at 4 is less than at 0
    assert searched(height_and_distance, limit=4.0, **shared) == (2.0, 2.0, 4.0, True)
    assert searched(height_and_distance, limit=3.9, **shared) == (1.0, 2.0, 1.0, True)
    assert searched(height_and_distance, limit=0.2, max_tries=4, **shared) == (0.0, 0.0, 0.0, False)
    assert searched(height_and_distance, limit=0.2, max_tries=5, **shared) == (0.25, 2.25 - 1.5625, 0.0625, True)


def test_line_search_rejects_steps_without_improvement():
    assert searched(lambda point: (tf.constant(1.0), tf.constant(0.0))) == (0.0, 0.0, 0.0, False)
    assert searched(lambda point: (-tf.reduce_sum(point), tf.constant(0.0))) == (0.0, 0.0, 0.0, False)
    assert searched(height_and_distance, step=(np.nan,)) == (0.0, 0.0, 0.0, False)


# --- steps of the policy

PLAIN = {"jit_compile": False, "hidden_sizes": (), "normalize_advantages": False, "optimizer": "sgd"}
ALL = np.arange(2, dtype=np.int32)[None]


def trpo(space=TWO, **params):
    """Return an agent with equal probabilities, or a standard normal policy, and the value 1 everywhere."""
    agent = TRPO(PLANE, space, TRPOConfig.from_dict({**PLAIN, "learning_rate": 0.25, **params}))
    actor = agent.networks["actor"]
    actor.set_weights([np.zeros_like(weight) for weight in actor.get_weights()])
    agent.networks["critic"].set_weights([np.zeros((2, 1)), np.ones(1)])
    return agent


# Observations are 0, so that only biases matter.
ROWS = {
    "observations": np.zeros((2, 2), np.float32),
    "actions": np.array([0, 1], np.int32),
    "log_probs": np.log(np.array([0.5, 0.5], np.float32)),
    "advantages": np.array([1, -1], np.float32),
    "returns": np.array([2, 4], np.float32),
}


def only(values):
    """Return the value of a metric that is the same at every gradient step."""
    assert len(set(values.tolist())) == 1
    return float(values[0])


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [True, False])
def test_policy_step_between_two_actions_by_hand(jit_compile):
    # The gradient is (1, -1) / 2, and the Fisher matrix times (1, -1) is (1, -1) / 2; with damping 0.1 the divergence
    # of a step (t, -t) is 0.6 t^2.
    agent = trpo(target_kl=0.06, cg_damping=0.1, jit_compile=jit_compile)
    update = agent.update(Batches(ROWS, ALL))
    t = np.sqrt(0.06 / 0.6)
    kernel, bias = agent.networks["actor"].get_weights()
    np.testing.assert_allclose(bias, [t, -t], rtol=1e-4)
    np.testing.assert_array_equal(kernel, np.zeros((2, 2)))
    metrics = {name: only(values) for name, values in update.metrics.items()}
    assert metrics["kl"] == pytest.approx(np.log(np.cosh(t)), rel=1e-3)
    assert metrics["surrogate_improvement"] == pytest.approx(np.tanh(t), rel=1e-3)
    assert metrics["line_search_success"] == 1.0
    p = 1 / (1 + np.exp(-2 * t))
    assert metrics["entropy"] == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p), rel=1e-4)
    # The critic: errors -1 and -3, whose mean square is 5, and 0.25 times the gradient -4.
    assert update.losses["critic"].tolist() == update.metrics["value_loss"].tolist() == [5.0]
    assert agent.networks["critic"].get_weights()[1] == pytest.approx(2.0)


def test_policy_step_of_normal_action_by_hand():
    # The gradient is 1 in the mean and 0 in the deviation; the Fisher matrix is 1 in the mean.
    rows = {
        **ROWS,
        "actions": np.array([[1], [-1]], np.float32),
        "log_probs": np.full(2, -0.5 - 0.5 * np.log(2 * np.pi), np.float32),
    }
    agent = trpo(PUSH, target_kl=0.02, cg_damping=0.5)
    update = agent.update(Batches(rows, ALL))
    t = np.sqrt(2 * 0.02 / 1.5)
    _, mean, log_std = agent.networks["actor"].get_weights()
    np.testing.assert_allclose([mean[0], log_std[0]], [t, 0], rtol=1e-4, atol=1e-6)
    assert only(update.metrics["kl"]) == pytest.approx(t**2 / 2, rel=1e-3)
    assert only(update.metrics["surrogate_improvement"]) == pytest.approx(np.sinh(t) * np.exp(-(t**2) / 2), rel=1e-3)


def test_policy_without_improvement_stays_unchanged():
    agent = trpo()
    before = agent.networks["actor"].get_weights()
    update = agent.update(Batches({**ROWS, "advantages": np.zeros(2, np.float32)}, ALL))
    for one, other in zip(before, agent.networks["actor"].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [only(update.metrics[name]) for name in ("kl", "surrogate_improvement", "line_search_success")] == [0, 0, 0]
    assert agent.networks["critic"].get_weights()[1] == pytest.approx(2.0)  # the critic still learns


@pytest.mark.slow
def test_step_beyond_divergence_limit_is_shortened():
    # From probabilities 0.9 and 0.1 towards the rare action, the divergence grows faster than the square of the step.
    tries = {}
    for max_iter in (1, 10):
        agent = trpo(target_kl=0.5, cg_damping=0.0, line_search_max_iter=max_iter)
        kernel, _ = agent.networks["actor"].get_weights()
        agent.networks["actor"].set_weights([kernel, np.log([0.9, 0.1])])
        rows = {**ROWS, "log_probs": np.log([0.9, 0.1]).astype(np.float32), "advantages": np.array([-1, 9], np.float32)}
        update = agent.update(Batches(rows, ALL))
        tries[max_iter] = (only(update.metrics["line_search_success"]), only(update.metrics["kl"]))
    assert tries[1] == (0.0, 0.0)
    assert tries[10][0] == 1.0
    assert 0.2 < tries[10][1] <= 0.5


def test_entropy_bonus_changes_policy():
    agent = trpo(ent_coef=1.0)
    kernel, _ = agent.networks["actor"].get_weights()
    agent.networks["actor"].set_weights([kernel, np.array([1.0, 0.0])])
    agent.update(Batches({**ROWS, "advantages": np.zeros(2, np.float32)}, ALL))
    first, second = agent.networks["actor"].get_weights()[1]
    assert first - second < 1.0


@pytest.mark.slow
def test_advantages_are_normalised_over_all_rows_of_an_update():
    rows = {
        **{name: np.concatenate([values, values]) for name, values in ROWS.items()},
        "advantages": np.array([7, 3, 7, 3], np.float32),  # of mean 5 and standard deviation 2
    }
    single = np.arange(4, dtype=np.int32)[:, None]  # minibatches of one row
    normalised, plain = trpo(normalize_advantages=True), trpo()
    updates = [
        agent.update(Batches({**rows, "advantages": values}, single))
        for agent, values in ((normalised, rows["advantages"]), (plain, np.array([1, -1, 1, -1], np.float32)))
    ]
    for name in updates[0].metrics:
        np.testing.assert_allclose(updates[0].metrics[name], updates[1].metrics[name], rtol=1e-5)
    assert only(updates[0].metrics["surrogate_improvement"]) > 0


# --- the policy step at the start of an update


def weights_of(agent):
    return [weight.numpy() for network in agent.networks.values() for weight in network.weights]


NOISE = 5e-5
"""Largest difference of movements that is rounding error: solving for the natural gradient magnifies it to 2.2e-5."""

SMALL = {"hidden_sizes": (8,), "jit_compile": False, "n_envs": 2, "n_steps": 16, "batch_size": 12, "n_epochs": 2}


class EveryStep(agents.Callback):
    every_gradient_step = True

    def __init__(self):
        self.updates = []

    def on_update_end(self, trainer, update):
        self.updates.append(update)


@pytest.mark.slow
@pytest.mark.parametrize("together", [True, False])
def test_policy_step_is_made_once_per_update_of_single_gradient_steps(together):
    spec = AgentSpec.of("trpo", "CartPole-v1", SMALL)
    whole = spec.build(0)
    with Trainer(whole) as trainer:
        trainer.train(env_steps=64)
    watch = EveryStep()
    single = Population(spec, [{"seed": 0}, {"seed": 1}]) if together else spec.build(0)
    with Trainer(single, callbacks=[watch]) as trainer:
        trainer.train(env_steps=64)
    own = [update for update in watch.updates if update.member == 0]
    assert ["kl" in update.metrics for update in own] == [True, *[False] * 5] * 2  # 32 rows, in 3 minibatches per epoch
    assert all("value_loss" in update.metrics for update in own)
    one = single.extract(0) if together else single
    assert_same_movement(weights_of(one), weights_of(whole), weights_of(spec.build(0)))


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.slow
def test_population_members_equal_agents_trained_alone(jit_compile):
    spec = AgentSpec.of("trpo", "CartPole-v1", {**SMALL, "jit_compile": jit_compile})
    members = [
        {"seed": 0, "target_kl": 0.05, "cg_damping": 0.5},
        {"seed": 1, "gamma": 0.9, "line_search_shrinking_factor": 0.5},
        {"seed": 1, "learning_rate": 1e-2, "ent_coef": 0.1, "gae_lambda": 0.5},
    ]
    population = Population(spec, members)
    with Trainer(population) as together:
        together.train(env_steps=160)
    for position, member in enumerate(members):
        params = {name: value for name, value in member.items() if name != "seed"}
        alone = spec.with_params(params).build(member["seed"])
        began = weights_of(alone)
        with Trainer(alone) as trainer:
            trainer.train(env_steps=160)
        assert together.runs[position].history.returns == trainer.history.returns
        assert_same_movement(weights_of(population.extract(position)), weights_of(alone), began, NOISE)


@pytest.mark.slow
def test_rounding_threshold_detects_wrong_discount():
    moved = []
    for gamma in (0.5, 0.5001):
        agent = AgentSpec.of("trpo", "CartPole-v1", {**SMALL, "gamma": gamma}).build(0)
        began = weights_of(agent)
        with Trainer(agent) as trainer:
            trainer.train(env_steps=160)
        moved.append(weights_of(agent))
    assert difference(moved[1], moved[0], began) > 2 * NOISE


@pytest.mark.slow
def test_update_on_image_observations_is_finite():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    agent = TRPO(space, TWO, TRPOConfig(hidden_sizes=(8,), batch_size=2, jit_compile=False))
    images = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 1)).astype(np.uint8)
    rows = {**ROWS, "observations": images}
    update = agent.update(Batches(rows, ALL))
    assert update.finite
    assert only(update.metrics["line_search_success"]) == 1.0


@pytest.mark.slow
def test_dropout_is_fixed_during_policy_step():
    class Dropped(TRPO):
        def build(self):
            made = dict(super().build())
            made["actor"] = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
            return made

    agent = Dropped(PLANE, TWO, TRPOConfig.from_dict(PLAIN))
    rows = {**ROWS, "observations": np.ones((2, 2), np.float32)}
    rows["log_probs"] = agent.distribution.log_prob_numpy(
        agent.networks["actor"](rows["observations"]).numpy(), rows["actions"]
    )
    update = agent.update(Batches(rows, ALL))
    assert 0.001 < only(update.metrics["kl"]) <= 0.01


# --- validation errors


def test_strategy_is_refused_for_trpo():
    with pytest.raises(ConfigurationError, match="begins with a step that needs all of its rows together: leave the"):
        DistributedSteps(trpo().learnable(), None)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"target_kl": 0.0}, r"target_kl must be > 0, got 0\.0"),
        ({"cg_max_steps": 0}, "cg_max_steps must be >= 1, got 0"),
        ({"cg_damping": -0.1}, r"cg_damping must be >= 0, got -0\.1"),
        ({"line_search_shrinking_factor": 1.0}, r"line_search_shrinking_factor must be > 0 and <= 0\.99, got 1\.0"),
        ({"line_search_max_iter": 0}, "line_search_max_iter must be >= 1, got 0"),
        ({"vf_coef": 0.5}, "Unknown hyperparameter 'vf_coef' of trpo"),
        ({"n_steps": 1, "n_envs": 1}, "normalize_advantages needs rollouts of at least two rows"),
    ],
)
def test_invalid_hyperparameters_are_refused(params, message):
    with pytest.raises(ConfigurationError, match=message):
        TRPOConfig.from_dict(params)
