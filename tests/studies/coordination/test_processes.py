"""Costs of importing and recording, and studies of killed processes; with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from episode_count import n_episodes

from studies.analysis.listing import list_studies
from studies.database.records import EpisodeRecord
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec

Make = Callable[..., StudySpec]
ROOT = Path(__file__).parents[3]


def python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    return done.stdout


def test_import_of_studies_loads_no_heavy_package() -> None:
    heavy = ("optuna", "sqlalchemy", "plotly", "pandas", "pydantic", "numpy", "tensorflow", "keras")
    program = "import sys, studies; print([name for name in sys.argv[1:] if name in sys.modules])"
    assert python(program, *heavy).strip() == "[]"


@pytest.mark.slow
def test_public_names_of_studies_load_no_tensorflow() -> None:
    program = (
        "import sys, studies\n"
        "for name in studies.__all__: getattr(studies, name)\n"
        "print([name for name in ('tensorflow', 'keras', 'agents', 'finder') if name in sys.modules])"
    )
    assert python(program).strip() == "[]"


def test_public_names_of_studies_exist() -> None:
    import studies

    assert {getattr(studies, name).__name__ for name in ("open_study", "Recorder")} == {"open_study", "Recorder"}
    assert set(studies.__all__) <= set(dir(studies))
    assert [name for name in studies.__all__ if not hasattr(studies, name)] == []
    with pytest.raises(AttributeError, match="nonsense"):
        _ = studies.nonsense


RUN_AND_HANG = """
import sys, time
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.recording.opening import open_study
spec = StudySpec.from_toml(sys.argv[1])
recorder = Recorder(open_study(spec))
recorder.completed(recorder.ask().number, 1.0)
recorder.ask()
print("hanging", flush=True)
time.sleep(600)
"""


@pytest.mark.real
def test_killed_study_resumes_and_running_study_cannot_be_opened(tmp_path: Path) -> None:
    toml = tmp_path / "study.toml"
    url = f"sqlite:///{tmp_path}/finder.db"
    toml.write_text(
        f'name = "s"\nstorage = "{url}"\nagents = ["ppo"]\nenv = "E"\nenv_steps = 10\npruner = "none"\n'
        + "".join(f"[[trials]]\nlearning_rate = {rate}\n" for rate in (0.1, 0.2, 0.3))
    )
    child = subprocess.Popen(
        [sys.executable, "-c", RUN_AND_HANG, str(toml)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "hanging\n"
        spec = StudySpec.from_toml(toml)
        with pytest.raises(StudyError, match=f"process {child.pid}"):
            open_study(spec)
        assert list_studies(url)[0].n_running == 1  # reading is allowed while the study runs
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
    with open_study(spec) as study, Recorder(study) as recorder:
        seen = []
        while (ask := recorder.ask()) is not None:
            seen.append(ask.params["learning_rate"])
            recorder.completed(ask.number, 1.0)
        assert seen == [0.2, 0.3]
        assert [trial.state.name for trial in study.trials()] == ["COMPLETE"] * 3


@pytest.mark.slow
def test_recording_uses_a_bounded_number_of_statements(
    tmp_path: Path, make_spec: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report takes a few statements and episodes are written in batches, independent of the number of trials."""
    spec = make_spec(
        storage=f"{tmp_path}/finder.db",
        env_steps=50_000,
        n_reports=20,
        n_trials=15,
        params={"x": "0.0:1.0"},
        pruner="median",
    )
    monkeypatch.setattr(
        "studies.recording.writer.time.monotonic", lambda: 0.0
    )  # so that no batch is flushed because of its age
    counted: Counter[str] = Counter()
    recording = threading.current_thread()  # the renewal of leases runs in another thread

    def count(_connection: Any, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool) -> None:
        if threading.current_thread() is recording:
            table = "episodes" if "finder_episodes" in statement else "others"
            counted[f"{statement.split(maxsplit=1)[0]} {table}"] += 1

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        reporting, whole = [], []
        with open_study(spec) as study, Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                recorder.started(ask.number, {"config": {"gamma": 0.99}})
                before = counted.copy()
                for mark in spec.report_marks:
                    recorder.episodes(ask.number, [episode(k % 3, mark + k // 3, mark) for k in range(150)])
                    recorder.report(ask.number, mark, 1.0)
                reporting.append(counted - before)
                recorder.completed(ask.number, 1.0, {0: 1.0, 1: 1.0, 2: 1.0})
                whole.append(counted - before)
            assert n_episodes(study.storage, study.episodes_key) == 15 * 20 * 150
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)
    assert reporting == [reporting[0]] * 15, "the cost of a report grows with the number of trials"
    assert reporting[0].total() <= 9 * len(spec.report_marks)
    assert {cost["INSERT episodes"] for cost in whole} == {1}, "3,000 episodes must be written by one statement"


def episode(seed: int, number: int, env_steps: int) -> EpisodeRecord:
    return EpisodeRecord(
        seed=seed, episode=number, env_steps=env_steps, episode_return=1.0, length=20, loss=0.1, wall_seconds=1.0
    )
