"""Tests that text stored by other users sends no control characters to the terminal."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from damaged import change, make_study
from rich.table import Table
from rich.text import Text

from finder.progress.console import print_json
from finder.progress.plain_text import PlainConsole, plain_json, plain_text, truncate_long_words

EVIL = "a\x1b[2J\x1b]0;title\x07\x9b31m\x7f\u202eb"
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def evil(finder: Any) -> Any:
    """A study whose name, reasons, values and traceback contain control characters."""
    path = finder.folder / "finder.db"
    make_study(f"sqlite:///{path}")
    text = json.dumps(EVIL).replace("'", "''")
    change(
        path,
        f"UPDATE studies SET study_name = '{EVIL}'",
        "UPDATE trials SET state = 'FAIL' WHERE number = 1",
        f"INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (2, 'reason', '{text}')",
        f"INSERT INTO trial_user_attributes (trial_id, key, value_json) VALUES (2, 'traceback', '{text}')",
        f"UPDATE trial_user_attributes SET value_json = '{{\"x\": {text}}}' WHERE key = 'configuration'",
        f"UPDATE study_user_attributes SET value_json = replace(value_json, '\"CartPole-v1\"', '{text}')",
    )
    return finder


@pytest.mark.parametrize(
    "words",
    [
        ("studies",),
        ("studies", "--json"),
        ("show", EVIL),
        ("show", EVIL, "--json"),
        ("show", EVIL, "--trial", "1"),
        ("show", EVIL, "--trial", "1", "--json"),
        ("best", EVIL),
        ("best", EVIL, "--json"),
        ("report", EVIL, "-o", "report.html"),
        ("best", "another"),
        ("delete", EVIL, "--yes"),
    ],
    ids=" ".join,
)
def test_no_control_character_reaches_the_terminal(evil: Any, words: tuple[str, ...]) -> None:
    ran = evil(*words)
    assert ran.code in (0, 2), ran.err
    assert ran.out or ran.err
    assert not CONTROL_CHARACTERS.search(ran.out), repr(ran.out)
    assert not CONTROL_CHARACTERS.search(ran.err), repr(ran.err)


def test_json_output_keeps_the_exact_name(evil: Any) -> None:
    [study] = evil("studies", "--json").json
    assert study["name"] == EVIL


def test_control_characters_are_replaced_by_visible_ones() -> None:
    assert plain_text("a\x1b[2Jb\x00\x7f\x9b\u202e") == "a␛[2Jb␀␡\ufffd\ufffd"
    assert plain_text("line\n\ttab é ✓ 日本") == "line\n\ttab é ✓ 日本"
    assert json.loads(plain_json(json.dumps("\x9b\x7f", ensure_ascii=False))) == "\x9b\x7f"
    assert plain_json('"\x9b"') == '"\\u009b"'


@pytest.mark.parametrize("color", [None, "truecolor"])
def test_styles_of_the_program_are_kept(color: Any) -> None:
    file = io.StringIO()
    console = PlainConsole(file=file, force_terminal=color is not None, color_system=color, width=60)
    table = Table("a long name")
    table.add_row(Text("a\x1b[31mb", "bold"))
    console.print(table)
    console.print(Text("c\x1bd", "red"))
    output = file.getvalue()
    assert "a␛[31mb" in output
    assert "c␛d" in output
    assert ("\x1b[" in output) == (color is not None)
    assert "\x1b[31mb" not in output


def test_long_words_of_errors_are_truncated() -> None:
    assert truncate_long_words("short words stay " + "x" * 399) == "short words stay " + "x" * 399
    assert truncate_long_words("y" * 1000) == "y" * 150 + "…" + "y" * 50


def test_printed_json_is_valid_and_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": EVIL, "é": float("nan")})
    output = capsys.readouterr().out
    assert json.loads(output) == {"name": EVIL, "é": None}
    assert "é" in output
    assert not CONTROL_CHARACTERS.search(output)
