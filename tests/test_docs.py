"""What the documentation shows is run, or says why not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import LANGUAGES, blocks_of
from run_page import NUMBERS, commands_of, shortened

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
HANGS_SECONDS = 1_800

BEFORE = {
    "callbacks.md": '''
import gymnasium as gym
import numpy as np


class Scored(gym.Wrapper):
    """An environment whose last info of an episode has the score of each of its steps."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

    def reset(self, **options):
        self.length = 0
        return self.env.reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.length += 1
        return observation, reward, terminated, truncated, {**info, "scores": np.ones(self.length)}
''',
}
"""Page -> the reader's own code that it presupposes."""

AFTER = {
    "README.md": """
assert Path("rates.html").exists()
assert Path("finder.db").exists()
""",
    "start.md": """
assert agent.get_learning_rate() == studies.best(studies.load_study("finder.db", "lr-ppo-CartPole-v1")).learning_rate
""",
    "long-run.md": """
assert Path("kept/history.parquet").exists()
(kept_block,) = [block for block in shown if 'agents.resume(trainer, "kept")' in block]
assert 'render_mode="human"' in kept_block
exec(kept_block.replace("1_200 - trainer", "1_500 - trainer").replace('render_mode="human"', "max_steps=3"))
assert trainer.env_steps == 1_504
""",
}
"""Page -> checks of what its blocks left."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    blocks = blocks_of(page)
    assert len(blocks) == page.read_text().count("\n```") / 2, "a block that is not read as one"
    for block in blocks:
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: write ```python, ```sh, ```toml or ```text"
        assert block.not_run is None or (block.is_code and len(block.not_run) > 10), f"{where}: say why it is not run"


def test_only_numbers_of_steps_are_replaced() -> None:
    shown = "".join(page.read_text() for page in (*PAGES, *ROOT.glob("examples/*")))
    for number, smaller in NUMBERS.items():
        assert re.sub(r"[\d_]", "", number) == re.sub(r"[\d_]", "", smaller)
        assert number in shown, f"{number!r} is nowhere any more"
    assert shortened("train(env_steps=500_000)") == "train(env_steps=512)"


def test_the_words_of_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    (tmp_path / "b.py").touch()
    text = 'finder a "b c"   # it\'s a comment\n\n# finder\nfinder d \\\n  \'{"e":\n1}\' *.py *.md f#g\n'
    assert [*commands_of(text)] == [
        ["finder", "a", "b c"],
        ["finder", "d", '{"e":\n1}', "a.py", "b.py", "*.md", "f#g"],
    ]


def _due(page: Path) -> int:
    return sum(block.is_code and block.not_run is None for block in blocks_of(page))


@pytest.mark.real
@pytest.mark.parametrize("page", [page for page in PAGES if _due(page)], ids=lambda page: page.name)
def test_what_a_page_shows_runs(page: Path, tmp_path: Path) -> None:
    for name, files in (("before.py", BEFORE), ("after.py", AFTER)):
        if page.name in files:
            (tmp_path / name).write_text(f"from pathlib import Path\n{files[page.name]}")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for example in (tmp_path / "examples").glob("*.*"):
        example.write_text(shortened(example.read_text()))
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "tables").symlink_to(ROOT / "benchmarks" / "tables")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "run_page.py"), str(page), str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "SDL_VIDEODRIVER": "dummy", "FINDER_PROGRESS": "0"},
    )  # fmt: skip
    (tmp_path / "err").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-6_000:]
    assert done.stdout.splitlines()[-1] == f"{page.name}: {_due(page)} blocks"
    if page.name == "README.md":
        assert re.search(r"^learning_rate \S+; the best rate lies between ", done.stdout, re.M)
        assert re.search(r"^return .+ ± .+ confirmed over 5 further seeds; expected ", done.stdout, re.M)
        assert re.search(r"^(safe|tie|not safe): ", done.stdout, re.M)
