"""Pages of the documentation that are generated from the code."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import command_pages
import examples_pages
import hyperparameter_pages
import pytest
import reference_pages
import room_diagram
from public_names import public_names

from finder.cli.app import app

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_every_command_has_a_page_with_all_options() -> None:
    pages = command_pages.pages()
    names = {command.name for command in app.registered_commands}
    assert {f"commands/{name}.md" for name in names} | {"commands/index.md"} == set(pages)
    for flag in ("`--env`", "`--horizon`", "`--extend`, `--no-extend`", "`OPTUNA_STORAGE`", "`STEPS ≥ 1`"):
        assert flag in pages["commands/lr.md"], flag
    assert "finder lr [OPTIONS] {AGENT}" in pages["commands/lr.md"]
    for path, text in pages.items():
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert rows, path
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} <= {3, 4}, f"{path}: a cell with a bar"
        assert "[bold]" not in text


@pytest.mark.parametrize("package", ["agents", "finder", "studies"])
def test_every_public_name_is_in_the_reference(package: str) -> None:
    found = {each.path for each in public_names(ROOT, package)}
    public = importlib.import_module(package).__all__
    modules = {f"{package}.{name}" for name in public if (ROOT / package / name).is_dir()}
    assert {f"{package}.{name}" for name in public} - modules <= found
    text = "\n".join(page for path, page in reference_pages.pages(ROOT).items() if f"/{package}/" in path)
    for name in found:
        assert f"::: {name}\n" in text
    assert re.findall(r"^\| \[`[\w.]+`\]\([\w.#]+\) \|  \|$", text, re.M) == [], "a public name without a docstring"


def test_names_of_public_subpackages_are_in_the_reference() -> None:
    found = {each.path: each.room for each in public_names(ROOT, "agents")}
    assert found["agents.distributed.shared"] == "distributed"
    assert found["agents.exploration.Softmax"] == "exploration"
    assert found["agents.Trainer"] == "training"


def test_rooms_are_in_the_lowest_layer_above_their_imports() -> None:
    graph = {"top": {"middle", "base"}, "middle": {"base"}, "beside": {"base"}, "base": set()}
    assert room_diagram.layers(graph) == [["base"], ["beside", "middle"], ["top"]]
    assert room_diagram.layers({"a": {"b"}, "b": {"a"}, "c": set()}) == [["c"], ["a", "b"]]


@pytest.mark.parametrize("package", ["agents", "finder", "studies"])
def test_architecture_page_lists_rooms_above_their_imports(package: str) -> None:
    graph = room_diagram.imports(ROOT, package)
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition(f"<!-- rooms: {package} -->")[2].partition("\n\n**")[0].partition("\n\nA ")[0]
    listed = [room for room in re.findall(r"^\| `(\w+)` \|", table, re.M) if room in graph]
    assert sorted(listed) == sorted(graph)
    for place, room in enumerate(listed):
        assert graph[room] <= set(listed[:place]), f"{room} is listed below what it imports"


def test_hyperparameter_page_matches_the_configs() -> None:
    from agents.contract.registry import ALGORITHMS, agent_class

    text = hyperparameter_pages.pages(ROOT)["hyperparameters.md"]
    for name in ALGORITHMS:
        config = agent_class(name).config_class
        found = hyperparameter_pages.fields(ROOT, config.__name__)
        assert list(found) == list(config.describe())
        about, section = config.describe(), text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        for field in dataclasses.fields(config):
            row = next(line for line in section.splitlines() if line.startswith(f"| `{field.name}` |"))
            shown = "" if field.default == "" else f"`{field.default}`"
            assert field.default is dataclasses.MISSING or f"| {shown} |" in row
            assert ("*Mutable.*" in row) == about[field.name].live
            assert bool(row.split(" | ")[2].strip(" |")) == (about[field.name].search is not None)


def test_every_example_has_a_page() -> None:
    pages = examples_pages.pages(ROOT)
    assert len(pages) == len([*(ROOT / "examples").glob("*.*")])
    assert "```toml\n" in pages["examples/study_toml.md"]
    assert "```python\n" in pages["examples/your_own_dqn_py.md"]
