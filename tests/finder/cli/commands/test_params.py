"""Tests of the command `params`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from agents.contract.registry import ALGORITHMS


def test_agents_are_listed_with_a_sentence_each(finder: Any) -> None:
    listed = finder("params", "--json").json
    assert [each["name"] for each in listed] == list(ALGORITHMS)
    assert all(len(each["description"]) > 20 and each["description"].endswith(".") for each in listed)
    shown = finder("params").out
    assert "Proximal policy optimization" in shown


def test_agents_are_listed_without_tensorflow() -> None:
    code = "import sys; from finder.cli import main; main(['params']); assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_hyperparameters_have_their_defaults_and_ranges(finder: Any) -> None:
    rows = {row["name"]: row for row in finder("params", "ppo", "--json").json}
    clip = rows["clip_range"]
    assert (clip["default"], clip["mutable"]) == (0.2, True)
    assert clip["search"][0] < 0.2 < clip["search"][1]
    assert rows["n_epochs"]["search"] == [3, 20]
    assert rows["optimizer_kwargs"]["default"] == {}
    ran = finder("params", "ppo")
    assert "clip_range" in ran.out
    assert "3 to 20" in ran.out
    assert "(log of 1 less its value)" in " ".join(ran.out.split())
    assert "finder tune ppo --env ENV --param NAME=LOW:HIGH" in ran.err


def test_parameters_of_a_training_function_are_listed(finder: Any) -> None:
    (finder.folder / "mine.py").write_text("def train(run, rate: float = 0.1, steps: int = 3):\n    return None\n")
    rows = finder("params", "mine.py:train", "--json").json
    assert [(row["name"], row["default"]) for row in rows] == [("rate", 0.1), ("steps", 3)]
    advice = finder("params", "mine.py:train").err
    assert "finder tune mine.py:train" in advice
    assert "finder train" not in advice  # which takes no functions


def test_unknown_agent_is_refused_with_the_nearest_name(finder: Any) -> None:
    ran = finder("params", "pppo")
    assert ran.code == 2
    assert "ppo" in ran.err
