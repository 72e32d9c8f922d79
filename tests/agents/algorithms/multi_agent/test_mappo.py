"""Tests of MAPPO's advantages, losses and statistics where agents leave, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from agents.algorithms.multi_agent.joint_normalizer import JointNormalizer
from agents.algorithms.multi_agent.mappo import MAPPO, MAPPOConfig
from agents.environments.joint_space import JointSpace

SPACE = JointSpace(["one", "two"], [2, 2], [3, 3], discrete=True)
ACTIONS = spaces.MultiDiscrete([3, 3])
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False}


def joint(rng: np.random.Generator, n: int, alive: Any) -> Any:
    """Return joint observations [n, W] with random observations of the agents that are there."""
    vectors = np.zeros((n, *SPACE.shape), np.float32)
    view = SPACE.view(vectors)
    view.alive[:], view.allowed[:] = alive, 1.0
    view.observations[:] = rng.standard_normal(view.observations.shape) * view.alive[..., None]
    return vectors


def mappo(**changes: Any) -> MAPPO:
    settings = {**SMALL, "normalize_values": False, "gamma": 0.5, "gae_lambda": 0.5, "n_envs": 1, **changes}
    return MAPPO(SPACE, ACTIONS, MAPPOConfig(**settings), seed=0)


def rollout(alive: Any, own_rewards: Any, terminated: Any) -> dict[str, Any]:
    """Return a rollout of one environment; `alive` has one entry more, for the state after the last step."""
    rng = np.random.default_rng(0)
    n_steps = len(own_rewards)
    observations = joint(rng, n_steps + 1, alive)
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


def losses_of(agent: MAPPO, batch: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in agent.loss(agent.preprocess_minibatch(batch)).items()}


LEAVING = [[1, 1], [0, 1], [0, 1], [0, 0]], [[1, 2], [0, 4], [0, 6]], [False, False, True]
"""A rollout of three steps, of which the first agent is there in the first one only."""


@pytest.mark.parametrize("team_reward", [True, False])
def test_actions_of_agents_that_left_count_in_no_loss(team_reward: bool):
    agent = mappo(team_reward=team_reward, ent_coef=0.1)
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(rollout(*LEAVING)).items()}
    changed = {name: values.copy() for name, values in batch.items()}
    for name in ("observations", "advantages", "log_probs"):
        changed[name][1:, 0] += 7.0
    if not team_reward:
        for name in ("central", "returns"):
            changed[name][1:, 0] += 7.0
    assert losses_of(agent, batch) == pytest.approx(losses_of(agent, changed), rel=1e-5)


def with_values(agent: MAPPO, value: float) -> MAPPO:
    """Let the critic predict the same value everywhere."""
    kernel, bias = agent.networks["critic"].trainable_variables[-2:]
    kernel.assign(np.zeros(kernel.shape))
    bias.assign(np.full(bias.shape, value))
    agent.refresh()
    return agent


def test_values_of_agents_that_left_are_learned_with_the_reward_of_the_team():
    """They enter the advantages of the agents' last steps."""
    agent = with_values(mappo(gae_lambda=1.0), 1.0)
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(rollout(*LEAVING)).items()}
    returns = [3 + 0.5 * 4 + 0.25 * 6, 4 + 0.5 * 6, 6]  # 6.5, 7 and 6, for both agents
    np.testing.assert_allclose(batch["returns"], np.transpose([returns, returns]), rtol=1e-6)
    expected = (5.5**2 + 6.0**2 + 5.0**2) / 3
    assert losses_of(agent, batch)["value_loss"] == pytest.approx(expected, rel=1e-5)


def test_values_of_agents_that_left_are_not_learned_with_rewards_of_their_own():
    agent = with_values(mappo(team_reward=False, gae_lambda=1.0), 1.0)
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(rollout(*LEAVING)).items()}
    second = [2 + 0.5 * 4 + 0.25 * 6, 4 + 0.5 * 6, 6]  # 5.5, 7 and 6
    np.testing.assert_allclose(batch["returns"][:, 1], second, rtol=1e-6)
    assert batch["returns"][0, 0] == pytest.approx(1.0)
    expected = (0.0**2 + 4.5**2 + 6.0**2 + 5.0**2) / 4
    assert losses_of(agent, batch)["value_loss"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("team_reward", "returns"), [(True, [6.5, 6.5, 7.0, 7.0, 6.0, 6.0]), (False, [1.0, 5.5, 7.0, 6.0])]
)
def test_statistics_of_values_are_those_of_learned_returns(team_reward: bool, returns: list[float]):
    agent = mappo(team_reward=team_reward, normalize_values=True, gae_lambda=1.0)
    agent.preprocess_batch(rollout(*LEAVING))
    known = agent.value_normalizer
    assert known is not None
    assert known.count == len(returns)
    assert [float(known.mean), float(known.variance)] == pytest.approx([np.mean(returns), np.var(returns)], rel=1e-5)


def test_rollout_in_which_no_agent_is_there_changes_no_statistics():
    """All agents of the learner's side may have left while those of an opponent play on."""
    params = {"normalize_values": True, "normalize_observations": True, "normalize_rewards": True}
    agent = mappo(team_reward=False, **params)
    data = rollout([[0, 0]] * 3, [[0, 0]] * 2, [False, False])
    batch = {name: values[:, 0] for name, values in agent.preprocess_batch(data).items()}
    assert all(np.isfinite(values).all() for values in batch.values())
    assert all(np.isfinite(value) for value in losses_of(agent, batch).values())
    assert agent.value_normalizer is not None
    assert agent.value_normalizer.count == 0
    agent.preprocess_batch(rollout(*LEAVING))
    assert agent.value_normalizer.count == 4
    assert np.isfinite(agent.value_normalizer.mean)


def test_mappo_loss_is_the_mean_over_agents_that_are_there():
    params = {"clip_range": 0.2, "vf_coef": 0.5, "ent_coef": 0.1, "normalize_advantages": True}
    agent = with_values(mappo(team_reward=False, **params), 1.0)
    kernel, bias = agent.networks["actor"].trainable_variables[-2:]
    kernel.assign(np.zeros(kernel.shape))  # with a bias of zeros: uniform policies
    bias.assign(np.zeros(bias.shape))
    agent.refresh()
    prepared = agent.preprocess_batch(rollout([[1, 1], [1, 0], [0, 0]], [[0, 0], [0, 0]], [False, True]))
    batch = {name: values[:, 0] for name, values in prepared.items()}
    batch["returns"] = np.array([[1, 3], [2, 99]], np.float32)
    batch["advantages"] = np.array([[8, 2], [8, 99]], np.float32)  # of mean 6 and variance (4 + 16 + 4) / 3
    normal = np.asarray(agent.preprocess_minibatch(batch)["advantages"])
    np.testing.assert_allclose(normal[[0, 0, 1], [0, 1, 0]], np.array([2, -4, 2]) / np.sqrt(8), rtol=1e-5)
    batch["log_probs"] = batch["log_probs"] - np.log(2.0).astype(np.float32)  # all ratios are 2
    loss = losses_of(agent, batch)
    policy = -(1.2 * 2 - 2 * 4 + 1.2 * 2) / np.sqrt(8) / 3  # improvements alone are clipped
    assert loss["policy_loss"] == pytest.approx(policy, rel=1e-5)
    assert loss["value_loss"] == pytest.approx((0 + 4 + 1) / 3, rel=1e-5)
    assert loss["entropy"] == pytest.approx(np.log(3), rel=1e-5)
    assert loss["default"] == pytest.approx(policy + 0.5 * 5 / 3 - 0.1 * np.log(3), rel=1e-5)
    assert loss["approx_kl"] == pytest.approx(2 - 1 - np.log(2), rel=1e-5)
    assert loss["clip_fraction"] == pytest.approx(1.0)


# --- normalised observations and rewards


def test_observations_of_agents_that_left_stay_zero_and_shift_no_statistics():
    agent = mappo(normalize_observations=True)
    data = rollout(*LEAVING)
    seen = SPACE.view(data["observations"][:, 0]).observations
    seen[:, 0], seen[:, 1] = [[2, 8], [0, 0], [0, 0]], [[1, 0], [2, 0], [6, 0]]
    result = agent.preprocess_batch(data)["observations"][:, 0]
    known = agent.normalizer
    assert known is not None
    np.testing.assert_array_equal(known.count[:2], [1, 3])
    np.testing.assert_allclose(known.mean, [2, 8, 3, 0])
    np.testing.assert_allclose(known.variance, [0, 0, (4 + 1 + 9) / 3, 0])
    np.testing.assert_array_equal(result[:, 0], np.zeros((3, 2)))  # of one row, and of an agent that has left
    np.testing.assert_allclose(result[:, 1, 0], np.array([-2, -1, 3]) / np.sqrt(14 / 3), rtol=1e-5)
    later = agent._normalized(data["observations"][:, 0])
    np.testing.assert_array_equal(SPACE.view(later).alive, SPACE.view(data["observations"][:, 0]).alive)
    np.testing.assert_array_equal(SPACE.view(later).observations[1:, 0], np.zeros((2, 2)))


def test_state_of_normalized_observations_can_be_restored_also_from_earlier_versions():
    one, other = mappo(normalize_observations=True), mappo(normalize_observations=True)
    one.preprocess_batch(rollout(*LEAVING))
    other.set_extra_state(one.extra_state())
    for each in (one, other):
        each.preprocess_batch(rollout(*LEAVING))
    for ours, theirs in zip(one.normalizer.arrays(), other.normalizer.arrays(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    earlier = {"mean": np.arange(4.0), "variance": np.ones(4), "count": 5.0}
    other.normalizer.set_state(earlier)
    np.testing.assert_array_equal(other.normalizer.get_state()["count"], [5, 5, 5])
    other.set_acting_state(one.acting_state())
    for ours, theirs in zip(one.normalizer.arrays(), other.normalizer.arrays(), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)


def test_global_state_is_normalized_by_all_rows_and_opponents_by_those_with_observations():
    space = JointSpace(["one", "two"], [1, 1], [2, 2], discrete=True, state_size=1)
    known = JointNormalizer(space)
    vectors = np.zeros((2, *space.shape), np.float32)
    view = space.view(vectors)
    view.state[:], view.alive[:], view.observations[:, 1] = [[1.0], [3.0]], [[0, 1], [0, 0]], [[5.0], [9.0]]
    known.update(vectors)
    np.testing.assert_array_equal(known.count, [0, 2, 2])
    np.testing.assert_array_equal(known.mean, [0, 7, 2])
    np.testing.assert_allclose(space.view(known(vectors)).state, [[-1.0], [1.0]])
    np.testing.assert_allclose(space.view(known(vectors)).observations[..., 0], [[0.0, -1.0], [0.0, 1.0]])


def test_sums_of_rewards_end_when_an_agent_leaves():
    agent = mappo(team_reward=False, normalize_rewards=True)
    agent.preprocess_batch(rollout(*LEAVING))
    assert agent.scaler is not None
    known = agent.scaler.get_state()
    sums = [1.0, 2.0, 4 + 0.5 * 2, 6 + 0.5 * 5]  # 1 of the first agent; 2, 5 and 8.5 of the second one
    assert known["count"] == 4
    assert [float(known["mean"]), float(known["variance"])] == pytest.approx([np.mean(sums), np.var(sums)])


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
