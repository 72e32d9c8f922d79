"""Tests of behaviour cloning, as an agent and as a start: losses by hand, seeds, populations, resuming, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("minari")

from experts import record_rule
from parity import assert_resumed_run_equals_uninterrupted_run, members_and_agents_alone

import agents
from agents import ConfigurationError, Trainer
from agents.algorithms.imitation.composed import with_prefixes
from agents.backend.tensorflow import keras
from agents.buffers import Transition
from agents.contract.registry import built_in_name, prefixes_of
from agents.networks.distributions import SquashedGaussian

EXPERTS = {"CartPole-v1": "balance", "Pendulum-v1": "swing"}
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "jit_compile": False}
CLONING = {"n_envs": 2, "n_steps": 10, "gradient_steps": 3, "batch_size": 8}
STARTS: dict[str, dict[str, Any]] = {
    "bc-ppo": {"n_envs": 2, "n_steps": 10, "batch_size": 10, "n_epochs": 2},
    "bc-dqn": {"learning_starts": 20, "batch_size": 8},
    "bc-sac": {"learning_starts": 20, "batch_size": 8},
    "bc-td3": {"learning_starts": 20, "batch_size": 8, "noise": "gaussian"},
}
BRIEF = {"pretrain_steps": 7, "pretrain_batch_size": 8}


def small(name: str, environment: str, **params: Any) -> dict[str, Any]:
    """Return the hyperparameters of a small agent that clones the expert of its environment."""
    own = CLONING if name == "bc" else {**STARTS.get(name, {}), **BRIEF}
    return {**SMALL, **own, "expert": EXPERTS[environment], **params}


def make(name: str, environment: str = "CartPole-v1", *, seed: int = 0, **params: Any) -> Any:
    return agents.make(name, environment, seed=seed, **small(name, environment, **params))


def tensors(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: tf.constant(values) for name, values in columns.items()}


def weights_of(agent: Any, network: str) -> list[Any]:
    return [variable.numpy() for variable in agent.networks[network].weights]


def assert_equal(ours: list[Any], theirs: list[Any]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


# --- where demonstrations are


def test_demonstrations_stay_the_same_ones(experts: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(experts)
    (experts / "balance").mkdir()
    assert make("bc", expert="./balance-v0").config.expert == str((experts / "balance-v0").resolve())
    assert make("bc", expert=Path("./balance-v0").resolve()).config.expert == str((experts / "balance-v0").resolve())
    assert make("bc", expert="balance").config.expert == "balance-v0"  # the dataset, not the folder of its name
    assert make("bc", expert=["balance", "./balance-v0"]).config.expert[0] == "balance-v0"
    (experts / "balance").rmdir()
    with pytest.raises(ConfigurationError, match="expert"):
        make("bc", expert=3)


# --- losses by hand


def test_loss_of_cloning_by_hand():
    agent = make("bc", ent_coef=0.25)
    rows, actions = np.zeros((3, 4), np.float32), np.array([0, 1, 1])
    bias = agent.networks["actor"].layers[-1].bias
    bias.assign([0.0, np.log(3.0)])  # at observation 0, where the hidden layer gives 0: probabilities 1/4 and 3/4
    values = agent.loss(tensors({"observations": rows, "actions": actions}))
    log_likelihood = (np.log(0.25) + 2.0 * np.log(0.75)) / 3.0
    entropy = -0.25 * np.log(0.25) - 0.75 * np.log(0.75)
    assert float(values["default"]) == pytest.approx(-log_likelihood - 0.25 * entropy, rel=1e-5)
    assert float(values["log_likelihood"]) == pytest.approx(log_likelihood, rel=1e-5)


def test_margin_loss_of_action_values_by_hand():
    agent = make("bc-dqn", hidden_sizes=())
    kernel, bias = agent.networks["q"].layers[-1].weights
    kernel.assign(np.zeros((4, 2)))
    bias.assign([1.0, 1.5])
    batch = tensors({"observations": np.zeros((2, 4), np.float32), "actions": np.array([0, 1])})
    # Action 0: max(1, 1.5 + 0.8) - 1 = 1.3. Action 1: max(1 + 0.8, 1.5) - 1.5 = 0.3.
    assert float(agent.cloning_loss(batch)) == pytest.approx(0.8, rel=1e-5)


@pytest.mark.slow
def test_margin_loss_of_distributions_by_hand():
    agent = make("bc-rainbow", hidden_sizes=(4, 4), n_atoms=2, v_min=-1.0, v_max=3.0, learning_starts=20, batch_size=8)
    batch = tensors({"observations": np.zeros((2, 4), np.float32), "actions": np.array([0, 1])})
    outputs = np.asarray(agent.networks["q"](batch["observations"], training=True))  # [2, A, 2] logits
    probability = 1.0 / (1.0 + np.exp(outputs[..., 0] - outputs[..., 1]))
    values = -1.0 + 4.0 * probability
    expected = [max(v[i], v[1 - i] + 0.8) - v[i] for i, v in zip((0, 1), values, strict=True)]
    assert float(agent.cloning_loss(batch)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_squashed_log_density_of_tensors_equals_that_of_arrays():
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=(20, 6)).astype(np.float32)
    actions = rng.uniform(-1.0, 1.0, size=(20, 3)).astype(np.float32)
    actions[0] = [-1.0, 1.0, 0.0]  # on the bounds
    found = SquashedGaussian.log_prob(tf.constant(parameters), tf.constant(actions)).numpy()
    np.testing.assert_allclose(found, SquashedGaussian.log_prob_numpy(parameters, actions), rtol=2e-3)


@pytest.mark.slow
def test_deterministic_policy_clones_by_squared_distance():
    agent = make("bc-td3", "Pendulum-v1")
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    acted = np.asarray(agent.networks["actor"](rows))
    loss = agent.cloning_loss(tensors({"observations": rows, "actions": acted + 0.5}))
    assert float(loss) == pytest.approx(0.25, rel=1e-4)


def test_loss_of_squashed_policies_by_hand():
    """A standard deviation of e^3 counts as e^2, and its distance as 1."""
    agent = make("bc-sac", "Pendulum-v1", hidden_sizes=())
    kernel, bias = agent.networks["actor"].weights
    kernel.assign(np.zeros((3, 2)))
    bias.assign([0.5, 3.0])
    batch = tensors({"observations": np.ones((1, 3), np.float32), "actions": np.array([[0.2]], np.float32)})
    z = (np.arctanh(0.2) - 0.5) / np.exp(2.0)
    expected = 0.5 * z**2 + 2.0 + 0.5 * np.log(2.0 * np.pi) + np.log(1.0 - 0.04) + 1.0
    assert float(agent.cloning_loss(batch)) == pytest.approx(expected, rel=1e-5)


# --- the agent "bc"


def test_environment_steps_are_not_learned_from():
    agent = make("bc")
    buffer = agent.new_buffer(2, [0])
    transition = Transition(
        np.full((2, 4), 77.0, np.float32), np.zeros(2, np.int64), *np.zeros((1, 2)), np.zeros((2, 4)), *np.zeros((2, 2))
    )
    for _ in range(9):
        buffer.add(transition)
        assert not buffer.ready
    buffer.add(transition)
    assert buffer.ready
    data = buffer.sample()
    assert data["observations"].shape == (24, 4)
    assert not (data["observations"] == 77.0).any()
    assert not buffer.ready


def test_held_out_episodes_are_not_learned_from():
    agent = make("bc", held_out_episodes=1, normalize_observations=False)
    lengths, seen = agent.demonstrations.lengths, agent.demonstrations.observations
    assert agent.n_learned == lengths[:2].sum()
    buffer = agent.new_buffer(2, [0])
    drawn = [buffer.sample() for _ in range(20)]

    def all_in(rows: Any, where: Any) -> bool:
        return {*map(bytes, rows)} <= {*map(bytes, where)}

    for data in drawn:
        assert all_in(data["observations"], seen[: agent.n_learned])
        assert all_in(data["held_out_observations"], seen[agent.n_learned :])


def test_held_out_likelihood_is_that_of_the_policy():
    agent = make("bc", held_out_episodes=1)
    drawn = agent.new_buffer(2, [0]).sample()
    (step,) = agent.optimizer_steps()
    value = float(step.loss(tensors(agent.preprocess_batch(dict(drawn))))["held_out_loss"])
    log_probs = agent.log_probabilities(drawn["held_out_observations"], drawn["held_out_actions"])
    assert value == pytest.approx(-log_probs.mean(), rel=1e-4)


def test_observations_are_scaled_by_those_of_the_expert():
    agent = make("bc", held_out_episodes=1)
    expert, n = agent.demonstrations, agent.n_learned
    mean, std = expert.observations[:n].mean(axis=0), expert.observations[:n].std(axis=0)
    learned = agent.preprocess_batch(
        {"observations": expert.observations, "held_out_observations": expert.observations}
    )
    for columns in (learned["observations"], learned["held_out_observations"]):
        np.testing.assert_allclose(columns, (expert.observations - mean) / std, rtol=1e-3, atol=1e-3)


def test_demonstrations_are_not_copied():
    agent = make("bc")
    buffer = agent.new_buffer(2, [0])
    assert np.shares_memory(buffer.columns["observations"], agent.demonstrations.observations)


def test_clone_learns_from_observations_as_it_acts_on_them():
    agent, other = make("bc"), make("bc", expert_episodes=1)
    buffer = agent.new_buffer(2, [0])
    agent.set_acting_state(other.acting_state())  # the statistics of one episode
    data = buffer.sample()
    np.testing.assert_array_equal(agent.preprocess_batch(data)["observations"], other.normalizer(data["observations"]))


@pytest.mark.parametrize("name", ["bc", "bc-ppo"])
def test_observations_that_do_not_vary_in_demonstrations_keep_their_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def rule(state: Any) -> int:
        return 0 if state == 36 else 2 if state == 35 else 1  # up, right, and at the end down

    given = {"expert": record_rule(tmp_path, "CliffWalking-v1", rule, monkeypatch), "normalize_observations": True}
    agent: Any = agents.make(name, "CliffWalking-v1", **{**small(name, "CartPole-v1"), **given})
    scaled = agent.normalizer(np.eye(48, dtype=np.float32))
    assert scaled[0, 0] == pytest.approx(1.0)  # a state that the expert has never seen
    assert scaled[30, 30] > 2.0


@pytest.mark.slow
@pytest.mark.learns
@pytest.mark.parametrize(("environment", "distance"), [("CartPole-v1", 0.05), ("Pendulum-v1", 0.1)])
def test_clone_acts_as_the_expert(environment: str, distance: float):
    agent = agents.make("bc", environment, expert=EXPERTS[environment])
    with Trainer(agent) as trainer:
        trainer.train(env_steps=6_000, progress=False)
    acted = agent.act(agent.demonstrations.observations)
    assert np.abs(acted - agent.demonstrations.actions).mean() < distance  # 0.5 at random


# --- as a start


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment"), [("bc-ppo", "CartPole-v1"), ("bc-sac", "Pendulum-v1")])
def test_new_agent_acts_as_the_expert(name: str, environment: str):
    agent = make(name, environment, pretrain_steps=1_000, pretrain_batch_size=64, hidden_sizes=(32,))
    expert = agent.demonstrations
    assert agent.fresh
    acted = agent.act(expert.observations)
    assert np.abs(acted - expert.actions).mean() < 0.25  # 0.5 at random
    np.testing.assert_array_equal(agent.act(expert.observations[:4]), acted[:4])


@pytest.mark.slow
def test_actions_drawn_by_a_new_agent_are_near_those_of_an_expert_on_the_bounds():
    """Standard deviations grow at first, as actions on the bounds are far away, and must come back."""
    agent = make("bc-sac", "Pendulum-v1", pretrain_steps=1_500, pretrain_batch_size=64, hidden_sizes=(256, 256))
    expert = agent.demonstrations
    drawn = agent.act(expert.observations, explore=True)
    assert np.abs(drawn - expert.actions).mean() < 0.1


@pytest.mark.slow
def test_every_seed_has_a_clone_of_its_own():
    first, second = make("bc-ppo"), make("bc-ppo", seed=1)
    assert any((a != b).any() for a, b in zip(weights_of(first, "actor"), weights_of(second, "actor"), strict=True))
    second.reset(0)
    for network in ("actor", "critic"):
        assert_equal(weights_of(first, network), weights_of(second, network))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number", "value"), [("bc-ppo", "max_grad_norm", 0.01), ("bc-rainbow", "v_max", 99.0)]
)
def test_agent_reset_to_other_hyperparameters_has_the_clone_of_a_new_one(name: str, number: str, value: float):
    params: dict[str, Any] = {"hidden_sizes": (4, 4), "batch_size": 8}
    agent = make(name, **params)
    agent.reset(1, {number: value})
    new = make(name, seed=1, **params, **{number: value})
    assert_equal(weights_of(agent, agent.policy_network), weights_of(new, agent.policy_network))


def test_gradients_of_cloning_are_not_clipped():
    assert_equal(
        weights_of(make("bc-ppo", max_grad_norm=1e-6), "actor"), weights_of(make("bc-ppo", max_grad_norm=None), "actor")
    )


def test_file_whose_name_begins_like_a_prefix_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bc-mine.py").write_text("import agents\n\nclass Mine(agents.PPO):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    assert agents.make("bc-mine.py:Mine", "CartPole-v1").__class__.__bases__ == (agents.PPO,)
    assert prefixes_of("gail-mine.py:Mine") == (("gail",), "mine.py:Mine")


@pytest.mark.slow
def test_subclass_of_a_cloning_agent_clones():
    found = type(make("bc-ppo"))
    subclass = type("Subclass", (found,), {})
    of_subclass = agents.make(subclass, "CartPole-v1", **small("bc-ppo", "CartPole-v1"))
    assert_equal(weights_of(of_subclass, "actor"), weights_of(make("bc-ppo"), "actor"))


def test_only_the_policy_is_cloned():
    cloned, plain = make("bc-ppo"), agents.make("ppo", "CartPole-v1", **SMALL, **STARTS["bc-ppo"])
    assert_equal(weights_of(cloned, "critic"), weights_of(plain, "critic"))
    assert any((a != b).any() for a, b in zip(weights_of(cloned, "actor"), weights_of(plain, "actor"), strict=True))


def test_gradient_steps_of_cloning_do_not_count():
    agent = make("bc-ppo")
    assert agent.gradient_steps == 0
    assert agent.config.optimizer_spec().learning_rate == pytest.approx(agent.get_learning_rate())


def test_target_networks_start_as_the_clone():
    agent = make("bc-dqn")
    assert_equal(weights_of(agent, "target"), weights_of(agent, "q"))


@pytest.mark.slow
def test_clone_is_not_thrown_away_by_random_actions():
    assert make("bc-dqn").config.exploration_initial_eps == 0.05
    agent = make("bc-sac", "Pendulum-v1")
    assert not agent.warming_up


def test_running_statistics_begin_with_those_of_the_expert():
    agent = make("bc-ppo", normalize_observations=True)
    assert agent.normalizer.count == len(agent.demonstrations)


@pytest.mark.slow
def test_clone_with_a_learned_reward():
    agent = make("bc-gail-ppo", **STARTS["bc-ppo"], reward_hidden_sizes=(4,))
    with Trainer(agent) as trainer:
        trainer.train(env_steps=60, progress=False)
    assert agent.gradient_steps > 0
    assert built_in_name(type(agent)) == "bc-gail-ppo"
    assert prefixes_of("BC-gail-ppo") == (("bc", "gail"), "ppo")


def test_clone_of_an_expert_without_noise_still_explores():
    """Actions that are always 0 could be cloned ever more exactly."""
    agent = make("bc-ppo", "Pendulum-v1")
    rows = {"observations": np.zeros((4, 3), np.float32), "actions": np.zeros((4, 1), np.float32)}
    head = agent.networks["actor"].layers[-1]
    for log_std, moves in ((-1.0, True), (-2.5, False)):
        head.log_std.assign([log_std])
        with tf.GradientTape() as tape:
            loss = agent.cloning_loss(tensors(rows))
        gradient = tape.gradient(loss, head.log_std.value)
        assert (float(gradient[0]) > 0.5) == moves
    assert float(loss) == pytest.approx(-2.0 + 0.5 * np.log(2.0 * np.pi), rel=1e-2)


def test_default_range_of_exploration_ends_where_it_begins():
    config_class = type(make("bc-dqn").config)
    low, high = config_class.describe()["exploration_final_eps"].search
    for value in (low, high):
        config_class.from_dict({"exploration_final_eps": value})
    assert agents.make("dqn", "CartPole-v1").config.describe()["exploration_final_eps"].search == (0.01, 0.2)


# --- in training


@pytest.mark.slow
def test_cloning_is_part_of_the_loss_of_the_policy():
    """Weight 2 of 10 steps, 4 of which are made: 2 * 0.6 times the scale of the values."""
    agent = make("bc-sac", "Pendulum-v1", cloning_coef=2.0, cloning_steps=10)
    plain = make("bc-sac", "Pendulum-v1", cloning_coef=None)
    agent._gradient_steps.assign(4)
    rng = np.random.default_rng(0)
    data = {
        "observations": rng.normal(size=(5, 3)), "next_observations": rng.normal(size=(5, 3)),
        "actions": rng.uniform(-1, 1, size=(5, 1)), "rewards": rng.normal(size=5),
    }  # fmt: skip
    data = {name: values.astype(np.float32) for name, values in data.items()}
    batch = tensors(agent.preprocess_batch(data))
    cloned = {name: batch[f"cloned_{name}"] for name in ("observations", "actions")}
    values = np.asarray(agent.networks["critic"]([data["observations"], data["actions"]]))
    assert np.abs(values).mean() < 1.0  # the scale is at least 1
    step, usual = agent.optimizer_steps()[1], plain.optimizer_steps()[1]
    expected = float(usual.loss(batch)["actor"]) + 2.0 * 0.6 * float(agent.cloning_loss(cloned))
    losses = step.loss(batch)
    assert float(losses["actor"]) == pytest.approx(expected, rel=1e-4)
    assert float(losses["temperature"]) == pytest.approx(0.4 * float(usual.loss(batch)["temperature"]), rel=1e-4)
    assert set(losses) == {*usual.loss(batch), "cloning_loss"}
    assert "cloned_actions" not in plain.preprocess_batch(data)


@pytest.mark.slow
def test_scale_of_the_policy_follows_the_values():
    agent = make("bc-td3", "Pendulum-v1")
    agent.networks["critic"].layers[-1].bias.assign([-40.0])
    rows = {"observations": np.zeros((3, 3), np.float32), "actions": np.zeros((3, 1), np.float32)}
    assert float(agent.cloning_scale(tensors(rows))) == pytest.approx(40.0, rel=0.1)


@pytest.mark.slow
def test_replayed_training_keeps_the_clone_and_rollouts_do_not_need_to():
    assert make("bc-dqn").config.cloning_coef == make("bc-sac", "Pendulum-v1").config.cloning_coef == 1.0
    assert make("bc-ppo").config.cloning_coef is None


@pytest.mark.slow
def test_steps_of_the_expert_are_drawn_anew_and_scaled():
    agent = make("bc-ppo", cloning_coef=1.0, normalize_observations=True)
    rollout = {
        "observations": np.zeros((10, 2, 4), np.float32), "next_observations": np.zeros((10, 2, 4), np.float32),
        "actions": np.zeros((10, 2), np.int64), "rewards": np.ones((10, 2), np.float32),
        "terminated": np.zeros((10, 2), bool), "truncated": np.zeros((10, 2), bool),
    }  # fmt: skip
    columns = agent.preprocess_batch(rollout)
    scaled = {*map(bytes, agent.normalizer(agent.demonstrations.observations))}
    drawn = columns["cloned_observations"].reshape(-1, 4)
    assert columns["cloned_actions"].shape == (10, 2)
    assert {*map(bytes, drawn)} <= scaled
    assert len({*map(bytes, drawn)}) > 10


# --- populations and resuming

TRAINED = [
    ("bc", "CartPole-v1", {"held_out_episodes": 1}),
    ("bc-ppo", "CartPole-v1", {"normalize_observations": True}),
    ("bc-dqn", "CartPole-v1", {"replay": "prioritized"}),
    pytest.param("bc-ppo", "Pendulum-v1", {"cloning_coef": 0.5, "cloning_steps": 20}, marks=pytest.mark.slow),
    pytest.param("bc-sac", "Pendulum-v1", {}, marks=pytest.mark.slow),
    pytest.param("bc", "Pendulum-v1", {}, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), TRAINED)
def test_population_members_equal_agents_trained_alone(name: str, environment: str, params: dict[str, Any]):
    given, other = small(name, environment, **params), "ent_coef" if name == "bc" else "gamma"
    for member, alone in members_and_agents_alone(name, environment, given, other=other):
        assert alone.history.returns == member.history.returns


@pytest.mark.slow
@pytest.mark.parametrize(("name", "environment", "params"), TRAINED)
def test_resumed_run_equals_uninterrupted_run(name: str, environment: str, params: dict[str, Any]):
    assert_resumed_run_equals_uninterrupted_run(
        lambda: Trainer(make(name, environment, seed=1, **params)), until=60, at=44
    )


# --- refused


def test_own_agent_that_does_not_name_its_policy_is_refused():
    class Own(agents.KerasAgent):
        def cloning_loss(self, batch: dict[str, Any]) -> Any:
            return 0.0

        def build(self) -> Any:
            return {"policy": keras.Sequential([keras.layers.Dense(2)])}

        def act(self, observations: Any, explore: bool = False) -> Any:
            return np.zeros(len(observations), np.int64)

        def make_buffer(self, n_envs: int, rng: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(
        ConfigurationError, match="Own cannot start from a clone of the expert: it has no policy_network"
    ):
        agents.make(with_prefixes(Own, ["bc"]), "CartPole-v1", expert="balance")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("bc", {"expert": ""}, "BC needs demonstrations: set expert to a Minari dataset"),
        ("bc", {"held_out_episodes": 3}, "held_out_episodes is 3, and there are 3 demonstrations"),
        ("bc", {"held_out_episodes": 3, "normalize_observations": False}, "held_out_episodes is 3, and there are 3"),
        ("bc", {"expert": "swing"}, "'swing-v0' has observations in"),
        ("bc-acer", {}, "ACER cannot start from a clone of the expert"),
        ("bc-qmix", {}, "several agents in one environment"),
        ("bc-trpo", {"cloning_coef": 1.0}, "The policy of this agent has no optimizer"),
        ("bc-ppo", {"cloning_steps": 10}, "cloning_steps is of a weight that is none"),
        ("bc-ppo", {"gru_units": 4}, "Networks with memory cannot be cloned"),
        ("bc-mappo", {}, "several agents in one environment"),
        ("bc-bc", {}, "BC learns from demonstrations alone: leave out bc"),
        ("gail-bc", {}, "BC learns from demonstrations alone: leave out gail"),
        ("gail-airl-ppo", {}, "An agent learns one reward and starts from one clone"),
        ("bc-bc-ppo", {}, "An agent learns one reward and starts from one clone"),
    ],
)
def test_impossible_clones_are_refused(name: str, params: dict[str, Any], message: str):
    with pytest.raises(ConfigurationError, match=message):
        agents.make(name, "CartPole-v1", **{"expert": "balance", **params})
