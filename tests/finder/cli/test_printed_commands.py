"""Commands that are printed to be copied begin with a program that the shell finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from finder.progress.console import print_commands


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the program of an environment that is not activated, as which this process was started."""
    path = tmp_path / "an env" / "bin" / "finder"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(path), "lr"])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(tmp_path)
    return path


def printed(capsys: Any) -> str:
    print_commands("Next", [("finder best s", "how to use it"), ("python train.py", "the long run")])
    return capsys.readouterr().err


def test_program_is_named_as_it_was_started(program: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert printed(capsys).splitlines() == [
        "Next  'an env/bin/finder' best s   how to use it",
        "      python train.py              the long run",
    ]
    monkeypatch.chdir(program.parent)
    assert "Next  ./finder best s " in printed(capsys)
    (elsewhere := program.parents[2] / "elsewhere").mkdir()
    monkeypatch.chdir(elsewhere)
    assert f"Next  '{program}' best s" in printed(capsys)


def test_program_that_the_shell_finds_has_its_name_alone(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert "Next  finder best s " in printed(capsys)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["pytest"])
    assert "Next  finder best s " in printed(capsys)


def test_purposes_are_below_commands_that_are_very_long(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    print_commands("Next", [(f"finder opt {'x' * 200}", "another study"), ("finder show s", "every trial")])
    assert capsys.readouterr().err.splitlines() == [
        f"Next  finder opt {'x' * 200}", "        another study", "      finder show s", "        every trial",
    ]  # fmt: skip
