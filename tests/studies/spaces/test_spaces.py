"""Search spaces: parsing, distributions of Optuna, and values of a space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from studies.errors import StudyError
from studies.spaces.space_notation import parse_space, space_text
from studies.spaces.spaces import (
    Choice,
    Fixed,
    FloatRange,
    IntRange,
    Space,
    decode_params,
    distribution,
    encode,
    extremes,
    settle,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([32, 64]), Choice((32, 64))),
        (np.array([[8, 8], [16, 16]]), Choice(([8, 8], [16, 16]))),
        (np.array(3), Fixed(3)),
        ([np.float32(0.5), (np.int64(1), np.bool_(True))], Choice((0.5, [1, True]))),
        (np.float64(0.5), Fixed(0.5)),
        ({"low": np.int32(1), "high": np.int64(3)}, IntRange(1, 3)),
        ({"value": np.array([8, 8])}, Fixed([8, 8])),
    ],
)
def test_spaces_of_numpy_are_those_of_python(value: Any, expected: Space) -> None:
    space = parse_space(value)
    assert space == expected
    assert [type(each) for each in extremes(space)] == [type(each) for each in extremes(expected)]


@pytest.mark.parametrize(
    ("space", "value", "settled"),
    [
        (IntRange(1, 64), np.int64(40), 40),
        (FloatRange(0, 1), np.float32(0.5), 0.5),
        (Choice(([8, 8], [16])), np.array([8, 8]), [8, 8]),
        (Fixed(True), np.bool_(True), True),
    ],
)
def test_settle_takes_numbers_of_numpy(space: Space, value: Any, settled: Any) -> None:
    found = settle(space, value)
    assert found == settled
    assert type(found) is type(settled)


@pytest.mark.parametrize("value", [np.bool_(True), True])
def test_settle_takes_no_truth_value_for_a_number(value: Any) -> None:
    with pytest.raises(StudyError, match="is not a number"):
        settle(IntRange(0, 2), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1e-5:1e-1:log", FloatRange(1e-5, 1e-1, log=True)),
        ("0.9:0.999", FloatRange(0.9, 0.999)),
        ("-200:-100", IntRange(-200, -100)),
        ("1:10", IntRange(1, 10)),
        ("1:10:log", IntRange(1, 10, log=True)),
        ("1:2.5", FloatRange(1.0, 2.5)),
        ("adam,sgd", Choice(("adam", "sgd"))),
        ("1,2,3", Choice((1, 2, 3))),
        ("true, 0.5, x", Choice((True, 0.5, "x"))),
        ("[64,64],[32]", Choice(([64, 64], [32]))),
        ("relu", Fixed("relu")),
        ("0.1", Fixed(0.1)),
        (".5", Fixed(0.5)),
        ("nan", Fixed("nan")),
        ("true", Fixed(True)),
        ("package.module:Class", Fixed("package.module:Class")),
        (3, Fixed(3)),
        (None, Fixed(None)),
        ([1, 2], Choice((1, 2))),
        (("a", "b"), Choice(("a", "b"))),
        ({"low": 1, "high": 5}, IntRange(1, 5)),
        ({"low": 1, "high": 5.0}, FloatRange(1.0, 5.0)),
        ({"low": 0.0, "high": 1.0, "step": 0.25}, FloatRange(0.0, 1.0, step=0.25)),
        ({"low": 1, "high": 9, "log": True}, IntRange(1, 9, log=True)),
        ({"choices": [1, 2]}, Choice((1, 2))),
        ({"value": [1, 2]}, Fixed([1, 2])),
        (FloatRange(0.0, 1.0), FloatRange(0.0, 1.0)),
    ],
)
def test_parse_space_accepts_every_notation(value: Any, expected: Space) -> None:
    assert parse_space(value) == expected


def test_log_and_integer_arguments_complete_the_text() -> None:
    assert parse_space("1e-4:1e-2", log=True) == FloatRange(1e-4, 1e-2, log=True)
    assert parse_space("0:1.0:linear", log=True) == FloatRange(0.0, 1.0)
    assert parse_space("0:1:0.25", log=True) == FloatRange(0.0, 1.0, step=0.25)  # steps are of one size
    assert parse_space("1:10", integer=False) == FloatRange(1.0, 10.0)
    assert parse_space("1e3:1e4", integer=True) == IntRange(1000, 10000)
    assert parse_space({"low": 1.0, "high": 2.0, "log": False}, log=True) == FloatRange(1.0, 2.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("5:1", ["low is 5", "high is 1", "below"]),
        ("1:1", ["below"]),
        ("1:b", ["'1:b'", "low:high"]),
        ("1:2:3:4", ["'1:2:3:4'", "low:high:log", "low:high:step"]),
        ("1:2:lin", ["'1:2:lin'", "low:high:log", "low:high:step"]),
        ("1:2:3", ["step is 3 in 1:2, which is shorter"]),
        ("0:1:-0.5", ["step is -0.5", "above 0"]),
        ("0:1:log", ["low is 0", "above 0"]),
        ("0:inf", ["finite"]),
        ("1,,2", ["empty choice"]),
        ({"low": 1, "hihg": 2}, ["'hihg'", "'high'"]),
        ({"low": "1", "high": 2}, ["low is '1'", "number"]),
        ({"low": 1}, ["high is None"]),
        ({"low": 0.1, "high": 1.0, "step": 0.35}, ["0.80"]),
        ({"low": 0, "high": 1e30, "step": 1e-3}, ["step is 0.001", "too many steps"]),
        ({"low": 1, "high": 10**400}, ["finite"]),
        ("1:" + "9" * 400, ["finite"]),
        ({"low": 1, "high": 8, "step": -1}, ["step is -1"]),
        ({"low": 1.0, "high": 8.0, "step": 1.0, "log": True}, ["step", "logarithmic"]),
        ({"low": 1, "high": 8, "log": "yes"}, ["log is 'yes'"]),
        ({"choices": 3}, ["choices is 3", "list"]),
        ({"type": "flaot", "low": 1, "high": 2}, ["'flaot'", "'float'"]),
        ([1, True], ["twice"]),
        ([], ["at least one"]),
        ([float("nan")], ["nan"]),
        (object(), ["not a search space"]),
    ],
)
def test_invalid_space_names_value_and_allowed_form(value: Any, words: list[str]) -> None:
    with pytest.raises(StudyError) as error:
        parse_space(value)
    for word in words:
        assert word in str(error.value)


def test_integer_space_rejects_fractions() -> None:
    with pytest.raises(StudyError, match="whole"):
        parse_space("0.5:3", integer=True)


def test_step_division_uses_decimal_arithmetic() -> None:
    assert FloatRange(0.1, 0.7, step=0.2).step == 0.2  # 0.7 - 0.1 is not 3 * 0.2 in binary


def test_spaces_become_optuna_distributions() -> None:
    assert distribution(FloatRange(1e-5, 1e-1, log=True)) == FloatDistribution(1e-5, 1e-1, log=True)
    assert distribution(IntRange(2, 8, step=2)) == IntDistribution(2, 8, step=2)
    assert distribution(Choice(("a", "b"))) == CategoricalDistribution(("a", "b"))
    assert distribution(Fixed(3)) == IntDistribution(3, 3, log=True)
    assert distribution(Fixed(0.5)) == FloatDistribution(0.5, 0.5, log=True)
    assert distribution(Fixed(-1.5)) == FloatDistribution(-1.5, -1.5)
    assert distribution(Fixed("mlp")) == CategoricalDistribution(("mlp",))
    assert distribution(Fixed(True)) == CategoricalDistribution((True,))


def test_list_choices_are_stored_as_text_and_decoded_to_lists() -> None:
    space = Choice(([64, 64], [32], "mlp"))
    stored = distribution(space)
    assert isinstance(stored, CategoricalDistribution)
    assert stored.choices == ("[64, 64]", "[32]", "mlp")
    assert decode_params({"net": "[64, 64]", "other": 1}, {"net": space}) == {"net": [64, 64], "other": 1}
    assert encode("text") == "text"


def test_values_of_a_choice_are_encoded_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    monkeypatch.setattr("studies.spaces.spaces.encode", lambda value: encoded.append(value) or encode(value))
    assert len(Choice(range(50)).values) == 50
    assert encoded == list(range(50))
    for twice in ((1, 1.0), ([1], "[1]"), (True, 1)):
        with pytest.raises(StudyError, match="twice"):
            Choice(twice)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (FloatRange(0.1, 0.5), [0.1, 0.5]),
        (IntRange(1, 4), [1, 4]),
        (Choice([None, 2, "a"]), [None, 2, "a"]),
        (Fixed(0), [0]),
    ],
)
def test_extremes_are_ends_choices_or_the_fixed_value(space: Space, expected: list[Any]) -> None:
    assert extremes(space) == expected


def test_settle_converts_to_the_type_of_the_space_and_rejects_values_outside() -> None:
    lr = FloatRange(1e-5, 1.0, log=True)
    assert settle(lr, 1) == 1.0
    assert isinstance(settle(lr, 1), float)
    assert settle(IntRange(1, 9), 4.0) == 4
    assert settle(lr, 1.0 + 1e-12) == 1.0  # a rounding error at the end of a grid
    assert settle(FloatRange(0.0, 0.3), 0.1 * 3) == 0.3
    for space, value in ((lr, 2.0), (lr, True), (lr, "x"), (IntRange(1, 9), 4.5), (Choice(("a",)), "b"), (Fixed(1), 2)):
        with pytest.raises(StudyError):
            settle(space, value)


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (FloatRange(1e-10, 1.0, log=True), 0.0),
        (FloatRange(1e-8, 10.0, log=True), 5e-9),
        (IntRange(1, 10**10), -5),
        (IntRange(0, 100, step=10), 5),
        (FloatRange(0.0, 1.0, step=0.25), 0.3),
    ],
)
def test_settle_rejects_values_below_a_small_end_and_between_steps(space: Space, value: float) -> None:
    with pytest.raises(StudyError, match=r"outside|between two steps"):
        settle(space, value)


def test_settle_takes_every_step() -> None:
    assert [settle(FloatRange(0.1, 0.7, step=0.1), 0.1 + 0.1 * k) for k in range(7)][-1] == 0.7
    assert settle(IntRange(5, 25, step=10), 15) == 15


def test_tuples_are_lists_as_in_a_storage() -> None:
    choice = Choice([(64, 64), (32,)])
    assert choice == Choice([[64, 64], [32]])
    assert parse_space(choice.model_dump(mode="json")) == choice
    assert settle(choice, (32,)) == [32]
    assert Fixed({"sizes": (1, (2,))}).value == {"sizes": [1, [2]]}


def test_step_of_a_table_has_a_linear_scale_as_that_of_text_has() -> None:
    given = {"low": 1e-3, "high": 1e-2, "step": 1e-3}
    assert parse_space(given, log=True) == parse_space("1e-3:1e-2:1e-3", log=True)


def test_brackets_and_quotes_hold_choices_together() -> None:
    assert parse_space("[64,64],none") == Choice([[64, 64], "none"])
    assert parse_space('{"a":1,"b":2},none') == Choice([{"a": 1, "b": 2}, "none"])
    assert parse_space('"a,b",c') == Choice(["a,b", "c"])
    assert parse_space("a),b") == Choice(["a)", "b"])


finite = st.floats(-1e6, 1e6)


@given(
    st.one_of(
        st.tuples(finite, finite).filter(lambda ends: ends[0] < ends[1]).map(lambda ends: FloatRange(*ends)),
        st.tuples(st.integers(1, 99), st.integers(100, 999)).map(lambda ends: IntRange(*ends, log=True)),
        st.lists(st.one_of(st.text(), st.integers(2)), min_size=1, unique_by=str).map(Choice),
        st.one_of(st.none(), st.booleans(), st.text(), st.lists(st.integers())).map(Fixed),
    )
)
def test_space_round_trips_through_json(space: Space) -> None:
    assert parse_space(space.model_dump(mode="json")) == space


def test_comma_inside_parentheses_does_not_separate_choices() -> None:
    space = parse_space("sgd(momentum=0.9,nesterov=true),adam")
    assert space == Choice(values=("sgd(momentum=0.9,nesterov=true)", "adam"))


@pytest.mark.parametrize(
    "text",
    [
        "1e-05:0.01:log", "0.9:0.999", "0.0:2.0", "3:20", "1:512:log", "adam(epsilon=1e-05),sgd(momentum=0.9)",
        "32,64,128", "true,false", "[64,64],[256,256]", "null,0.5", "0.99", "adam", "0:0.99@optimizer=sgd,rmsprop",
        "0.123456789012:1", "10000:1000000", "0:1:0.25", "3:9:2", "0.0:2.0:1",
    ],
)  # fmt: skip
def test_text_of_a_space_is_read_as_the_same_space(text: str) -> None:
    assert parse_space(space_text(parse_space(text))) == parse_space(text)


def test_text_of_a_space_is_short() -> None:
    spaces = [
        FloatRange(1e-5, 0.01, log=True),
        IntRange(3, 20),
        Choice(("adam", "sgd")),
        FloatRange(0.0, 1.0, step=0.25),
    ]
    assert list(map(space_text, spaces)) == ["1e-5:0.01:log", "3:20", "adam,sgd", "0:1.0:0.25"]
