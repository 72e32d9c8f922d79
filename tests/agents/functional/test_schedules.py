"""Tests of schedules: values worked out by hand, bounds and conversion to JSON and back."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import ConfigurationError
from agents.functional.schedules import SCHEDULES, ConstantSchedule, ExponentialSchedule, LinearSchedule, schedule_from


@pytest.mark.parametrize(("step", "value"), [(0, 1.0), (1, 0.8), (2.5, 0.5), (5, 0.0), (500, 0.0)])
def test_linear_schedule_by_hand(step, value):
    # From 1 to 0 over 5 steps: 0.2 less per step.
    assert LinearSchedule(1.0, 0.0, 5)(step) == pytest.approx(value, abs=1e-15)


def test_linear_schedule_may_rise():
    assert LinearSchedule(0.4, 1.0, 100)(50) == pytest.approx(0.7)


@pytest.mark.parametrize(("step", "value"), [(0, 1e-4), (1, 1e-3), (2, 1e-2), (3, 1e-1), (4, 1e-1)])
def test_exponential_schedule_by_hand(step, value):
    # From 1e-4 to 1e-1 in 3 steps: a factor of (1e3) ** (1 / 3) = 10 per step.
    assert ExponentialSchedule(1e-4, 1e-1, 3)(step) == pytest.approx(value, rel=1e-12)


def test_rounding_and_overflow_stay_within_bounds():
    assert LinearSchedule(-1.7e308, 1.7e308, 2)(1) == 0.0  # the difference itself would be infinite
    assert ExponentialSchedule(1e-300, 1e300, 2)(1) == pytest.approx(1.0)  # the ratio itself would be infinite
    assert {LinearSchedule(0.1, 0.1, 97)(step) for step in range(97)} == {0.1}


def test_constant_schedule():
    assert ConstantSchedule(0.3)(0) == ConstantSchedule(0.3)(10**9) == 0.3


numbers = st.floats(-1e300, 1e300) | st.sampled_from([-1.7e308, 1.7e308, 0.1, 0.3])
positive = st.floats(1e-300, 1e300)
steps = st.floats(1e-3, 1e12)
schedules = (
    st.builds(ConstantSchedule, numbers)
    | st.builds(LinearSchedule, numbers, numbers, steps)
    | st.builds(ExponentialSchedule, positive, positive, steps)
)


@given(schedule=schedules, step=st.floats(0, 1e13))
def test_values_stay_within_bounds_and_end_exactly(schedule, step):
    low, high = schedule.bounds
    assert low <= schedule(step) <= high
    assert isinstance(schedule(step), float)
    if not isinstance(schedule, ConstantSchedule):
        assert schedule(0) == schedule.start
        assert schedule(schedule.n_steps) == schedule.end


@given(
    schedule=st.builds(LinearSchedule, st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**6)),
    first=st.integers(0, 10**6),
    more=st.integers(0, 10**6),
)
def test_linear_schedule_is_monotonic(schedule, first, more):
    earlier, later = schedule(first), schedule(first + more)
    tolerance = 1e-15
    if schedule.end >= schedule.start:
        assert later >= earlier - tolerance
    else:
        assert later <= earlier + tolerance


@given(schedule=schedules)
def test_schedules_round_trip_through_json_and_pickle(schedule):
    assert schedule_from(json.loads(json.dumps(schedule.to_dict()))) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert schedule_from(schedule) is schedule


def test_json_form_of_schedules():
    expected = {"schedule": "linear", "start": 1.0, "end": 0.1, "n_steps": 9000}
    assert LinearSchedule(1.0, 0.1, 9000).to_dict() == expected
    assert set(SCHEDULES) == {"constant", "linear", "exponential"}


@pytest.mark.parametrize("number", [0, 3, 0.5, np.float32(0.5), np.int64(2)])
def test_number_is_constant_schedule(number):
    assert schedule_from(number) == ConstantSchedule(float(number))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"schedule": "liner", "start": 1.0}, "'liner'.*linear"),
        ({"start": 1.0, "end": 0.1, "n_steps": 3}, "None.*linear"),
        ({"schedule": "linear", "start": 1.0}, "exactly the parameters.*'end', 'n_steps', 'start'.*'start'"),
        ({"schedule": "constant", "value": 1.0, "n": 2}, "exactly the parameters"),
        ({"schedule": "constant", "value": "1"}, "finite number.*'1'"),
        ({"schedule": ["linear"]}, r"\['linear'\]"),
        ("linear", "a schedule is a number or a mapping.*'linear'"),
        (True, "a schedule is a number or a mapping.*True"),
        (None, "a schedule is a number or a mapping.*None"),
        (math.nan, "finite number.*nan"),
    ],
)
def test_invalid_schedules_are_refused(value, message):
    with pytest.raises(ConfigurationError, match=message):
        schedule_from(value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearSchedule(1.0, math.inf, 3), "end .*finite.*inf"),
        (lambda: LinearSchedule(1.0, 0.0, 0), "n_steps .*> 0.*0"),
        (lambda: ExponentialSchedule(0.0, 1.0, 3), "start .*> 0.*0.0"),
        (lambda: ExponentialSchedule(1.0, -1.0, 3), "end .*> 0.*-1.0"),
        (lambda: ExponentialSchedule(1.0, 2.0, math.nan), "n_steps .*> 0.*nan"),
    ],
)
def test_parameters_out_of_range_are_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize("step", [-1, math.nan])
@pytest.mark.parametrize("schedule", [ConstantSchedule(1.0), LinearSchedule(1, 0, 2), ExponentialSchedule(1, 2, 2)])
def test_steps_out_of_range_are_refused(schedule, step):
    with pytest.raises(ValueError, match="step must be >= 0"):
        schedule(step)
