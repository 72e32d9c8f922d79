"""Tests that commands import only the packages that they need."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

LOADED = """
import sys
import studies.servers.dashboard
{before}
from finder.cli import main
code = main({words!r})
print("code", code, "loaded", *(name for name in {heavy!r} if name in sys.modules), file=sys.stderr)
"""
HEAVY = ("tensorflow", "keras", "optuna", "pandas", "scipy", "sqlalchemy", "plotly", "gymnasium")


def loaded(finder: Any, *words: str, before: str = "", code: int = 0, says: str = "") -> list[str]:
    script = LOADED.replace("import studies.servers.dashboard\n", "") if not before else LOADED
    done = finder.python("-c", script.format(words=list(words), heavy=HEAVY, before=before))
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"code {code} loaded"), done.stderr
    assert says in done.stderr
    return last.removeprefix(f"code {code} loaded").split()


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["lr", "--help"], ["tune", "--help"], ["show", "-h"], ["train", "-h"]]
)
def test_help_imports_no_heavy_packages(finder: Any, words: list[str]) -> None:
    assert loaded(finder, *words) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lr", "ppoo", "--env", "CartPole-v1"], "'ppoo'"),
        (["opt", "ppo", "--env", "CartPole-v9"], "CartPole-v9"),
        (["tune", "ppo", "--env", "CartPole-v1", "--episodes", "9", "--minutes", "3"], "minutes is for runs in"),
        *(
            pytest.param(words, says, marks=pytest.mark.slow)
            for words, says in (
                (["tune", "bc-ppoo", "--env", "CartPole-v1"], "ppoo"),
                (["agents", "dqn,ppo", "--env", "CartPole-v1"], "finder agents dqn ppo"),
                (["lr", "ppo", "--env", ""], "--env is ''"),
                (
                    ["tune", "ppo", "--env", "CartPole-v1", "--env-steps", "100", "--confirm-env-steps", "50"],
                    "fewer than the 100",
                ),
                (["agents", "ppo", "dqn", "--env", "CartPole-v1", "--metric", "score"], "there is no metric 'score'"),
                (["opt", "ppo", "--env", "CartPole-v1", "--seeds", "0"], "0 is not a number of seeds"),
            )
        ),
    ],
)
def test_mistakes_are_refused_without_tensorflow(finder: Any, words: list[str], says: str) -> None:
    assert not {"tensorflow", "keras"} & set(loaded(finder, *words, code=2, says=says))


@pytest.mark.parametrize("command", ["studies", "show", "best", "report"])
@pytest.mark.slow
def test_reading_commands_do_not_import_tensorflow(searched: Any, command: str) -> None:
    words = [command] if command == "studies" else [command, searched.study]
    assert not {"tensorflow", "keras"} & set(loaded(searched.finder, *words))


@pytest.mark.slow
def test_plot_does_not_import_tensorflow(finder: Any) -> None:
    from agents.callbacks.history_file import EPISODES_SCHEMA, GrowingTable

    row = {"episode": 0, "env_steps": 1, "return": 1.0, "length": 1}
    GrowingTable(finder.folder / "run" / "history.parquet", EPISODES_SCHEMA).append([row])
    assert not {"tensorflow", "keras"} & set(loaded(finder, "plot", "run"))


@pytest.mark.slow
def test_dashboard_does_not_import_tensorflow(searched: Any) -> None:
    # The figures are drawn and the port is bound; only the endless loop is left out.
    before = "studies.servers.dashboard._ThreadedServer.serve_forever = lambda *_, **__: None"
    assert not {"tensorflow", "keras"} & set(loaded(searched.finder, "dashboard", "--port", "0", before=before))


@pytest.mark.slow
def test_local_folders_do_not_shadow_installed_packages(finder: Any) -> None:
    (finder.folder / "studies").mkdir()
    (finder.folder / "studies" / "__init__.py").write_text("raise SystemExit('the wrong package')")
    done = finder.python("-c", "import sys; sys.path.remove(''); from finder.cli import main; main(['studies'])")
    assert "there is no storage" in done.stderr


def test_encoding_without_an_ellipsis_gets_a_question_mark() -> None:
    command = [sys.executable, "-c", "import sys; from finder.cli import main; sys.exit(main())", "lr", "--help"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert b"--n-rates" in done.stdout
