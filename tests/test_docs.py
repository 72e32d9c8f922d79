"""Code blocks of the documentation run, or state why they are not run."""

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
    "long-run.md": """
from finder import LRFinder

LRFinder("ppo", "CartPole-v1").grid(1e-3, 1e-2, 2, env_steps=4_200, seeds=1, confirm=0, extend=False)
""",
}
"""Page -> code that the page expects to exist."""

AFTER = {
    "README.md": """
assert Path("rates.html").exists()
assert Path("finder.db").exists()
""",
    "start.md": """
pick = studies.best(studies.load_study("first", "finder.db"))
assert abs(agent.get_learning_rate() / pick.config["learning_rate"] - 1) < 1e-6
""",
    "long-run.md": """
assert Path("kept/history.parquet").exists()
(kept_block,) = [block for block in shown if 'agents.resume(trainer, "kept")' in block]
assert 'render_mode="human"' in kept_block
exec(kept_block.replace("1_200 - trainer", "1_500 - trainer").replace('render_mode="human"', "max_steps=3"))
assert trainer.env_steps == 1_504
exec(kept_block.replace('render_mode="human"', "max_steps=3"))  # started again after its end
assert trainer.env_steps == 1_504
""",
}
"""Page -> checks that run after its blocks."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language_and_runs_or_states_why_not(page: Path) -> None:
    blocks = blocks_of(page)
    assert len(blocks) == page.read_text().count("\n```") / 2, "a block of code was not recognised"
    for block in blocks:
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: write ```python, ```sh, ```toml or ```text"
        assert block.not_run is None or (block.is_code and len(block.not_run) > 10), f"{where}: say why it is not run"


def test_replacements_change_numbers_only() -> None:
    shown = "".join(page.read_text() for page in (*PAGES, *ROOT.glob("examples/*"), *ROOT.glob("docs/tutorials/*")))
    for number, smaller in NUMBERS.items():
        assert re.sub(r"[\d_]", "", number) == re.sub(r"[\d_]", "", smaller)
        assert number in shown, f"{number!r} is nowhere any more"
    assert shortened("train(env_steps=1_000_000)") == "train(env_steps=512)"


def test_commands_are_split_as_by_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").touch()
    (tmp_path / "b.py").touch()
    text = 'finder a "b c"   # it\'s a comment\n\n# finder\nfinder d \\\n  \'{"e":\n1}\' *.py *.md f#g\n'
    assert [*commands_of(text)] == [
        ["finder", "a", "b c"],
        ["finder", "d", '{"e":\n1}', "a.py", "b.py", "*.md", "f#g"],
    ]


GROUPS = {
    "searches": (
        "README",
        "start",
        "guides/learning-rate",
        "guides/optimizers",
        "guides/compare-agents",
        "guides/tune",
        "guides/population-based-training",
        "guides/budgets",
    ),
    "training": ("agents", "guides/long-run", "guides/callbacks", "guides/experts", "guides/speed"),
    "own": (
        "guides/your-agent",
        "guides/your-environment",
        "guides/tabular-irl",
        "guides/many-machines",
        "guides/storages",
    ),
}
"""Pages that run in one process. Pages of searches share a folder, so that equal searches share their study."""


def _page(name: str) -> Path:
    return ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"


def _due(page: Path) -> int:
    return sum(block.is_code and block.not_run is None for block in blocks_of(page))


def test_every_page_with_code_is_in_a_group() -> None:
    grouped = [_page(name) for group in GROUPS.values() for name in group]
    assert sorted(grouped) == sorted(page for page in PAGES if _due(page))


def _folder(path: Path) -> Path:
    shutil.copytree(ROOT / "examples", path / "examples")
    for example in (path / "examples").glob("*.*"):
        example.write_text(shortened(example.read_text()))
    (path / "benchmarks").mkdir()
    (path / "benchmarks" / "tables").symlink_to(ROOT / "benchmarks" / "tables")
    return path


@pytest.mark.real
@pytest.mark.parametrize("group", GROUPS)
def test_blocks_of_pages_run(group: str, tmp_path: Path) -> None:
    pages = [_page(name) for name in GROUPS[group]]
    shared = _folder(tmp_path / group) if group == "searches" else None
    arguments = []
    for page in pages:
        folder = shared or _folder(tmp_path / page.stem)
        for when, files in (("before", BEFORE), ("after", AFTER)):
            if page.name in files:
                (folder / f"{page.stem}.{when}.py").write_text(f"from pathlib import Path\n{files[page.name]}")
        arguments += [str(page), str(folder)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "run_page.py"), *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "SDL_VIDEODRIVER": "dummy", "FINDER_PROGRESS": "0",
             "MINARI_DATASETS_PATH": str(tmp_path / "datasets")},
    )  # fmt: skip
    (tmp_path / "err").write_text(done.stderr)
    assert done.returncode == 0, done.stderr[-6_000:]
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.endswith(" blocks")] == [
        f"{page.name}: {_due(page)} blocks" for page in pages
    ]
    if group == "searches":
        readme = done.stdout.partition("README.md: ")[0]
        assert re.search(r"^learning_rate \S+; the best rate lies between ", readme, re.M)
        assert re.search(r"^return .+ ± .+ confirmed over 5 further seeds; expected ", readme, re.M)
        assert re.search(r"^(safe|tie|not safe): ", readme, re.M)
