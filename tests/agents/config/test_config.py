"""Tests of configs: hyperparameters from plain values and back, and the errors of invalid ones."""

import dataclasses
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest

import agents
from agents.algorithms.dqn import DQNConfig
from agents.algorithms.ppo import PPOConfig
from agents.algorithms.sac import SACConfig
from agents.config.agent_config import AgentConfig, hyperparameter
from agents.config.optimizers import OptimizerSpec
from agents.contract.registry import ALGORITHMS, agent_class
from agents.errors import ConfigurationError

CONFIGS = pytest.mark.parametrize("config_class", [AgentConfig, DQNConfig, PPOConfig])


# --- conversion


@CONFIGS
def test_defaults_round_trip_through_json(config_class):
    config = config_class()
    assert config_class.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert pickle.loads(pickle.dumps(config)) == config


def test_from_dict_converts_plain_values():
    values = {"hidden_sizes": [32, 16], "gamma": 1, "optimizer": "SGD(momentum=0.9)", "learning_rate": 1e-2}
    config = PPOConfig.from_dict(values)
    assert config.hidden_sizes == (32, 16)
    assert (config.gamma, type(config.gamma)) == (1.0, float)
    assert (config.optimizer, config.optimizer_kwargs) == ("sgd", {"momentum": 0.9})
    assert PPOConfig.from_dict(config.to_dict()) == config


def test_constructor_converts_and_checks_like_from_dict():
    assert PPOConfig(hidden_sizes=[8], optimizer="sgd(momentum=0.9)") == PPOConfig.from_dict(
        {"hidden_sizes": [8], "optimizer": "sgd(momentum=0.9)"}
    )
    with pytest.raises(ConfigurationError, match="hidden_sizes must be a list of whole numbers or null, got 8"):
        PPOConfig(hidden_sizes=8)


def test_numpy_numbers_are_accepted():
    config = PPOConfig.from_dict({"gamma": np.float32(0.5), "n_steps": np.int64(7), "learning_rate": np.float64(0.1)})
    assert json.loads(json.dumps(config.to_dict()))["n_steps"] == 7


@pytest.mark.parametrize("rate", [0.02, None])
def test_keras_optimizer_sets_learning_rate_unless_given(rate):
    values = {"optimizer": keras.optimizers.SGD(0.5, momentum=0.9)} | ({} if rate is None else {"learning_rate": rate})
    config = DQNConfig.from_dict(values)
    assert (config.optimizer, config.optimizer_kwargs["momentum"]) == ("sgd", 0.9)
    assert config.learning_rate == (0.5 if rate is None else rate)


def test_optimizer_label_may_set_learning_rate():
    assert DQNConfig.from_dict({"optimizer": "sgd(learning_rate=0.5)"}).learning_rate == 0.5
    assert DQNConfig().replace({"optimizer": "sgd(learning_rate=0.5)"}).learning_rate == 0.5
    assert DQNConfig(learning_rate=0.25).replace({"optimizer": "sgd"}).learning_rate == 0.25


def test_rate_in_an_optimizer_counts_wherever_the_optimizer_is_given():
    assert DQNConfig(optimizer="sgd(learning_rate=0.5)").learning_rate == 0.5
    assert DQNConfig(optimizer="sgd(learning_rate=0.5)", learning_rate=0.25).learning_rate == 0.25
    for values in (
        {"critic.optimizer": "sgd(learning_rate=0.5)"},
        {"optimizers": {"critic": {"optimizer": "sgd(learning_rate=0.5)"}}},
        {"optimizers": {"critic": "sgd(learning_rate=0.5)"}},
    ):
        spec = AgentConfig.from_dict(values).optimizer_spec("critic")
        assert (spec.name, spec.learning_rate) == ("sgd", 0.5)
    own = AgentConfig.from_dict({"critic.optimizer": "sgd(learning_rate=0.5)", "critic.learning_rate": 0.1})
    assert own.optimizer_spec("critic").learning_rate == 0.1


@pytest.mark.parametrize(
    ("label", "rate"),
    [
        ("sgd( learning_rate = 0.5)", 0.5),
        ("adam( CosineDecay (0.5, 100))", OptimizerSpec.of("adam(CosineDecay(0.5, 100))").learning_rate),
        ("my.learning_rate_tools:Opt", 0.25),
        ("my.module:Opt(learning_rate_decay=0.5)", 0.25),
        ('my.module:Opt(note="learning_rate")', 0.25),
    ],
)
def test_label_sets_the_learning_rate_only_if_it_has_one(label, rate):
    """A name or another argument that contains the words is no learning rate."""
    default = DQNConfig().learning_rate
    for config in (DQNConfig(optimizer=label), DQNConfig.from_dict({"optimizer": label})):
        assert config.learning_rate == (default if rate == 0.25 else rate)
    assert DQNConfig(learning_rate=0.25).replace({"optimizer": label}).learning_rate == rate
    config = DQNConfig(learning_rate=0.25, optimizers={"critic": {"optimizer": label}})
    assert config.optimizer_spec("critic").learning_rate == rate
    assert DQNConfig(learning_rate=0.25, optimizers={"critic": label}).optimizer_spec("critic").learning_rate == rate


def test_errors_in_the_optimizers_of_a_config_name_their_owner():
    for named in ("sgd(momentum", {"optimizer": "sgd(momentum"}, {"optimizer": "sgd(learning_rate=fast)"}):
        with pytest.raises(ConfigurationError, match=r"^optimizers, critic: "):
            DQNConfig(optimizers={"critic": named})


def test_dotted_names_set_optimizer_arguments():
    config = AgentConfig.from_dict(
        {"optimizer.beta_1": 0.5, "actor.learning_rate": 0.1, "actor.momentum": 0.9, "optimizer.learning_rate": 0.2}
    )
    assert config.learning_rate == 0.2
    assert config.optimizer_kwargs == {"beta_1": 0.5}
    assert config.optimizers == {"actor": {"learning_rate": 0.1, "momentum": 0.9}}
    assert config.replace({"actor.learning_rate": 0.3}).optimizers["actor"] == {"learning_rate": 0.3, "momentum": 0.9}


def test_new_optimizer_does_not_inherit_arguments():
    config = AgentConfig.from_dict({"optimizer": "sgd", "optimizer.momentum": 0.9})
    assert config.replace({"optimizer": "adam"}).optimizer_kwargs == {}
    assert config.replace({"optimizer": "adam", "optimizer.beta_1": 0.5}).optimizer_kwargs == {"beta_1": 0.5}
    assert config.replace({"learning_rate": 0.1}).optimizer_kwargs == {"momentum": 0.9}


def test_copies_do_not_share_mutable_values():
    config = AgentConfig.from_dict({"actor.momentum": 0.9})
    plain = config.to_dict()
    plain["optimizers"]["actor"]["momentum"] = 0.0
    config.replace({"actor.momentum": 0.5})
    assert config.optimizers == {"actor": {"momentum": 0.9}}
    assert AgentConfig().optimizers is not AgentConfig().optimizers
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.learning_rate = 1.0


# --- live values and structure


def test_live_values_of_algorithms():
    live = {"gamma", "gae_lambda", "clip_range", "ent_coef", "vf_coef", "max_grad_norm"}
    assert set(PPOConfig().live_values()) == live
    assert DQNConfig().live_values() == {"gamma": 0.99, "tau": 1.0, "max_grad_norm": 10.0}
    assert "max_grad_norm" not in PPOConfig(max_grad_norm=None).live_values()


@pytest.mark.parametrize("changes", [{"gamma": 0.5}, {"learning_rate": 0.5}, {"actor.learning_rate": 0.5}])
def test_live_values_do_not_change_structure(changes):
    assert SACConfig().replace(changes).structure() == SACConfig().structure()


def test_optimizer_numbers_do_not_change_structure():
    def structure(momentum: float, **other: object) -> dict[str, object]:
        return SACConfig.from_dict({"optimizer": "sgd", "optimizer.momentum": momentum, **other}).structure()

    assert structure(0.9) == structure(0.5)
    assert structure(0.0) != structure(0.5)  # without momentum the optimizer has no slot for it
    assert structure(0.9, **{"optimizer.nesterov": True}) != structure(0.9)
    assert structure(0.9, **{"actor.momentum": 0.5}) == structure(0.9)
    assert structure(0.9, **{"actor.weight_decay": 0.5}) != structure(0.9)
    assert structure(0.9)["optimizer"] == "sgd(momentum=*)"


def test_schedule_structure_ignores_rate_but_not_decay_steps():
    def structure(**config: float) -> dict[str, object]:
        return PPOConfig(learning_rate={"class_name": "CosineDecay", "config": config}).structure()

    assert structure(initial_learning_rate=0.1, decay_steps=10) == structure(initial_learning_rate=0.2, decay_steps=10)
    assert structure(initial_learning_rate=0.1, decay_steps=10) != structure(initial_learning_rate=0.1, decay_steps=20)


SCHEDULE = {"class_name": "ExponentialDecay", "config": {}}


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_sizes": [64]},
        {"optimizer": "sgd"},
        {"optimizer.beta_1": 0.5},
        {"actor.beta_1": 0.5},
        {"n_steps": 64},
        {"max_grad_norm": None},
        {"learning_rate": SCHEDULE},
        {"actor.learning_rate": SCHEDULE},
    ],
)
def test_other_changes_change_structure(changes):
    assert PPOConfig().replace(changes).structure() != PPOConfig().structure()


# --- validation errors

WRONG = [
    ({"learning_rate": "fast"}, "learning_rate must be a number or a table, got 'fast'."),
    ({"learning_rate": None}, "learning_rate must be a number or a table, got None."),
    ({"learning_rate": True}, "learning_rate must be a number or a table, got True."),
    ({"learning_rate": 0}, "learning_rate must be > 0, got 0.0."),
    ({"learning_rate": float("inf")}, "learning_rate must be finite and > 0, got inf."),
    ({"max_grad_norm": "big"}, "max_grad_norm must be a number or null, got 'big'."),
    ({"max_grad_norm": 0.0}, "max_grad_norm must be > 0, got 0.0."),
    ({"jit_compile": "perhaps"}, "jit_compile must be true or false or null, got 'perhaps'."),
    ({"n_steps": 1.5}, "n_steps must be a whole number, got 1.5."),
    ({"n_steps": True}, "n_steps must be a whole number, got True."),
    ({"n_steps": 0}, "n_steps must be >= 1, got 0."),
    ({"gamma": 1.01}, "gamma must be >= 0 and <= 1, got 1.01."),
    ({"gamma": float("nan")}, "gamma must be finite and >= 0 and <= 1, got nan."),
    ({"vf_coef": float("inf")}, "vf_coef must be finite and >= 0, got inf."),
    ({"hidden_sizes": 64}, "hidden_sizes must be a list of whole numbers or null, got 64: write [64], and several"),
    ({"hidden_sizes": [64, "x"]}, "hidden_sizes must be a list of whole numbers or null, got [64, 'x']."),
    ({"activation": 3}, "activation must be text, got 3."),
    ({"normalize_observations": 3}, "normalize_observations must be true or false, got 3."),
    ({"optimizers": 3}, "optimizers must be a table of tables, got 3."),
    ({"optimizers": {"actor": 3}}, "optimizers, actor: An optimizer must be a name such as 'adamw'"),
    ({"optimizer_kwargs": [1]}, "optimizer_kwargs must be a table, got [1]."),
    ({"optimizer_kwargs": {"learning_rate": 1}}, "optimizer_kwargs must not hold the learning_rate"),
    ({"optimizer": 3}, "name such as 'adamw'"),
    ({"K_epochs": 3}, "Did you mean n_epochs?"),
    ({"eps_clip": 0.1}, "Did you mean clip_range?"),
    ({"optimizer": "adamm"}, "Unknown optimizer 'adamm'. Did you mean adam"),
    ({"gama": 0.9}, "Unknown hyperparameter 'gama' of ppo. Did you mean gamma?"),
    ({"Gamma": 0.9}, "Did you mean gamma?"),
    ({"batch_size": 1}, "normalize_advantages needs minibatches of at least two rows"),
    ({"n_steps": 1, "n_envs": 1}, "normalize_advantages needs rollouts of at least two rows"),
]


@pytest.mark.parametrize(("values", "message"), WRONG, ids=[str(values) for values, _ in WRONG])
def test_invalid_values_are_refused_with_readable_messages(values, message):
    with pytest.raises(ConfigurationError) as raised:
        PPOConfig.from_dict(values)
    assert str(raised.value).startswith(message) or message in str(raised.value)
    assert "pydantic" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"policy_kwargs": {"epsilon": 0.1}}, "need a policy"),
        ({"exploration_initial_eps": 0.01}, "exploration_final_eps must be at most .* = 0.01, got 0.05"),
        ({"buffer_size": 8, "n_envs": 4, "n_step": 2}, r"at least n_envs \* \(n_step \+ 1\) = 12, got 8"),
    ],
)
def test_contradicting_values_are_refused(values, message):
    with pytest.raises(ConfigurationError, match=message):
        DQNConfig.from_dict(values)


# --- user-defined configs


class Teacher:
    """Class that is unknown to pydantic."""


@dataclass(frozen=True, kw_only=True)
class OwnConfig(AgentConfig):
    units: int = hyperparameter(8, "Units.", low=1, live=False)
    weight: float | None = hyperparameter(None, "A weight.", live=True)
    names: list[str] = dataclasses.field(default_factory=list)
    teacher: Teacher | None = None
    table: Mapping[str, Any] = hyperparameter({"a": 1}, "A table.")


def test_user_config_converts_and_checks_its_fields():
    teacher = Teacher()
    config = OwnConfig.from_dict({"units": 3, "teacher": teacher, "names": ["a"]})
    assert config.teacher is teacher
    assert OwnConfig().table is not OwnConfig().table
    with pytest.raises(ConfigurationError, match=r"units must be >= 1, got 0"):
        OwnConfig(units=0)
    with pytest.raises(ConfigurationError, match=r"names must be a list of texts, got 3"):
        OwnConfig(names=3)
    with pytest.raises(ConfigurationError, match=r"teacher must be Teacher or null, got 3"):
        OwnConfig(teacher=3)


def test_disabled_live_value_is_structure():
    assert OwnConfig().live_values() == {}
    assert OwnConfig().structure() != OwnConfig(weight=1.0).structure()
    assert OwnConfig(weight=2.0).structure() == OwnConfig(weight=1.0).structure()


def test_config_with_unresolvable_annotations_works():
    """A class of a script that is pickled by value keeps its annotations as text, with names of that script."""

    class Foreign(AgentConfig):
        __annotations__ = {"sizes": "Sequence[Unheard]"}
        sizes: Any = (1,)

    foreign = dataclass(frozen=True, kw_only=True)(Foreign)
    assert foreign.from_dict({"sizes": [2]}).sizes == [2]


# --- field descriptions


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_field_is_described(name):
    config_class = agent_class(name).config_class
    described = config_class.describe()
    assert set(described) == {field.name for field in dataclasses.fields(config_class)}
    defaults = config_class()
    for field, about in described.items():
        assert about.help.endswith(".")
        value = getattr(defaults, field)
        about.check(field, value)
        if about.live:
            assert value is None or isinstance(value, float)
        for searched in about.search or ():
            about.check(field, searched)
            config_class.from_dict({field: searched})
        if about.log:
            assert all(searched > 0 for searched in about.search)


def test_one_minus_gamma_sets_gamma():
    config = PPOConfig.from_dict({"one_minus_gamma": 0.002})
    assert config.gamma == 0.998
    assert config.replace({"one_minus_gamma": 1 - 0.99}).gamma == 0.99  # exact to the last digit
    assert "one_minus_gamma" not in config.to_dict()
    with pytest.raises(ConfigurationError, match="gamma must be >= 0"):
        PPOConfig.from_dict({"one_minus_gamma": 1.5})
    with pytest.raises(ConfigurationError, match="one_minus_gamma must be a number"):
        PPOConfig.from_dict({"one_minus_gamma": "small"})
    with pytest.raises(ConfigurationError, match="one_minus_clip_range"):
        PPOConfig.from_dict({"one_minus_clip_range": 0.5})


@pytest.mark.parametrize(
    ("agent", "env", "given", "name"),
    [
        ("dqn", "CartPole-v1", {"priority_alpha": 0.3}, "priority_alpha"),
        ("dqn", "CartPole-v1", {"noisy": True, "exploration_steps": 20}, "exploration_steps"),
        ("dqn", "CartPole-v1", {"goal_selection_strategy": "final"}, "goal_selection_strategy"),
        ("rainbow", "CartPole-v1", {"n_atoms": 1, "v_max": 3.0}, "v_max"),
        ("sac", "Pendulum-v1", {"ent_coef": 0.1, "target_entropy": -2.0}, "target_entropy"),
    ],
)
def test_make_refuses_settings_without_effect(agent, env, given, name):
    with pytest.raises(ConfigurationError, match=f"^{name} has no effect beside the other settings"):
        agents.make(agent, env, **given)
    agents.AgentSpec.of(agent, env, given)  # trials of a search may have such settings


def test_make_refuses_a_hyperparameter_beside_its_complement():
    with pytest.raises(ConfigurationError, match=r"^gamma and one_minus_gamma set the same hyperparameter"):
        agents.make("ppo", "CartPole-v1", gamma=0.9, one_minus_gamma=0.05)


def test_default_value_without_effect_is_accepted():
    agents.make("dqn", "CartPole-v1", priority_alpha=0.6)


@pytest.mark.parametrize(
    ("agent", "env", "given"),
    [
        ("dqn", "CartPole-v1", {"exploration_final_eps": 0.3}),
        ("dqn", "CartPole-v1", {"policy": "boltzmann"}),
        ("ddpg", "Pendulum-v1", {"noise": "ornstein-uhlenbeck"}),
        ("sac", "Pendulum-v1", {"noise_kwargs": {"sigma": 0.3}}),
    ],
)
def test_exploration_settings_are_refused_without_exploration(agent, env, given):
    with pytest.raises(ConfigurationError, match="has no effect beside the other settings"):
        agents.make(agent, env, explore=False, **given)


def test_added_hyperparameters_distinguish_configs_only_where_they_are_set():
    usual, own = PPOConfig().identifying_values(), PPOConfig(gru_units=8).identifying_values()
    assert usual == {
        name: v for name, v in PPOConfig().to_dict().items() if name not in ("gru_units", "sequence_length")
    }
    assert own == usual | {"gru_units": 8}
