"""Examples run and equal the documentation, and links have targets. `test_docs.py` runs the blocks of pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(script: str, folder: Path) -> str:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_block(page: str) -> str:
    block = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert block is not None
    return block[1].strip()


def test_readme_script_is_part_of_the_example():
    example = (ROOT / "examples" / "find_and_train.py").read_text()
    assert first_block("README.md") in example


def test_own_agent_guide_is_part_of_the_example_and_about_thirty_lines():
    example = (ROOT / "examples" / "your_own_agent.py").read_text()
    agent = first_block("docs/guides/your-agent.md")
    assert agent in example
    assert len([line for line in agent.splitlines() if line.strip()]) <= 32


@pytest.mark.real
def test_own_agent_example_runs_through_every_finder(tmp_path: Path):
    example = (ROOT / "examples" / "your_own_agent.py").read_text()
    quick = example.replace("20_000", "2_000").replace("N=200", "N=20").replace("n_steps=500", "n_steps=50")
    out = run(quick, tmp_path)
    for question in ("learning rate:", "optimizer:", "range test:", "agent:", "COMPLETE"):
        assert question in out


@pytest.mark.real
def test_own_dqn_example_runs_through_every_finder(tmp_path: Path):
    example = (ROOT / "examples" / "your_own_dqn.py").read_text()
    quick = example.replace("20_000", "2_000").replace("N=200", "N=20")
    quick = quick.replace('"executor": "population"}', '"executor": "population", "fixed": {"hidden_sizes": [8]}}')
    out = run(quick, tmp_path)
    for question in ("learning rate:", "optimizer:", "range test:", "agent:", "COMPLETE"):
        assert question in out


@pytest.mark.real
def test_own_training_example_runs(tmp_path: Path):
    example = (ROOT / "examples" / "your_own_training.py").read_text()
    quick = example.replace("20_000", "1_000").replace("100_000", "1_000").replace("n_trials=12", "n_trials=3")
    out = run(quick, tmp_path)
    assert re.search(r"^elite \S+, noise \S+: return ", out, re.M)
    assert re.search(r"^mean return of the last 100 episodes: \d+", out, re.M)


@pytest.mark.real
def test_shared_counter_example_counts_steps_of_all_environments(tmp_path: Path):
    example = (ROOT / "examples" / "shared_counter.py").read_text()
    search = 'grid(1e-4, 1e-2, 3, env_steps=20_000, executor="process", n_jobs=2)'
    quick = example.replace(search, search.replace("20_000", "2_100, seeds=1, confirm=0"))
    assert quick != example
    out = run(quick, tmp_path)
    steps = re.search(r"^steps in whole episodes: (\d+)$", out, re.M)
    longest = re.search(r"^longest episode, and how it began: (\d+) \[", out, re.M)
    assert steps, out
    assert longest, out
    # Three runs of 2,100 steps, rounded up to whole rollouts; unfinished episodes are not counted.
    assert 3 * 1_500 < int(steps[1]) < 3 * 4_100
    assert 9 < int(longest[1]) < int(steps[1])


@pytest.mark.real
def test_collectors_example_serves_the_agent_while_it_trains(tmp_path: Path):
    example = (ROOT / "examples" / "collectors.py").read_text()
    quick = example.replace("env_steps=30_000", "env_steps=6_000").replace("seconds=5.0", "seconds=0.01")
    assert quick.count("6_000") == quick.count("0.01") == 1
    out = run(quick, tmp_path)
    versions = [int(version) for version in re.findall(r"^version (\d+): pushes (?:left|right)$", out, re.M)]
    assert len(versions) > 1
    assert versions == sorted(versions)
    assert re.search(r"^\d+ steps a second; the last returns: \[.*\d", out, re.M)


def test_study_file_example_is_valid():
    from studies import StudySpec

    spec = StudySpec.from_toml(ROOT / "examples" / "study.toml")
    assert set(spec.params) == {"learning_rate", "optimizer", "gamma", "n_steps"}
    assert tomllib.loads((ROOT / "examples" / "study.toml").read_text())["n_trials"] == spec.n_trials


def test_every_relative_link_has_a_target():
    n_links = 0
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)", prose):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"
                n_links += 1
    assert n_links > 20
