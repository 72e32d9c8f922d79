"""Tests of the line on how a trial was run."""

from __future__ import annotations

from typing import Any

import pytest

from studies.study.execution import execution_text

FACTS = {"processes": 2, "members": 24, "threads": 1, "cores": 2, "jit_compile": True, "xla_flags": ["a=true", "b=512"]}


@pytest.mark.parametrize(
    ("executor", "changes", "text"),
    [
        ("population", {}, "population of 24 members, 2 processes, 1 thread each, 2 cores, XLA (a=true, b=512)"),
        (
            "inline",
            {"processes": 1, "members": 1, "threads": 2, "jit_compile": False},
            "inline, 1 process, 2 threads, 2 cores, no XLA",
        ),
        ("process", {"jit_compile": None, "cores": 1}, "process, 2 processes, 1 thread each, 1 core"),
        ("process", dict.fromkeys(FACTS, "strange"), "process"),
    ],
)
def test_facts_are_one_line(executor: str, changes: dict[str, Any], text: str):
    assert execution_text({"executor": executor, "execution": {**FACTS, **changes}}) == text


@pytest.mark.parametrize("configuration", [{}, {"executor": "inline"}, {"execution": 3}])
def test_trials_of_earlier_versions_have_no_line(configuration: dict[str, Any]):
    assert execution_text(configuration) == ""
