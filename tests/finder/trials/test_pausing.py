"""Paused trials continue from their saved states with the results of trials that were never paused."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trainings
from fakes import SMALL_DQN, SMALL_PPO, RecordingListener

from agents import AgentSpec, Callback
from finder.trials.checkpoints import list_saved
from finder.trials.cohort import run_cohort
from finder.trials.groups import make_groups
from finder.trials.trial import PAUSED, TrialSpec


class Pausing(RecordingListener):
    """Pauses trials at the first report at or after a step."""

    def __init__(self, numbers: set[int], at: int) -> None:
        super().__init__()
        self.numbers, self.at = numbers, at

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Any:
        super().rung(env_steps, values)
        return {number: PAUSED for number in self.numbers & values.keys() if env_steps >= self.at}


def make_trial(folder: Path | None, number: int, agent: Any = "ppo", **fields: Any) -> TrialSpec:
    params = {"ppo": SMALL_PPO, "dqn": SMALL_DQN}[agent]
    spec = AgentSpec.of(agent, "CartPole-v1", {**params, "learning_rate": 1e-3 * (1 + number)})
    given = {"env_steps": 480, "report_marks": (160, 320, 480), "seeds": (0, 1), "checkpoint_seconds": 1e9, **fields}
    return TrialSpec(number=number, agent=spec, checkpoints=None if folder is None else str(folder), **given)


def episodes_of(listener: RecordingListener, number: int) -> list[tuple[Any, ...]]:
    return sorted((r.seed, r.episode, r.env_steps, r.episode_return, r.loss) for r in listener.records[number])


def promoted(folder: Path, number: int, agent: str, epoch: int) -> TrialSpec:
    return make_trial(folder, number, agent, epoch=epoch, resumed=True, promoted_from=160 * (epoch - 1))


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_paused_members_join_other_populations_with_identical_results(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, first, second, third = RecordingListener(), Pausing({0, 1, 2}, 160), Pausing({2}, 320), RecordingListener()
    run_cohort([make_trial(None, number, agent) for number in range(5)], whole)
    run_cohort([make_trial(tmp_path, number, agent) for number in range(4)], first)
    assert {number: outcome.state for number, outcome in first.outcomes.items()} == {
        0: "paused", 1: "paused", 2: "paused", 3: "complete"
    }  # fmt: skip
    assert [first.outcomes[number].env_steps for number in range(3)] == [160] * 3
    [saved] = list_saved(tmp_path)
    assert sorted(saved.runs) == [(number, seed) for number in range(3) for seed in (0, 1)]
    # Two of the three continue in one population, beside a new trial.
    begun: list[set[int]] = []

    def make_groups_of_new_runs(runs: Any, templates: Any) -> Any:
        begun.append({trial.spec.number for trial, _ in runs})
        return make_groups(runs, templates)

    monkeypatch.setattr("finder.trials.cohort.make_groups", make_groups_of_new_runs)
    run_cohort([promoted(tmp_path, 2, agent, 2), promoted(tmp_path, 0, agent, 2), make_trial(None, 4, agent)], second)
    assert second.outcomes[2].state == "paused"
    assert second.reports[2] == whole.reports[2][:2]
    assert sorted(saved.runs[0] for saved in list_saved(tmp_path)) == [(0, 0), (2, 0)]
    run_cohort([promoted(tmp_path, 2, agent, 3)], third)
    assert begun == [{4}], "the others continue from their checkpoints"
    for listener, number in ((second, 0), (third, 2), (second, 4)):
        assert listener.outcomes[number].state == "complete"
        assert listener.outcomes[number].seed_values == whole.outcomes[number].seed_values
        assert episodes_of(listener, number) == episodes_of(whole, number)
        assert listener.reports[number] == whole.reports[number]


@pytest.mark.slow
def test_agent_alone_continues_with_identical_results(tmp_path: Path) -> None:
    own: dict[str, Any] = {"why_alone": "a test", "seeds": (3, 4)}
    whole, first, again = RecordingListener(), Pausing({1}, 320), RecordingListener()
    run_cohort([make_trial(None, 1, **own)], whole)
    run_cohort([make_trial(tmp_path, 1, **own)], first)
    assert len(list_saved(tmp_path)) == 2  # a file for each seed
    run_cohort([make_trial(tmp_path, 1, epoch=2, **own)], again)
    assert again.outcomes[1].seed_values == whole.outcomes[1].seed_values
    assert episodes_of(again, 1) == episodes_of(whole, 1)


@pytest.mark.slow
def test_later_checkpoints_of_the_group_keep_the_paused_state(tmp_path: Path) -> None:
    whole, first, again = RecordingListener(), Pausing({0}, 160), RecordingListener()
    run_cohort([make_trial(None, 0)], whole)
    run_cohort([make_trial(tmp_path, number, checkpoint_seconds=1e-9) for number in range(2)], first)
    run_cohort([make_trial(tmp_path, 0, epoch=2)], again)
    assert again.records[0][0].episode == 0
    assert again.outcomes[0].seed_values == whole.outcomes[0].seed_values


class Unpicklable(Callback):
    """A callback whose state cannot be pickled."""

    of_members = True

    def get_state(self) -> dict[str, Any]:
        raise pickle.PicklingError("a socket is open")


def test_trial_whose_state_cannot_be_saved_fails_with_the_reason(tmp_path: Path) -> None:
    listener = Pausing({0}, 160)
    run_cohort([make_trial(tmp_path, number, callbacks=(Unpicklable,)) for number in range(2)], listener)
    assert (listener.outcomes[0].state, listener.outcomes[1].state) == ("failed", "complete")
    assert listener.outcomes[0].reason == (
        "CannotPauseError: The trial cannot be paused, as its state cannot be saved (PicklingError: a socket is open). "
        "Use a scheduler that stops trials instead of pausing them, such as successive-halving."
    )
    assert list_saved(tmp_path) == []


def test_training_functions_and_searches_without_a_folder_cannot_pause(tmp_path: Path) -> None:
    listener = Pausing({0}, 160)
    function = AgentSpec.of(trainings.train, "CartPole-v1")
    run_cohort([TrialSpec(number=0, agent=function, env_steps=320, report_marks=(160, 320), seeds=(0,),
                          checkpoints=str(tmp_path))], listener)  # fmt: skip
    assert "A training function cannot be paused" in listener.outcomes[0].reason
    without = Pausing({0}, 160)
    run_cohort([make_trial(None, 0)], without)
    assert "There is no folder for checkpoints" in without.outcomes[0].reason
