"""Tests of the commands that show and delete studies."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from death import simulate_crash
from terminals import in_terminal

import studies
from finder.cli.commands.show import show
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import SPEC_VERSION, VERSION_ATTR
from studies.storage.storage import open_storage


def test_studies_lists_the_studies(searched: Any) -> None:
    ran = searched.finder("studies")
    assert ran.code == 0
    (line,) = [line for line in ran.out.splitlines() if line.split()[:1] == [searched.study]]
    assert line.split()[1:4] == ["ppo", "CartPole-v1", "3/3"]
    (summary,) = [row for row in searched.finder("studies", "--json").json if row["name"] == searched.study]
    assert (summary["n_complete"], summary["n_failed"]) == (3, 0)


def test_command_for_an_empty_storage_names_it(finder: Any) -> None:
    with open_storage(f"sqlite:///{finder.folder}/empty.db"):
        pass
    shown = finder("studies", "--storage", "empty.db").err
    assert "Begin with: finder lr ppo --env CartPole-v1 --storage empty.db\n" in shown


def test_show_has_the_last_report_of_interrupted_trials(finder: Any) -> None:
    """As where the limit of a search is reached during its confirmation."""
    spec = StudySpec(
        name="cut", storage=f"sqlite:///{finder.folder / 'finder.db'}", agents=("ppo",), env="CartPole-v1",
        env_steps=1_000, n_reports=4, seeds=(0,), trials=({"gamma": 0.9}, {"gamma": 0.99}), pruner="none", confirm=0,
    )  # fmt: skip
    with open_study(spec) as study, Recorder(study) as recorder:
        for steps, value in ((500, 7.0), (750, 12.5)):
            if steps == 500:
                ask = recorder.ask()
                assert ask is not None
                recorder.started(ask.number, {})
            recorder.decide(steps, {ask.number: {0: value}})
        recorder.interrupted(ask.number)
    row = finder("show", "cut").out.splitlines()[2].split()
    assert row[:5] == ["0", "0.9", "12.5", "interrupted", "750"]
    shown = finder("show", "cut", "--json").json["trials"]
    assert len(shown) == 1
    assert (shown[0]["value"], shown[0]["last_report"]) == (None, {"env_steps": 750, "value": 12.5})


def test_show_lists_the_trials_of_a_study(searched: Any) -> None:
    ran = searched.finder("show", searched.study)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith(searched.study)
    assert lines[1].split() == ["#", "learning_rate", "return", "state", "steps", "seconds", "reason"]
    assert [line.split()[:2] for line in lines[2:5]] == [
        ["0", "1e-4"],
        ["1", "1e-1"],
        ["2", "3.16e-3"],
    ]
    assert {line.partition("confirms ")[2].strip() for line in lines[5:]} == {f"#{i}" for i in range(3)}
    assert sum("←" in line for line in lines) == 1
    trials = searched.finder("show", searched.study, "--json").json["trials"]
    assert {trial["state"] for trial in trials} == {"complete"}
    assert set(trials[0]["seed_values"]) == {"0", "1"}


def test_show_tells_running_trials_from_those_of_dead_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/it.db"
    rows = tuple({"learning_rate": rate} for rate in (1e-4, 1e-3))
    spec = StudySpec(name="s", storage=url, agents="ppo", env="CartPole-v1", env_steps=1000, trials=rows)
    with open_study(spec) as study:
        recorder = Recorder(study)
        assert recorder.ask() is not None
        show("s", storage=url)
        assert "running" in capsys.readouterr().out
        simulate_crash(study)
        show("s", storage=url)
        shown = capsys.readouterr()
        assert "interrupted" in shown.out
        assert "the process of interrupted trials has ended: the command that began the study" in shown.err


def test_show_prints_one_trial_in_full(searched: Any) -> None:
    ran = searched.finder("show", searched.study, "--trial", "2")
    assert ran.json["configuration"]["config"]["learning_rate"] == pytest.approx(3.162e-3)
    assert ran.json["configuration"]["execution"]["processes"] == 1
    assert ran.err.startswith("Run as: population of 6 members, 1 process, ")
    assert "Run as: population of 6 members, 1 process, " in searched.finder("show", searched.study).err
    ran = searched.finder("show", searched.study, "--trial", "9")
    assert ran.code == 2
    assert "no trial 9" in ran.err


def test_best_prints_the_pick_as_json(searched: Any) -> None:
    pick = searched.finder("best", searched.study, "--json").json
    assert pick["study"] == searched.study
    assert (pick["n_seeds"], set(pick["seed_values"])) == (5, {"2", "3", "4", "5", "6"})
    assert pick["confirmed_by"] >= 3
    assert pick["optimizers"]["default"]["config"]["learning_rate"] == pick["params"]["learning_rate"]


def test_python_code_printed_by_best_runs(searched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = searched.finder("best", searched.study)
    first, _, code = ran.out.partition("\n\n")
    assert first.startswith("learning_rate")
    monkeypatch.chdir(searched.finder.folder)
    names: dict[str, Any] = {}
    with pytest.warns(
        UserWarning, match="no safe suggestion of a learning rate"
    ):  # a search this short gives no safe pick
        exec(code.replace("1_000_000", "64"), names)
    pick = searched.finder("best", searched.study, "--json").json
    assert names["agent"].config.learning_rate == pytest.approx(pick["params"]["learning_rate"])
    assert names["agent"].config.n_steps == 32
    assert names["agent"].env_steps >= 64


def test_report_is_written_as_html(searched: Any) -> None:
    ran = searched.finder("report", searched.study)
    path = Path(ran.out.strip())
    assert path.name == f"finder-report-{searched.study}.html"
    assert path.read_text().startswith("<!doctype html>")
    named = searched.finder("report", searched.study, "--output", "mine.html")
    assert Path(named.out.strip()) == searched.finder.folder / "mine.html"


@pytest.mark.parametrize("command", ["show", "best", "report"])
def test_error_for_an_unknown_study_suggests_the_nearest(searched: Any, command: str) -> None:
    ran = searched.finder(command, "lr-pop-CartPole-v1")
    assert (ran.code, ran.out) == (2, "")
    assert f"Did you mean '{searched.study}'" in ran.err


@pytest.mark.parametrize("words", [("studies",), ("show", "x"), ("best", "x"), ("report", "x"), ("dashboard",)])
def test_reading_commands_do_not_create_a_missing_storage(finder: Any, words: tuple[str, ...]) -> None:
    ran = finder(*words, "--storage", "missing.db")
    assert ran.code == 2
    assert "there is no storage 'missing.db'" in ran.err
    assert not (finder.folder / "missing.db").exists()


class TestDelete:
    @pytest.fixture
    def study(self, finder: Any) -> str:
        spec = studies.StudySpec(
            name="a study", storage=f"sqlite:///{finder.folder}/finder.db", agents=("ppo",), env="E", env_steps=9,
            params={"x": "0:1"},
        )  # fmt: skip
        with studies.open_study(spec) as opened, studies.Recorder(opened) as recorder:
            recorder.completed(recorder.ask().number, 1.0)  # type: ignore[union-attr]
        return spec.name

    def test_yes_option_deletes_without_confirmation(self, finder: Any, study: str) -> None:
        ran = finder("delete", study, "--yes")
        assert (ran.code, ran.out) == (0, "")
        assert "Removed a study (1 trial) from sqlite:///finder.db." in ran.err
        assert finder("studies", "--json").json == []

    @pytest.mark.slow
    @pytest.mark.parametrize("answer", ["y\n", "n\n", "\n"])
    def test_delete_asks_for_confirmation(
        self, finder: Any, study: str, monkeypatch: pytest.MonkeyPatch, answer: str
    ) -> None:
        stdin = io.StringIO(answer)
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr("sys.stdin", stdin)
        ran = finder("delete", study)
        assert ran.code == (0 if answer == "y\n" else 1)
        assert "Remove the study a study with its 1 trial from sqlite:///finder.db?" in ran.out + ran.err
        assert len(finder("studies", "--json").json) == ran.code

    def test_delete_without_a_terminal_needs_the_yes_option(
        self, finder: Any, study: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        ran = finder("delete", study)
        assert ran.code == 2
        assert "give --yes" in ran.err
        assert len(finder("studies", "--json").json) == 1


@pytest.mark.slow
def test_tables_of_studies_fit_a_narrow_terminal(finder: Any) -> None:
    """Nothing is cut, and the reason shared by all pruned trials is printed once."""
    spec = studies.StudySpec(
        name="lr-ppo-CartPole-v1-30000-steps", storage=f"sqlite:///{finder.folder}/finder.db", kind="lr",
        agents=("ppo",), env="CartPole-v1", env_steps=20_000, seeds=(0, 1), confirm=0, pruner="race",
        trials=tuple({"learning_rate": rate} for rate in (1e-4, 1e-3, 1.36e-3)),
    )  # fmt: skip
    with studies.open_study(spec) as opened, studies.Recorder(opened) as recorder:
        recorder.pruned(recorder.ask().number, 2000, 25.25, {0: 25.0, 1: 25.5})  # type: ignore[union-attr]
        recorder.pruned(recorder.ask().number, 14_000, 201.0, {0: 200.0, 1: 202.0})  # type: ignore[union-attr]
        recorder.completed(recorder.ask().number, 430.0, {0: 360.0, 1: 500.0})  # type: ignore[union-attr]
    lines = {}
    for command in (("studies",), ("show", spec.name)):
        words = [sys.executable, "-c", "import sys; from finder.cli import main; sys.exit(main())", *command]
        shown = in_terminal(words, finder.folder, columns=80)
        assert shown.code == 0
        assert "…" not in shown.text
        lines[command[0]] = shown.lines
    pruned = [line for line in lines["show"] if " pruned" in line]
    assert [line.split()[-1] for line in pruned] == ["pruned", "pruned"]  # without a reason
    assert lines["show"].count("Pruned: others were expected to end better (scheduler race).") == 1
    assert "Note  not safe: only one trial is complete, so there is nothing to compare it" in lines["show"]
    assert lines["studies"] == [
        "                                                                       best in",
        "study                      agent  environment  trials  pruned  failed   search",
        "lr-ppo-CartPole-v1-30000-  ppo    CartPole-v1     3/3  2                   430",
        "steps",
    ]


def test_show_prints_a_single_seed_and_the_reason_of_a_pruned_trial(finder: Any) -> None:
    spec = studies.StudySpec(
        name="s", storage=f"sqlite:///{finder.folder}/finder.db", agents=("ppo",), env="E", env_steps=1, seeds=(7,),
        params={"x": "0:1"},
    )  # fmt: skip
    with studies.open_study(spec) as opened, studies.Recorder(opened) as recorder:
        recorder.pruned(recorder.ask().number, 1, 0.5)  # type: ignore[union-attr]
    assert "ppo on E, seed 7; 1 environment step each" in finder("show", "s").out
    assert finder("show", "s", "--trial", "0", "--json").json["reason"].startswith("it had fallen behind")


def test_show_names_the_kind_of_a_failure(finder: Any) -> None:
    spec = studies.StudySpec(
        name="s", storage=f"sqlite:///{finder.folder}/finder.db", agents=("ppo",), env="E", env_steps=1, seeds=(7,),
        params={"x": "0:1"},
    )  # fmt: skip
    with studies.open_study(spec) as opened, studies.Recorder(opened) as recorder:
        recorder.failed(recorder.ask().number, "the loss became NaN", kind="diverged")  # type: ignore[union-attr]
        recorder.failed(recorder.ask().number, "its process was killed", kind="killed")  # type: ignore[union-attr]
    rows = [line.split() for line in finder("show", "s").out.splitlines()[2:4]]
    assert [row[2] for row in rows] == ["diverged", "killed"]
    assert [trial["failure"] for trial in finder("show", "s", "--json").json["trials"]] == ["diverged", "killed"]


def test_study_of_a_later_version_does_not_hide_other_studies(finder: Any, make_later: Any) -> None:
    make_later("kept.db", "theirs")
    ran = finder("studies", "--storage", "kept.db")
    assert ran.code == 0, ran.err
    assert "theirs" in ran.out
    assert "mine" in ran.out
    assert "'theirs' was made by a later version of Finder" in " ".join(ran.err.split())
    assert finder("delete", "theirs", "--yes", "--storage", "kept.db").code == 0


@pytest.fixture
def make_later(finder: Any) -> Any:
    """Create two studies, of which the second one is marked as made by a later version."""

    def make(storage: str, name: str) -> None:
        for each in ("mine", name):
            spec = StudySpec(
                name=each, storage=f"sqlite:///{finder.folder}/{storage}", agents=("ppo",), env="CartPole-v1",
                env_steps=10, params={"learning_rate": "1e-4:1e-2:log"},
            )  # fmt: skip
            with open_study(spec) as study:
                if each == name:
                    study.study.set_user_attr(VERSION_ATTR, SPEC_VERSION + 1)

    return make


@pytest.mark.real
def test_closed_pipe_prints_no_error() -> None:
    command = [sys.executable, "-c", "from finder.cli import main; raise SystemExit(main())", "lr", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # type: ignore[union-attr]
        assert process.stderr.read() == ""  # type: ignore[union-attr]
    assert process.returncode == 1
