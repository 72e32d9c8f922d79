"""Tests of a sample of mistakes in real processes: exit code 2, one message on stderr, no output, no traceback."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from damaged import SQL, damage, make_study
from mistakes import Mistake, check, ids, write_all

MAIN = "import sys; from finder.cli import main; sys.exit(main())"

ALL = [
    Mistake("lr PPO --env-steps nan", "got 'nan'", "a whole number"),
    Mistake("lr PPO --n-rates 100000000", "100000000", "1000"),
    Mistake("lr PPO --seeds HUGE,1", "HUGE", "9223372036854775807"),
    Mistake("lr syntax.py:X --env CartPole-v1", "syntax.py", "line 1"),
    Mistake("lr ppo --env exits.py:X", "exits.py calls sys.exit(0)", "__main__"),
    Mistake("lr PPO --callback raises.py:X", "RuntimeError: no licence", "line 1"),
    Mistake("train ppo --env ends.py:Env", "ended the process (SystemExit: 0)", "raise an error there instead"),
    Mistake("studies --storage text.db", "is not an SQLite database", "give another file"),
    Mistake("studies --storage cut.db", "cut.db", "malformed"),
    Mistake("show real --storage no-trials.db", "its table trials is missing", "Restore the storage"),
    Mistake("report real --storage seed-values.db", "its attribute 'seed_values' is [1]", "Restore the storage"),
    Mistake("worker real --storage lease-owner.db", "its owner is 'garbage'", "Restore the storage"),
    Mistake("serve --storage cut.db --port 0 --dashboard-port 0", "cut.db", "malformed"),
    Mistake("dashboard --storage folder.db", "'folder.db' is a directory", "give a file in it"),
    Mistake("best real --storage 'sqlite:///what?.db'", "'.db' behind a question mark", "%3F"),
    Mistake("run cut.toml", "cut.toml: not valid TOML", "line 1"),
    Mistake("play cut.checkpoint", "cut.checkpoint is not a complete checkpoint", "cut off"),
    Mistake("train --resume cut-run", "cut-run/run.json is damaged", "--start-from cut-run"),
]

FILES: dict[str, str | bytes] = {
    "syntax.py": "class X(:\n",
    "exits.py": "import sys; sys.exit(0)\n",
    "raises.py": "raise RuntimeError('no licence')\n",
    "ends.py": "import sys\nfrom gymnasium.envs.classic_control import CartPoleEnv\n\n"
    "class Env(CartPoleEnv):\n    def __init__(self, **_):\n        sys.exit(0)\n",
    "folder.db/x": "",
    "cut.toml": 'name = "x\n',
    "cut.checkpoint": b"cut off",
    "cut-run/run.json": '{"format": 1',
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the files, which are created once."""
    folder = tmp_path_factory.mktemp("bad-processes")
    make_study(f"sqlite:///{folder}/real.db")
    write_all(folder, FILES)
    for case in ALL:
        named = case.words[-1].removesuffix(".db")
        if named in SQL or named in ("text", "cut"):
            damage(folder, folder / "real.db", named)
    damage(folder, folder / "real.db", "cut")
    return folder


@pytest.mark.real
@pytest.mark.parametrize("case", ALL, ids=ids(ALL))
def test_process_reports_a_mistake_in_one_line(
    finder: Any, template: Path, case: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    shutil.copytree(template, finder.folder, dirs_exist_ok=True)
    done = finder.python("-c", MAIN, *case.words)
    check(case, done.returncode, done.stdout, done.stderr)
