"""Contract tests of policies: invariants, states, invalid input and construction by name."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from agents.errors import ConfigurationError, NonFiniteError
from agents.exploration import (
    POLICIES,
    AdaptiveEpsilonGreedy,
    Boltzmann,
    BoltzmannGumbel,
    EpsilonGreedy,
    Greedy,
    GumbelSoftmax,
    MaxBoltzmann,
    make_policy,
)
from agents.exploration.sampling import categorical
from agents.functional.schedules import LinearSchedule

ALMOST_ONE = 1.0 - 2.0**-53  # the largest number that Generator.random returns
VALUES = np.array([0.0, 0.5, 1.0, -1.0])
ALL = pytest.mark.parametrize("name", sorted(POLICIES))

# --- tier 1: invariants

finite_values = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-1e308, 1e308) | st.sampled_from([0.0, 1.0, -1.0]),
)


@st.composite
def masked_values(draw):
    """Draw values of any size in which each row has at least one allowed action."""
    values = draw(finite_values)
    forbidden = draw(hnp.arrays(np.bool_, values.shape))
    forbidden[np.arange(len(values)), draw(st.integers(0, values.shape[1] - 1))] = False
    return np.where(forbidden, -np.inf, values)


@ALL
@settings(max_examples=40, deadline=None)
@given(values=masked_values(), seed=st.integers(0, 2**32))
def test_actions_are_allowed_at_any_scale(name, values, seed):
    actions = make_policy(name).select(values, np.random.default_rng(seed))
    assert actions.shape == (len(values),)
    assert actions.dtype == np.int64
    assert ((actions >= 0) & (actions < values.shape[1])).all()
    assert np.isfinite(values[np.arange(len(values)), actions]).all()


@ALL
@settings(max_examples=25, deadline=None)
@given(values=masked_values(), seed=st.integers(0, 2**32))
def test_random_numbers_drawn_depend_on_shape_only(name, values, seed):
    one, other = np.random.default_rng(seed), np.random.default_rng(seed)
    make_policy(name).select(values, one)
    make_policy(name).select(np.zeros_like(values), other)
    assert one.bit_generator.state == other.bit_generator.state


@settings(max_examples=200, deadline=None)
@given(
    weights=hnp.arrays(np.float64, (3, 5), elements=st.sampled_from([0.0, 1e-300, 0.1, 1.0])),
    u=st.sampled_from([0.0, 1e-300, 0.5, ALMOST_ONE]),
)
def test_action_of_zero_weight_is_never_drawn(weights, u):
    weights[:, 2] = 0.3
    actions = categorical(weights, np.full(3, u))
    assert (weights[np.arange(3), actions] > 0.0).all()


@ALL
def test_global_random_generator_is_unchanged(name):
    before = np.random.get_state()[1].copy()
    make_policy(name).select(np.tile(VALUES, (8, 1)), np.random.default_rng(0))
    assert (np.random.get_state()[1] == before).all()


@ALL
def test_rows_are_independent(name):
    values = np.random.default_rng(1).normal(size=(6, 3))
    changed = values.copy()
    changed[3:] = 0.0
    first = make_policy(name).select(values, np.random.default_rng(2))
    second = make_policy(name).select(changed, np.random.default_rng(2))
    assert (first[:3] == second[:3]).all()


@ALL
def test_no_environments_give_no_actions(name):
    assert make_policy(name).select(np.zeros((0, 3)), np.random.default_rng(0)).shape == (0,)


@ALL
@pytest.mark.parametrize("through", ["json", "copy"])
def test_restored_policy_continues_identically(name, through):
    values = np.random.default_rng(4).normal(size=(50, 5, 3))
    kwargs = {"n_steps": 60} if name == "adaptive-epsilon-greedy" else {}
    policy, rng = make_policy(name, **kwargs), np.random.default_rng(5)
    for v in values[:25]:
        policy.select(v, rng)
        policy.step(1)
    state = policy.get_state()
    if through == "json":
        state = json.loads(json.dumps({k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}))
    restored, rng_again = make_policy(name, **kwargs), np.random.default_rng()
    restored.set_state(state)
    rng_again.bit_generator.state = rng.bit_generator.state
    for v in values[25:]:
        assert (policy.select(v, rng) == restored.select(v, rng_again)).all()
        policy.step(1)
        restored.step(1)
    for key, value in policy.get_state().items():
        np.testing.assert_array_equal(value, restored.get_state()[key])


def test_state_is_independent_of_later_choices():
    policy, rng = BoltzmannGumbel(), np.random.default_rng(0)
    policy.select(np.zeros((5, 2)), rng)
    state = policy.get_state()
    kept = state["counts"].copy()
    policy.select(np.zeros((5, 2)), rng)
    np.testing.assert_array_equal(state["counts"], kept)
    policy.set_state(state)
    policy.select(np.zeros((5, 2)), rng)
    np.testing.assert_array_equal(state["counts"], kept)


@ALL
def test_policies_can_be_pickled(name):
    policy = make_policy(name)
    again = pickle.loads(pickle.dumps(policy))
    values = np.tile(VALUES, (20, 1))
    a, b = policy.select(values, np.random.default_rng(0)), again.select(values, np.random.default_rng(0))
    assert (a == b).all()


# --- validation errors


@ALL
@pytest.mark.parametrize(
    ("row", "message"),
    [([0.0, np.nan], "NaN"), ([np.inf, 0.0], r"\+inf"), ([-np.inf, -np.inf], "every action is forbidden")],
)
def test_non_finite_values_are_refused(name, row, message):
    with pytest.raises(NonFiniteError, match=f"row 1 .*{message}"):
        make_policy(name).select(np.array([[0.0, 1.0], row]), np.random.default_rng(0))


@ALL
@pytest.mark.parametrize("shape", [(3,), (2, 0), (2, 3, 4)])
def test_values_of_wrong_shape_are_refused(name, shape):
    with pytest.raises(ValueError, match=r"shape \[N, A\]"):
        make_policy(name).select(np.zeros(shape), np.random.default_rng(0))


@ALL
def test_states_with_wrong_keys_are_refused(name):
    with pytest.raises(ValueError, match="keys"):
        make_policy(name).set_state({"something": 1})
    with pytest.raises(ValueError, match="n must be >= 0"):
        make_policy(name).step(-1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EpsilonGreedy(-0.1), r"epsilon .*\[0, 1\].*-0.1"),
        (lambda: EpsilonGreedy(1.5), r"epsilon .*\[0, 1\].*1.5"),
        (lambda: EpsilonGreedy(math.nan), "finite.*nan"),
        (lambda: EpsilonGreedy(LinearSchedule(1.0, -0.5, 10)), r"epsilon .*\[0, 1\]"),
        (lambda: AdaptiveEpsilonGreedy(start=0.1, end=0.5), "end <= start.*0.1.*0.5"),
        (lambda: AdaptiveEpsilonGreedy(decay=0.0), "decay .*> 0.*0.0"),
        (lambda: AdaptiveEpsilonGreedy(n_steps=0), "n_steps .*> 0.*0"),
        (lambda: AdaptiveEpsilonGreedy(decay=0.1, n_steps=5), "not both"),
        (lambda: Boltzmann(temperature=0.0), "temperature .*> 0.*0.0"),
        (lambda: Boltzmann(clip=math.inf), "clip .*> 0.*inf"),
        (lambda: MaxBoltzmann(temperature=-1.0), "temperature .*> 0.*-1.0"),
        (lambda: BoltzmannGumbel(C=math.nan), "C .*> 0.*nan"),
        (lambda: GumbelSoftmax(temperature=0.0), "temperature .*> 0.*0.0"),
        (lambda: GumbelSoftmax(eps=0.0), r"eps .*\(0, 0.01\].*0.0"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_boltzmann_gumbel_refuses_other_numbers_of_actions():
    policy = BoltzmannGumbel()
    policy.select(np.zeros((1, 2)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="counted 2 actions, got values of 3"):
        policy.select(np.zeros((1, 3)), np.random.default_rng(0))
    with pytest.raises(ValueError, match="counts must be"):
        policy.set_state({"counts": [0, 3]})


# --- by name


@pytest.mark.parametrize("name", ["epsilon-greedy", "epsilon_greedy", "EpsilonGreedy", "Epsilon Greedy"])
def test_spellings_of_names_are_accepted(name):
    policy = make_policy(name, epsilon=0.25)
    assert isinstance(policy, EpsilonGreedy)
    assert policy.epsilon == 0.25


def test_make_policy_returns_given_policy():
    policy = Greedy()
    assert make_policy(policy) is policy
    with pytest.raises(ConfigurationError, match="'epsilon' cannot be set"):
        make_policy(policy, epsilon=0.1)


def test_unknown_names_suggest_nearest():
    with pytest.raises(ConfigurationError, match=r"policy 'boltzman'.*Did you mean boltzmann"):
        make_policy("boltzman")
    with pytest.raises(ConfigurationError, match=r"argument 'temprature' .*boltzmann.*temperature"):
        make_policy("boltzmann", temprature=2.0)
    with pytest.raises(ConfigurationError, match="got 3"):
        make_policy(3)
