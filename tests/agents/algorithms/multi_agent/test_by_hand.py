"""Tests of targets and joint values for several agents, against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from keras import ops

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


def test_qmix_loss_mixes_the_values_of_present_agents_by_the_state():
    rng = np.random.default_rng(2)
    agent = QMIX(SPACE, ACTIONS, QMIXConfig(**SMALL, double=False, gamma=0.9, mixing_units=4), seed=0)
    for network in agent.networks.values():
        network.set_weights([rng.standard_normal(weight.shape) for weight in network.weights])
    alive = [[1, 1], [1, 0]]  # the second agent is absent in the second row, which is the last of its episode
    now, then = joint(rng, 2, alive=alive), joint(rng, 2, alive=[[1, 0], [1, 1]])
    q = np.asarray(agent.networks["q"](SPACE.view(now).observations))
    target = np.asarray(agent.networks["target"](SPACE.view(then).observations))
    chosen = np.array([[q[0, 0, 0], q[0, 1, 1]], [q[1, 0, 2], 0.0]])
    best = np.array([[target[0, 0].max(), 0.0], [target[1, 0].max(), target[1, 1].max()]])

    def mixed(name: str, values: Any, vectors: Any) -> Any:
        return np.asarray(agent.networks[name]([values, SPACE.view(vectors).state]))[:, 0]

    def losses() -> list[float]:
        columns = batch_of(now, then, [[0, 1], [2, 2]], [1.0, -2.0], [False, True])
        data = {name: ops.convert_to_tensor(column) for name, column in columns.items()}
        rows = [{name: column[i : i + 1] for name, column in data.items()} for i in range(2)]
        both, *each = [float(agent.loss(batch)["default"]) for batch in (data, *rows)]
        assert both == pytest.approx(np.mean(each), rel=1e-5)
        return each

    def expected() -> Any:
        following = 0.9 * np.array([1.0, 0.0]) * mixed("target_mixer", best, then)
        return np.square(mixed("mixer", chosen, now) - np.array([1.0, -2.0]) - following)

    first = losses()
    np.testing.assert_allclose(first, expected(), rtol=1e-4)
    mixer = agent.networks["target_mixer"]
    mixer.set_weights([weight + rng.standard_normal(weight.shape) for weight in mixer.get_weights()])
    second = losses()
    np.testing.assert_allclose(second, expected(), rtol=1e-4)
    assert second[0] != pytest.approx(first[0], rel=0.01)
    assert second[1] == first[1]


def test_loss_of_vdn_sequences_equals_steps_by_hand():
    """With a burn-in of one step, memories of two units and an episode that begins within each sequence."""
    rng, n, length = np.random.default_rng(4), 2, 4
    config = VDNConfig(**SMALL, gru_units=2, sequence_length=3, burn_in=1, gamma=0.9)
    agent = VDN(SPACE, ACTIONS, config, seed=0)
    target = agent.networks["target"]
    target.set_weights([rng.standard_normal(weight.shape) for weight in target.weights])
    alive = np.array([1.0, 1.0] * 6 + [1.0, 0.0] * 2).reshape(-1, 2)  # one agent absent in the last two steps
    now, then = joint(rng, n * length, alive=alive), joint(rng, n * length)
    memory = rng.standard_normal((n, length, 2 * 2)).astype(np.float32)
    begins = np.array([[False, False, True, False], [False, True, False, False]])
    terminated = np.array([[False, True, False, False], [True, False, False, True]])
    rewards, actions = rng.standard_normal((n, length)).astype(np.float32), rng.integers(0, 3, (n, length, 2))
    data = {
        "observations": np.concatenate([now.reshape(n, length, -1), memory], axis=2),
        "next_observations": np.concatenate([then.reshape(n, length, -1), memory], axis=2),
        "rewards": rewards, "terminated": terminated, "begins": begins, "actions": actions.astype(np.int32),
    }  # fmt: skip
    batch = agent.preprocess_batch(data)
    seen, following = (SPACE.view(each).observations.reshape(n, length, 2, 2) for each in (now, then))
    present, values, errors = alive.reshape(n, length, 2), [], []
    for row in range(n):
        memories = dict.fromkeys(("q", "target"), memory[row, 0].reshape(2, 2))
        for t in range(length):
            outputs, after = {}, {}
            for name in ("q", "target"):
                own = np.where(begins[row, t], 0.0, memories[name])
                step = np.asarray(agent.networks[name](np.concatenate([seen[row, t], own], axis=1)[None]))[0]
                outputs[name], memories[name] = step[:, :3], step[:, 3:]
                rows = np.concatenate([following[row, t], memories[name]], axis=1)
                after[name] = np.asarray(agent.networks[name](rows[None]))[0, :, :3]
            if t < 1:
                continue  # the burn-in
            best = sum(after["target"][i, np.argmax(after["q"][i])] for i in range(2))
            values.append(sum(present[row, t, i] * outputs["q"][i, actions[row, t, i]] for i in range(2)))
            errors.append(values[-1] - rewards[row, t] - 0.9 * (1.0 - terminated[row, t]) * best)
    losses = agent.loss(batch)
    assert len(errors) == 2 * 3
    np.testing.assert_allclose(losses["default"], np.mean(np.square(errors)), rtol=1e-4)
    np.testing.assert_allclose(losses["td_error"], np.mean(np.abs(errors)), rtol=1e-4)
    np.testing.assert_allclose(losses["q_mean"], np.mean(values), rtol=1e-4, atol=1e-6)


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


def with_outputs(agent: MADDPG, outputs: Any) -> MADDPG:
    """Let the actors of both agents have the same outputs everywhere."""
    kernel, bias = agent.networks["actor"].trainable_variables[-2:]
    kernel.assign(np.zeros(kernel.shape))
    bias.assign(np.broadcast_to(np.array(outputs, np.float32), bias.shape))
    return agent


@pytest.mark.parametrize(("allowed", "expected"), [([1, 1, 1], 0.3 * 5 / 3 * 2), ([1, 1, 0], 0.3 * 4 / 3 * 2)])
def test_maddpg_regularizes_the_squares_of_allowed_outputs(allowed: Any, expected: float):
    # Mean squares of the outputs are (4 + 0 + 1) / 3, and (4 + 0) / 3 without the last action; there are two agents.
    rng = np.random.default_rng(0)
    agent = with_outputs(MADDPG(SPACE, ACTIONS, MADDPGConfig(**SMALL), seed=0), [2.0, 0.0, -1.0])
    now = joint(rng, 4, allowed=allowed)
    batch = agent.preprocess_batch(batch_of(now, now, np.zeros((4, 2), int), [0.0] * 4, [False] * 4))
    losses = []
    for weight in (0.0, 0.3):
        agent.set_hyperparameter("policy_regularization", weight)
        losses.append(float(agent.actor_loss(batch)["actor"]))
    assert losses[1] - losses[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("temperature", "expected"), [(2.0, [-1 / 9, 1 / 18, 1 / 18]), (1.0, [-2 / 9, 1 / 9, 1 / 9])])
def test_gradient_through_maddpg_actions_is_that_of_a_softmax_at_its_temperature(temperature: float, expected: Any):
    # Three equal probabilities p: the gradient of -p0 is -p0 (1 - p0) / t for the first output, p0 p / t for others.
    import tensorflow as tf

    agent = MADDPG(SPACE, ACTIONS, MADDPGConfig(**SMALL), seed=0)
    agent.set_hyperparameter("temperature", temperature)
    view = SPACE.view(joint(np.random.default_rng(0), 1))
    outputs = tf.Variable(np.zeros((1, 2, 3), np.float32))
    with tf.GradientTape() as tape:
        actions = agent._relaxed(outputs, view, {"noise": np.zeros((1, 2, 3), np.float32)}, "noise")
        objective = -tf.reduce_sum(actions[:, :, 0])
    np.testing.assert_allclose(actions, one_hot([[0, 0]]), atol=1e-6)
    np.testing.assert_allclose(tape.gradient(objective, outputs), [[expected, expected]], rtol=1e-5)


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
    agent.start()
    SPACE.view(then).rewards[:] = np.stack([gains, gains + rng.standard_normal(100)], axis=1)
    assert agent.preprocess_batch(data) is data


def opposed(rng: np.random.Generator, n: int, alive: Any) -> dict[str, Any]:
    """Return a batch of agents whose rewards are opposed."""
    gains = rng.standard_normal(n)
    then = joint(rng, n, rewards=np.stack([gains, -gains], axis=1), alive=alive)
    return batch_of(joint(rng, n, alive=alive), then, np.zeros((n, 2)), gains, np.zeros(n, bool))


def test_agents_are_competitors_only_where_both_are_there():
    """Rewards of opponents (`Opponents`) are in the joint observations of a team that does not compete."""
    rng, alternating = np.random.default_rng(0), np.tile([[1, 0], [0, 1]], (50, 1))
    agent = VDN(SPACE, ACTIONS, VDNConfig(**SMALL), seed=0)
    agent.preprocess_batch(opposed(rng, 100, alternating))
    agent.preprocess_batch(opposed(rng, 63, 1.0))  # a row too few
    with pytest.raises(ConfigurationError, match=r"oppose each other \(correlation -1.00\)"):
        agent.preprocess_batch(opposed(rng, 1, 1.0))


def test_constant_rewards_oppose_none():
    rng = np.random.default_rng(0)
    agent = VDN(SPACE, ACTIONS, VDNConfig(**SMALL), seed=0)
    then = joint(rng, 100, rewards=[0.1, -0.3])
    agent.preprocess_batch(batch_of(then, then, np.zeros((100, 2)), np.zeros(100), np.zeros(100, bool)))


def test_resumed_training_judges_rewards_as_an_uninterrupted_one():
    """Otherwise rewards of a trained policy, which may oppose each other, would be judged anew."""
    rng, n = np.random.default_rng(0), 4096
    agent, resumed = (VDN(SPACE, ACTIONS, VDNConfig(**SMALL), seed=0) for _ in range(2))
    equal = np.repeat(rng.standard_normal((n, 1)), 2, axis=1)
    then = joint(rng, n, rewards=equal)
    agent.preprocess_batch(batch_of(then, then, np.zeros((n, 2)), np.zeros(n), np.zeros(n, bool)))
    resumed.set_state(agent.get_state())
    for each in (agent, resumed):
        each.preprocess_batch(opposed(np.random.default_rng(1), 100, 1.0))
