"""Tests of every command that shows a display, in a pseudo-terminal, to its end."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from terminals import Shown, Typed, in_terminal, lines_of

COLUMNS = (80, 150)
REPOSITORY = Path(__file__).parents[3]
SMALL = (
    "--env-steps", "600", "--seeds", "1", "--confirm-seeds", "2", "--set", "jit_compile=false", "--set", "n_steps=32",
    "--set", "n_epochs=1", "--set", "batch_size=32", "--storage", "kept.db",
)  # fmt: skip
TRAINED = ("--set", "jit_compile=false", "--set", "n_steps=32", "--set", "n_epochs=1", "--set", "batch_size=32")
STUDY = """
name = "from a file"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 600
seeds = [0]
n_trials = 2
confirm = 0
fixed = {jit_compile = false, n_steps = 32, n_epochs = 1, batch_size = 32}
trials = [{learning_rate = 0.001}, {learning_rate = 0.01}]
"""
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "lr": ("lr", "ppo", "--env", "CartPole-v1", "--rates", "1e-3,1e-2", "--no-extend", *SMALL),
    "opt": ("opt", "ppo", "--env", "CartPole-v1", "--optimizer", "adam", "--optimizer", "sgd(momentum=0.9)",
            "--rates", "1e-3", "--no-extend", *SMALL, "--confirm", "0"),
    "agents": ("agents", "ppo", "a2c", "--env", "CartPole-v1", "--env-steps", "600",
               "--seeds", "1", "--set", "jit_compile=false", "--storage", "kept.db"),
    "tune": ("tune", "ppo", "--env", "CartPole-v1", "--param", "learning_rate", "--param", "gamma=0.9:0.999",
             "--n-trials", "3", *SMALL, "--confirm", "0"),
    "dry-run": ("lr", "ppo", "--env", "CartPole-v1", *SMALL, "--dry-run"),
    "total": ("lr", "ppo", "--env", "CartPole-v1", "--rates", "1e-3,1e-2", "--no-extend", *SMALL[2:], "--confirm", "0",
              "--total-env-steps", "4000", "--study-name", "total"),
    "submit": ("submit", "study.toml", "--storage", "kept.db"),
    "worker": ("worker", "from a file", "--storage", "kept.db"),
    "run": ("run", "study.toml", "--storage", "memory"),
    "failing": ("lr", "ppo", "--env", "cli_envs:Broken-v0", "--rates", "1e-3,1e-2", *SMALL, "--study-name", "failing"),
    "train": ("train", "ppo", "--env", "CartPole-v1", "--env-steps", "1000", *TRAINED, "--folder", "a-run"),
    "play": ("play", "a-run", "--video", "out.gif", "--max-steps", "20"),
    "record": ("play", "a-run", "--record", "expert", "--max-steps", "20"),
}  # fmt: skip
CODES = {"failing": 1}

_ALL = """
import os, sys
from finder.cli import main
os.environ["MINARI_DATASETS_PATH"] = os.path.abspath("datasets")
for name, words in {commands!r}.items():
    print(f"=== {{name}}", flush=True)
    print(f"=== code {{main(words)}}", flush=True)
"""
_COMMAND_TO_COPY = re.compile(r"^(\s*(Next|Resume:|To be surer|Then|Try)? +)?(\S*finder |give |--)|^https?://|/\S{20}")


class Seen(NamedTuple):
    """Result of one of several commands in the same terminal."""

    code: int
    lines: list[str]  # visible at the end
    written: list[str]  # all lines ever written, without the terminal's wrapping

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture(scope="module", params=COLUMNS)
def terminal(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Shown]:
    """Run all commands in one process, which imports TensorFlow once."""
    from tests.finder.cli.conftest import ENVIRONMENTS

    folder = tmp_path_factory.mktemp("terminal")
    (folder / "study.toml").write_text(STUDY)
    (folder / "cli_envs.py").write_text(ENVIRONMENTS)
    columns = request.param
    shown = in_terminal([sys.executable, "-c", _ALL.format(commands=dict(COMMANDS))], folder, columns=columns)
    return columns, shown


def seen(terminal: tuple[int, Shown], command: str) -> Seen:
    columns, shown = terminal
    part = re.search(rf"=== {command}\r\n(.*?)=== code (\d+)\r\n", shown.raw, re.DOTALL)
    assert part is not None, shown.text
    raw = part.group(1)
    own = Shown(int(part.group(2)), raw, lines_of(raw, columns))
    return Seen(own.code, own.lines, own.written)


@pytest.mark.real
@pytest.mark.parametrize("command", COMMANDS)
def test_command_in_a_terminal_runs_to_its_end(terminal: tuple[int, Shown], command: str) -> None:
    columns = terminal[0]
    ran = seen(terminal, command)
    assert ran.code == CODES.get(command, 0), ran.text
    assert "Traceback" not in ran.text
    assert "display failed" not in ran.text
    for line in ran.written:
        assert len(line) <= columns or _COMMAND_TO_COPY.search(line), line
        assert not re.search(r"\S…", line), line  # lines are cut between words
    assert not any("━" in line for line in ran.lines)  # the live display is removed


@pytest.mark.real
def test_search_prints_its_study_trials_and_next_steps(terminal: tuple[int, Shown]) -> None:
    lines = seen(terminal, "lr").lines
    assert lines[0] == "Study lr-ppo-CartPole-v1 in kept.db"
    assert sum(line.startswith("✓ ") for line in lines) == 4  # two trials, and the confirmation of both
    assert any(line.startswith("Next ") for line in lines)


@pytest.mark.real
def test_failed_study_prints_its_reason_in_full(terminal: tuple[int, Shown]) -> None:
    """In a narrow terminal it has lines of its own, once for all trials."""
    words = " ".join(seen(terminal, "failing").text.split())
    assert "RuntimeError: the robot fell off the table" in words
    assert ("environment failed as #" in words) == (terminal[0] == 80)


@pytest.mark.real
@pytest.mark.parametrize("columns", COLUMNS)
def test_ctrl_c_in_a_terminal_interrupts_a_search(finder: Any, columns: int) -> None:
    (finder.folder / "slow").touch()
    words = (
        "lr", "ppo", "--env", "cli_envs:Slow-v0", "--rates", "1e-4,1e-3", "--env-steps", "4000", "--seeds", "1",
        "--set", "jit_compile=false", "--set", "n_envs=1", "--set", "n_steps=16", "--set", "batch_size=16",
        "--executor", "inline", "--storage", "kept.db",
    )  # fmt: skip
    run = "import sys; from finder.cli import main; sys.exit(main())"
    typed = [Typed(after="lately", keys="\x03")]
    shown = in_terminal([sys.executable, "-c", run, *words], finder.folder, columns=columns, typed=typed)
    assert shown.code == 130, shown.text
    assert "Traceback" not in shown.text
    assert "Stopped. 0 of 2 trials are done and recorded in kept.db." in shown.text
    rows = "".join(line.ljust(columns) for line in shown.text.splitlines())  # a row may have ended with a space
    assert f"Resume:  finder {' '.join(words)}" in rows
    kept = finder("show", "lr-ppo-cli_envs:Slow-v0", "--storage", "kept.db", "--json").json
    assert "interrupted" in [trial["state"] for trial in kept["trials"]]


@pytest.mark.real
@pytest.mark.parametrize(
    ("environment", "flags", "while_it_says"),
    [
        ("CartPole-v1", (), "about"),
        ("CliffWalking-v1", ("--evaluate-every", "512", "--eval-max-steps", "1000000000"), "evaluating"),
    ],
)
def test_ctrl_c_in_a_terminal_interrupts_a_training(
    tmp_path: Path, environment: str, flags: tuple[str, ...], while_it_says: str
) -> None:
    """In the second case, the evaluation would take hours."""
    run = "import sys; from finder.cli import main; sys.exit(main())"
    words = ("train", "ppo", "--env", environment, "--env-steps", "10000000", *TRAINED, *flags, "--folder", "a-run")
    typed = [Typed(after=while_it_says, keys="\x03")]
    shown = in_terminal([sys.executable, "-c", run, *words], tmp_path, columns=80, typed=typed)
    assert shown.code == 130, shown.text
    assert "Stopping after this step" in shown.text
    assert "Resume:  finder train --resume a-run" in shown.text


@pytest.mark.real
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(("columns", "env_steps"), [(80, 20_000), (150, 2_000)])
def test_demo_in_a_terminal_runs_to_its_end(tmp_path: Path, columns: int, env_steps: int) -> None:
    """Run the target of the Makefile with the packages of the test environment."""
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / ".installed").touch()
    variables = {
        "VENV": tmp_path / "venv", "BIN": Path(sys.executable).parent, "DEMO": tmp_path / "demo",
        "DEMO_STEPS": env_steps,
    }  # fmt: skip
    words = ["make", "demo", *(f"{name}={value}" for name, value in variables.items())]
    shown = in_terminal(words, REPOSITORY, columns=columns, seconds=1200)
    assert shown.code == 0, shown.text
    assert "Traceback" not in shown.text
    assert "display failed" not in shown.text
    assert "16 trials × 3 seeds (0, 1, 2)" in shown.text
    assert "Confirming 3 finalists" in shown.text
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
    assert not any("━" in line for line in shown.lines)
