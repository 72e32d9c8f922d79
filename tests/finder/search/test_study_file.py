"""Tests of study files: all mistakes are reported at once, with line numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from finder.cli.app import app
from finder.finders.tuning import _RUN_OPTIONS, run_file, submit_file
from finder.results.advice import advice_of
from finder.results.flags import flag_of
from finder.search.study_file import read_study
from studies.analysis.remedies import Remedy
from studies.defaults import DEFAULT_STORAGE
from studies.errors import StudyError
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spec.spec import StudySpec
from studies.study.origin import StudyOrigin, read_origin

FINE = """\
name = "a"
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 100
seeds = 2

[params]
learning_rate = "1e-5:1e-1:log"
optimizer = ["adam", "sgd(momentum=0.9)"]

[fixed]
n_envs = 4
"""

WRONG = """\
name = "a"
agents = ["ppo", "dqn"]
env = "CartPol-v1"
env_stepz = 100
seeds = 0

[params]
learning_rat = "1e-5:1e-1:log"
learning_rate = "1e-5-1e-1"
tau = [0.5, 2.0]
lam = {low = 2, high = 1}

[fixed]
gama = 0.9
clip_range = 0.2

[agent_params.dqn]
clip_range = 0.2

[[trials]]
agent = "ppo"
n_stepz = 5
"""


def write(folder: Path, text: str) -> Path:
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def test_sampler_of_planned_trials_is_refused(tmp_path: Path) -> None:
    planned = FINE.replace("seeds = 2", 'seeds = 2\nsampler = "random"\nsampler_kwargs = {}')
    planned += "[[trials]]\nlearning_rate = 0.01\n"
    with pytest.raises(StudyError) as raised:
        read_study(write(tmp_path, planned))
    for line, name in (("6", "sampler"), ("7", "sampler_kwargs")):
        assert f"line {line}: {name}: the trials of this study are planned" in str(raised.value)


def test_valid_study_file_is_read(tmp_path: Path) -> None:
    spec = read_study(write(tmp_path, FINE))
    assert spec.seeds == (0, 1)
    assert spec.fixed == {"n_envs": 4}


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, WRONG)
    with pytest.raises(StudyError) as error:
        read_study(path)
    messages = str(error.value).splitlines()
    expected = [
        (3, "Unknown environment 'CartPol-v1'. Did you mean CartPole-v1"),
        (4, "unknown key 'env_stepz'. Did you mean 'env_steps'"),
        (5, "seeds: 0 is not a number of seeds"),
        (8, "Unknown hyperparameter 'learning_rat' of ppo. Did you mean learning_rate"),
        (9, "learning_rate must be a number or a table"),
        (10, "tau must be"),
        (11, "Unknown hyperparameter 'lam' of ppo"),
        (11, "params.lam: low is 2 and high is 1"),
        (14, "Unknown hyperparameter 'gama' of ppo. Did you mean gamma"),
        (18, "Unknown hyperparameter 'clip_range' of dqn"),
        (22, "Unknown hyperparameter 'n_stepz' of ppo. Did you mean n_steps"),
    ]
    assert [line.partition(": ")[0] for line in messages] == [f"{path}, line {line}" for line, _ in expected]
    for (_, words), line in zip(expected, messages, strict=True):
        assert words in line


def test_hyperparameters_of_an_unknown_agent_are_not_checked(tmp_path: Path) -> None:
    path = write(tmp_path, FINE.replace('"ppo"', '"ppoo"').replace("n_envs", "n_envz"))
    with pytest.raises(StudyError) as error:
        read_study(path)
    assert str(error.value).startswith(f"{path}, line 2: Unknown agent 'ppoo'. Did you mean ppo")
    assert "n_envz" not in str(error.value)


SMALL = 'name = "s"\nagents = "ppo"\nenv = "CartPole-v1"\nenv_steps = 10\nhorizon = 20\nparams.gamma = "0.9:1.0"\n'


@pytest.fixture
def origin_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., StudyOrigin | None]:
    """Return a function that calls `run_file`, up to its search, and returns the origin of the study."""
    origins: list[StudyOrigin | None] = []

    def begin(spec: StudySpec, **_: Any) -> Any:
        with open_study(spec.model_copy(update={"minutes": None, "env_steps": 10})) as study:
            origins.append(read_origin(study))
            return study, None

    def ran(**given: Any) -> StudyOrigin | None:
        run_file(write(tmp_path, SMALL), storage=f"sqlite:///{tmp_path}/s.db", **given)
        return origins.pop()

    monkeypatch.setattr("finder.finders.tuning.run_search", begin)
    return ran


def test_arguments_of_a_call_are_flags_of_its_command(
    tmp_path: Path, origin_of: Callable[..., StudyOrigin | None]
) -> None:
    """The remedies of the study are commands, which have what the call had."""
    run = ("run", str(tmp_path / "study.toml"))
    assert origin_of() == StudyOrigin("file", run)
    flags = ("--minutes", "2.5", "--study-name", "mine", "--n-jobs", "2")
    assert origin_of(name="mine", minutes=np.float64(2.5), n_jobs=2) == StudyOrigin("file", (*run, *flags))
    with open_study(read_study(write(tmp_path, SMALL))) as other, Recorder(other) as recorder:
        for value in (1.0, 2.0):
            recorder.completed(recorder.ask().number, value)  # type: ignore[union-attr]
        flags = ("--warm-start", "s", "--warm-start-storage", DEFAULT_STORAGE)
        assert origin_of(name="w", warm_start="s", warm_start_storage=DEFAULT_STORAGE) == StudyOrigin(
            "file", (*run, "--study-name", "w", *flags)
        )
        assert origin_of(name="v", warm_start=other) == StudyOrigin("run_file")


@pytest.mark.parametrize(
    "given", [{"seeds": (4,)}, {"fixed": {"n_envs": 4}}, {"horizon": None}, {"minutes": 2, "env_steps": 10}]
)
def test_call_whose_arguments_have_no_flags_remains_a_call(
    given: dict[str, Any], origin_of: Callable[..., StudyOrigin | None]
) -> None:
    """A command without them would be about another study."""
    origin = origin_of(**given)
    assert origin == StudyOrigin("run_file")
    remedy = Remedy(changes=(("confirm_seeds", 7), ("study_name", "t")), purpose="")
    assert advice_of(origin, DEFAULT_STORAGE, remedy).text == "the same call with confirm_seeds=7, name='t'"


def test_submitted_study_has_the_origin_of_a_run(tmp_path: Path) -> None:
    path, storage = write(tmp_path, SMALL), f"sqlite:///{tmp_path}/s.db"
    for given, origin in (
        ({"n_trials": 4}, StudyOrigin("file", ("run", str(path), "--n-trials", "4"))),
        ({"seeds": 2, "name": "t"}, StudyOrigin("run_file")),
    ):
        with submit_file(path, storage=storage, **given)[0] as study:  # type: ignore[arg-type]
            assert read_origin(study) == origin


def test_every_argument_with_a_flag_is_one_of_the_command() -> None:
    command: Any = typer.main.get_command(app)
    flags = {flag for option in command.commands["run"].params for flag in option.opts if flag.startswith("--")}
    printed = {"--storage", "--num-threads", "--dry-run", "--json", "--quiet"}
    assert {flag_of(name) for name in _RUN_OPTIONS} == flags - printed
