"""Tests of failures of trials while a signal ends the search: the signal may have ended simulators too."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import pytest
from fakes import SMALL_PPO
from optuna.trial import TrialState

from agents.processes.interrupts import defer_interrupts
from finder.executors.executor import Executor, NextTrial, StudyListener
from finder.search.run_search import run_search
from finder.trials.trial import BudgetSpent, Outcome
from studies import StudySpec
from studies.spec.attributes import FailureKind
from studies.study.study import load_study


class Failing(Executor):
    """An executor whose trial fails around a signal.

    Args:
        when: `deferred` (the signal takes effect after the failure), `handled` (the failure is one of the last events),
            `spent` (the budget has ended, without a signal), `before` the signal, or `never` (there is no signal).
        kind: Kind of the failure.
    """

    description = "failing"

    def __init__(self, when: str, kind: FailureKind) -> None:
        self._when, self._kind = when, kind

    def trials_at_once(self, n_seeds: int) -> int:
        return 1

    def run(self, next_trial: NextTrial, listener: StudyListener) -> None:
        trial = next_trial()
        assert trial is not None
        assert not trial.resumed, "this would have no end"
        listener.started(trial.number, {})
        outcome = Outcome(state="failed", reason="the simulator has ended", failure=self._kind)
        with defer_interrupts() if self._when == "deferred" else contextlib.nullcontext():
            if self._when == "before":
                listener.ended(trial.number, outcome)
            try:
                if self._when == "spent":
                    raise BudgetSpent
                if self._when != "never":
                    signal.raise_signal(signal.SIGINT)
            finally:
                if self._when != "before":
                    listener.ended(trial.number, outcome)


def spec_in(folder: Path) -> StudySpec:
    return StudySpec(
        name="s", storage=f"sqlite:///{folder}/finder.db", agents=("ppo",), env="fakes:TwoStep-v0", env_steps=160,
        seeds=(0,), fixed=SMALL_PPO, params={"learning_rate": "1e-4:1e-1:log"}, n_trials=2, confirm=0,
    )  # fmt: skip


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("when", "kind", "state"),
    [
        ("deferred", "environment", TrialState.WAITING),
        ("handled", "environment", TrialState.WAITING),
        ("handled", "hung", TrialState.WAITING),
        ("handled", "diverged", TrialState.FAIL),
        ("spent", "environment", TrialState.FAIL),
        ("before", "environment", TrialState.FAIL),
    ],
)
def test_trial_that_fails_while_a_signal_ends_the_search_is_interrupted(
    tmp_path: Path, when: str, kind: FailureKind, state: TrialState
) -> None:
    spec = spec_in(tmp_path)
    with contextlib.suppress(KeyboardInterrupt):
        run_search(spec, executor=Failing(when, kind), progress=False)
    with load_study("s", spec.storage) as study:
        assert [trial.state for trial in study.trials()] == [state]


def test_trial_fails_in_a_search_that_a_script_makes_after_ctrl_c(tmp_path: Path) -> None:
    """It would be interrupted and resumed without end."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        run_search(spec_in(tmp_path), executor=Failing("never", "environment"), progress=False)
    with load_study("s", spec_in(tmp_path).storage) as study:
        assert [trial.state for trial in study.trials()] == [TrialState.FAIL] * 2
