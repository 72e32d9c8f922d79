"""Tests of the parsing of option values."""

from __future__ import annotations

from typing import Any

import pytest

from agents.errors import ConfigurationError
from finder.cli.options import values


@pytest.mark.parametrize(
    ("text", "expected"),
    [(None, None), ("3", 3), ("0,1,7", (0, 1, 7)), ("7,", (7,)), ("-1", -1)],
)
def test_seeds_are_parsed(text: str | None, expected: Any) -> None:
    assert values.seeds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma=0.9", 0.9),
        ("gamma=.5", 0.5),
        ("gamma=1e-3", 1e-3),
        ("gamma=4", 4),
        ("gamma=true", True),
        ("gamma=null", None),
        ("gamma=[32, 32]", [32, 32]),
        ('gamma={"a": 1}', {"a": 1}),
        ("gamma=relu", "relu"),
        ("gamma=sgd(momentum=0.9,nesterov=true)", "sgd(momentum=0.9,nesterov=true)"),
        ("gamma=nan", "nan"),
        ("gamma=NaN", "NaN"),
    ],
)
def test_setting_is_parsed_as_json_number_or_text(text: str, expected: Any) -> None:
    (value,) = values.settings([text]).values()
    assert value == expected
    assert type(value) is type(expected)


def test_parameter_without_a_range_has_its_default_range() -> None:
    assert values.spaces(["learning_rate", "gamma=0.9:0.99", "optimizer=adam,sgd"]) == {
        "learning_rate": None,
        "gamma": "0.9:0.99",
        "optimizer": "adam,sgd",
    }


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (values.settings, ["gamma"], "'gamma'"),
        (values.settings, ["gamma="], "name=value"),
        (values.settings, ["=1"], "name=value"),
        (values.settings, ["a=1", "a=2"], "'a' twice"),
        (values.spaces, ["gamma="], "low:high"),
        (values.spaces, ["=1:2"], "low:high"),
        (values.seeds, "x", "0,1,2"),
        (values.seeds, "1,x", "0,1,2"),
        (values.rates, "1e-3,fast", "1e-4,1e-3"),
    ],
)
def test_error_names_the_invalid_value(read: Any, given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(given)


@pytest.mark.parametrize("text", ["{a", "[1]", "1"])
def test_json_objects_are_parsed(text: str) -> None:
    assert values.json_object('{"a": 1}', "--x") == {"a": 1}
    assert values.json_object(None, "--x") == {}
    with pytest.raises(ConfigurationError, match="--x"):
        values.json_object(text, "--x")


def test_names_of_studies_have_files_of_their_own() -> None:
    assert values.file_name_of("lr-ppo-CartPole-v1") == "lr-ppo-CartPole-v1"
    names = [values.file_name_of(name) for name in ("a b", "a/b", "a-b", "x" * 300, "x" * 299)]
    assert len(set(names)) == len(names)
    assert not any(set(" /") & set(name) or len(name) > 100 for name in names)
