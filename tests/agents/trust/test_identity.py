"""Tests of what tells apart classes and functions of one name."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.algorithms.ppo import PPO
from agents.trust.identity import identity_of


def maker(gravity: float) -> Callable[[], float]:
    def make() -> float:
        return gravity

    return make


def local_class(reward: float) -> type:
    class Environment:
        limit = 20

        def step(self) -> float:
            return reward

        def parent(self) -> Any:
            return super().__init__

    return Environment


def run_in(folder: Path, *arguments: str, **environment: str) -> str:
    """Return what Python prints in a folder."""
    own = {"PYTHONPATH": ":".join(sys.path), **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Make:
    """Object that makes environments."""

    steps: int

    def __call__(self) -> int:
        return self.steps


def test_modules_and_names_identify_what_can_be_imported() -> None:
    assert identity_of("CartPole-v1") == ""
    assert identity_of(PPO) == ""
    assert identity_of(Path) == "pathlib:Path"
    assert identity_of(maker).endswith("test_identity:maker")
    assert identity_of(Path()).startswith("an object of pathlib:")
    nameless: dict[str, Any] = {}
    exec("def make(): return 1", nameless)
    assert identity_of(nameless["make"]).endswith(":make")


@pytest.mark.parametrize(
    ("first", "same", "others"),
    [
        (lambda: 1, lambda: 1, [lambda: 2, lambda: "1", lambda x=1: 1]),
        (maker(9.8), maker(9.8), [maker(1.6), maker]),
        (local_class(1.0), local_class(1.0), [local_class(2.0)]),
        (functools.partial(maker, 9.8), functools.partial(maker, 9.8), [functools.partial(maker, 1.6), maker]),
        (lambda: (1, 2, 1), lambda: (1, 2, 1), [lambda: (1, 2, 2)]),
        (Make(3), Make(3), [Make(4), Make]),
        (
            functools.partial(maker, np.float32(3)),
            functools.partial(maker, np.float32(3)),
            [
                functools.partial(maker, np.float32(4)),
                functools.partial(maker, Make(3)),
            ],
        ),
        (lambda x: x in {"a", "b"}, lambda x: x in {"b", "a"}, [lambda x: x in {"a", "c"}]),
    ],
)
def test_code_identifies_what_shares_a_name(first: Any, same: Any, others: list[Any]) -> None:
    assert identity_of(first) == identity_of(same)
    assert identity_of(first) not in [identity_of(other) for other in others]


def test_identity_does_not_change_with_calls_or_processes(tmp_path: Path) -> None:
    text = "PAIRS = {frozenset({'a', 'b', 'c'}), len}\ndef maker(pairs): return lambda n: n in pairs or n in {'a', 3}\n"
    text += "make = maker(PAIRS)\n"
    (tmp_path / "own.py").write_text(text)
    script = "from agents.trust.identity import identity_of; import own; print(identity_of(own.make))"
    found = {run_in(tmp_path, "-c", script, PYTHONHASHSEED=seed) for seed in ("1", "2")}
    assert len(found) == 1
    before = identity_of(local_class)
    function = maker(9.8)
    own = identity_of(function)
    for _ in range(5000):
        function()
    assert identity_of(function) == own
    assert identity_of(local_class) == before


def test_identity_remains_where_use_changes_what_an_object_contains() -> None:
    made: list[int] = []

    def make(cache: list[int] = []) -> None:  # noqa: B006 - as users write it
        made.append(1)
        cache.append(1)

    before = identity_of(make)
    make()
    assert identity_of(make) == before


def test_shared_and_recursive_parts_are_entered_once() -> None:
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested, nested]
    assert identity_of(functools.partial(maker, nested)) != identity_of(functools.partial(maker, [[]]))
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert identity_of(functools.partial(maker, deep))


def test_a_script_is_named_as_others_import_it(tmp_path: Path) -> None:
    lines = ["from agents.trust.identity import identity_of", "class Own: ...", "if __name__ == '__main__':"]
    (tmp_path / "study.py").write_text("\n".join([*lines, "    print(identity_of(Own))", ""]))
    assert run_in(tmp_path, "study.py") == "study:Own"
    assert run_in(tmp_path, "-c", "import study; print(study.identity_of(study.Own))") == "study:Own"
    package = tmp_path / "own"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "study.py").rename(package / "study.py")
    assert run_in(tmp_path, "own/study.py") == run_in(tmp_path, "-m", "own.study") == "own.study:Own"
