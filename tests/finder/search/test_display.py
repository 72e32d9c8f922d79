"""Tests of the progress display of searches called from Python, in terminals and notebooks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import SMALL_PPO

from agents.errors import ConfigurationError
from finder import LRFinder, OptFinder, run_file, run_search, tune, work
from finder.progress.notebook import NotebookProgress
from finder.progress.search_progress import PlainProgress
from finder.progress.tracker import Tracker
from finder.search.display import make_display, open_display
from finder.trials.trial import Outcome, TrialSpec
from studies import StudySpec

ENV = "fakes:TwoStep-v0"
QUICK: dict[str, Any] = {
    **{"seeds": 1, "storage": None, "executor": "inline", "fixed": SMALL_PPO, "env_steps": 64, "confirm": 0},
}
SPEC: dict[str, Any] = {
    **{"name": "x", "storage": "memory", "agents": ("ppo",), "env": ENV, "env_steps": 64, "seeds": (0,)},
    **{"executor": "inline", "fixed": SMALL_PPO, "trials": ({"learning_rate": 1e-3},), "confirm": 0},
}
FILE = f"""
name = "x"
storage = "memory"
agents = ["ppo"]
env = "{ENV}"
env_steps = 64
seeds = [0]
n_trials = 1
executor = "inline"
confirm = 0
[params]
learning_rate = "1e-4:1e-2:log"
[fixed]
n_envs = 2
n_steps = 16
batch_size = 16
hidden_sizes = [8]
jit_compile = false
"""
CALLS: dict[str, Callable[..., Any]] = {
    "grid": lambda **options: LRFinder("ppo", ENV).grid(rates=[1e-3], **QUICK, **options),
    "opt": lambda **options: OptFinder("ppo", ["sgd"], ENV).find(learning_rates=[1e-3], **QUICK, **options),
    "tune": lambda **options: tune("ppo", ENV, {"learning_rate": None}, n_trials=1, **QUICK, **options),
    "run_search": lambda **options: run_search(StudySpec(**SPEC), **options),
}


@pytest.fixture
def progress_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enable the progress display, which tests disable."""
    monkeypatch.delenv("FINDER_PROGRESS")


@pytest.mark.parametrize(
    "call", [*(pytest.param(name, marks=pytest.mark.slow) for name in list(CALLS)[:3]), "run_search"]
)
@pytest.mark.usefixtures("progress_enabled")
def test_searches_show_progress_by_default(call: str, capsys: pytest.CaptureFixture[str]):
    CALLS[call]()
    output = capsys.readouterr()
    assert output.out == ""
    assert re.search(r"^✓ #0 .*learning_rate 1e-3|^✓ #0 ", output.err, re.M)
    assert "\x1b" not in output.err  # plain lines, as the output is not a terminal
    CALLS[call](progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("progress_enabled")
@pytest.mark.slow
def test_run_file_and_worker_show_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "study.toml").write_text(FILE)
    run_file(tmp_path / "study.toml")
    assert "✓ #0" in capsys.readouterr().err
    run_file(tmp_path / "study.toml", progress=False)
    assert capsys.readouterr().err == ""
    storage = f"sqlite:///{tmp_path}/finder.db"
    run_search(StudySpec(**{**SPEC, "storage": storage}), progress=False)
    work("x", storage).close()
    assert "All trials have ended" in capsys.readouterr().err
    work("x", storage, progress=False).close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["progress", "observer"])
@pytest.mark.usefixtures("progress_enabled")
@pytest.mark.slow
def test_observer_replaces_the_display(name: str, capsys: pytest.CaptureFixture[str]):
    tracker = Tracker()
    for call in CALLS.values():
        before = tracker.states["complete"]
        call(**{name: tracker})
        assert tracker.states["complete"] == before + 1
    assert capsys.readouterr().err == ""


def test_failing_display_is_reported_once(capsys: pytest.CaptureFixture[str]):
    class Failing(Tracker):
        def budget_chosen(self, text: str) -> None:
            raise RuntimeError("no place to draw")

        def trial_started(self, trial: TrialSpec, params: Mapping[str, Any]) -> None:
            raise RuntimeError("no place to draw")

    spec = {**SPEC, "trials": (), "params": {"learning_rate": "1e-4:1e-2:log"}, "total_env_steps": 128}
    study, stopped = run_search(StudySpec.from_json_dict(spec), progress=Failing())
    study.close()
    assert stopped is None
    assert capsys.readouterr().err.count("the progress display failed") == 1


def test_observer_needs_only_the_events_that_it_uses(capsys: pytest.CaptureFixture[str]):
    class Counts:
        n_ended = 0

        def trial_ended(self, number: int, outcome: Outcome) -> None:
            self.n_ended += 1

    observer = Counts()
    study, _ = run_search(StudySpec(**SPEC), progress=observer)
    study.close()
    assert observer.n_ended == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("wrong", [1, "plain", object()])
def test_object_without_any_event_is_refused(wrong: object):
    with pytest.raises(ConfigurationError, match="give True or False, or an observer"), open_display(wrong):
        pass


def test_environment_variable_disables_the_display(capsys: pytest.CaptureFixture[str]):
    assert os.environ["FINDER_PROGRESS"] == "0"  # set for all tests
    CALLS["grid"]()
    assert capsys.readouterr().err == ""


def test_importing_the_display_imports_no_drawing_libraries():
    script = "import sys, finder.search.display\nassert 'rich' not in sys.modules and 'IPython' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_notebook_is_distinguished_from_a_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert type(make_display()) is PlainProgress
    shells = [SimpleNamespace(kernel=object()), SimpleNamespace(), None]
    displays = []
    for shell in shells:
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda own=shell: own))  # type: ignore[misc]
        displays.append(type(make_display()))
    assert displays == [NotebookProgress, PlainProgress, PlainProgress]


class TestNotebook:
    def test_notebook_output_is_replaced_and_ends_with_the_final_lines(self):
        pages: list[str] = []
        display = NotebookProgress(show=pages.append)
        with display:
            assert "starting" in pages[0]
            CALLS["grid"](progress=display)
        last = pages[-1]
        assert last.startswith("<pre")
        assert "starting" not in last
        text = re.sub("<[^>]+>", "", last)
        assert "Study lr-ppo-" in text
        assert re.search(r"^✓ #0  .*  learning_rate 1e-3$", text, re.M)
        assert "steps/s" not in text  # the live part is removed
        assert display._output._thread is not None
        assert not display._output._thread.is_alive()

    def test_failed_drawing_does_not_end_the_search(self):
        def fail(page: str) -> None:
            pages.append(page)
            if len(pages) > 1:
                raise ConnectionError("the page is closed")

        pages: list[str] = []
        display = NotebookProgress(show=fail)
        with display:
            result = CALLS["grid"](progress=display)
        assert list(result.table()["state"]) == ["COMPLETE"]

    def test_text_is_escaped_in_html(self):
        pages: list[str] = []
        display = NotebookProgress(show=pages.append)
        with display:
            display.console.print("<b>&")
        assert "&lt;b&gt;&amp;" in pages[-1]
