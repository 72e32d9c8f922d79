"""Tests of parameter sets on the command line and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.errors import ConfigurationError
from finder.cli.options.parameter_sets import parameter_sets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma=0.99", {"gamma": 0.99}),
        ("learning_rate=3e-4, gamma = .99", {"learning_rate": 3e-4, "gamma": 0.99}),
        ("hidden_sizes=[64,64],n_steps=128", {"hidden_sizes": [64, 64], "n_steps": 128}),
        (
            "optimizer=sgd(momentum=0.9,nesterov=true),optimizer.momentum=0",
            {"optimizer": "sgd(momentum=0.9,nesterov=true)", "optimizer.momentum": 0},
        ),
        ('activation="a,b",dueling=true', {"activation": "a,b", "dueling": True}),
        ('net={"a": [1, 2], "b": 3},x=null', {"net": {"a": [1, 2], "b": 3}, "x": None}),
    ],
)
def test_set_is_split_at_commas_outside_of_brackets_and_quotes(text: str, expected: dict[str, Any]) -> None:
    assert parameter_sets([text]) == [expected]


def test_sets_of_flags_and_files_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('[[first]]\ngamma = 0.9\n[[first]]\n"optimizer.momentum" = 0.5\n')
    (tmp_path / "one.toml").write_text("gamma = 0.8\n")
    (tmp_path / "list.json").write_text('[{"gamma": 0.7}, {"gamma": 0.6}]')
    (tmp_path / "object.json").write_text('{"gamma": 0.5}')
    given = ["gamma=1", *(str(tmp_path / name) for name in ("two.toml", "one.toml", "list.json", "object.json"))]
    assert parameter_sets(given) == [
        {"gamma": 1},
        {"gamma": 0.9},
        {"optimizer.momentum": 0.5},
        {"gamma": 0.8},
        {"gamma": 0.7},
        {"gamma": 0.6},
        {"gamma": 0.5},
    ]
    assert parameter_sets(None) is None
    assert parameter_sets(["none"]) == []


@pytest.mark.parametrize("text", ["", "gamma", "gamma=", "=1", "gamma=0.9,", "gamma=0.9,0.99"])
def test_mistake_in_a_set_is_explained(text: str) -> None:
    with pytest.raises(ConfigurationError, match="write name=value with a comma between them"):
        parameter_sets([text])


def test_mistake_of_a_repeated_name_is_explained() -> None:
    with pytest.raises(ConfigurationError, match="gives 'gamma' twice"):
        parameter_sets(["gamma=1,gamma=2"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.toml", None, "no such file"),
        ("bad.toml", b"gamma 0.9", "cannot be read"),
        ("bad.json", b"{", "cannot be read"),
        ("latin.toml", b"x = '\xff'", "cannot be read"),
        ("empty.toml", b"", "no parameter sets"),
        ("empty.json", b"[]", "no parameter sets"),
        ("hollow.json", b"[{}]", "no parameter sets"),
        ("number.json", b"3", "no parameter sets"),
        ("deep.json", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_mistake_in_a_file_is_explained(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as error:
        parameter_sets([str(tmp_path / name)])
    assert name in str(error.value)
