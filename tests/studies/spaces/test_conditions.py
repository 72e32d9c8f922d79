"""Conditional spaces: notation, order, contradictions, plans and grids."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from studies.errors import StudyError
from studies.spaces.conditions import assignments, checked_conditions, condition_text, existing, exists, in_order
from studies.spaces.plan import grid_rows
from studies.spaces.space_notation import parse_space, split_conditions
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange
from studies.spec.compatibility import differences
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import SPEC_ATTR, read_spec

Make = Callable[..., StudySpec]
SGD = {"optimizer": ("sgd",)}
SPACE = {"optimizer": "adam,sgd", "optimizer.momentum": "0:0.9@optimizer=sgd"}


def spaces(**written: Any) -> dict[str, Any]:
    return {name: parse_space(value) for name, value in written.items()}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0:0.99@optimizer=sgd", FloatRange(0.0, 0.99, when=SGD)),
        ("1e-4:1:log@optimizer=sgd", FloatRange(1e-4, 1.0, log=True, when=SGD)),
        ("1:8 @ optimizer = sgd, rmsprop", IntRange(1, 8, when={"optimizer": ("sgd", "rmsprop")})),
        ("a,b@n_layers=2,3@agent=ppo", Choice(("a", "b"), when={"n_layers": (2, 3), "agent": ("ppo",)})),
        ("0.9@opt=sgd(momentum=0.9,nesterov=true)", Fixed(0.9, when={"opt": ("sgd(momentum=0.9,nesterov=true)",)})),
        ({"low": 0, "high": 0.99, "when": {"optimizer": "sgd"}}, FloatRange(0.0, 0.99, when=SGD)),
        ({"choices": [1, 2], "when": {"optimizer": ["sgd"]}}, Choice((1, 2), when=SGD)),
        ({"value": 1, "when": {"dueling": True}}, Fixed(1, when={"dueling": (True,)})),
        ("me@example.org", Fixed("me@example.org")),
    ],
)  # fmt: skip
def test_notations(written: Any, expected: Any) -> None:
    space = parse_space(written)
    assert space == expected
    assert parse_space(json.loads(json.dumps(space.model_dump(mode="json")))) == space


def test_space_without_condition_is_stored_as_before() -> None:
    assert parse_space("0.9:0.99").model_dump(mode="json") == {
        "type": "float", "low": 0.9, "high": 0.99, "log": False, "step": None,
    }  # fmt: skip


def test_conditions_alone() -> None:
    assert split_conditions("@agent=ppo") == ("", {"agent": ("ppo",)})
    assert split_conditions("0.9:1") == ("0.9:1", {})
    assert condition_text(parse_space("1:2@optimizer=sgd,rmsprop@n=2")) == "@optimizer=sgd,rmsprop@n=2"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("@optimizer=sgd", "a condition without a space"),
        ("0:1@optimizer=", "empty choice"),
        ("0:1@optimizer=sgd,,adam", "empty choice"),
        ("0:1@a=1@a=2", "two conditions on 'a'"),
        ({"low": 0, "high": 1, "when": "optimizer=sgd"}, "when is 'optimizer=sgd': give a table"),
        ({"low": 0, "high": 1, "when": {"optimizer": []}}, "at least one value"),
        ({"low": 0, "high": 1, "wen": {"optimizer": 1}}, "unknown key 'wen'"),
    ],
)
def test_mistake_in_a_notation(written: Any, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        parse_space(written)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"momentum": "0:1@optimiser=sgd", "optimizer": "sgd,adam"}, "'optimiser', which is not searched.*'optimizer'"),
        (
            {"momentum": "0:1@optimizer=sdg", "optimizer": "sgd,adam"},
            "='sdg', a value that optimizer never has: give one of",
        ),
        ({"momentum": "0:1@momentum=1"}, "depends on itself"),
        ({"momentum": "0:1@gamma=0.9", "gamma": "0.8:0.99"}, "a range of real numbers"),
        ({"momentum": "0:1@n=4", "n": {"low": 1, "high": 9, "step": 2}}, "give one of 1:9 in steps of 2"),
        ({"momentum": "0:1@n=11", "n": "1:9"}, "n=11, a value that n never has: give one of 1:9, or"),
        ({"momentum": "0:1@tau=1"}, "tau, which is fixed to 0.5"),
        ({"a": "1,2@b=1", "b": "1,2@c=1", "c": "1,2@a=1"}, "circle: a depends on b depends on c depends on a"),
        ({"a": "1,2", "b": "1,2@a=1", "c": "1,2@b=1@a=2"}, "c never exists: its conditions need a to be both"),
    ],
)
def test_contradictory_conditions_are_refused(written: Any, message: str, make_spec: Make) -> None:
    with pytest.raises(StudyError, match=message):
        make_spec(params=written, fixed={"tau": 0.5})


def test_values_of_conditions_get_the_types_of_their_spaces() -> None:
    found = checked_conditions(spaces(n=[1.0, 2.5], m="1:2@n=1"), {})
    assert [type(value) for value in found["m"].when["n"]] == [float]


def test_order_is_changed_only_where_a_condition_asks_for_it() -> None:
    found = in_order(spaces(a="1:2@c=1", b="1:2", c="1,2", d="1:2@a=1"))
    assert list(found) == ["b", "c", "a", "d"]
    assert list(in_order(spaces(z="1:2", a="1:2"))) == ["z", "a"]


def test_parameters_of_a_missing_parameter_do_not_exist_either() -> None:
    found = spaces(a="1,2", b="1,2@a=1", c="1,2@b=1")
    assert exists(found["b"], {"a": 1})
    assert not exists(found["b"], {"a": 2})
    assert not exists(found["c"], {"a": 2})
    assert existing({"c": 1, "b": 1, "a": 2}, found) == {"a": 2}
    assert existing({"c": 1, "b": 1, "a": 1}, found) == {"c": 1, "b": 1, "a": 1}
    assert list(assignments("c", found)) == [{"b": 1, "a": 1}]
    assert list(assignments("a", found)) == [{}]


def test_grid_has_each_existing_combination_once(make_spec: Make) -> None:
    spec = make_spec(
        sampler="grid",
        params={"optimizer": "adam,sgd", "optimizer.momentum": "0.0,0.9@optimizer=sgd", "gamma": "0.9,0.99"},
        n_trials=100,
    )
    expected = [
        {"gamma": gamma, "optimizer": "adam"} for gamma in (0.9, 0.99)
    ] + [
        {"gamma": gamma, "optimizer": "sgd", "optimizer.momentum": momentum}
        for gamma in (0.9, 0.99) for momentum in (0.0, 0.9)
    ]  # fmt: skip
    assert sorted(spec.plan(), key=str) == sorted(expected, key=str)


def test_too_large_conditional_grid_is_refused_before_it_is_listed() -> None:
    large = {f"n{i}": parse_space("1:1000@a=1") for i in range(4)} | {"a": parse_space("1,2")}
    with pytest.raises(StudyError, match="the grid has more than 100000 points"):
        grid_rows(large, {}, 0)
    never = {"a": parse_space("1"), "n": parse_space("1:1000000000000@a=2")}
    assert grid_rows(never, {}, 0) == ({"a": 1},)


@pytest.mark.parametrize("key", ["trials", "first"])
def test_rows_with_parameters_that_do_not_exist_are_refused(key: str, make_spec: Make) -> None:
    good = make_spec(params=SPACE, **{key: [{"optimizer": "sgd", "optimizer.momentum": 0.5}, {"optimizer": "adam"}]})
    assert getattr(good, key)[0] == {"optimizer": "sgd", "optimizer.momentum": 0.5}
    what = "planned" if key == "trials" else "first"
    for row, present in (({"optimizer": "adam"}, "optimizer is 'adam'"), ({}, "it has no optimizer")):
        with pytest.raises(StudyError, match=f"{what} trial 0 has optimizer.momentum, .*'sgd', but {present}"):
            make_spec(params=SPACE, **{key: [{**row, "optimizer.momentum": 0.5}]})


def test_spec_with_conditions_round_trips_and_differs_from_one_without(make_spec: Make) -> None:
    spec = make_spec(params=SPACE)
    stored = json.loads(json.dumps(spec.to_json_dict()))
    assert read_spec({SPEC_ATTR: stored}, "s") == spec
    assert "when" not in stored["params"]["optimizer"]
    before = make_spec(params={**SPACE, "optimizer.momentum": "0:0.9"})
    assert differences(before, spec) == [
        ("the search space optimizer.momentum=0:0.9", "the search space optimizer.momentum=0:0.9@optimizer=sgd")
    ]


def test_condition_on_the_agent(make_spec: Make) -> None:
    spec = make_spec(agents=("ppo", "dqn"), params={"clip_range": "0.1:0.3@agent=ppo"})
    assert spec.params["clip_range"].when == {"agent": ("ppo",)}
    with pytest.raises(StudyError, match="'agent', which is not searched"):
        make_spec(params={"clip_range": "0.1:0.3@agent=ppo"})


def test_toml_table_has_conditions(tmp_path: Any) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'name = "s"\nagents = "ppo"\nenv = "E"\nenv_steps = 10\n[params]\noptimizer = ["adam", "sgd"]\n'
        '[params."optimizer.momentum"]\nlow = 0\nhigh = 0.99\nwhen = { optimizer = "sgd" }\n'
    )
    assert StudySpec.from_toml(path).params["optimizer.momentum"] == FloatRange(0.0, 0.99, when=SGD)
