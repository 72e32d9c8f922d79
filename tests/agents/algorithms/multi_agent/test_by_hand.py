"""Tests of targets, advantages and joint values for several agents, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from agents import ConfigurationError, seeding
from agents.algorithms.multi_agent.maddpg import MADDPG, MADDPGConfig
from agents.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from agents.algorithms.multi_agent.qmix import QMIX, QMIXConfig
from agents.algorithms.multi_agent.vdn import VDN, VDNConfig
from agents.environments.joint_space import JointSpace
from agents.networks.several_agents import mixer_network

SPACE = JointSpace(["one", "two"], [2, 2], [3, 3], discrete=True)
ACTIONS = spaces.MultiDiscrete([3, 3])
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False}


def joint(rng: np.random.Generator, n: int, *, alive: Any = 1.0, rewards: Any = 0.0, allowed: Any = 1.0) -> Any:
    """Return joint observations [n, W] with random observations and the given other parts."""
    vectors = np.zeros((n, *SPACE.shape), np.float32)
    view = SPACE.view(vectors)
    view.observations[:] = rng.standard_normal(view.observations.shape)
    view.alive[:], view.rewards[:], view.allowed[:] = alive, rewards, allowed
    return vectors


def batch_of(now: Any, then: Any, actions: Any, rewards: Any, terminated: Any) -> dict[str, Any]:
    n = len(now)
    return {
        "observations": now, "next_observations": then, "actions": np.asarray(actions, np.int32),
        "rewards": np.asarray(rewards, np.float32), "terminated": np.asarray(terminated),
        "lengths": np.ones(n, np.int32),
    }  # fmt: skip


# --- joint values


def test_mixing_network_is_monotonic_in_every_agents_value():
    rng = np.random.default_rng(0)
    mixer = mixer_network(4, 6, 16)
    for _ in range(20):
        mixer.set_weights([rng.standard_normal(weight.shape) for weight in mixer.weights])
        values, state = rng.standard_normal((50, 4)) * 3, rng.standard_normal((50, 6))
        before = np.asarray(mixer([values, state]))
        for agent in range(4):
            more = values.copy()
            more[:, agent] += rng.random(50)
            assert np.all(np.asarray(mixer([more, state])) >= before - 1e-5)


def test_mixing_network_against_its_formula():
    rng = np.random.default_rng(0)
    mixer = mixer_network(2, 3, 4)
    mixer.set_weights([rng.standard_normal(weight.shape) for weight in mixer.weights])
    values, state = rng.standard_normal((5, 2)).astype(np.float32), rng.standard_normal((5, 3)).astype(np.float32)
    weights = {each.path.rpartition("/")[0].rpartition("/")[2] + each.path[-4:]: each for each in mixer.weights}
    assert len(weights) == len(mixer.weights) == 10
    nets = mixer.layers[-1]._hypernets

    def dense(name: str, x: Any) -> Any:
        return x @ nets[name].kernel.numpy() + nets[name].bias.numpy()

    for row in range(5):
        seen = state[row] / np.sqrt((1.0 + (state[row] ** 2).sum()) / 4.0)
        first = np.abs(dense("first", seen)).reshape(2, 4)
        hidden = values[row] @ first + dense("bias", seen)
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
        last = hidden @ np.abs(dense("last", seen))
        expected = last + dense("value", np.maximum(dense("hidden", seen), 0.0))
        np.testing.assert_allclose(np.asarray(mixer([values, state]))[row], expected, rtol=1e-5, atol=1e-5)


def test_mixing_network_is_bounded_where_the_state_is_not():
    """Otherwise values of states without bounds diverge: each step away promises more than the step before."""
    rng = np.random.default_rng(0)
    mixer = mixer_network(3, 54, 32)
    mixer.set_weights([rng.standard_normal(weight.shape) for weight in mixer.weights])
    values, state = rng.random((200, 3)), rng.standard_normal((200, 54))
    near, far = (np.abs(np.asarray(mixer([values, scale * state]))).max() for scale in (10.0, 1e4))
    assert far < 1.1 * near


def test_mixing_network_begins_as_a_sum():
    rng = np.random.default_rng(0)
    with seeding.seeded_initializers(0):
        mixer = mixer_network(3, 54, 32)
    values, state = rng.random((200, 3)), rng.standard_normal((200, 54))
    gain = np.asarray(mixer([values, state]) - mixer([0.0 * values, state]))[:, 0]  # without the state's own value
    np.testing.assert_allclose(gain, values.sum(axis=1), rtol=0.6)  # about ten times that with Keras's usual weights


def test_vdn_team_value_is_the_sum_over_present_agents():
    rng = np.random.default_rng(0)
    agent = VDN(SPACE, ACTIONS, VDNConfig(**SMALL, double=False, gamma=0.9), seed=0)
    now, then = joint(rng, 2, alive=[[1, 1], [1, 0]]), joint(rng, 2, alive=[[1, 1], [1, 0]])
    q = np.asarray(agent.networks["q"](SPACE.view(now).observations))
    target = np.asarray(agent.networks["target"](SPACE.view(then).observations))
    agent.live.gamma.assign(0.9)
    losses = agent.loss(batch_of(now, then, [[0, 1], [2, 2]], [1.0, -2.0], [False, True]))
    errors = [
        q[0, 0, 0] + q[0, 1, 1] - (1.0 + 0.9 * (target[0, 0].max() + target[0, 1].max())),
        q[1, 0, 2] - (-2.0),
    ]
    np.testing.assert_allclose(losses["default"], np.mean(np.square(errors)), rtol=1e-5)


def test_double_vdn_chooses_allowed_actions_by_the_online_network():
    rng = np.random.default_rng(1)
    agent = VDN(SPACE, ACTIONS, VDNConfig(**SMALL, gamma=0.9), seed=0)
    agent.networks["target"].set_weights([rng.standard_normal(w.shape) for w in agent.networks["target"].weights])
    now = joint(rng, 1)
    then = joint(rng, 1, allowed=[[1, 0, 1], [0, 0, 1]])
    q_now = np.asarray(agent.networks["q"](SPACE.view(now).observations))[0]
    q_then = np.asarray(agent.networks["q"](SPACE.view(then).observations))[0]
    target = np.asarray(agent.networks["target"](SPACE.view(then).observations))[0]
    first = 0 if q_then[0, 0] > q_then[0, 2] else 2
    expected = q_now[0, 1] + q_now[1, 0] - (0.5 + 0.9 * (target[0, first] + target[1, 2]))
    losses = agent.loss(batch_of(now, then, [[1, 0]], [0.5], [False]))
    np.testing.assert_allclose(losses["default"], expected**2, rtol=1e-4)


# --- MADDPG


def one_hot(numbers: Any) -> Any:
    return np.eye(3, dtype=np.float32)[np.asarray(numbers)]


def test_maddpg_targets_use_the_target_policies_of_all_agents():
    rng = np.random.default_rng(0)
    agent = MADDPG(SPACE, ACTIONS, MADDPGConfig(**SMALL, gamma=0.9), seed=0)
    for name in ("target_actor", "target_critic"):
        network = agent.networks[name]
        network.set_weights([rng.standard_normal(weight.shape) for weight in network.weights])
    now = joint(rng, 3)
    then = joint(rng, 3, rewards=[[1, -1], [2, -2], [0.5, 0]], alive=[[1, 1], [1, 0], [1, 1]])
    data = batch_of(now, then, [[0, 1], [2, 2], [1, 0]], [0.0] * 3, [False, False, True])
    batch = agent.preprocess_batch(data)
    np.testing.assert_array_equal(batch["actions"], one_hot([[0, 1], [2, 2], [1, 0]]))
    logits = np.asarray(agent.networks["target_actor"](SPACE.view(then).observations))
    next_actions = one_hot(np.argmax(logits + batch["next_noise"], axis=2))  # [3, 2, 3] of both target policies

    def values(name: str, vectors: Any, actions: Any) -> Any:
        seen = SPACE.view(vectors).state
        together = np.concatenate([seen, actions.reshape(3, -1)], axis=1)
        return np.asarray(agent.networks[name](np.repeat(together[:, None], 2, axis=1)))[:, :, 0]

    following = values("target_critic", then, next_actions) * [[1, 1], [1, 0], [0, 0]]
    targets = SPACE.view(then).rewards + 0.9 * following
    errors = values("critic", now, batch["actions"]) - targets
    losses = agent.critic_loss(batch)
    np.testing.assert_allclose(losses["critic"], np.mean(np.square(errors).sum(axis=1)), rtol=1e-4)


def test_maddpg_actor_loss_replaces_only_its_own_action():
    import tensorflow as tf

    rng = np.random.default_rng(0)
    config = MADDPGConfig(**SMALL, policy_regularization=0.0)
    agent = MADDPG(SPACE, ACTIONS, config, seed=0)
    now = joint(rng, 4)
    data = batch_of(now, joint(rng, 4), [[0, 1], [2, 2], [1, 0], [0, 0]], [0.0] * 4, [False] * 4)
    batch = agent.preprocess_batch(data)
    logits = np.asarray(agent.networks["actor"](SPACE.view(now).observations))
    own = one_hot(np.argmax(logits + batch["noise"], axis=2))
    expected = 0.0
    for i in range(2):
        actions = batch["actions"].copy()
        actions[:, i] = own[:, i]
        together = np.concatenate([SPACE.view(now).state, actions.reshape(4, -1)], axis=1)
        expected -= np.asarray(agent.networks["critic"](np.repeat(together[:, None], 2, axis=1)))[:, i, 0].mean()
    with tf.GradientTape() as tape:
        loss = agent.actor_loss(batch)["actor"]
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    gradients = tape.gradient(loss, [each.value for each in agent.networks["actor"].trainable_variables])
    assert all(np.abs(gradient.numpy()).max() > 0.0 for gradient in gradients)


# --- MAPPO


def mappo(**changes: Any) -> MAPPO:
    settings = {**SMALL, "normalize_values": False, "gamma": 0.5, "gae_lambda": 0.5, "n_envs": 1, **changes}
    return MAPPO(SPACE, ACTIONS, MAPPOConfig(**settings), seed=0)


def rollout(alive: Any, own_rewards: Any, terminated: Any) -> dict[str, Any]:
    """Return a rollout of one environment; `alive` has one entry more, for the state after the last step."""
    rng = np.random.default_rng(0)
    n_steps = len(own_rewards)
    observations = joint(rng, n_steps + 1, alive=alive)
    SPACE.view(observations).rewards[1:] = own_rewards
    return {
        "observations": observations[:-1, None], "next_observations": observations[1:, None],
        "actions": np.zeros((n_steps, 1, 2), np.int64), "terminated": np.array(terminated)[:, None],
        "rewards": np.asarray(own_rewards, np.float32).sum(axis=1)[:, None],
        "truncated": np.zeros((n_steps, 1), bool),
    }  # fmt: skip


def advantages_by_hand(values: Any, following: Any, rewards: Any, ends: Any) -> list[float]:
    """Return generalised advantages of one agent with gamma = lambda = 0.5."""
    result, later = [], 0.0
    for value, after, reward, end in reversed(list(zip(values, following, rewards, ends, strict=True))):
        later = reward + (0.0 if end else 0.5 * after) - value + (0.0 if end else 0.25 * later)
        result.append(later)
    return result[::-1]


def values_of(agent: MAPPO, vectors: Any) -> Any:
    view = SPACE.view(vectors)
    state = view.state[:, None] * view.alive[..., None]
    return np.asarray(agent.networks["critic"](state))[:, :, 0]


def test_advantage_with_own_rewards_ends_when_the_agent_leaves():
    agent = mappo(team_reward=False)
    alive = [[1, 1], [1, 1], [0, 1], [0, 0]]  # the first agent dies in the second step, the second in the third
    data = rollout(alive, [[1, 2], [3, 4], [0, 6]], [False, False, True])
    result = agent.preprocess_batch(data)
    now, then = values_of(agent, data["observations"][:, 0]), values_of(agent, data["next_observations"][:, 0])
    first = advantages_by_hand(now[:2, 0], then[:2, 0], [1, 3], [False, True])
    second = advantages_by_hand(now[:, 1], then[:, 1], [2, 4, 6], [False, False, True])
    np.testing.assert_allclose(result["advantages"][:2, 0, 0], first, rtol=1e-5)
    np.testing.assert_allclose(result["advantages"][:, 0, 1], second, rtol=1e-5)
    np.testing.assert_array_equal(result["alive"][:, 0], alive[:3])
    # The return of the agent that left is 0, which a sum of its value and advantage may miss by rounding.
    np.testing.assert_allclose(result["returns"] - now[:, None], result["advantages"], rtol=1e-5)


def test_advantage_with_the_team_reward_continues_after_an_agent_leaves():
    agent = mappo()
    data = rollout([[1, 1], [0, 1], [0, 0]], [[1, 2], [0, 5]], [False, True])
    result = agent.preprocess_batch(data)
    now, then = values_of(agent, data["observations"][:, 0]), values_of(agent, data["next_observations"][:, 0])
    expected = advantages_by_hand(now[:, 0], then[:, 0], [3, 5], [False, True])
    np.testing.assert_allclose(result["advantages"][:, 0, 0], expected, rtol=1e-5)


def test_agents_that_left_count_in_no_loss():
    agent = mappo(normalize_advantages=False, ent_coef=0.1)
    data = rollout([[1, 1], [0, 1], [0, 1], [0, 0]], [[1, 2], [0, 4], [0, 6]], [False, False, True])
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(data).items()}
    changed = {name: values.copy() for name, values in batch.items()}
    for name in ("observations", "central", "advantages", "returns", "log_probs"):
        changed[name][1:, 0] += 7.0
    losses, same = (agent.loss(agent.preprocess_minibatch(each)) for each in (batch, changed))
    assert {name: float(value) for name, value in losses.items()} == pytest.approx(
        {name: float(value) for name, value in same.items()}, rel=1e-5
    )


def test_loss_of_a_minibatch_is_the_mean_of_its_parts_though_agents_left_in_one():
    """Replicas of a strategy compute parts, weighted by their rows."""
    agent = mappo(ent_coef=0.1)
    alive = [[1, 1], [1, 1], [1, 1], [0, 1], [0, 1], [0, 1], [0, 0]]
    data = rollout(alive, [[1, 2], [3, 4], [5, 1], [0, 2], [0, 6], [0, 3]], [False] * 5 + [True])
    columns = {name: values[:, 0] for name, values in agent.preprocess_batch(data).items()}
    columns["log_probs"] = columns["log_probs"] + np.random.default_rng(1).normal(0.0, 0.3, (6, 2)).astype(np.float32)
    batch = {name: np.asarray(values) for name, values in agent.preprocess_minibatch(columns).items()}
    whole = agent.loss(batch)
    parts = [agent.loss({name: values[rows] for name, values in batch.items()}) for rows in np.split(np.arange(6), [4])]
    for name, value in whole.items():
        assert float(value) == pytest.approx(4 / 6 * float(parts[0][name]) + 2 / 6 * float(parts[1][name]), rel=1e-5)
    values = values_of(agent, data["observations"][:, 0])[np.asarray(alive[:6]) > 0]
    assert float(whole["value_mean"]) == pytest.approx(values.mean(), rel=1e-5)


def test_normalized_values_are_returned_in_the_scale_of_rewards():
    agent = mappo(normalize_values=True)
    data = rollout([[1, 1]] * 4, [[10, 20], [30, 40], [50, 60]], [False, False, True])
    first = agent.preprocess_batch(data)
    known = agent.value_normalizer
    assert known is not None
    assert known.count == 6
    np.testing.assert_allclose(np.mean(first["returns"]), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.std(first["returns"]), 1.0, rtol=1e-3)
    raw = values_of(agent, data["observations"][:, 0])
    values, _ = agent._values(SPACE.view(data["observations"][:, 0]), np.zeros((3, 2, 0), np.float32))
    np.testing.assert_allclose(values, raw * np.sqrt(known.variance + 1e-8) + known.mean, rtol=1e-5)


# --- masks


@pytest.mark.parametrize(
    ("agent_class", "config"),
    [
        (VDN, VDNConfig(**SMALL)),
        (QMIX, QMIXConfig(**SMALL)),
        (MADDPG, MADDPGConfig(**SMALL)),
        (MAPPO, MAPPOConfig(**SMALL)),
    ],
)
@pytest.mark.parametrize("explore", [False, True])
def test_forbidden_actions_are_never_chosen(agent_class: Any, config: Any, explore: bool):
    agent = agent_class(SPACE, ACTIONS, config, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        allowed = rng.random((20, 2, 3)) < 0.5
        allowed[..., 1] |= ~allowed.any(axis=2)
        actions = agent.act(joint(rng, 20, allowed=allowed), explore)
        assert actions.shape == (20, 2)
        assert np.take_along_axis(allowed, actions[..., None], axis=2).all()


def test_competing_agents_are_refused_by_joint_values():
    rng = np.random.default_rng(0)
    agent = VDN(SPACE, ACTIONS, VDNConfig(**SMALL), seed=0)
    gains = rng.standard_normal(100)
    then = joint(rng, 100, rewards=np.stack([gains, -gains], axis=1))
    data = batch_of(then, then, np.zeros((100, 2)), np.zeros(100), np.zeros(100, bool))
    with pytest.raises(ConfigurationError, match=r"'one' and 'two' in .* oppose each other \(correlation -1.00\)"):
        agent.preprocess_batch(data)
    SPACE.view(then).rewards[:] = np.stack([gains, gains + rng.standard_normal(100)], axis=1)
    assert agent.preprocess_batch(data) is data
