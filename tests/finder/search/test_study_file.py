"""Tests of study files: all mistakes are reported at once, with line numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from finder.finders.tuning import run_file
from finder.search.study_file import read_study
from studies.errors import StudyError
from studies.recording.opening import open_study
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


def test_fields_that_a_call_overrides_are_flags_of_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedies of the study are commands, which have what the call had."""
    origins: list[StudyOrigin | None] = []

    def begin(spec: StudySpec, **_: Any) -> Any:
        with open_study(spec.model_copy(update={"minutes": None, "env_steps": 10})) as study:
            origins.append(read_origin(study))
            return study, None

    monkeypatch.setattr("finder.finders.tuning.run_search", begin)
    file = write(
        tmp_path, 'name = "s"\nagents = "ppo"\nenv = "CartPole-v1"\nenv_steps = 10\nparams.gamma = "0.9:1.0"\n'
    )
    run_file(file, name="mine", minutes=2.5, n_jobs=2, seeds=(4,), storage=f"sqlite:///{tmp_path}/s.db")
    [origin] = origins
    flags = ("--minutes", "2.5", "--study-name", "mine", "--n-jobs", "2")
    assert origin == StudyOrigin("file", ("run", str(file), *flags))
