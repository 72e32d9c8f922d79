"""Tests of the command `compare`."""

from __future__ import annotations

import json
from typing import Any

import pytest


@pytest.fixture(scope="module")
def other(searched: Any) -> str:
    """Return the name of a second study beside `searched`."""
    words = ("lr", "ppo", "--env", "CartPole-v1", "--seeds", "2", "--rates", "1e-5,1e-3", "--study-name", "other")
    ran = searched.finder.small(*words)
    assert ran.code in (0, 1), ran.err
    return "other"


def test_table_names_the_best_value(searched: Any, other: str) -> None:
    ran = searched.finder("compare", searched.study, other, "--output", "page.html")
    assert ran.code == 0, ran.err
    text = " ".join(ran.out.split())
    assert "has the best value: return" in text
    assert "95% interval" in text
    page = searched.finder.folder / "page.html"
    assert ran.out.strip().endswith(str(page.resolve()))
    assert "Progress of the searches" in page.read_text()


def test_json_has_the_studies_best_first(searched: Any, other: str) -> None:
    storage = f"sqlite:///{searched.finder.folder}/finder.db"
    ran = searched.finder("compare", other, searched.study, "--json", "--storage", storage)
    found = json.loads(ran.out)
    values = [each["value"] for each in found["studies"]]
    assert values[0] > values[1]
    assert {each["study"] for each in found["studies"]} == {other, searched.study}


def test_mistakes(searched: Any) -> None:
    for words, message in (
        (("compare", searched.study), "needs two or more studies, got 1"),
        (("compare", searched.study, searched.study), "needs two or more studies, got 1"),
        (("compare", searched.study, "nothing"), "there is no study 'nothing'"),
        (("compare", searched.study, "nothing", "-o", "page.txt"), "page.txt"),
    ):
        ran = searched.finder(*words)
        assert ran.code in (1, 2)
        assert message in " ".join(ran.err.split())
