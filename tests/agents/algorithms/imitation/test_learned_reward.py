"""Tests of rewards that are learned: losses and rewards by hand, populations, resuming, refused configs, learning."""

from __future__ import annotations

import abc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

pytest.importorskip("minari")

from parity import assert_resumed_run_equals_uninterrupted_run, members_and_agents_alone

import agents
from agents import AgentSpec, ConfigurationError, Trainer
from agents.algorithms.imitation.composed import with_prefixes
from agents.algorithms.imitation.features import ObservationScale
from agents.contract.pickling import pickled, unpickled
from agents.networks.distributions import SquashedGaussian

ON_POLICY = {"n_envs": 2, "n_steps": 10, "batch_size": 10, "n_epochs": 2}
OFF_POLICY = {"learning_starts": 20, "batch_size": 8}
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "reward_hidden_sizes": (4,), "jit_compile": False}


def small(name: str, environment: str = "CartPole-v1", **params: Any) -> dict[str, Any]:
    """Return the hyperparameters of a small agent that learns from the demonstrations of its environment."""
    expert = "balance" if environment == "CartPole-v1" else "swing"
    own = OFF_POLICY if name.endswith(("dqn", "rainbow", "sac", "td3")) else ON_POLICY
    own = {"n_envs": 2} if name.endswith("a2c") else own
    return {**SMALL, **own, "expert": expert, **params}


def make(name: str, environment: str = "CartPole-v1", **params: Any) -> Any:
    return agents.make(name, environment, **small(name, environment, **params))


@pytest.mark.parametrize(("name", "network"), [("gail-ppo", "reward"), ("airl-ppo", "shaping")])
def test_settings_of_reward_networks_are_refused(name: str, network: str):
    with pytest.raises(ConfigurationError, match=f"Unknown network with settings '{network}'. .*Known: actor, critic"):
        make(name, networks={network: {"hidden_sizes": [8]}})


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0.0)


def batch_of(agent: Any, rng: np.random.Generator, n: int = 6) -> dict[str, Any]:
    """Draw a minibatch as the reward networks see it; each third step ends an episode."""
    width = agent.absorbing_inputs.shape[1]
    ends = np.arange(n) % 3 == 2
    batch = {f"{who}_inputs": rng.normal(size=(n, width)) for who in ("agent", "expert")}
    batch |= {"agent_ends": ends, "expert_ends": ends[::-1], "reward_mix": rng.random(n)}
    if hasattr(agent, "log_probabilities"):
        batch |= {f"{who}_log_probs": rng.normal(size=n) for who in ("agent", "expert")}
    return {name: np.asarray(values, np.float32) for name, values in batch.items()}


def tensors(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: tf.constant(values) for name, values in batch.items()}


# --- by hand


def test_discriminator_loss_by_hand():
    agent = make("gail-ppo", gamma=0.8, gradient_penalty=None)
    batch = batch_of(agent, np.random.default_rng(0))
    del batch["agent_log_probs"], batch["expert_log_probs"]  # only AIRL has them
    network = agent.networks["reward"]
    ours, theirs = (np.asarray(network(batch[f"{who}_inputs"]))[:, 0] for who in ("agent", "expert"))
    absorbing = float(network(agent.absorbing_inputs)[0, 0])
    # Two of six steps end an episode, and 1 / (1 - 0.8) = 5 absorbing steps follow each of them.
    expected = (softplus(ours).sum() + 2 * 5 * softplus(absorbing)) / (6 + 10)
    expected += (softplus(-theirs).sum() + 2 * 5 * softplus(-absorbing)) / (6 + 10)
    losses = agent.reward_loss(tensors(batch))
    assert float(losses["reward"]) == pytest.approx(expected, rel=1e-5)
    assert float(losses["reward_accuracy_agent"]) == pytest.approx((ours < 0).mean())
    assert float(losses["reward_accuracy_expert"]) == pytest.approx((theirs > 0).mean())


def test_prioritized_steps_are_weighted_as_if_drawn_uniformly():
    agent = make("gail-dqn", gamma=0.8, gradient_penalty=None, replay="prioritized")
    batch = batch_of(agent, np.random.default_rng(5))
    weights = np.array([0.1, 1.0, 0.5, 0.2, 0.7, 0.9], np.float32)
    network = agent.networks["reward"]
    ours, theirs = (np.asarray(network(batch[f"{who}_inputs"]))[:, 0] for who in ("agent", "expert"))
    absorbing = float(network(agent.absorbing_inputs)[0, 0])
    after = 5.0 * batch["agent_ends"]
    expected = (weights * (softplus(ours) + after * softplus(absorbing))).sum() / (weights * (1.0 + after)).sum()
    expected += (softplus(-theirs).sum() + 2 * 5 * softplus(-absorbing)) / (6 + 10)
    loss = agent.reward_loss(tensors({**batch, "weights": weights}))["reward"]
    assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("with_actions", [False, True])
def test_airl_discriminator_by_hand(with_actions: bool):
    """Inputs are five features of the successor, five of the observation, and two of the action where it is seen."""
    agent = make("airl-ppo", gamma=0.8, gradient_penalty=None, reward_of_actions=with_actions)
    batch = batch_of(agent, np.random.default_rng(1))

    def value(name: str, rows: Any) -> Any:
        return np.asarray(agent.networks[name](rows))[:, 0]

    def advantage(inputs: Any) -> Any:
        then, now, step = inputs[:, :5], inputs[:, 5:10], inputs[:, 5:]
        assert step.shape[1] == (7 if with_actions else 5)
        return value("reward", step) + 0.8 * value("shaping", then) - value("shaping", now)

    ours, theirs = (advantage(batch[f"{who}_inputs"]) - batch[f"{who}_log_probs"] for who in ("agent", "expert"))
    absorbing = float(advantage(agent.absorbing_inputs)[0])
    expected = (softplus(ours).sum() + 10 * softplus(absorbing)) / 16
    expected += (softplus(-theirs).sum() + 10 * softplus(-absorbing)) / 16
    assert float(agent.reward_loss(tensors(batch))["reward"]) == pytest.approx(expected, rel=1e-5)


def test_gradient_penalty_by_hand():
    """A network without hidden layers has the gradient w everywhere: (|w| - 1)^2."""
    agent = make("gail-ppo", reward_hidden_sizes=(), gradient_penalty=3.0)
    without = make("gail-ppo", reward_hidden_sizes=(), gradient_penalty=None)
    batch = batch_of(agent, np.random.default_rng(2))
    del batch["agent_log_probs"], batch["expert_log_probs"]
    kernel, bias = agent.networks["reward"].get_weights()
    without.networks["reward"].set_weights([kernel, bias])
    added = float(agent.reward_loss(tensors(batch))["reward"] - without.reward_loss(tensors(batch))["reward"])
    assert added == pytest.approx(3.0 * (np.linalg.norm(kernel) - 1.0) ** 2, rel=1e-4)


def test_scale_of_millions_of_observations_is_exact():
    rows = np.tile(np.array([[99.0, 9.0], [101.0, 11.0]], np.float32), (2_000_000, 1))
    scale = ObservationScale.of(rows)
    np.testing.assert_allclose(scale.mean, [100.0, 10.0], rtol=1e-6)
    np.testing.assert_allclose(scale.std, [1.0, 1.0], rtol=1e-6)
    assert scale.mean.dtype == scale.std.dtype == np.float32


def rollout(agent: Any, rng: np.random.Generator) -> dict[str, Any]:
    """Draw a rollout [5, 2]; the third step of the second environment terminates."""
    shape = (5, 2)
    terminated = np.zeros(shape, bool)
    terminated[2, 1] = True
    observations = rng.normal(size=(*shape, *agent.observation_space.shape)).astype(np.float32)
    discrete = not agent.action_space.shape
    actions = rng.integers(0, 2, shape) if discrete else rng.uniform(-1, 1, (*shape, 1)).astype(np.float32)
    return {
        "observations": observations, "next_observations": observations + 0.1, "actions": actions,
        "rewards": np.full(shape, 7.0, np.float32), "terminated": terminated, "truncated": np.zeros(shape, bool),
    }  # fmt: skip


@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1"])
def test_airl_rewards_of_a_rollout_by_hand(environment: str, monkeypatch: pytest.MonkeyPatch):
    agent = make("airl-ppo", environment, gamma=0.9, n_steps=5)
    seen: dict[str, Any] = {}
    parent = type(agent).__bases__[-1]
    monkeypatch.setattr(parent, "preprocess_batch", lambda self, data: seen.update(data) or data)
    data = rollout(agent, np.random.default_rng(3))
    columns = agent.preprocess_batch(data)
    demonstrations = agent.demonstrations
    mean, std = demonstrations.observations.mean(axis=0), demonstrations.observations.std(axis=0)

    def features(rows: Any, absorbing: bool = False) -> Any:
        if absorbing:
            return np.array([[0.0] * rows.shape[1] + [1.0]], np.float32)
        scaled = np.clip((rows - mean) / std, -10.0, 10.0)
        return np.concatenate([scaled, np.zeros((len(rows), 1))], axis=1).astype(np.float32)

    def value(name: str, rows: Any) -> float:
        return float(agent.networks[name](rows)[0, 0])

    for t, n in ((0, 0), (2, 0), (2, 1)):
        observation, action = data["observations"][t, n][None], data["actions"][t, n][None]
        ends = bool(data["terminated"][t, n])
        then = features(data["next_observations"][t, n][None], ends)
        now = features(observation)
        expected = value("reward", now) + 0.9 * value("shaping", then) - value("shaping", now)
        expected -= float(agent.log_probabilities(observation, action)[0])
        if ends:
            end = features(observation, absorbing=True)
            expected += 0.9 / 0.1 * (value("reward", end) + (0.9 - 1.0) * value("shaping", end))
        assert seen["rewards"][t, n] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert columns["expert_inputs"].shape == columns["agent_inputs"].shape == (5, 2, 2 * agent.n_features)


def test_gail_sees_actions_as_the_environment_takes_them():
    """A Gaussian policy draws beyond the bounds, which the expert's actions never do: no way to tell the two apart."""
    agent = make("gail-ppo", "Pendulum-v1")
    rows, ends = np.zeros((3, 3), np.float32), np.zeros(3, bool)
    drawn, taken = (np.array(values, np.float32)[:, None] for values in ((-3.0, 0.5, 1.5), (-1.0, 0.5, 1.0)))
    np.testing.assert_array_equal(agent.pairs(rows, drawn, rows, ends).inputs[:, -1], taken[:, 0])


@pytest.mark.parametrize("name", ["airl-ppo", "gail-ppo"])
def test_discriminator_sees_steps_of_earlier_policies_too(name: str):
    """Their log-probabilities stay those of the policy that took them; rewards are of the newest steps alone."""
    agent, rng = make(name, n_steps=5, normalize_rewards=False), np.random.default_rng(5)
    data = [rollout(agent, rng) for _ in range(2)]
    first = agent.preprocess_batch(data[0])
    agent.networks["actor"].set_weights([weight + 0.5 for weight in agent.networks["actor"].get_weights()])
    agent.refresh()
    with_history, kept = agent.history.get_state(), agent.rng.bit_generator.state
    mixed = agent.preprocess_batch(data[1])
    agent.history = None
    agent.rng.bit_generator.state = kept
    alone = agent.preprocess_batch(data[1])
    assert with_history["n_added"] == 10
    names = [name for name in mixed if name.startswith("agent_")]
    assert len(names) == (3 if name == "airl-ppo" else 2)

    def rows(columns: dict[str, Any]) -> list[tuple[float, ...]]:
        flat = np.concatenate([columns[name].reshape(10, -1) for name in names], axis=1)
        return [tuple(row) for row in flat.tolist()]

    n_earlier = sum(row in rows(first) for row in rows(mixed))
    assert all(row in rows(first) or row == own for row, own in zip(rows(mixed), rows(alone), strict=True))
    assert 1 <= n_earlier <= 9
    for column in ("expert_inputs", "returns"):
        np.testing.assert_array_equal(mixed[column], alone[column])


def test_agents_with_a_replay_have_no_further_history():
    assert make("gail-dqn").history is None
    assert make("gail-ppo", reward_history=0).history is None
    with pytest.raises(ConfigurationError, match="reward_history"):
        make("gail-dqn", reward_history=100)


def test_log_probabilities_are_those_of_the_policies():
    rng = np.random.default_rng(4)
    agent = make("airl-ppo")
    observations, actions = rng.normal(size=(7, 4)).astype(np.float32), rng.integers(0, 2, 7)
    logits = np.asarray(agent.networks["actor"](observations))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = np.log(probabilities[np.arange(7), actions])
    np.testing.assert_allclose(agent.log_probabilities(observations, actions), expected, rtol=1e-4)

    parameters, noise = rng.normal(size=(7, 4)).astype(np.float32), rng.normal(size=(7, 2)).astype(np.float32)
    drawn, log_probs = SquashedGaussian.draw(tf.constant(parameters), tf.constant(noise))
    np.testing.assert_allclose(SquashedGaussian.log_prob_numpy(parameters, drawn.numpy()), log_probs, rtol=1e-3)
    assert np.isfinite(SquashedGaussian.log_prob_numpy(parameters, np.ones((7, 2), np.float32))).all()


def test_log_probabilities_of_actions_with_two_axes():
    rng = np.random.default_rng(5)
    observed, acted = spaces.Box(-1.0, 1.0, (4,), np.float32), spaces.Box(-1.0, 1.0, (2, 3), np.float32)
    agent: Any = agents.SAC(observed, acted, agents.SAC.config_class(hidden_sizes=(8,)))
    observations = rng.normal(size=(5, 4)).astype(np.float32)
    actions = rng.uniform(-1.0, 1.0, (5, 2, 3)).astype(np.float32)
    expected = SquashedGaussian.log_prob_numpy(agent.infer("actor", observations), actions.reshape(5, 6))
    np.testing.assert_array_equal(agent.log_probabilities(observations, actions), expected)


# --- populations, resuming

COMBINED = [
    ("gail-ppo", "CartPole-v1", {}),
    ("airl-ppo", "Pendulum-v1", {"gradient_penalty": None, "normalize_rewards": False, "reward_history": 0}),
    ("gail-dqn", "CartPole-v1", {"reward_update_interval": 3}),
    pytest.param("airl-sac", "Pendulum-v1", {"reward_of_actions": True}, marks=pytest.mark.slow),
    pytest.param("gail-td3", "Pendulum-v1", {"spectral_norm": True}, marks=pytest.mark.slow),
    pytest.param("gail-dqn", "CartPole-v1", {"replay": "prioritized"}, marks=pytest.mark.slow),
    pytest.param("airl-a2c", "CartPole-v1", {}, marks=pytest.mark.slow),
    pytest.param("gail-trpo", "CartPole-v1", {"expert_episodes": 1}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), COMBINED)
def test_population_members_equal_agents_trained_alone(name: str, environment: str, params: dict[str, Any]):
    for member, alone in members_and_agents_alone(name, environment, small(name, environment, **params)):
        assert alone.history.returns == member.history.returns


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), COMBINED)
def test_resumed_run_equals_uninterrupted_run(name: str, environment: str, params: dict[str, Any]):
    assert_resumed_run_equals_uninterrupted_run(
        lambda: Trainer(make(name, environment, seed=1, **params)), until=60, at=44
    )


def test_learning_rate_of_the_reward_network_is_its_own():
    agent = make("gail-ppo", learning_rate=0.5, optimizer="sgd", **{"reward.learning_rate": 0.25})
    assert agent.get_learning_rate("default") == 0.5
    assert agent.get_learning_rate("reward") == 0.25
    assert agent.config.optimizer_spec("reward").name == "adam"
    assert make("gail-ppo", learning_rate=0.5).get_learning_rate("reward") == pytest.approx(1e-3)


@pytest.mark.slow
def test_returns_are_those_of_the_environment():
    agent = make("gail-ppo")
    with Trainer(agent) as trainer:
        trainer.train(env_steps=100)
    assert trainer.history.returns == [float(episode.length) for episode in trainer.history.episodes]


COMBINATIONS = [
    (agents.PPO, ["airl"]),
    pytest.param(agents.SAC, ["bc", "gail"], marks=pytest.mark.slow),
    pytest.param(agents.DQN, ["bc"], marks=pytest.mark.slow),
]

ELSEWHERE = """
import sys
from agents.contract.pickling import unpickled
from agents.contract.registry import agent_class
for spec in unpickled(open(sys.argv[1], "rb").read()):
    name = spec.agent if isinstance(spec.agent, str) else "-".join(sys.argv[2:])
    assert type(spec.config) is agent_class(spec.agent).config_class, spec
    assert type(spec.config) is agent_class(name).config_class, spec
"""


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "prefixes"), COMBINATIONS)
def test_combined_classes_are_those_of_their_names_wherever_they_are_unpickled(
    algorithm: Any, prefixes: list[str], tmp_path: Path
):
    made, name = with_prefixes(algorithm, prefixes), "-".join([*prefixes, algorithm.__name__.lower()])
    specs = [AgentSpec.of(each, "CartPole-v1", {"expert": "balance"}) for each in (made, name)]
    payload = pickled(specs[0], specs)
    for spec, again in zip(specs, unpickled(payload), strict=True):
        assert again == spec
        assert type(again.config) is made.config_class
    (tmp_path / "specs").write_bytes(payload)
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path / "specs", name], check=True)


OF_A_FILE = """
import sys
import agents
agent = agents.load_agent(sys.argv[1])
assert type(agent).__name__ == "GAILMine", type(agent)
assert type(agent.config) is type(agent).config_class
"""


@pytest.mark.slow
def test_combined_class_of_a_users_file_is_loaded_elsewhere(tmp_path: Path):
    (tmp_path / "mine.py").write_text("import agents\n\nclass Mine(agents.PPO):\n    pass\n")
    agent = agents.make(f"gail-{tmp_path / 'mine.py'}:Mine", "CartPole-v1", **small("gail-ppo"))
    with Trainer(agent, callbacks=[agents.Checkpoint(tmp_path / "run")]) as trainer:
        trainer.train(env_steps=40)
    subprocess.run([sys.executable, "-c", OF_A_FILE, tmp_path / "run"], check=True)


def test_classes_with_other_metaclasses_are_combined():
    config = type("Config", (agents.PPO.config_class, abc.ABC), {"__module__": "__main__"})
    mine = type("Abstract", (agents.PPO,), {"__module__": "__main__", "config_class": config})
    made = with_prefixes(mine, ["gail"])
    spec = AgentSpec.of(made, "CartPole-v1", {"expert": "balance"})
    assert unpickled(pickled(spec, spec)) == spec


def test_subclass_of_a_combined_class_is_pickled_by_value():
    subclass = type("Subclass", (with_prefixes(agents.PPO, ["gail"]),), {"__module__": "__main__", "extra": 3})
    spec = AgentSpec.of(subclass, "CartPole-v1", {"expert": "balance"})
    assert unpickled(pickled(spec, spec)).agent.extra == 3


def test_classes_of_the_same_name_are_kept_apart():
    first, second = (type("Own", (agents.PPO,), {"__module__": "__main__"}) for _ in range(2))
    made = [with_prefixes(own, ["gail"]) for own in (first, second)]
    assert made[0] is not made[1]
    assert [with_prefixes(own, ["gail"]) for own in (first, second)] == made


# --- refused


class Undiscounted(agents.KerasAgent):
    """An agent without a discount."""

    def build(self) -> Any:
        return {"policy": agents.backend.tensorflow.keras.Sequential([agents.backend.tensorflow.keras.layers.Dense(2)])}

    def act(self, observations: Any, explore: bool = False) -> Any:
        return np.zeros(len(observations), np.int64)

    def make_buffer(self, n_envs: int, rng: Any) -> Any:
        raise NotImplementedError


def test_learned_reward_needs_a_discount():
    with pytest.raises(ConfigurationError, match="Undiscounted has no hyperparameter gamma"):
        agents.make(with_prefixes(Undiscounted, ["gail"]), "CartPole-v1", expert="balance")


@pytest.mark.parametrize(
    ("name", "environment", "params", "message"),
    [
        ("gail-ppo", "CartPole-v1", {"expert": ""}, "needs demonstrations: set expert to a Minari dataset"),
        ("gail-rainbow", "CartPole-v1", {"n_step": 3}, "n_step must be 1, got 3"),
        ("airl-td3", "Pendulum-v1", {}, "AIRL needs a policy with probabilities, which TD3 has not"),
        ("gail-acer", "CartPole-v1", {}, "ACER replays rollouts with the rewards of their time"),
        ("gail-ppo", "CartPole-v1", {"gru_units": 4}, "gru_units must be None, got 4"),
        ("gail-nothing", "CartPole-v1", {}, "'nothing'"),
        ("gail-mappo", "CartPole-v1", {}, "several agents in one environment"),
        ("gail-ppo", "CartPole-v1", {"expert": "swing"}, "'swing-v0' has observations in"),
    ],
)
def test_impossible_combinations_are_refused(name: str, environment: str, params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        agents.make(name, environment, **{"expert": small(name, environment)["expert"], **params}).new_buffer(2, [0])


# --- learning


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.parametrize("name", ["gail-ppo", "airl-ppo"])
def test_cart_pole_is_learned_from_three_demonstrations(name: str):
    agent = agents.make(name, "CartPole-v1", seed=0, expert="balance")
    with Trainer(agent) as trainer:
        trainer.train(env_steps=50_000, progress=False)
    assert agents.evaluate(agent, n_episodes=20).mean() > 400.0
