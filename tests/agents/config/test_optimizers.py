"""Tests of optimizer specs: conversion from names, labels and Keras optimizers, and back."""

import inspect
import json
import pickle

import keras
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.algorithms.sac import SACConfig
from agents.config.optimizers import KERAS_OPTIMIZERS, OptimizerSpec, variables_of
from agents.contract.restoring import restoring
from agents.contract.spec import AgentSpec
from agents.errors import ConfigurationError

EVERY = pytest.mark.parametrize("name", sorted(KERAS_OPTIMIZERS))
SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
WRAPPED = {"use_ema": True, "ema_overwrite_frequency": 2, "gradient_accumulation_steps": 2}


def test_all_keras_optimizers_are_known():
    wrappers = {"Optimizer", "LossScaleOptimizer", "MultiOptimizer", "OptimizerMap"}
    offered = {name for name, value in vars(keras.optimizers).items() if isinstance(value, type)}
    assert set(KERAS_OPTIMIZERS.values()) == offered - wrappers


@EVERY
def test_optimizer_is_built_with_its_learning_rate(name):
    optimizer = OptimizerSpec(name=name, learning_rate=0.25).build()
    assert type(optimizer).__name__ == KERAS_OPTIMIZERS[name]
    assert float(optimizer.learning_rate) == 0.25


@EVERY
def test_keras_optimizer_round_trips_through_spec(name):
    optimizer = getattr(keras.optimizers, KERAS_OPTIMIZERS[name])(learning_rate=0.003, weight_decay=0.01)
    spec = OptimizerSpec.of(optimizer)
    assert (spec.name, spec.learning_rate, spec.arguments["weight_decay"]) == (name, 0.003, 0.01)

    def config_of(optimizer):
        config = optimizer.get_config()
        return {key: value for key, value in config.items() if key != "name"}

    assert config_of(spec.build()) == config_of(optimizer)
    assert config_of(keras.saving.deserialize_keras_object(spec.serialised())) == config_of(optimizer)
    assert OptimizerSpec.of(json.loads(json.dumps(spec.serialised()))).learning_rate == 0.003


@pytest.mark.parametrize(
    "value", ["adamw", "AdamW", "ADAMW", " AdamW ", keras.optimizers.AdamW, {"class_name": "AdamW"}]
)
def test_names_ignore_case(value):
    if isinstance(value, type):
        value = value()
    assert OptimizerSpec.of(value).name == "adamw"


def test_spec_of_spec_is_same_object():
    spec = OptimizerSpec(name="sgd")
    assert OptimizerSpec.of(spec) is spec
    assert spec.with_rate(0.5) == OptimizerSpec(name="sgd", learning_rate=0.5)


@pytest.mark.parametrize(
    ("label", "name", "arguments"),
    [
        ("sgd(momentum=0.9)", "sgd", {"momentum": 0.9}),
        ("SGD( momentum = 0.9 , nesterov=True )", "sgd", {"momentum": 0.9, "nesterov": True}),
        ("sgd(nesterov=false)", "sgd", {"nesterov": False}),
        ("adam(clipnorm=None)", "adam", {"clipnorm": None}),
        ("adam()", "adam", {}),
        ("adam(epsilon=1e-05)", "adam", {"epsilon": 1e-5}),
        ('muon(exclude_layers=["A", "b"])', "muon", {"exclude_layers": ["A", "b"]}),
        ('adam(name="My, (own) Adam")', "adam", {"name": "My, (own) Adam"}),
    ],
)
def test_labels_are_parsed(label, name, arguments):
    spec = OptimizerSpec.of(label)
    assert (spec.name, spec.arguments) == (name, arguments)


def test_label_may_contain_learning_rate():
    assert OptimizerSpec.of("sgd(learning_rate=0.5)") == OptimizerSpec(name="sgd", learning_rate=0.5)


def test_label_contains_differences_from_keras_defaults():
    assert OptimizerSpec(name="sgd").label == "sgd"
    assert OptimizerSpec(name="sgd", arguments={"momentum": 0.9, "nesterov": False}).label == "sgd(momentum=0.9)"
    assert OptimizerSpec.of(keras.optimizers.Adam(beta_1=0.5)).label == "adam(beta_1=0.5)"


KERAS_DEFAULTS = inspect.signature(keras.optimizers.Adam).parameters
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(arguments=st.dictionaries(st.sampled_from(["beta_1", "name", "clipnorm"]), json_values))
@example(arguments={"beta_1": '"', "name": []})
@example(arguments={"beta_1": "\\", "name": '\\"(,'})
def test_labels_round_trip(arguments):
    spec = OptimizerSpec(name="adam", arguments=arguments)
    own = {key: value for key, value in arguments.items() if value != KERAS_DEFAULTS[key].default}
    assert OptimizerSpec.of(spec.label) == OptimizerSpec(name="adam", arguments=own)


def test_schedules_round_trip():
    spec = OptimizerSpec.of(keras.optimizers.SGD(SCHEDULE))
    assert spec.learning_rate["class_name"] == "ExponentialDecay"
    optimizer = OptimizerSpec.of(json.loads(json.dumps(spec.serialised()))).build()
    optimizer.build([keras.Variable(np.zeros(2))])
    assert float(optimizer.learning_rate) == pytest.approx(0.1)
    optimizer.iterations.assign(10)
    assert float(optimizer.learning_rate) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("label", "without", "config"),
    [
        ("adam(CosineDecay(0.001, 1000))", "adam", {"initial_learning_rate": 0.001, "decay_steps": 1000, "alpha": 0.0}),
        ("adam(CosineDecay(0.001, 1000, warmup_steps=10))", "adam", {"alpha": 0.0, "warmup_steps": 10}),
        ("sgd(ExponentialDecay(0.1, 100, 0.9, true))", "sgd", {"staircase": True}),
        ("sgd(PolynomialDecay(0.1, 10, cycle=true))", "sgd", {"cycle": True}),
        (
            "sgd(PiecewiseConstantDecay([10, 20], [0.1, 0.01, 0.001]), momentum=0.9)",
            "sgd(momentum=0.9)",
            {"boundaries": [10, 20]},
        ),
    ],
)
def test_labels_with_schedules_round_trip(label, without, config):
    spec = OptimizerSpec.of(label)
    assert config.items() <= spec.learning_rate["config"].items()
    assert spec.label_with_schedule == label
    assert spec.label == without
    assert OptimizerSpec.of(label.replace("(", "(learning_rate=", 1)) == spec
    again = OptimizerSpec.of(spec.build())
    assert (again.learning_rate, again.label_with_schedule) == (spec.learning_rate, label)


def test_label_of_a_schedule_of_the_user_has_its_arguments():
    rate = {"module": "mine", "class_name": "Steps", "config": {"first": 0.1, "name": "steps"}, "registered_name": None}
    assert OptimizerSpec(learning_rate=rate).label_with_schedule == "adam(Steps(first=0.1))"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("adam(CosineDecy(0.001, 1000))", "Unknown learning-rate schedule 'CosineDecy'. Did you mean CosineDecay"),
        ("adam(CosineDecay(0.001))", r"The learning-rate schedule CosineDecay\(0.001\) cannot be built"),
        ("adam(CosineDecay(0.001, 1000), 2)", "write arguments as name=value"),
        ("adam(CosineDecay(0.001, 1000), learning_rate=2)", "has two learning rates"),
        ("adam(CosineDecay(__import__('os'), 1000))", "cannot be built"),
    ],
)
def test_labels_with_wrong_schedules_are_refused(label, message):
    with pytest.raises(ConfigurationError, match=message):
        OptimizerSpec.of(label)


def test_each_build_returns_new_optimizer():
    spec = OptimizerSpec(name="adam")
    assert spec.build() is not spec.build()


def test_specs_can_be_pickled():
    spec = OptimizerSpec(name="sgd", learning_rate=0.1, arguments={"momentum": 0.9})
    assert pickle.loads(pickle.dumps(spec)) == spec


class Halving(keras.optimizers.SGD):
    """User-defined optimizer."""


def test_user_optimizer_class_is_named_by_module(monkeypatch):
    spec = OptimizerSpec.of(Halving(learning_rate=0.5))
    assert spec.name == f"{__name__}:Halving"
    assert type(spec.build()) is Halving
    assert spec.label.startswith(f"{__name__}:Halving")


# --- validation errors


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("adamx", r"Unknown optimizer 'adamx'\. Did you mean adam"),
        ("RMSProb", "Did you mean rmsprop"),
        ("", "Unknown optimizer ''"),
        (3, "name such as 'adamw'.* got 3"),
        (None, "got None"),
        ({"name": "adam"}, "serialised"),
        ({"class_name": "Adan", "config": {}, "module": "keras.optimizers"}, "cannot be imported|Unknown optimizer"),
        ("sgd(0.9)", "name=value"),
        ("sgd(momentum=0.9", "no closing bracket"),
        ("sgd(momentum=0.9) x", "no closing bracket"),
        ("sgd(momentum=0.9)(nesterov=true)", "name=value"),
        ("sgd(momentum=0.9\0)", "cannot be read"),
        ("nowhere:Adam", "'nowhere:Adam' cannot be imported"),
        ("keras.optimizers:Adan", "cannot be imported"),
    ],
)
def test_invalid_optimizers_are_refused(value, message):
    with pytest.raises(ConfigurationError, match=message):
        OptimizerSpec.of(value).build()


@pytest.mark.parametrize("rate", [0, -1e-3, float("nan"), float("inf"), "fast", None, True, [0.1]])
def test_learning_rates_out_of_range_are_refused(rate):
    with pytest.raises(ConfigurationError, match=r"learning_rate must be a finite number > 0, got"):
        OptimizerSpec(learning_rate=rate)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            OptimizerSpec(name="sgd", arguments={"momentun": 0.9}),
            r"Unknown argument 'momentun' of the optimizer 'sgd'\. Did you mean momentum",
        ),
        (
            OptimizerSpec(name="sgd", arguments={"momentum": 3.0}),
            r"'sgd' cannot be built with .*'momentum': 3\.0.*momentum",
        ),
        (OptimizerSpec(name="adam", arguments={"clipnorm": 1.0, "clipvalue": 1.0}), "Only one of"),
        (
            OptimizerSpec(learning_rate={"class_name": "Wavy", "config": {}}),
            "cannot be built with learning_rate .*Wavy",
        ),
    ],
)
def test_arguments_refused_by_keras_are_configuration_errors(spec, message):
    with pytest.raises(ConfigurationError, match=message):
        spec.build()


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("loss_scale_factor", 8.0, r"loss_scale_factor=8\.0 would only divide the gradients, .* leave it out"),
        ("use_ema", True, "averages weights that nothing uses: set ema_overwrite_frequency .* or leave out use_ema"),
    ],
)
def test_arguments_without_effect_are_refused_but_for_agents_that_exist(argument, value, message):
    spec = AgentSpec.of("ppo", "CartPole-v1", {"optimizer_kwargs": {argument: value}})
    with pytest.raises(ConfigurationError, match=message):
        spec.build()
    with restoring():
        spec.build()


# --- variables


@EVERY
@pytest.mark.parametrize("extra", [{}, WRAPPED], ids=["plain", "wrapped"])
def test_variables_of_contains_entire_optimizer_state(name, extra):
    """Two further steps must be equal after only these variables are restored."""

    def built():
        weights = [keras.Variable(np.full((3, 4), 0.5, np.float32)), keras.Variable(np.full((4,), 0.5, np.float32))]
        optimizer = OptimizerSpec(name=name, learning_rate=0.1, arguments=extra).build()
        optimizer.build(weights)
        return weights, optimizer

    gradients = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in ((3, 4), (4,))]
    weights, optimizer = built()
    for _ in range(3):
        optimizer.apply([keras.ops.convert_to_tensor(g) for g in gradients])
    again, restored = built()
    variables = [*variables_of(restored), *again]
    for variable, saved in zip(variables, [*variables_of(optimizer), *weights], strict=True):
        variable.assign(saved)
    assert len({id(variable) for variable in variables}) == len(variables)
    for _ in range(2):
        for opt in (optimizer, restored):
            opt.apply([keras.ops.convert_to_tensor(g) for g in gradients])
    for one, other in zip([*variables_of(optimizer), *weights], variables, strict=True):
        assert np.array_equal(one.numpy(), other.numpy()), one.path


def test_variables_stored_only_in_attributes_are_found():
    """Nadam of Keras 3.15 stored its running product this way."""
    optimizer = keras.optimizers.SGD()
    optimizer.build([keras.Variable(np.zeros(2))])
    optimizer.__dict__["_hidden"] = hidden = keras.Variable(1.0)
    assert sum(variable is hidden for variable in variables_of(optimizer)) == 1


class TestPerNetwork:
    def both(self, optimizers: object) -> list[SACConfig]:
        return [SACConfig(optimizers=optimizers), SACConfig.from_dict({"optimizers": optimizers})]

    def test_optimizer_may_be_name_or_label(self) -> None:
        for config in self.both({"actor": "adamw", "critic": "sgd(momentum=0.5)"}):
            assert config.optimizer_spec("actor") == OptimizerSpec(name="adamw", learning_rate=config.learning_rate)
            sgd = OptimizerSpec(name="sgd", learning_rate=config.learning_rate, arguments={"momentum": 0.5})
            assert config.optimizer_spec("critic") == sgd
            assert config.optimizer_spec("temperature").name == "adam"

    def test_keras_optimizer_sets_its_learning_rate(self) -> None:
        made = keras.optimizers.RMSprop(0.25, rho=0.5)
        for optimizer in (made, keras.optimizers.serialize(made)):
            for config in self.both({"actor": optimizer}):
                spec = config.optimizer_spec("actor")
                assert (spec.name, spec.learning_rate, spec.arguments["rho"]) == ("rmsprop", 0.25, 0.5)

    def test_optimizer_may_be_table(self) -> None:
        for config in self.both({"actor": {"optimizer": "adamw", "learning_rate": 0.5}}):
            assert config.optimizer_spec("actor") == OptimizerSpec(name="adamw", learning_rate=0.5)

    @pytest.mark.parametrize("wrong", ["adamv", 3])
    def test_invalid_network_optimizer_is_refused(self, wrong: object) -> None:
        with pytest.raises(ConfigurationError, match="adamw"):
            SACConfig(optimizers={"actor": wrong})


@pytest.mark.parametrize("label", ["adam(ExponentialDecay(0.1, 10, 0.5))", "adam(learning_rate=0.1)"])
def test_rate_in_a_label_is_that_of_the_agent(label):
    expected = OptimizerSpec.of(label).learning_rate
    config = AgentSpec.of("ppo", "CartPole-v1", {"optimizer": label}).config
    assert config.learning_rate == config.optimizer_spec().learning_rate == expected
    config = AgentSpec.of("ppo", "CartPole-v1", {"optimizers": {"critic": label}}).config
    assert config.optimizer_spec("critic").learning_rate == expected
    assert config.learning_rate == AgentSpec.of("ppo", "CartPole-v1").config.learning_rate
