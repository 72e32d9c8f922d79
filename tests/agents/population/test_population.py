"""Tests of populations: every member trains exactly as it would alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import keras
import numpy as np
import pytest
from movements import assert_same_movement

import agents
from agents import AgentSpec, ConfigurationError, EnvironmentSpec, KerasAgent, LambdaCallback, Trainer, hyperparameter
from agents.algorithms.dqn import DQN
from agents.algorithms.ppo import PPO, PPOConfig
from agents.algorithms.sac import SAC
from agents.config.optimizers import KERAS_OPTIMIZERS, OptimizerSpec
from agents.errors import NotMappableError
from agents.population import CompiledTemplate, Population

SMALL_PPO = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2, "hidden_sizes": [8], "jit_compile": False}
SMALL_DQN = {"learning_starts": 32, "batch_size": 8, "hidden_sizes": [8], "train_freq": 2, "jit_compile": False}
SMALL = {"ppo": SMALL_PPO, "dqn": SMALL_DQN}


def spec_of(algorithm: Any, environment: Any = "CartPole-v1", **params: Any) -> AgentSpec:
    small = (
        SMALL_DQN
        if algorithm in ("dqn", "rainbow") or (isinstance(algorithm, type) and issubclass(algorithm, DQN))
        else SMALL_PPO
    )
    return AgentSpec.of(algorithm, environment, {**small, **params})


class TrainerWithInitialWeights(Trainer):
    """Trainer that keeps the initial weights of its agent."""

    def __init__(self, agent: KerasAgent) -> None:
        super().__init__(agent)
        self.began = weights_of(agent)


def trained(spec: AgentSpec, members: list[dict[str, Any]], env_steps: int, **kwargs: Any) -> Trainer:
    trainer = Trainer(Population(spec, members), **kwargs)
    trainer.train(env_steps=env_steps)
    return trainer


def trained_alone(spec: AgentSpec, member: dict[str, Any], env_steps: int) -> TrainerWithInitialWeights:
    params = dict(member)
    seed = params.pop("seed", 0)
    trainer = TrainerWithInitialWeights(spec.with_params(params).build(seed))
    trainer.train(env_steps=env_steps)
    return trainer


def weights_of(agent: KerasAgent) -> list[np.ndarray]:
    return [weight.numpy() for network in agent.networks.values() for weight in network.weights]


def assert_same_run(
    together: Trainer, member: int, single: TrainerWithInitialWeights, position: int | None = None
) -> None:
    assert together.runs[member].history.returns == single.history.returns
    assert single.agent.gradient_steps >= 1
    own = together.agent.extract(member if position is None else position)
    assert_same_movement(weights_of(own), weights_of(single.agent), single.began)


# --- parity

PPO_MEMBERS = [
    {"seed": 0, "learning_rate": 1e-3, "gamma": 0.9, "gae_lambda": 0.8, "clip_range": 0.1},
    {"seed": 1, "learning_rate": 1e-2, "ent_coef": 0.05, "vf_coef": 0.9},
    {"seed": 1, "learning_rate": 1e-4},
]
DQN_MEMBERS = [
    {"seed": 0, "learning_rate": 1e-3, "gamma": 0.9, "tau": 0.5},
    {"seed": 1, "learning_rate": 1e-2, "exploration_final_eps": 0.3, "exploration_steps": 100},
    {"seed": 1, "learning_rate": 1e-4},
]


@pytest.mark.parametrize(
    ("algorithm", "members", "params"),
    [
        ("ppo", PPO_MEMBERS, {}),
        ("ppo", PPO_MEMBERS, {"normalize_observations": True}),
        ("ppo", PPO_MEMBERS, {"normalize_rewards": True}),
        ("dqn", DQN_MEMBERS, {"target_update_interval": 7}),
        ("dqn", DQN_MEMBERS, {"n_step": 3, "double": True, "dueling": True, "n_envs": 3, "gradient_steps": 2}),
        ("dqn", [{**member, "policy": "boltzmann-gumbel"} for member in DQN_MEMBERS[::2]], {}),
        (
            "dqn",
            [*DQN_MEMBERS[:2], {"seed": 1, "priority_alpha": 0.9, "priority_beta": 0.0}],
            {"replay": "prioritized"},
        ),
        ("dqn", DQN_MEMBERS[::2], {"noisy": True, "double": True, "n_envs": 2}),
        ("dqn", [DQN_MEMBERS[0], {"seed": 1, "v_min": -1.0, "v_max": 5.0}], {"n_atoms": 11, "policy": "boltzmann"}),
        ("rainbow", [DQN_MEMBERS[0], {"seed": 1, "v_max": 20.0}], {"n_atoms": 11, "gradient_steps": 2}),
        ("dqn", DQN_MEMBERS[1:], {"noisy": True, "dueling": True, "gradient_steps": 2, "policy": "epsilon-greedy"}),
        (
            "dqn",
            DQN_MEMBERS,
            {"replay": "prioritized", "n_step": 3, "n_envs": 3, "gradient_steps": 2, "buffer_size": 90},
        ),
    ],
)
@pytest.mark.slow
def test_population_member_equals_agent_trained_alone(
    algorithm: str, members: list[dict[str, Any]], params: dict[str, Any]
):
    spec = spec_of(algorithm, **params)
    together = trained(spec, members, 240)
    for i, member in enumerate(members):
        assert_same_run(together, i, trained_alone(spec, member, 240))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "environment"),
    [("dqn", "CartPole-v1"), ("ppo", "CartPole-v1"), ("a2c", "Pendulum-v1"), ("sac", "Pendulum-v1")],
)
def test_comparison_detects_wrong_discount(algorithm: str, environment: str):
    small = {"hidden_sizes": [8], "jit_compile": False}
    small |= {"dqn": SMALL_DQN, "ppo": SMALL_PPO, "a2c": {}, "sac": {"learning_starts": 20, "batch_size": 8}}[algorithm]
    spec = AgentSpec.of(algorithm, environment, small)
    right = trained_alone(spec, {"gamma": 0.5}, 60)
    wrong = trained_alone(spec, {"gamma": 0.5001}, 60)
    with pytest.raises(AssertionError, match="the movements differ by"):
        assert_same_movement(weights_of(wrong.agent), weights_of(right.agent), right.began)
    assert_same_movement(weights_of(right.agent), weights_of(right.agent), right.began)


@pytest.mark.slow
def test_population_trains_on_continuous_actions():
    spec = spec_of("ppo", "Pendulum-v1", normalize_observations=True)
    together = trained(spec, PPO_MEMBERS, 240)
    for i, member in enumerate(PPO_MEMBERS):
        assert_same_run(together, i, trained_alone(spec, member, 240))


AVERAGES = {"optimizer.use_ema": True, "optimizer.ema_overwrite_frequency": 7}
ARGUMENTS = {
    "sgd": {"optimizer.momentum": 0.9, "optimizer.nesterov": True},
    "rmsprop": {"optimizer.centered": True, "optimizer.momentum": 0.5},
    "adam": {"optimizer.amsgrad": True, "optimizer.clipvalue": 0.1, **AVERAGES},
    "adamw": {"optimizer.clipnorm": 0.1},
    "nadam": {"optimizer.global_clipnorm": 0.1},
}


def optimizers_and_algorithms() -> list[Any]:
    """Return every optimizer with both algorithms; pairs that RULES covers are left to `make test-all`."""
    quick = {("adam", "ppo"), ("adafactor", "dqn"), ("ftrl", "dqn")}
    pairs = [(optimizer, algorithm) for optimizer in sorted(KERAS_OPTIMIZERS) for algorithm in ("dqn", "ppo")]
    return [pytest.param(*pair, marks=[] if pair in quick else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("optimizer", "algorithm"), optimizers_and_algorithms())
def test_every_keras_optimizer_is_equal_in_population_and_alone(optimizer: str, algorithm: str):
    params = {"optimizer": optimizer, **ARGUMENTS.get(optimizer, {}), "max_grad_norm": None}
    if algorithm == "dqn":
        params |= {"gradient_steps": 4, "train_freq": 4}
    spec = spec_of(algorithm, **params)
    members = [{"seed": 0, "learning_rate": 1e-3}, {"seed": 1, "learning_rate": 1e-2}]
    env_steps = 16 * 2 * 26 if algorithm == "ppo" else 32 + 4 * 26  # at least 100 gradient steps
    together = trained(spec, members, env_steps)
    assert together.agent.gradient_steps >= 100
    assert_same_run(together, 1, trained_alone(spec, members[1], env_steps))


RULES = [
    pytest.param(
        "sgd", {"momentum": 0.9, "weight_decay": 0.1}, {"momentum": 0.5, "weight_decay": 0.01}, marks=pytest.mark.slow
    ),
    ("sgd", {"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "nesterov": True}),
    pytest.param(
        "rmsprop",
        {"rho": 0.9, "momentum": 0.5, "epsilon": 1e-5},
        {"rho": 0.99, "momentum": 0.9, "epsilon": 1e-3},
        marks=pytest.mark.slow,
    ),
    ("adam", {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}, {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    pytest.param("adamw", {"weight_decay": 0.004}, {"weight_decay": 0.5}, marks=pytest.mark.slow),
    pytest.param("adamax", {"beta_1": 0.9, "beta_2": 0.999}, {"beta_1": 0.5, "beta_2": 0.9}, marks=pytest.mark.slow),
    pytest.param("nadam", {"beta_1": 0.9, "beta_2": 0.999}, {"beta_1": 0.5, "beta_2": 0.9}, marks=pytest.mark.slow),
    pytest.param("lion", {"beta_1": 0.9, "beta_2": 0.99}, {"beta_1": 0.5, "beta_2": 0.9}, marks=pytest.mark.slow),
    pytest.param("lamb", {"beta_1": 0.9, "epsilon": 1e-6}, {"beta_1": 0.5, "epsilon": 1e-3}, marks=pytest.mark.slow),
    pytest.param("adadelta", {"rho": 0.95, "epsilon": 1e-7}, {"rho": 0.5, "epsilon": 1e-3}, marks=pytest.mark.slow),
    pytest.param("adagrad", {"epsilon": 1e-7}, {"epsilon": 1e-3}, marks=pytest.mark.slow),
    pytest.param(
        "muon",
        {"momentum": 0.95, "weight_decay": 0.004},
        {"momentum": 0.5, "weight_decay": 0.1},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "schedulefreeadamw",
        {"beta_1": 0.9, "weight_decay": 0.1},
        {"beta_1": 0.8, "weight_decay": 0.01},
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "first", "second"), RULES)
def test_members_may_differ_in_optimizer_numbers(
    optimizer: str, first: dict[str, Any], second: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    spec = spec_of("dqn", optimizer=optimizer)
    members = [{"seed": 1, "learning_rate": 1e-2, "optimizer_kwargs": numbers} for numbers in (first, second)]
    together = trained(spec, members, 240)
    assert_equal_to_compiled_in_numbers(together, spec, members, monkeypatch)


def assert_equal_to_compiled_in_numbers(
    together: Trainer, spec: AgentSpec, members: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Assert that members equal agents trained alone with plain numbers, which are compiled in."""
    own = [weights_of(together.agent.extract(i)) for i in range(2)]
    assert not np.allclose(own[0][0], own[1][0], rtol=1e-3)
    monkeypatch.setattr(OptimizerSpec, "numbers", lambda _: {})
    for weights, member in zip(own, members, strict=True):
        single = trained_alone(spec, member, 240)
        assert_same_movement(weights, weights_of(single.agent), single.began)


SCHEDULES = [
    ("CosineDecay", {"initial_learning_rate": 0.0, "alpha": 0.1, "decay_steps": 60, "warmup_target": 1e-2}),
    pytest.param(
        "CosineDecayRestarts",
        {"initial_learning_rate": 1e-2, "alpha": 0.1, "first_decay_steps": 20},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "ExponentialDecay",
        {"initial_learning_rate": 1e-2, "decay_rate": 0.5, "decay_steps": 50},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "InverseTimeDecay",
        {"initial_learning_rate": 1e-2, "decay_rate": 0.5, "decay_steps": 50},
        marks=pytest.mark.slow,
    ),
    pytest.param(
        "PolynomialDecay",
        {"initial_learning_rate": 1e-2, "end_learning_rate": 1e-3, "decay_steps": 50},
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config"), SCHEDULES)
def test_members_may_differ_in_schedule_numbers(name: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    spec = spec_of("dqn")
    numbers = [value for key, value in config.items() if "steps" not in key]
    halved = {key: value / 2 if value in numbers else value for key, value in config.items()}
    members = [{"seed": 1, "learning_rate": {"class_name": name, "config": own}} for own in (config, halved)]
    together = trained(spec, members, 240)
    assert_equal_to_compiled_in_numbers(together, spec, members, monkeypatch)


def test_optimizer_numbers_change_during_training():
    spec = spec_of("dqn", optimizer="adamw(weight_decay=0.1)")
    trainer = trained(spec, [{"seed": 0}, {"seed": 0}], 100)
    trainer.set_hyperparameter("optimizer.weight_decay", 20.0, member=1)
    trainer.train(env_steps=60)
    norms = [sum(float((w**2).sum()) for w in weights_of(trainer.agent.extract(i))) for i in range(2)]
    assert norms[1] < 0.9 * norms[0]
    assert trainer.agent.extract(1).config.optimizer_kwargs == {"weight_decay": 20.0}
    with pytest.raises(ConfigurationError, match=r"cannot change while a DQN trains; these can: .*weight_decay"):
        trainer.set_hyperparameter("optimizer.beta_1", 0.5)
    with pytest.raises(ConfigurationError, match="weight_decay"):
        trainer.set_hyperparameter("optimizer.weight_decay", 0.0)  # the optimizer drops weight decay of 0


@pytest.mark.slow
def test_learning_rate_schedule_advances_in_every_member():
    schedule = keras.optimizers.schedules.serialize(keras.optimizers.schedules.ExponentialDecay(1e-2, 10, 0.5))
    spec = spec_of("ppo", learning_rate=schedule)
    together = trained(spec, [{"seed": 0}, {"seed": 1}], 96)
    for i in range(2):
        assert_same_run(together, i, trained_alone(spec, {"seed": i}, 96))


class OwnSgd(keras.optimizers.SGD):
    """SGD with gradients normalised per variable: each step has the length of the learning rate."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        norm = keras.ops.sqrt(keras.ops.sum(keras.ops.square(gradient))) + 1e-8
        super().update_step(gradient / norm, variable, learning_rate)


@pytest.mark.slow
def test_user_optimizer_is_equal_in_population_and_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("__main__.OwnSgd", OwnSgd, raising=False)
    spec = spec_of("ppo", optimizer="__main__:OwnSgd")
    members = [{"seed": 0, "learning_rate": 1e-3}, {"seed": 1, "learning_rate": 1e-2}]
    together = trained(spec, members, 96)
    for i, member in enumerate(members):
        assert_same_run(together, i, trained_alone(spec, member, 96))


@pytest.mark.slow
def test_population_with_xla_equals_agents_trained_alone():
    spec = spec_of("ppo", jit_compile=True)
    together = trained(spec, PPO_MEMBERS, 96)
    for i, member in enumerate(PPO_MEMBERS):
        assert_same_run(together, i, trained_alone(spec, member, 96))


@pytest.mark.slow
def test_population_of_one_equals_agent_alone():
    spec = spec_of("dqn")
    assert_same_run(trained(spec, [{"seed": 3}], 96), 0, trained_alone(spec, {"seed": 3}, 96))


@pytest.mark.slow
def test_members_start_from_trained_weights():
    first = trained_alone(spec_of("ppo", normalize_observations=True), {"seed": 0}, 96).agent
    spec = AgentSpec.of(first)
    together = trained(spec, [{"seed": 0}, {"seed": 1, "learning_rate": 1e-2}], 96)
    assert_same_run(together, 1, trained_alone(spec, {"seed": 1, "learning_rate": 1e-2}, 96))


# --- leaving members, live hyperparameters, state


def test_leaving_members_do_not_affect_others():
    spec = spec_of("dqn", n_step=2)
    members = [{"seed": i, "learning_rate": 1e-3} for i in range(4)]

    def stop(trainer: Trainer) -> None:
        if trainer.env_steps == 60:
            trainer.stop("enough", 1)
        if trainer.env_steps == 90:
            trainer.stop("enough", 0)

    together = trained(spec, members, 200, callbacks=[LambdaCallback(on_step_end=stop)])
    assert [run.env_steps for run in together.runs] == [90, 60, 200, 200]
    assert [member.seed for member in together.agent.members] == [2, 3]
    for position, seed in enumerate((2, 3)):
        assert_same_run(together, seed, trained_alone(spec, {"seed": seed, "learning_rate": 1e-3}, 200), position)


@pytest.mark.slow
def test_variables_of_the_template_are_no_members_values():
    population = Population(spec_of("dqn"), [{"seed": i} for i in range(2)])
    with Trainer(population) as trainer:
        trainer.train(env_steps=96)
    for variable in population.agent.state_variables():
        values = variable.numpy()
        assert np.all(np.isnan(values) if values.dtype.kind == "f" else values == 0), variable.name


def test_leaving_members_do_not_cause_compilation():
    population = Population(spec_of("ppo"), [{"seed": i} for i in range(4)])
    trainer = Trainer(population)
    trainer.train(env_steps=64)
    compiled = dict(population._template.update._compiled)
    trainer.stop("enough", 2)
    trainer.callbacks = trainer.callbacks
    trainer._select([0, 3])
    trainer.train(env_steps=64)
    assert population._template.update._compiled == compiled


def test_episode_budgets_are_exact_for_every_member():
    trainer = Trainer(Population(spec_of("dqn"), [{"seed": i} for i in range(3)]))
    left = []
    with trainer.with_listeners(LambdaCallback(on_run_end=lambda t, run: left.append(run.member))):
        trainer.train(episodes=4)
    assert [len(run.history.returns) for run in trainer.runs] == [4, 4, 4]
    assert sorted(left) == [0, 1, 2]


def test_hyperparameters_change_for_one_member_or_all():
    spec = spec_of("dqn", n_step=2)
    trainer = Trainer(Population(spec, [{"seed": 0}, {"seed": 1}]))
    trainer.set_hyperparameter("gamma", 0.5, member=1)
    trainer.set_hyperparameter("learning_rate", 1e-2)
    trainer.train(env_steps=96)
    for i, gamma in enumerate((0.99, 0.5)):
        single = TrainerWithInitialWeights(spec.build(i))
        single.set_hyperparameter("gamma", gamma)
        single.set_hyperparameter("learning_rate", 1e-2)
        single.train(env_steps=96)
        assert_same_run(trainer, i, single)
        assert trainer.agent.extract(i).config.gamma == gamma


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_restored_population_continues_identically(algorithm: str):
    spec = spec_of(algorithm)
    members = [{"seed": i, "learning_rate": 1e-3 * (i + 1)} for i in range(3)]
    straight = trained(spec, members, 150)
    straight.train(env_steps=100)
    first = trained(spec, members, 150)
    state = first.get_state()
    other = Trainer(Population(spec, members))
    other.set_state(state)
    other.train(env_steps=100)
    for i in range(3):
        assert other.runs[i].history.returns == straight.runs[i].history.returns
        for one, two in zip(weights_of(other.agent.extract(i)), weights_of(straight.agent.extract(i)), strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_extracted_member_trains_alone():
    spec = spec_of("ppo")
    together = trained(spec, PPO_MEMBERS, 96)
    agent = together.agent.extract(1)
    assert agent.config.ent_coef == 0.05
    assert agent.get_learning_rate() == pytest.approx(1e-2)
    assert agent.gradient_steps == together.agent.gradient_steps
    Trainer(agent).train(env_steps=64)


@pytest.mark.slow
def test_template_is_reused_by_fewer_members():
    spec = spec_of("ppo")
    template = CompiledTemplate(spec, 3)
    Trainer(Population(spec, PPO_MEMBERS, template=template)).train(env_steps=96)
    again = Trainer(Population(spec, PPO_MEMBERS[1:], template=template))
    again.train(env_steps=96)
    for i, member in enumerate(PPO_MEMBERS[1:]):
        assert_same_run(again, i, trained_alone(spec, member, 96))
    with pytest.raises(ConfigurationError, match="4 members do not fit into a template for 3"):
        Population(spec, [{"seed": i} for i in range(4)], template=template)


# --- callbacks


def test_events_name_their_member():
    received: dict[str, list[int]] = {"begin": [], "end": [], "update": []}
    recorder = LambdaCallback(
        on_episode_begin=lambda t, environment, member: received["begin"].append(member),
        on_episode_end=lambda t, episode: received["end"].append(episode.member),
        on_update_end=lambda t, update: received["update"].append(update.member),
    )
    trained(spec_of("ppo"), [{"seed": 0}, {"seed": 1}], 64, callbacks=[recorder])
    assert received["begin"][:4] == [0, 0, 1, 1]
    assert set(received["end"]) == {0, 1}
    assert received["update"] == [0, 1, 0, 1]


@pytest.mark.slow
def test_every_gradient_step_of_population_is_reported_on_request():
    class Each(agents.Callback):
        every_gradient_step = True

        def __init__(self) -> None:
            self.losses: list[tuple[int, float]] = []

        def on_update_end(self, trainer: Trainer, update: Any) -> None:
            assert update.losses["default"].shape == (1,)
            self.losses.append((update.member, update.loss))

    each = Each()
    together = trained(spec_of("ppo"), [{"seed": 0}, {"seed": 1}], 32, callbacks=[each])
    assert len(each.losses) == 2 * 4
    assert_same_run(together, 1, trained_alone(spec_of("ppo"), {"seed": 1}, 32))


# --- failures


class Failing(gym.Wrapper[Any, Any, Any, Any]):
    """CartPole that raises, or returns a reward of nan, in copies whose first seed is given."""

    seeds: tuple[int, ...] = ()
    how = "raise"

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.bad = seed in self.seeds
            self.steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.bad and self.steps == 20:
            if self.how == "raise":
                raise RuntimeError("the arm fell off")
            reward = float("nan")
        return observation, reward, terminated, truncated, info


@pytest.mark.slow
@pytest.mark.parametrize(("how", "message"), [("raise", "the arm fell off"), ("nan", "gave the reward nan")])
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_failing_environment_ends_only_its_member(
    algorithm: str, how: str, message: str, monkeypatch: pytest.MonkeyPatch
):
    from agents import seeding

    monkeypatch.setattr(Failing, "seeds", tuple(seeding.integers(1, "environment", 2)))
    monkeypatch.setattr(Failing, "how", how)
    spec = spec_of(algorithm, EnvironmentSpec(lambda: Failing(gym.make("CartPole-v1"))))
    together = trained(spec, [{"seed": i} for i in range(3)], 120)
    assert message in str(together.runs[1].error)
    assert together.runs[1].env_steps <= 40
    for position, seed in enumerate((0, 2)):
        assert together.runs[seed].error is None
        assert_same_run(together, seed, trained_alone(spec, {"seed": seed}, 120), position)


def test_members_of_different_structure_are_refused():
    with pytest.raises(ConfigurationError, match=r"these differ in hidden_sizes \(\[8\] and \[4\]\)"):
        Population(spec_of("ppo"), [{}, {"hidden_sizes": [4]}])
    with pytest.raises(ConfigurationError, match="at least one member"):
        Population(spec_of("ppo"), [])


# --- agents that cannot be members


class ReadsConfigInLoss(PPO):
    """Agent that reads a live hyperparameter from the config, where its value would be compiled in."""

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        losses = super().loss(batch)
        return {**losses, "default": losses["default"] * self.config.gamma}


def test_loss_cannot_read_live_value_from_config():
    with pytest.raises(ConfigurationError, match=r"read self\.hyperparameters\.gamma"):
        trained(spec_of(ReadsConfigInLoss), [{}, {}], 64)
    with pytest.raises(ConfigurationError, match=r"read self\.hyperparameters\.gamma"):
        trained_alone(spec_of(ReadsConfigInLoss), {}, 64)


class Direct(PPO):
    """Agent that calls its network directly."""

    def act(self, observations: Any, explore: bool = True) -> Any:
        logits = np.asarray(self.networks["actor"](observations))
        return self.distribution.sample(logits, self.rng) if explore else self.distribution.mode(logits)


class Hidden(PPO):
    """Agent that stores its network in an attribute and calls it."""

    def build(self) -> Mapping[str, keras.Model]:
        networks = super().build()
        self.actor = networks["actor"]
        return networks

    def act(self, observations: Any, explore: bool = True) -> Any:
        logits = np.asarray(self.actor(observations))
        return self.distribution.sample(logits, self.rng) if explore else self.distribution.mode(logits)


class OwnInit(PPO):
    """Agent with an `__init__` of its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[Any] = []


@pytest.mark.parametrize(
    ("agent", "message"),
    [(Direct, r"use self\.infer"), (Hidden, "acts otherwise than alone"), (OwnInit, "__init__")],
)
def test_unsuitable_agents_are_refused_with_reason(agent: type[PPO], message: str):
    with pytest.raises(NotMappableError, match=message):
        Population(spec_of(agent), [{"seed": 0}, {"seed": 1}])


@dataclass(frozen=True, kw_only=True)
class MineConfig(PPOConfig):
    bias: float = hyperparameter(0.0, "Added to rewards.", live=True)


class Mine(PPO):
    """Agent that prepares with means over all rows, which must come from one member."""

    config_class = MineConfig

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        rewards = data["rewards"]
        return super().preprocess_batch(
            {**data, "rewards": rewards - rewards.mean() + np.float32(self.hyperparameters.bias)}
        )


@pytest.mark.slow
def test_user_agent_prepares_data_per_member():
    spec = spec_of(Mine)
    members = [{"seed": 0, "bias": 1.0}, {"seed": 1, "bias": 2.0, "gamma": 0.5}]
    together = trained(spec, members, 96)
    for i, member in enumerate(members):
        assert_same_run(together, i, trained_alone(spec, member, 96))


class Convolutional(KerasAgent):
    """Agent with a convolutional network."""

    def build(self) -> Mapping[str, keras.Model]:
        layers = keras.layers
        return {
            "policy": keras.Sequential(
                [keras.Input((4,)), layers.Reshape((4, 1)), layers.Conv1D(3, 2), layers.Flatten(), layers.Dense(2)]
            )
        }

    def act(self, observations: Any, explore: bool = True) -> Any:
        logits = self.infer("policy", observations)
        noise = self.rng.gumbel(size=logits.shape) if explore else 0.0
        return np.argmax(logits + noise, axis=1)

    def make_buffer(self, n_envs: int, rng: np.random.Generator) -> agents.RolloutBuffer:
        return agents.RolloutBuffer(n_steps=16, rng=rng)

    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        log_probs = keras.ops.log_softmax(self.networks["policy"](batch["observations"]))
        chosen = keras.ops.take_along_axis(log_probs, batch["actions"][:, None], 1)[:, 0]
        return {"default": -keras.ops.mean(chosen * batch["rewards"])}


@pytest.mark.slow
def test_convolutional_networks_act_per_member():
    spec = AgentSpec.of(Convolutional, "CartPole-v1", {"n_envs": 2})
    members = [{"seed": 0, "learning_rate": 1e-2}, {"seed": 1, "learning_rate": 1e-3}]
    together = trained(spec, members, 128)
    for i, member in enumerate(members):
        assert_same_run(together, i, trained_alone(spec, member, 128))


# --- state that members see


class Counting(DQN):
    """Agent that records its gradient steps at each preparation."""

    def start(self) -> None:
        super().start()
        self.seen: list[int] = []

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        self.seen.append(self.gradient_steps)
        return data


def test_members_know_their_gradient_steps():
    population = Population(spec_of(Counting), [{"seed": 0}, {"seed": 1}])
    Trainer(population).train(env_steps=40)
    assert [actor.seen for actor in population.actors] == [[0, 1, 2, 3]] * 2


class ReadsLive(DQN):
    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "rewards": data["rewards"] * float(self.live.gamma.numpy())}


def test_live_variables_cannot_be_read_outside_of_loss():
    with pytest.raises(NotMappableError, match=r"use self\.hyperparameters\.gamma"):
        Trainer(Population(spec_of(ReadsLive), [{"seed": 0}])).train(env_steps=40)


class ReadsActing(DQN):
    def loss(self, batch: dict[str, Any]) -> Mapping[str, Any]:
        return {"default": super().loss(batch)["default"] * self.config.exploration_final_eps}


def test_loss_cannot_read_exploration_settings():
    trainer = Trainer(Population(spec_of(ReadsActing), [{"seed": 0}]))
    with pytest.raises(ConfigurationError, match=r"loss\(\) reads self.config.exploration_final_eps"):
        trainer.train(env_steps=40)


class Values(DQN):
    """Agent that adds values of its own network to the rewards, row by row."""

    @property
    def rowwise(self) -> bool:
        return True

    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        rows = self.infer("q", data["observations"])[:, 0] * self.hyperparameters.gamma
        return {**data, "rewards": data["rewards"] + rows.astype(np.float32)}


@pytest.mark.slow
def test_replayed_rows_use_network_of_their_member():
    spec, members = spec_of(Values), [{"seed": 0, "gamma": 0.5}, {"seed": 1}, {"seed": 2, "gamma": 0.9}]
    together = trained(spec, members, 80)
    assert together.agent._all is not None
    for i, member in enumerate(members):
        assert_same_run(together, i, trained_alone(spec, member, 80))


class FailsToPrepare(PPO):
    def preprocess_batch(self, data: dict[str, Any]) -> dict[str, Any]:
        if self.seed == 1:
            raise ValueError("no advantage in that")
        return super().preprocess_batch(data)


@pytest.mark.slow
@pytest.mark.parametrize("params", [{}, {"normalize_observations": True, "normalize_rewards": True}])
def test_member_that_fails_to_prepare_leaves_alone(params: dict[str, Any]):
    spec = spec_of(FailsToPrepare, **params)
    together = Trainer(Population(spec, [{"seed": 0}, {"seed": 1}, {"seed": 2}]))
    together.train(env_steps=96)
    assert "no advantage" in str(together.runs[1].error)
    for position, seed in enumerate((0, 2)):
        single = trained_alone(spec, {"seed": seed}, 96)
        assert together.runs[seed].history.returns == single.history.returns
        for one, other in zip(weights_of(together.agent.extract(position)), weights_of(single.agent), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_all_members_may_fail_to_prepare():
    trainer = Trainer(Population(spec_of(FailsToPrepare), [{"seed": 1}]))
    trainer.train(env_steps=96)
    assert "no advantage" in str(trainer.runs[0].error)


def test_replay_arrays_stay_contiguous_when_members_leave():
    trainer = Trainer(Population(spec_of("dqn"), [{"seed": i} for i in range(4)]))
    trainer.train(env_steps=40)
    trainer._select([0, 2])
    assert {"observations", "actions"} <= trainer.buffer._arrays.keys()
    assert all(array.flags.c_contiguous for array in trainer.buffer._arrays.values())


class Adam(keras.optimizers.SGD):
    """User-defined optimizer with the name of a Keras optimizer."""


def test_user_optimizer_is_not_confused_with_keras_optimizer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Adam, "__module__", __name__)
    spec = OptimizerSpec.of(Adam(0.5, momentum=0.9))
    assert spec.name == f"{__name__}:Adam"
    assert OptimizerSpec.of(keras.optimizers.Adam(0.5)).name == "adam"


@pytest.mark.parametrize("name", ["a2c", "acer", "ddpg", "dqn", "ppo", "rainbow", "sac", "td3", "trpo"])
def test_built_in_agents_act_for_all_members_at_once(name):
    env = "Pendulum-v1" if name in ("ddpg", "sac", "td3") else "CartPole-v1"
    spec = AgentSpec.of(name, env, {"hidden_sizes": [8]})
    assert Population(spec, [{"seed": 0}, {"seed": 1}])._all is not None


def test_subclass_with_own_action_choice_acts_per_member():
    class ChoosesActions(SAC):
        def chosen(self, observations, explore):
            return super().chosen(observations, explore)

    spec = AgentSpec.of(ChoosesActions, "Pendulum-v1", {"hidden_sizes": [8]})
    assert Population(spec, [{"seed": 0}, {"seed": 1}])._all is None
