"""Tests of continuous actions of different sizes: dimensions that an agent lacks count in no loss and no target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from agents.algorithms.multi_agent.maddpg import MADDPG, MADDPGConfig
from agents.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from agents.environments.joint_space import JointSpace
from agents.networks.several_agents import AgentDense, LogDeviations

SIZES = (1, 3)
SPACE = JointSpace(["one", "two"], [2, 2], SIZES, discrete=False)
ACTIONS = spaces.Box(-1.0, 1.0, (sum(SIZES),), np.float32)
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False, "share_parameters": False}


def joint(rng: np.random.Generator, n: int) -> Any:
    """Return joint observations [n, W] with random observations and rewards."""
    vectors = np.zeros((n, *SPACE.shape), np.float32)
    view = SPACE.view(vectors)
    view.observations[:], view.alive[:] = rng.standard_normal(view.observations.shape), 1.0
    view.rewards[:] = rng.standard_normal(view.rewards.shape)
    return vectors


def last_bias(network: Any) -> Any:
    """Return the biases [A, D] of the last layer with weights of its own for each agent."""
    return next(layer.bias for layer in reversed(network.layers) if isinstance(layer, AgentDense))


def test_existing_dimensions_of_actions():
    np.testing.assert_array_equal(SPACE.existing, [[1, 0, 0], [1, 1, 1]])


# --- MADDPG


def maddpg_losses(agent: MADDPG) -> tuple[float, float]:
    rng, n = np.random.default_rng(0), 5
    batch = agent.preprocess_batch(
        {
            "observations": joint(rng, n), "next_observations": joint(rng, n),
            "actions": rng.uniform(-1.0, 1.0, (n, sum(SIZES))).astype(np.float32),
            "rewards": np.zeros(n, np.float32), "terminated": np.zeros(n, bool),
        }
    )  # fmt: skip
    return float(agent.critic_loss(batch)["critic"]), float(agent.actor_loss(batch)["actor"])


@pytest.mark.parametrize(("name", "depends"), [("target_actor", 0), ("actor", 1)])
def test_maddpg_losses_do_not_depend_on_padded_outputs(name: str, depends: int):
    agent = MADDPG(SPACE, ACTIONS, MADDPGConfig(**SMALL, policy_regularization=1.0), seed=0)
    bias, before = last_bias(agent.networks[name]), maddpg_losses(agent)
    bias.assign([[0.0, 3.0, -2.0], [0.0, 0.0, 0.0]])
    assert maddpg_losses(agent) == before
    bias.assign([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert maddpg_losses(agent)[depends] != pytest.approx(before[depends], rel=1e-3)


# --- MAPPO


def gaussian_log_probs(parameters: Any, actions: Any) -> Any:
    """Return the log-densities [B, A] of actions [B, A, D] over the dimensions that each agent has."""
    mean, log_std = np.split(np.asarray(parameters, np.float64), 2, axis=2)
    each = -0.5 * ((actions - mean) / np.exp(log_std)) ** 2 - log_std - 0.5 * np.log(2.0 * np.pi)
    return np.stack([each[:, i, :size].sum(axis=1) for i, size in enumerate(SIZES)], axis=1)


def test_mappo_loss_is_that_of_existing_dimensions():
    rng, n, clip = np.random.default_rng(0), 12, 0.2
    settings = {**SMALL, "normalize_values": False, "normalize_advantages": False, "ent_coef": 0.1, "n_envs": 1}
    agent = MAPPO(SPACE, ACTIONS, MAPPOConfig(**settings, clip_range=clip), seed=0)
    observations, actor = joint(rng, n + 1), agent.networks["actor"]
    data = {
        "observations": observations[:-1, None], "next_observations": observations[1:, None],
        "actions": rng.standard_normal((n, 1, sum(SIZES))).astype(np.float32),
        "rewards": rng.standard_normal((n, 1)).astype(np.float32),
        "terminated": np.zeros((n, 1), bool), "truncated": np.zeros((n, 1), bool),
    }  # fmt: skip
    log_std = next(layer.log_std for layer in actor.layers if isinstance(layer, LogDeviations))
    log_std.assign([[-0.3, 2.0, -2.0], [0.1, 0.2, 0.3]])
    agent.refresh()
    before = np.asarray(actor(SPACE.view(observations[:-1]).observations))
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(data).items()}
    for weight in actor.trainable_variables:  # the policy of the update is another one than that of the rollout
        weight.assign_add(0.1 * rng.standard_normal(weight.shape))
    batch = {name: tf.constant(values) for name, values in agent.preprocess_minibatch(batch).items()}
    with tf.GradientTape() as tape:
        losses = agent.loss(batch)
    after = np.asarray(actor(SPACE.view(observations[:-1]).observations))
    actions, advantages = np.asarray(batch["actions"]), np.asarray(batch["advantages"])
    log_ratio = gaussian_log_probs(after, actions) - gaussian_log_probs(before, actions)  # [B, A]
    ratio = np.exp(log_ratio)
    gains = np.minimum(ratio * advantages, np.clip(ratio, 1.0 - clip, 1.0 + clip) * advantages)
    entropies = [
        (after[0, i, 3 : 3 + size] + 0.5 + 0.5 * np.log(2.0 * np.pi)).sum() for i, size in enumerate(SIZES)
    ]  # those of independent normal distributions, equal in all rows
    assert np.abs(log_ratio).min() > 1e-3
    expected = {
        "policy_loss": -gains.mean(),
        "entropy": np.mean(entropies),
        "approx_kl": (ratio - 1.0 - log_ratio).mean(),
        "clip_fraction": (np.abs(ratio - 1.0) > clip).mean(),
    }
    assert {name: float(losses[name]) for name in expected} == pytest.approx(expected, rel=1e-4)
    gradients = tape.gradient(losses["default"], [log_std.value, last_bias(actor).value])
    for gradient in map(np.asarray, gradients):
        np.testing.assert_array_equal(gradient[0, 1:], [0.0, 0.0])
        assert np.abs(gradient[SPACE.existing > 0.0]).min() > 0.0


def test_mappo_acts_with_the_dimensions_of_each_agent():
    agent = MAPPO(SPACE, ACTIONS, MAPPOConfig(**SMALL), seed=0)
    vectors = joint(np.random.default_rng(0), 4)
    assert agent.act(vectors, explore=True).shape == (4, sum(SIZES))
    mean = np.asarray(agent.networks["actor"](SPACE.view(vectors).observations))[..., :3]
    np.testing.assert_allclose(agent.act(vectors), SPACE.join_actions(mean), rtol=1e-5, atol=1e-6)
