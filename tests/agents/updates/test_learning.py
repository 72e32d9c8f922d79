"""Tests of the compiled update: its inputs, what is compiled and how often, and the fallback from XLA."""

from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import agents
from agents import LambdaCallback, Trainer
from agents.buffers import Batches, RolloutBuffer
from agents.config.agent_config import AgentConfig
from agents.contract.agent import UpdateMetrics
from agents.contract.keras_agent import KerasAgent
from agents.errors import ConfigurationError
from agents.updates import compiled
from agents.updates.gradient_steps import LOSS_AFTER
from agents.updates.packing import layout_of, pack, unpack

SPACES = (spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2))

# --- packing

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.bool_]


@settings(max_examples=50, deadline=None)
@given(
    columns=st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(1, 3), max_size=2)), min_size=1, max_size=5
    ),
    rows=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_packing_round_trip(columns, rows, seed):
    rng = np.random.default_rng(seed)
    data = {
        f"c{i}": (rng.integers(-(2**24), 2**24, (rows, *shape)) * (rng.random((rows, *shape)) < 0.7)).astype(dtype)
        for i, (dtype, shape) in enumerate(columns)
    }
    layout = layout_of(data, contiguous=True)
    matrix = pack(data, layout)
    assert matrix.dtype == np.float32
    result = unpack(tf.constant(matrix), layout)
    assert set(result) == set(data)
    for name, values in data.items():
        kind = "bool" if values.dtype == bool else "float32" if values.dtype.kind == "f" else "int32"
        assert result[name].dtype == kind
        np.testing.assert_array_equal(result[name].numpy(), values.astype(kind))


def test_images_are_not_packed():
    data = {"observations": np.zeros((2, 4, 4, 3), np.uint8), "flags": np.zeros((2, 5), np.uint8), "r": np.zeros(2)}
    layout = layout_of(data, contiguous=False)
    assert layout.images == ("observations",)
    assert [column.name for column in layout.packed] == ["flags", "r"]
    assert pack(data, layout).shape == (2, 6)


def test_layouts_are_equal_for_same_columns():
    one, other = {"a": np.zeros((2, 3), np.float32)}, {"a": np.ones((5, 3), np.float32)}
    assert layout_of(one, True) == layout_of(other, True)
    assert hash(layout_of(one, True)) == hash(layout_of(other, True))
    assert layout_of(one, True) != layout_of({"a": np.zeros((2, 3), np.int32)}, True)


def test_of_step_selects_one_minibatch():
    data = {"a": np.array([10, 11, 12, 13])}
    one = Batches(data, np.array([[3, 0], [1, 2]], np.int32)).of_step(1)
    assert one.data["a"][one.indices].tolist() == [[11, 12]]
    assert one.contiguous


def test_of_step_selects_one_minibatch_per_member():
    data = {"a": np.array([[10, 11, 12], [20, 21, 22]])}
    indices = np.array([[[0, 1], [2, 0]], [[2, 1], [1, 1]]], np.int32)  # [P, K, B]
    one = Batches(data, indices).of_step(1)
    assert one.data["a"].tolist() == [[12, 10], [21, 21]]
    assert one.indices.tolist() == [[[0, 1]], [[0, 1]]]


# --- compiled updates


class Line(KerasAgent):
    """Agent that fits one weight vector to the targets by squared error; tests change the error with `wrap`."""

    def build(self):
        return {"line": keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")])}

    def act(self, observations, explore=True):
        return (self.infer("line", observations)[:, 0] > 0).astype(np.int64)

    def make_buffer(self, n_envs, rng):
        return RolloutBuffer(n_steps=4, rng=rng)

    def loss(self, batch):
        errors = self.networks["line"](batch["observations"])[:, 0] - batch["targets"]
        return {"default": keras.ops.mean(self.wrap(errors**2)), "largest": keras.ops.max(errors)}

    def wrap(self, x):
        return x


def line(cls=Line, **params):
    config = {"optimizer": "sgd", "learning_rate": 0.1, "jit_compile": False, **params}
    return cls(*SPACES, AgentConfig.from_dict(config))


def data(rows=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.normal(size=(rows, 3)).astype(np.float32),
        "targets": rng.normal(size=rows).astype(np.float32),
    }


def compiled_functions(agent):
    return list(agent._update._compiled.values())


def by_hand(rows, minibatches, rate=0.1):
    """Make the same gradient steps in NumPy, and return weights, bias and the loss before each step."""
    weights, bias, losses = np.zeros(3), 0.0, []
    for minibatch in minibatches:
        x, y = rows["observations"][minibatch], rows["targets"][minibatch]
        errors = x @ weights + bias - y
        losses.append((errors**2).mean())
        weights = weights - rate * 2 * (errors[:, None] * x).mean(axis=0)
        bias = bias - rate * 2 * errors.mean()
    return weights, bias, losses


@pytest.mark.parametrize(
    "minibatches",
    [[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[3, 0], [1, 1], [2, 3], [0, 2]], [[2]]],
    ids=["whole", "in order", "shuffled", "one row"],
)
def test_gradient_steps_are_made_in_order_of_minibatches(minibatches):
    agent, rows = line(), data()
    update = agent.update(Batches(rows, np.array(minibatches, np.int32)))
    weights, bias, losses = by_hand(rows, minibatches)
    np.testing.assert_allclose(agent.networks["line"].get_weights()[0][:, 0], weights, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(agent.networks["line"].get_weights()[1], [bias], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(update.losses["default"], losses, rtol=1e-4)  # of each step, not a running mean
    assert update.metrics["largest"].shape == (len(minibatches),)
    assert agent.gradient_steps == int(agent._gradient_steps.numpy()) == len(minibatches)


def test_xla_gives_same_numbers():
    agents = [line(jit_compile=jit) for jit in (False, True, None)]
    for agent in agents:
        agent.act(data()["observations"], explore=True)
        agent.update(Batches(data(), np.array([[0, 1], [2, 3]], np.int32)))
    assert [agent._update.jit_compile for agent in agents] == [False, True, True]
    for agent in agents[1:]:
        for one, other in zip(agents[0].networks["line"].weights, agent.networks["line"].weights, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


@dataclass(frozen=True, kw_only=True)
class WithMinibatches(AgentConfig):
    batch_size: int = 4


def minibatches_of(size, cls=Line):
    config = WithMinibatches(optimizer="sgd", learning_rate=0.1, batch_size=size)
    return cls(*SPACES, config)


def by_xla(agent):
    return [key[-1] for key in agent._update._compiled]


def test_xla_compiles_single_steps_of_a_long_training(monkeypatch):
    monkeypatch.setattr(compiled, "PLAIN_STEPS", 2)
    agent, plain, minibatch = minibatches_of(4), line(), np.array([[0, 1, 2, 3]], np.int32)
    for seed, kinds in enumerate([[False], [False], [False, True]]):
        results = [each.update(Batches(data(seed=seed), minibatch)).losses["default"] for each in (agent, plain)]
        np.testing.assert_allclose(*results, rtol=1e-5)
        assert by_xla(agent) == kinds
    assert by_xla(plain) == [False]
    resumed = minibatches_of(4)
    resumed.set_state(agent.get_state())
    for each in (agent, resumed):
        each.update(Batches(data(seed=3), minibatch))
    assert by_xla(resumed) == [True]  # as in the uninterrupted training
    for one, other in zip(agent.networks["line"].weights, resumed.networks["line"].weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(("size", "kinds"), [(8, [False]), (7, [True]), (6, [False])], ids=["large", "small", "other"])
def test_large_or_irregular_steps_are_not_compiled_by_xla(monkeypatch, size, kinds):
    monkeypatch.setattr(compiled, "PLAIN_STEPS", 0)
    monkeypatch.setattr(compiled, "_SMALL", 4 * 8 - 1)  # the agent has three weights and a bias
    agent = minibatches_of(8 if size == 8 else 7)
    agent.update(Batches(data(size), np.arange(size, dtype=np.int32)[None]))
    assert by_xla(agent) == kinds


@pytest.mark.parametrize("acted_first", [True, False])
def test_acting_uses_weights_of_last_update(acted_first):
    agent, rows = line(), data()
    if acted_first:
        agent.infer("line", rows["observations"])
    for _ in range(3):
        agent.update(Batches(rows, np.array([[0, 1, 2, 3]], np.int32)))
        expected = agent.networks["line"](rows["observations"]).numpy()
        np.testing.assert_allclose(agent.infer("line", rows["observations"]), expected, rtol=1e-5, atol=1e-6)


def test_update_is_traced_once_per_layout():
    agent, traces = line(), []
    agent.wrap = lambda x: (traces.append(1), x)[1]
    for k in range(20):
        agent.set_hyperparameter("learning_rate", 0.1 / (k + 1))
        agent.update(Batches(data(seed=k), np.random.default_rng(k).permutation(4).reshape(2, 2).astype(np.int32)))
    agent.reset(7)
    agent.set_state(agent.get_state())
    agent.update(Batches(data(), np.array([[1, 0], [3, 2]], np.int32)))
    assert len(compiled_functions(agent)) <= 2  # in order, and by indices
    assert len(traces) == len(compiled_functions(agent))


def test_changed_learning_rate_takes_effect_without_compilation():
    agent, rows = line(), data()
    steps = []
    for rate in (0.1, 0.2):
        agent.reset(0)
        agent.set_hyperparameter("learning_rate", rate)
        agent.update(Batches(rows, np.array([[0, 1, 2, 3]], np.int32)))
        steps.append(agent.networks["line"].get_weights()[0])
    np.testing.assert_allclose(steps[1], 2 * steps[0], rtol=1e-5)
    assert len(compiled_functions(agent)) == 1


# --- losses that XLA cannot compile


class Python(Line):
    """Agent whose loss calls Python, which XLA cannot compile."""

    def wrap(self, x):
        return tf.ensure_shape(tf.numpy_function(lambda values: values, [x], tf.float32), x.shape) * 0 + x


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_loss_that_xla_cannot_compile_runs_as_graph(caplog):
    agent, rows = line(Python, jit_compile=None), data()
    agent.update(Batches(rows, np.array([[0, 1, 2, 3]] * 2, np.int32)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "XLA cannot compile this agent's loss" in caplog.text
    weights, _, _ = by_hand(rows, [[0, 1, 2, 3]] * 2)
    np.testing.assert_allclose(agent.networks["line"].get_weights()[0][:, 0], weights, rtol=1e-4)
    assert agent.gradient_steps == int(agent._gradient_steps.numpy()) == 2


def test_loss_that_xla_cannot_compile_stays_graph_in_long_training(monkeypatch, caplog):
    monkeypatch.setattr(compiled, "PLAIN_STEPS", 1)
    agent, rows = minibatches_of(4, Python), data()
    for _ in range(3):
        agent.update(Batches(rows, np.array([[0, 1, 2, 3]], np.int32)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    weights, _, _ = by_hand(rows, [[0, 1, 2, 3]] * 3)
    np.testing.assert_allclose(agent.networks["line"].get_weights()[0][:, 0], weights, rtol=1e-4)
    assert agent.gradient_steps == int(agent._gradient_steps.numpy()) == 3


def test_long_training_continues_without_broken_xla(monkeypatch, caplog):
    monkeypatch.setattr(compiled, "PLAIN_STEPS", 1)
    agent, rows, make = minibatches_of(4), data(), compiled.direct_call

    def broken(*_):
        raise tf.errors.InternalError(None, None, "libdevice not found at ./libdevice.10.bc")

    def direct_call(function):
        return broken if agent.gradient_steps else make(function)

    monkeypatch.setattr(compiled, "direct_call", direct_call)
    for _ in range(3):
        agent.update(Batches(rows, np.array([[0, 1, 2, 3]], np.int32)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "libdevice not found" in caplog.text
    weights, _, _ = by_hand(rows, [[0, 1, 2, 3]] * 3)
    np.testing.assert_allclose(agent.networks["line"].get_weights()[0][:, 0], weights, rtol=1e-4)


def failing_at(agent, monkeypatch, call, error):
    """Make the compiled function raise at the given call, except in plain graphs."""
    calls, make, traced = [], compiled.direct_call, []

    def direct_call(function):
        run, plain = make(function), bool(traced)
        traced.append(function)

        def counted(*inputs):
            calls.append(1)
            if len(calls) == call and not plain:
                raise error
            return run(*inputs)

        return counted

    monkeypatch.setattr(compiled, "direct_call", direct_call)


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize(
    "error",
    [
        tf.errors.ResourceExhaustedError(None, None, "Out of memory while trying to allocate 17179869184 bytes."),
        tf.errors.InternalError(None, None, "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        tf.errors.CancelledError(None, None, "Function was cancelled"),
    ],
    ids=["memory", "memory of a GPU", "cancelled"],
)
def test_runtime_error_is_raised_and_xla_is_kept(monkeypatch, caplog, error, call):
    agent = line(jit_compile=None)
    batches = Batches(data(), np.array([[0, 1], [2, 3]], np.int32))
    failing_at(agent, monkeypatch, call, error)
    for _ in range(call - 1):
        agent.update(batches)
    with pytest.raises(type(error)) as raised:
        agent.update(batches)
    assert raised.value is error
    agent.update(batches)
    assert by_xla(agent) == [True]
    assert not caplog.records


def test_error_after_successful_call_is_not_compilation_error(monkeypatch, caplog):
    agent = line(jit_compile=None)
    batches = Batches(data(), np.array([[0, 1], [2, 3]], np.int32))
    failing_at(agent, monkeypatch, 2, tf.errors.InternalError(None, None, "ptxas failed: cannot compile"))
    agent.update(batches)
    with pytest.raises(tf.errors.InternalError, match="ptxas"):
        agent.update(batches)
    assert not caplog.records


def test_only_failing_function_becomes_plain_graph(monkeypatch, caplog):
    agent = line(jit_compile=None)
    failing_at(agent, monkeypatch, 1, tf.errors.InternalError(None, None, "libdevice not found"))
    agent.update(Batches(data(), np.array([[0, 1], [2, 3]], np.int32)))
    assert by_xla(agent) == [True, False]
    monkeypatch.undo()
    agent.update(Batches(data(6), np.array([[0, 1, 2], [3, 4, 5]], np.int32)))
    agent.update(Batches(data(), np.array([[0, 1], [2, 3]], np.int32)))
    assert by_xla(agent) == [True, False, True]
    assert len(caplog.records) == 1


def test_explicit_jit_compile_raises_compilation_error():
    agent = line(Python, jit_compile=True)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)):
        agent.update(Batches(data(), np.array([[0, 1, 2, 3]], np.int32)))
    assert agent.gradient_steps == 0


# --- invalid losses


class Vector(Line):
    def loss(self, batch):
        return {"default": self.networks["line"](batch["observations"])[:, 0]}


class Nameless(Line):
    def loss(self, batch):
        return {"loss": keras.ops.mean(self.networks["line"](batch["observations"]))}


class Bare(Line):
    def loss(self, batch):
        return keras.ops.mean(self.networks["line"](batch["observations"]))


class Pairs(Line):
    def loss(self, batch):
        return [("default", keras.ops.mean(self.networks["line"](batch["observations"])))]


@pytest.mark.parametrize(("cls", "kind"), [(Bare, "Tensor"), (Pairs, "list")])
def test_unnamed_losses_are_refused(cls, kind):
    message = rf"must return a mapping such as \{{'default': loss\}}, it returned a {kind}"
    with pytest.raises(ConfigurationError, match=message):
        line(cls).update(Batches(data(), np.array([[0, 1, 2, 3]], np.int32)))


@pytest.mark.parametrize(
    ("cls", "message"),
    [(Vector, r"one number for 'default' .*shape \(4,\)"), (Nameless, r"the optimizer 'default'; it gave \['loss'\]")],
)
def test_losses_of_wrong_shape_or_name_are_refused(cls, message):
    with pytest.raises(ConfigurationError, match=message):
        line(cls).update(Batches(data(), np.array([[0, 1, 2, 3]], np.int32)))


def test_error_in_loss_is_not_attributed_to_xla(caplog):
    class Mistaken(Line):
        def loss(self, batch):
            return {"default": keras.ops.mean(batch["observation"])}

    with pytest.raises(KeyError, match="observation"):
        line(Mistaken, jit_compile=None).update(Batches(data(), np.array([[0, 1, 2, 3]], np.int32)))
    assert not caplog.records


class Followed(Line):
    target_networks = {"target": "line"}  # noqa: RUF012

    def build(self):
        return {name: super(Followed, self).build()["line"] for name in ("line", "target")}


def test_target_networks_need_tau_in_config():
    with pytest.raises(ConfigurationError, match="lacks tau"):
        line(Followed)


# --- update metrics


def test_update_metrics_sum_losses_and_detect_non_finite_ones():
    update = UpdateMetrics(
        {"actor": np.array([1.0, 3.0]), "critic": np.array([10.0, 20.0])}, {"kl": np.array([np.nan])}
    )
    assert update.loss == 2.0 + 15.0
    assert update.finite  # a metric of nan is allowed
    assert not UpdateMetrics({"default": np.array([1.0, np.inf])}, {}).finite


class TestLossesAfterSteps:
    def agent(self):
        return agents.make(
            "ppo", "CartPole-v1", n_steps=32, n_epochs=2, batch_size=64, hidden_sizes=[8], jit_compile=False
        )

    def updates(self, agent, n_steps=1024):
        seen = []
        record = LambdaCallback(on_update_end=lambda trainer, update: seen.append(update))
        Trainer(agent, seed=0, callbacks=[record]).train(env_steps=n_steps)
        return seen

    def test_small_step_lowers_loss_of_its_minibatch(self):
        agent = self.agent()
        agent.set_learning_rate(1e-4)
        with agent.losses_after_steps():
            updates = self.updates(agent)
        rises = np.concatenate(
            [update.metrics[LOSS_AFTER + "default"] - update.losses["default"] for update in updates]
        )
        assert rises.mean() < 0
        assert (rises < 0).mean() > 0.9
        agent.set_learning_rate(1.0)
        with agent.losses_after_steps():
            updates = self.updates(agent)
        rises = np.concatenate(
            [update.metrics[LOSS_AFTER + "default"] - update.losses["default"] for update in updates]
        )
        assert (rises > 0).mean() > 0.15

    @pytest.mark.slow
    def test_observation_does_not_change_training_or_compile_again(self):
        plain, observed = self.agent(), self.agent()
        self.updates(plain)
        with observed.losses_after_steps():
            self.updates(observed)
        for own, other in zip(plain.state_variables(), observed.state_variables(), strict=True):
            np.testing.assert_array_equal(own.numpy(), other.numpy())
        assert LOSS_AFTER + "default" not in self.updates(observed)[0].metrics
        ordinary, resting = observed._update, observed._resting_update
        with observed.losses_after_steps():
            assert observed._update is resting
        assert observed._update is ordinary
