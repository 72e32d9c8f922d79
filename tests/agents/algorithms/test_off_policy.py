"""Tests of DDPG, TD3, SAC and optimizers that step in turns, against examples worked out by hand."""

import itertools
import math

import keras
import numpy as np
import pytest
from gymnasium import spaces
from parity import members_and_agents_alone

import agents
from agents import AgentSpec
from agents.algorithms.ddpg import DDPG, DDPGConfig
from agents.algorithms.sac import SAC, SACConfig
from agents.algorithms.td3 import TD3, TD3Config
from agents.buffers import Batches, UniformReplay
from agents.contract.agent import Agent
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.networks.builders import Constant, constant, critic_network
from agents.networks.distributions import SquashedGaussian
from agents.population import Population
from agents.updates.gradient_steps import PRIORITIES, OptimizerStep

LINE = spaces.Box(-10.0, 10.0, (1,), np.float32)
PUSH = spaces.Box(-1.0, 1.0, (1,), np.float32)
PLAIN = {"jit_compile": False, "hidden_sizes": (), "max_grad_norm": None, "gamma": 0.5, "optimizer": "sgd"}

ROWS = {
    "observations": np.array([[1.0], [2.0]], np.float32),
    "actions": np.array([[0.5], [-1.0]], np.float32),
    "rewards": np.array([1.0, 2.0], np.float32),
    "lengths": np.array([1, 2], np.int32),
    "next_observations": np.array([[2.0], [0.5]], np.float32),
    "terminated": np.array([False, False]),
}


def tensors(rows):
    return {name: keras.ops.convert_to_tensor(values) for name, values in rows.items()}


def floats(loss):
    return {name: float(value) for name, value in loss.items()}


def set_line(network, *weights, bias=0.0):
    """Set the last layer of a network to weights * inputs + bias."""
    network.set_weights([np.array(weights, np.float32)[:, None], np.full(1, bias, np.float32)])


def ddpg(kind=DDPG, config=DDPGConfig, **params):
    """Return an agent with Q(x, a) = x + 2 a, its target 2 x - a + 1, the actor tanh(0) and its target tanh(x / 2)."""
    agent = kind(LINE, PUSH, config.from_dict({**PLAIN, "learning_rate": 0.1, "tau": 0.25, **params}))
    set_line(agent.networks["critic"], 1, 2)
    set_line(agent.networks["target_critic"], 2, -1, bias=1)
    set_line(agent.networks["actor"], 0)
    set_line(agent.networks["target_actor"], 0.5)
    return agent


NEXT = np.tanh([1.0, 0.25])  # actions of the target actor in the next observations


def test_ddpg_critic_loss():
    # Values 2 and 0; targets 1 + 0.5 (4 - tanh 1 + 1) and 2 + 0.25 (1 - tanh 0.25 + 1).
    targets = np.array([1 + 0.5 * (5 - NEXT[0]), 2 + 0.25 * (2 - NEXT[1])])
    loss = floats(ddpg().critic_loss(tensors(ROWS)))
    assert loss["critic"] == pytest.approx(((2 - targets[0]) ** 2 + (0 - targets[1]) ** 2) / 2)
    assert loss["q_mean"] == pytest.approx(1)
    assert loss["td_error"] == pytest.approx((abs(2 - targets[0]) + targets[1]) / 2)


def test_ddpg_target_does_not_bootstrap_at_termination():
    rows = {**ROWS, "terminated": np.array([True, True])}
    assert floats(ddpg().critic_loss(tensors(rows)))["critic"] == pytest.approx(((2 - 1) ** 2 + (0 - 2) ** 2) / 2)


def test_ddpg_actor_uses_updated_critic_and_targets_follow_both():
    agent = ddpg()
    agent.update(Batches(ROWS, np.arange(2, dtype=np.int32)[None]))
    targets = np.array([1 + 0.5 * (5 - NEXT[0]), 2 + 0.25 * (2 - NEXT[1])])
    errors = np.array([2, 0]) - targets  # the loss is the mean square of the errors
    kernel = np.array([1, 2]) - 0.1 * np.array([(errors * [1, 2]).mean() * 2, (errors * [0.5, -1]).mean() * 2])
    np.testing.assert_allclose(agent.networks["critic"].get_weights()[0][:, 0], kernel, rtol=1e-5)
    # dQ/da is the new weight of the critic; tanh' is 1 at 0; the inputs of the actor are 1 and 2.
    actor = 0.1 * kernel[1] * 1.5
    np.testing.assert_allclose(agent.networks["actor"].get_weights()[0], [[actor]], rtol=1e-5)
    np.testing.assert_allclose(
        agent.networks["target_critic"].get_weights()[0][:, 0], 0.25 * kernel + 0.75 * np.array([2, -1]), rtol=1e-5
    )
    np.testing.assert_allclose(
        agent.networks["target_actor"].get_weights()[0], [[0.25 * actor + 0.75 * 0.5]], rtol=1e-5
    )


def td3(**params):
    """Return an agent like `ddpg` with the second critic a, whose target is 3."""
    agent = ddpg(TD3, TD3Config, **params)
    set_line(agent.networks["second_critic"], 0, 1)
    set_line(agent.networks["target_second_critic"], 0, 0, bias=3)
    return agent


def test_td3_critic_loss():
    noise = np.array([[1.0], [-10.0]], np.float32)  # times 0.2: 0.2, and -2, which is clipped to -0.5
    smoothed = NEXT + np.array([0.2, -0.5])
    first = np.array([2 * 2 - smoothed[0] + 1, 2 * 0.5 - smoothed[1] + 1])
    targets = np.array([1, 2]) + np.array([0.5, 0.25]) * np.minimum(first, 3)
    assert first[0] > 3 > first[1]  # each critic is the smaller one in one row
    loss = floats(td3().critic_loss(tensors({**ROWS, "noise": noise})))
    expected = ((np.array([2, 0]) - targets) ** 2).mean() + ((np.array([0.5, -1]) - targets) ** 2).mean()
    assert loss["critic"] == pytest.approx(expected, rel=1e-5)


WEIGHTS = np.array([1.0, 0.25], np.float32)


def test_ddpg_weights_errors_and_reports_them_as_priorities():
    loss = ddpg(replay="prioritized").critic_loss(tensors({**ROWS, "weights": WEIGHTS}))
    # The errors are those of `test_ddpg_critic_loss`: -1.119203 and -2.438770, of squares 1.252615 and 5.947599.
    assert float(loss["critic"]) == pytest.approx((1.252615 + 0.25 * 5.947599) / 2, rel=1e-5)
    np.testing.assert_allclose(loss[PRIORITIES], [1.119203, 2.438770], rtol=1e-5)


def test_weights_count_in_the_loss_of_the_ddpg_actor():
    loss = ddpg(replay="prioritized").actor_loss(tensors({**ROWS, "weights": WEIGHTS}))
    assert float(loss["actor"]) == pytest.approx(-(1.0 * 1 + 0.25 * 2) / 2)  # values 1 and 2 of actions 0


def test_td3_priorities_are_mean_errors_of_both_critics():
    agent = td3(replay="prioritized")
    loss = agent.critic_loss(tensors({**ROWS, "noise": np.zeros((2, 1), np.float32), "weights": WEIGHTS}))
    targets = np.array([1 + 0.5 * 3, 2 + 0.25 * (2 - NEXT[1])])  # of the smaller values 3 (not 4.24) and 1.76
    first, second = np.array([2, 0]) - targets, np.array([0.5, -1]) - targets
    expected = (WEIGHTS * first**2).mean() + (WEIGHTS * second**2).mean()
    assert float(loss["critic"]) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(loss[PRIORITIES], (np.abs(first) + np.abs(second)) / 2, rtol=1e-5)


def test_td3_updates_actor_and_targets_at_every_second_step():
    agent = td3()
    rows = {**ROWS, "noise": np.zeros((2, 1), np.float32)}
    weights = []
    for _ in range(4):
        weight, shift = agent.networks["actor"].get_weights()
        update = agent.update(Batches(rows, np.arange(2, dtype=np.int32)[None]))
        kernel, bias = agent.networks["critic"].get_weights()
        values = ROWS["observations"] * kernel[0] + np.tanh(ROWS["observations"] * weight + shift) * kernel[1] + bias
        # The loss of the actor is reported at every step, with the critic after its own step.
        assert update.losses["actor"] == pytest.approx(-values.mean(), rel=1e-5)
        weights.append([agent.networks[name].get_weights()[0].copy() for name in ("critic", "actor", "target_critic")])
    moved = [[not np.array_equal(a, b) for a, b in zip(*pair, strict=True)] for pair in itertools.pairwise(weights)]
    assert moved == [[True, True, True], [True, False, False], [True, True, True]]


@pytest.mark.slow
def test_delayed_steps_are_equal_within_one_update_and_over_several():
    rows = {**ROWS, "noise": np.zeros((2, 1), np.float32)}
    together, apart = td3(), td3()
    together.update(Batches(rows, np.tile(np.arange(2, dtype=np.int32), (4, 1))))
    for _ in range(4):
        apart.update(Batches(rows, np.arange(2, dtype=np.int32)[None]))
    for name, network in together.networks.items():
        for ours, theirs in zip(network.get_weights(), apart.networks[name].get_weights(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


# --- SAC


def log_density(before, mean, log_std):
    """Return the log density of tanh(before) by the change of variables, in double precision."""
    z = (before - mean) / math.exp(log_std)
    return -0.5 * z * z - log_std - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(before) ** 2)


def test_squashed_gaussian_by_hand():
    parameters = np.array([[0.3, -0.2, -1.0, 0.5]], np.float32)  # two dimensions
    noise = np.array([[0.7, -1.1]], np.float32)
    actions, log_probs = SquashedGaussian.draw(parameters, noise)
    before = [0.3 + math.exp(-1) * 0.7, -0.2 - math.exp(0.5) * 1.1]
    np.testing.assert_allclose(np.array(actions), [np.tanh(before)], rtol=1e-5)
    expected = log_density(before[0], 0.3, -1.0) + log_density(before[1], -0.2, 0.5)
    assert float(log_probs[0]) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(SquashedGaussian.mode(parameters), np.tanh([[0.3, -0.2]]), rtol=1e-6)


def test_density_of_squashed_actions_integrates_to_one():
    edges = np.linspace(-4, 4, 4001)
    middle = (edges[1:] + edges[:-1]) / 2
    noise = ((middle - 0.4) / 0.7).astype(np.float32)[:, None]
    parameters = np.tile(np.array([[0.4, math.log(0.7)]], np.float32), (len(noise), 1))
    _, log_probs = SquashedGaussian.draw(parameters, noise)
    assert np.sum(np.exp(np.array(log_probs)) * np.diff(np.tanh(edges))) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("mean", [-30.0, 30.0])
def test_squashed_density_is_precise_far_from_zero(mean):
    actions, log_probs = SquashedGaussian.draw(np.array([[mean, 0.0]], np.float32), np.zeros((1, 1), np.float32))
    assert abs(float(actions[0, 0])) == 1.0
    # log(1 - tanh(x)^2) = log 4 - 2 |x| for large |x|
    assert float(log_probs[0]) == pytest.approx(-0.5 * math.log(2 * math.pi) - math.log(4) + 60, rel=1e-5)


def test_squashed_samples_have_mean_and_deviation_of_distribution():
    rng = np.random.default_rng(0)
    parameters = np.tile(np.array([[0.5, math.log(0.3)]], np.float32), (20_000, 1))
    drawn = np.arctanh(SquashedGaussian.sample(parameters, rng)[:, 0].astype(np.float64))
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert drawn.std() == pytest.approx(0.3, abs=0.01)


def sac(**params):
    """Return a policy of mean 0 and deviation e^-1, critics x + 2 a and -x, targets 2 x - a and 1, temperature e."""
    config = SACConfig.from_dict({**PLAIN, "learning_rate": 0.1, "initial_ent_coef": math.e, **params})
    agent = SAC(LINE, PUSH, config)
    agent.networks["actor"].set_weights([np.zeros((1, 2)), np.array([0.0, -1.0])])
    set_line(agent.networks["critic"], 1, 2)
    set_line(agent.networks["second_critic"], -1, 0)
    set_line(agent.networks["target_critic"], 2, -1)
    set_line(agent.networks["target_second_critic"], 0, 0, bias=1)
    return agent


NOISE = {"noise": np.array([[1.0], [-1.0]], np.float32), "next_noise": np.array([[0.5], [0.0]], np.float32)}


@pytest.mark.parametrize("params", [{}, {"ent_coef": 2.0}])
def test_sac_critic_loss(params):
    temperature = params.get("ent_coef", math.e)
    before = [0.5 * math.exp(-1), 0.0]
    log_probs = np.array([log_density(b, 0.0, -1.0) for b in before])
    smallest = np.minimum(2 * np.array([2, 0.5]) - np.tanh(before), 1)
    targets = np.array([1, 2]) + np.array([0.5, 0.25]) * (smallest - temperature * log_probs)
    squares = ((np.array([2, 0]) - targets) ** 2).mean() + ((np.array([-1, -2]) - targets) ** 2).mean()
    expected = 0.5 * squares  # as in equation 5 of the paper
    loss = floats(sac(**params).critic_loss(tensors({**ROWS, **NOISE})))
    assert loss["critic"] == pytest.approx(expected, rel=1e-5)


def test_sac_weights_all_of_its_losses():
    """Weights of 1 and 0 leave half of the loss of the first row alone."""
    agent = sac(replay="prioritized")
    rows = {**ROWS, **NOISE, "weights": np.array([1.0, 0.0], np.float32)}
    critic, policy = agent.critic_loss(tensors(rows)), floats(agent.policy_loss(tensors(rows)))
    before = [0.5 * math.exp(-1), 0.0]
    log_probs = np.array([log_density(b, 0.0, -1.0) for b in before])
    smallest = np.minimum(2 * np.array([2, 0.5]) - np.tanh(before), 1)
    targets = np.array([1, 2]) + np.array([0.5, 0.25]) * (smallest - math.e * log_probs)
    first, second = np.array([2, 0]) - targets, np.array([-1, -2]) - targets
    assert float(critic["critic"]) == pytest.approx(0.5 * (first[0] ** 2 + second[0] ** 2) / 2, rel=1e-5)
    np.testing.assert_allclose(critic[PRIORITIES], (np.abs(first) + np.abs(second)) / 2, rtol=1e-5)
    log_prob = log_density(math.exp(-1), 0.0, -1.0)
    value = min(1 + 2 * math.tanh(math.exp(-1)), -1)
    assert policy["actor"] == pytest.approx((math.e * log_prob - value) / 2, rel=1e-5)
    assert policy["temperature"] == pytest.approx(-(log_prob - 1) / 2, rel=1e-5)


def test_sac_policy_and_temperature_losses():
    before = np.array([1, -1]) * math.exp(-1)
    log_probs = np.array([log_density(b, 0.0, -1.0) for b in before])
    values = np.minimum(np.array([1, 2]) + 2 * np.tanh(before), [-1, -2])
    loss = floats(sac().policy_loss(tensors({**ROWS, **NOISE})))
    assert loss["actor"] == pytest.approx((math.e * log_probs - values).mean(), rel=1e-5)
    assert loss["entropy"] == pytest.approx(-log_probs.mean(), rel=1e-5)
    assert loss["temperature"] == pytest.approx(-(1.0 * (log_probs - 1)).mean(), rel=1e-5)  # target -1, log e = 1
    assert loss["ent_coef"] == pytest.approx(math.e, rel=1e-5)


def test_temperature_falls_when_entropy_exceeds_target():
    for target, falls in ((-10.0, True), (0.69, False)):
        agent = sac(target_entropy=target)
        agent.update(Batches({**ROWS, **NOISE}, np.arange(2, dtype=np.int32)[None]))
        [value] = agent.networks["temperature"].get_weights()
        assert (value[0] < 1.0) == falls


def test_sac_with_n_step_returns_is_refused():
    with pytest.raises(ConfigurationError, match=r"n_step must be 1 for SAC, got 3: .* leave out the entropy"):
        SACConfig(n_step=3)


@pytest.mark.parametrize("target", [math.log(2.0), 5.0])
def test_unreachable_target_entropy_is_refused(target):
    with pytest.raises(ConfigurationError, match=r"less than 0\.693, .* got .*; the usual one is -1"):
        SAC(LINE, PUSH, SACConfig(target_entropy=target))
    SAC(LINE, PUSH, SACConfig(target_entropy=0.69))
    SAC(LINE, PUSH, SACConfig(target_entropy=target, ent_coef=0.1))  # a fixed temperature does not use the target


def test_fixed_temperature_has_no_optimizer_and_is_mutable():
    agent = sac(ent_coef=0.5)
    assert set(agent.optimizers) == {"actor", "critic"}
    agent.set_hyperparameter("ent_coef", 0.1)
    assert set(sac().optimizers) == {"actor", "critic", "temperature"}
    with pytest.raises(ConfigurationError, match="ent_coef"):
        sac().set_hyperparameter("ent_coef", 0.1)


# --- common to DDPG, TD3 and SAC


def test_first_actions_are_uniform():
    agent = sac(learning_starts=10)
    drawn = np.concatenate([agent.act(np.zeros((50, 1), np.float32), explore=True) for _ in range(40)])
    assert (drawn.shape, drawn.dtype) == ((2000, 1), np.float32)
    assert np.histogram(drawn, 4, (-1, 1))[0].min() > 400
    agent.advance(10)
    assert (
        np.abs(agent.act(np.zeros((500, 1), np.float32), explore=True)).mean() < 0.5
    )  # actions of the policy, of deviation e^-1


def test_noise_is_added_to_actions_within_bounds():
    agent = ddpg(learning_starts=0, noise_kwargs={"sigma": 0.5})
    drawn = agent.act(np.zeros((2000, 1), np.float32), explore=True)
    assert drawn.std() == pytest.approx(0.48, abs=0.03)  # clipped at two deviations
    assert np.abs(drawn).max() == 1.0
    np.testing.assert_array_equal(agent.act(np.zeros((3, 1), np.float32), explore=False), np.zeros((3, 1)))


def test_correlated_noise_restarts_with_each_episode():
    agent = ddpg(learning_starts=0, noise="ornstein-uhlenbeck", noise_kwargs={"sigma": 1.0, "dt": 1.0})
    observations = np.zeros((2, 1), np.float32)
    for _ in range(20):
        agent.act(observations, explore=True)
    before = agent.noise.get_state()["x"]
    agent.restart(np.array([True, False]))
    after = agent.noise.get_state()["x"]
    assert (after[0, 0], after[1, 0]) == (0.0, before[1, 0])


@pytest.mark.slow
@pytest.mark.parametrize("members", [None, 2])
def test_correlated_noise_restarts_with_new_episodes_of_resumed_training(members):
    params = {"hidden_sizes": (8,), "jit_compile": False, "learning_starts": 0, "batch_size": 8, "n_envs": 2}
    spec = agents.AgentSpec.of("ddpg", "Pendulum-v1", {**params, "noise": "ornstein-uhlenbeck"})
    seen = []

    def training(*callbacks):
        agent = spec.build() if members is None else Population(spec, [{"seed": seed} for seed in range(members)])
        return agents.Trainer(agent, callbacks=callbacks)

    def drift(trainer):
        actors = [trainer.agent] if members is None else trainer.agent.actors
        return [actor.noise.get_state()["x"] for actor in actors]

    begins = agents.LambdaCallback(on_episode_begin=lambda trainer, *_: seen.append(drift(trainer)))
    with training() as first, training(begins) as second:
        first.train(env_steps=20)
        assert all(np.abs(x).min() > 0 for x in drift(first))
        second.set_state(first.get_state(environments=False))
        second.train(env_steps=4)
    assert all(x.shape == (0,) for own in seen for x in own)
    assert len(seen) == 2 * (members or 1)


def test_evaluation_and_prediction_do_not_change_training_noise():
    params = {"hidden_sizes": (8,), "jit_compile": False, "learning_starts": 20, "batch_size": 8, "n_envs": 2}
    agent = agents.make("ddpg", "Pendulum-v1", noise="ornstein-uhlenbeck", **params)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=60)
        before = agent.noise.get_state()["x"]
        agents.evaluate(agent, n_episodes=3, explore=True)
        agents.evaluate(agent, n_episodes=3)
        agents.play(agent, n_episodes=1, explore=True)
        np.testing.assert_array_equal(agent.noise.get_state()["x"], before)
        observations = np.zeros((3, 3), np.float32)
        best = agent.predict(observations[0])
        drifts = [np.abs(agent.predict(observations[0], deterministic=False) - best).item() for _ in range(400)]
        assert np.mean(drifts[200:]) > 1.5 * np.mean(drifts[:10])  # the noise stays correlated over calls
        assert agent.predict(observations, deterministic=False).shape == (3, 1)
        np.testing.assert_array_equal(agent.noise.get_state()["x"], before)
        trainer.train(env_steps=60)


def test_critic_network_settings_apply_to_both_critics():
    agent = agents.make("sac", "Pendulum-v1", hidden_sizes=(4,), networks={"critic": {"hidden_sizes": [6]}})
    for name in ("critic", "second_critic", "target_second_critic"):
        assert agent.networks[name].get_weights()[0].shape == (4, 6)
    assert agent.networks["actor"].get_weights()[0].shape == (3, 4)


def test_unsupported_action_spaces_are_refused():
    for kind in (DDPG, TD3, SAC):
        with pytest.raises(
            ConfigurationError, match=rf"{kind.__name__} takes continuous actions.*acer, dqn, ppo, rainbow"
        ):
            kind(LINE, spaces.Discrete(2))
        with pytest.raises(
            ConfigurationError,
            match=rf"{kind.__name__} takes continuous actions within bounds.* a2c, ppo and trpo take these",
        ):
            kind(LINE, spaces.Box(-np.inf, np.inf, (1,), np.float32))


def test_critic_concatenates_actions_after_convolutions():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    critic = critic_network(space, (8,), 2)
    images = np.random.default_rng(0).integers(0, 256, (3, 36, 36, 1)).astype(np.uint8)
    values = [np.array(critic([images, np.full((3, 2), a, np.float32)])) for a in (0.0, 1.0)]
    assert values[0].shape == (3, 1)
    assert not np.allclose(*values)


@pytest.mark.slow
def test_sac_updates_on_image_observations():
    space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    agent = SAC(space, PUSH, SACConfig(hidden_sizes=(8,), batch_size=2))
    images = np.random.default_rng(0).integers(0, 256, (2, 36, 36, 1)).astype(np.uint8)
    rows = {**ROWS, "observations": images, "next_observations": images[::-1], **NOISE}
    assert agent.update(Batches(rows, np.arange(2, dtype=np.int32)[None])).finite
    assert agent.act(images).shape == (2, 1)


def test_constant_ignores_its_input():
    network = constant(LINE, 0.5)
    np.testing.assert_array_equal(np.array(network(np.ones((3, 1), np.float32))), np.full((3, 1), 0.5))
    np.testing.assert_array_equal(
        Constant(0.5).numpy_call(np.ones((2, 3, 4), np.float32), [np.array([0.5], np.float32)]), np.full((2, 3, 1), 0.5)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ddpg", {}),
        pytest.param("ddpg", {"noise": "ornstein-uhlenbeck"}, marks=pytest.mark.slow),
        ("td3", {"gradient_steps": 2}),
        ("sac", {}),
        ("sac", {"ent_coef": 0.1, "n_envs": 2}),
        pytest.param("sac", {"replay": "prioritized"}, marks=pytest.mark.slow),
        pytest.param("ddpg", {"n_step": 2}, marks=pytest.mark.slow),
        pytest.param("td3", {"replay": "prioritized", "gradient_steps": 2}, marks=pytest.mark.slow),
        ("a2c", {}),
        pytest.param("trpo", {"n_envs": 2, "n_steps": 15}, marks=pytest.mark.slow),
    ],
)
def test_population_members_equal_agents_trained_alone(name, params):
    small = {"hidden_sizes": (8,), "jit_compile": False, **params}
    if name not in ("a2c", "trpo"):
        small |= {"learning_starts": 20, "batch_size": 8}
    for member, alone in members_and_agents_alone(name, "Pendulum-v1", small):
        assert alone.newest_loss == pytest.approx(member.newest_loss, rel=1e-5)


# --- optimizer steps in turns


class InTurns(KerasAgent):
    """Agent with weights a = b = 1: first a changes by -b, then b by -(the new a), each at its every `every`th step."""

    order = (("a",), ("b",))
    every = (1, 1)

    def build(self):
        return {name: constant(self.observation_space, 1.0, name=name) for name in "ab"}

    def optimized_networks(self):
        return {name: [name] for name in "ab"}

    def act(self, observations, explore=True):
        return np.zeros(len(observations), np.int64)

    def make_buffer(self, n_envs, rng):
        return UniformReplay(buffer_size=10, batch_size=1, n_envs=n_envs, rng=rng)

    def product(self, batch):
        a, b = (self.networks[name](batch["observations"])[0, 0] for name in "ab")
        return dict.fromkeys("ab", a * b)

    def optimizer_steps(self):
        return [OptimizerStep(names, self.product, every) for names, every in zip(self.order, self.every, strict=True)]


def weights_after(n, order, every):
    kind = type("Kind", (InTurns,), {"order": order, "every": every})
    config = agents.AgentConfig(optimizer="sgd", learning_rate=0.5, jit_compile=False)
    agent = kind(LINE, spaces.Discrete(2), config)
    rows = {"observations": np.zeros((n, 1), np.float32)}
    agent.update(Batches(rows, np.arange(n, dtype=np.int32)[:, None]))
    return [float(agent.networks[name].get_weights()[0][0]) for name in "ab"]


@pytest.mark.slow
def test_optimizer_steps_in_turns_by_hand():
    assert weights_after(1, (("a", "b"),), (1,)) == [0.5, 0.5]
    assert weights_after(1, (("a",), ("b",)), (1, 1)) == [0.5, 0.75]  # b uses the updated a
    assert weights_after(1, (("b",), ("a",)), (1, 1)) == [0.75, 0.5]
    assert weights_after(2, (("a",), ("b",)), (1, 2)) == [0.0, 1.0]  # b is updated when a is 0
    assert weights_after(3, (("a",), ("b",)), (1, 3)) == [-0.5, 1.25]


@pytest.mark.parametrize("order", [(("a",), ("a", "b")), (("a",),), (("a",), ("c",))])
def test_optimizer_missing_from_steps_or_repeated_is_refused(order):
    with pytest.raises(
        ConfigurationError, match=r"optimizer_steps\(\) must have each of the optimizers \['a', 'b'\] in one step"
    ):
        weights_after(1, order, (1,) * len(order))


def test_agent_without_loss_raises_not_implemented():
    kind = type("Kind", (InTurns,), {"turns": KerasAgent.optimizer_steps})
    agent = kind(LINE, spaces.Discrete(2), agents.AgentConfig(jit_compile=False))
    with pytest.raises(NotImplementedError, match=r"needs a method loss\(batch\), or optimizer_steps\(\)"):
        agent.update(Batches({"observations": np.zeros((1, 1), np.float32)}, np.zeros((1, 1), np.int32)))
    assert issubclass(kind, Agent)


def test_strategy_refuses_optimizers_that_step_in_turns():
    from agents.distributed.replicas import DistributedSteps

    with pytest.raises(ConfigurationError, match=r"one after the other \(critic, then actor and temperature\)"):
        DistributedSteps(sac().learnable(), None)


def test_state_of_agent_without_noise_starts_agent_with_noise():
    params = {"hidden_sizes": (8,), "learning_starts": 0}
    plain = agents.make("sac", "Pendulum-v1", **params)
    spec = AgentSpec.of(plain, None, {"noise": "gaussian"})
    started = AgentSpec(spec.agent, spec.environment, spec.config, plain.get_state()).build(1)
    np.testing.assert_array_equal(started.networks["actor"].get_weights()[0], plain.networks["actor"].get_weights()[0])


@pytest.mark.slow
def test_learning_rate_schedules_count_the_steps_of_their_optimizer():
    schedule = keras.optimizers.schedules.serialize(keras.optimizers.schedules.PolynomialDecay(1e-3, 1000, 0.0))
    params = {"hidden_sizes": (8,), "learning_starts": 8, "batch_size": 4, "jit_compile": False}
    agent = agents.make("td3", "Pendulum-v1", learning_rate=schedule, policy_delay=2, **params)
    with agents.Trainer(agent) as trainer:
        trainer.train(env_steps=48, progress=False)
    assert agent.gradient_steps == 40
    assert agent.get_learning_rate("critic") == pytest.approx(1e-3 * (1 - 40 / 1000))
    assert agent.get_learning_rate("actor") == pytest.approx(1e-3 * (1 - 20 / 1000))
