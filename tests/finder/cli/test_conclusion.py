"""Tests of the conclusion of a search as its command prints it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from finder.cli.conclusion import conclude
from finder.cli.options.parameters import Output
from studies import StudySpec, open_study
from studies.recording.recorder import Recorder


@pytest.mark.parametrize("sampler", ["tpe", "grid"])
def test_failed_trials_are_retried_by_the_same_command(
    sampler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = StudySpec(
        name="few", agents=("ppo",), env="CartPole-v1", env_steps=600, n_trials=1, sampler=sampler,
        params={"learning_rate": [1e-3]}, storage=f"sqlite:///{tmp_path}/few.db",
    )  # fmt: skip
    with open_study(spec) as study:
        with Recorder(study) as recorder:
            ask = recorder.ask()
            assert ask is not None
            recorder.failed(ask.number, "it is broken")
        assert conclude(study, None, Output(("tune", "ppo"), json=False, quiet=False)) == 1
    assert "When the cause is fixed, run it again to retry failed trials." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "flag"), [({"minutes": 1.0}, "--minutes"), ({"total_env_steps": 900}, "--total-env-steps")]
)
def test_a_spent_budget_is_no_failure(
    given: Any, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = StudySpec(
        name="few",
        agents=("ppo",),
        env="CartPole-v1",
        env_steps=600,
        n_trials=2,
        params={"learning_rate": [1e-3, 1e-2]},
        storage=f"sqlite:///{tmp_path}/few.db",
        **given,
    )
    with open_study(spec) as study:
        assert conclude(study, None, Output(("lr", "ppo"), json=False, quiet=False)) == 1
    errors = capsys.readouterr().err
    assert "no trial was completed, so there is no pick" in errors
    assert f"Run it again with --study-name few and more {flag} to resume its trials." in errors
    assert "the cause" not in errors
