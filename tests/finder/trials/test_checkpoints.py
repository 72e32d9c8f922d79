"""Tests that killed trials resume from their checkpoints with identical results."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from evil import insert_pickle, write_old_format
from fakes import SMALL_DQN, SMALL_PPO, RecordingListener

from agents import AgentSpec, Callback, EnvironmentSpec, Episode, Trainer, Trajectory
from agents.callbacks.callback import make_callbacks, why_alone
from agents.population import TemplateCache
from agents.trust.signatures import KEY_VARIABLE, TRUST_VARIABLE
from finder.trials import checkpoints
from finder.trials.checkpoints import Checkpoints, list_saved, remove_ended, remove_unneeded
from finder.trials.cohort import run_cohort
from finder.trials.groups import Group, make_groups, restore_group, single_run_groups
from finder.trials.runs import TrialRun
from finder.trials.trial import INTERRUPTED, BudgetSpent, TrialSpec
from studies.database.records import EpisodeRecord


class KilledError(BaseException):
    """Simulates the kill of a process."""


class Killing(RecordingListener):
    """A listener that is killed at the n-th report of episodes."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        super().episodes(records)
        self.left -= bool(records)  # an empty report is a sign of life, and slow machines send more of them
        if self.left <= 0:
            raise KilledError
        return None


class KillingAtRung(RecordingListener):
    """A listener that is killed at the first rung."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Any:
        raise KilledError


@pytest.fixture(autouse=True)
def checkpoint_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "MAX_COST", 1e9)
    monkeypatch.setattr("finder.trials.cohort.FLUSH_SECONDS", 0.0)


def make_trial(folder: Path | None, number: int = 0, agent: str = "ppo", **fields: Any) -> TrialSpec:
    params = {"ppo": SMALL_PPO, "dqn": SMALL_DQN}[agent]
    rate = {"learning_rate": 1e-3 * (1 + number)}
    environment = fields.pop("environment", EnvironmentSpec.of("CartPole-v1"))
    spec = AgentSpec.of(agent, environment, {**params, **rate, **fields.pop("params", {})})
    given = {"env_steps": 320, "report_marks": (160, 320), "seeds": (0, 1), "checkpoint_seconds": 1e-9, **fields}
    return TrialSpec(number=number, agent=spec, checkpoints=None if folder is None else str(folder), **given)


def recorded_episodes(listener: RecordingListener, number: int) -> list[tuple[Any, ...]]:
    """Return the episodes of a trial ordered by seed, without durations and duplicates."""
    records = {(r.seed, r.episode): (r.env_steps, r.episode_return, r.length, r.loss) for r in listener.records[number]}
    return sorted((*key, *values) for key, values in records.items())


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
@pytest.mark.parametrize("after", [1, 3])
def test_killed_trials_resume_with_identical_results(tmp_path: Path, agent: str, after: int) -> None:
    whole, first, again = RecordingListener(), Killing(after), RecordingListener()
    run_cohort([make_trial(None, number, agent) for number in range(3)], whole)
    trials = [make_trial(tmp_path, number, agent) for number in range(3)]
    with pytest.raises(KilledError):
        run_cohort(trials, first)
    [found] = list_saved(tmp_path)
    assert 0 < found.env_steps < 320
    run_cohort(trials, again)
    for number in range(3):
        assert again.outcomes[number].seed_values == whole.outcomes[number].seed_values
        assert recorded_episodes(again, number) == recorded_episodes(whole, number)
        assert again.reports[number] == whole.reports[number]


class Interrupts(Callback):
    """Interrupts the process as Ctrl-C does, during a step, in the run of seed 0."""

    times = 1

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        if trainer.run.seed == 0 and episode.index == 3:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


class InterruptsTwice(Interrupts):
    times = 2


@pytest.mark.usefixtures("usual_signals")
@pytest.mark.parametrize(
    ("callback", "is_saved"),
    [(Interrupts, True), pytest.param(InterruptsTwice, False, marks=pytest.mark.slow)],
)
def test_ctrl_c_waits_for_the_end_of_a_step_whose_state_is_saved(
    tmp_path: Path, callback: type[Callback], is_saved: bool
) -> None:
    own: dict[str, Any] = {"callbacks": (callback,), "why_alone": why_alone(make_callbacks([callback]))}
    whole, first, again = RecordingListener(), RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, 0)], whole)
    with pytest.raises(KeyboardInterrupt):
        run_cohort([make_trial(tmp_path, 0, checkpoint_seconds=float("inf"), **own)], first)
    assert first.outcomes[0].state == "interrupted"
    saved = list_saved(tmp_path)
    assert any((0, 0) in found.keys for found in saved) == is_saved
    if is_saved:
        assert all(found.env_steps > 0 for found in saved if (0, 0) in found.keys)
        run_cohort([make_trial(tmp_path, 0, **own)], again)
        assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)


class SpentAtRung(RecordingListener):
    """A listener whose budget is spent at the first rung."""

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]]) -> Any:
        raise BudgetSpent


class SpentDuringStep(RecordingListener):
    """A listener whose budget is spent at the first sign of life during a step."""

    def episodes(self, records: Mapping[int, list[EpisodeRecord]]) -> str | None:
        if not records:
            raise BudgetSpent
        return super().episodes(records)


@pytest.mark.slow
@pytest.mark.parametrize(
    "listener", [SpentAtRung, pytest.param(SpentDuringStep, marks=pytest.mark.slow)], ids=["rung", "step"]
)
def test_state_is_saved_when_a_budget_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listener: type[RecordingListener]
) -> None:
    monkeypatch.setattr("finder.trials.cohort.FLUSH_SECONDS", 1e9)
    monkeypatch.setattr("finder.trials.groups.ALIVE_SECONDS", 0.0)
    whole, first, again = RecordingListener(), listener(), RecordingListener()
    run_cohort([make_trial(None, 0)], whole)
    with pytest.raises(BudgetSpent):
        run_cohort([make_trial(tmp_path, 0, checkpoint_seconds=float("inf"))], first)
    [found] = list_saved(tmp_path)
    assert 0 < found.env_steps <= 160
    run_cohort([make_trial(tmp_path, 0)], again)
    assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)


def test_seconds_of_a_resumed_trial_are_those_of_all_its_runs() -> None:
    trial = TrialRun(make_trial(None, 0))
    assert trial.seconds_before == 0.0
    trial.runs = [SimpleNamespace(group=SimpleNamespace(seconds_before=seconds)) for seconds in (40.0, 90.0)]  # type: ignore[misc]
    assert trial.seconds_before == 90.0
    trial.spec = replace(trial.spec, promoted_from=160)
    assert trial.seconds_before == 0.0, "those before a pause are recorded with the pause"


class Bonus(Callback):
    """Adds the number of earlier trajectories to rewards."""

    seen = 0

    def on_trajectory(self, trainer: Trainer, trajectory: Trajectory) -> None:
        trajectory.rewards += self.seen
        self.seen += 1

    def get_state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.seen = state["seen"]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_rewards_are_changed_separately_per_run_also_after_resuming(tmp_path: Path, agent: str) -> None:
    own: dict[str, Any] = {"callbacks": (Bonus,), "why_alone": why_alone(make_callbacks([Bonus]))}
    one, whole, again = RecordingListener(), RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, 1, agent, **own)], one)
    run_cohort([make_trial(None, number, agent, **own) for number in range(2)], whole)
    assert recorded_episodes(one, 1) == recorded_episodes(whole, 1)
    trials = [make_trial(tmp_path, number, agent, **own) for number in range(2)]
    with pytest.raises(KilledError):
        run_cohort(trials, Killing(2))
    assert list_saved(tmp_path)
    run_cohort(trials, again)
    for number in range(2):
        assert recorded_episodes(again, number) == recorded_episodes(whole, number)


class StopsOne(Callback):
    """Stops the run of one of the seeds early."""

    def __init__(self) -> None:
        self.episodes = 0

    def on_episode_end(self, trainer: Trainer, episode: Episode) -> None:
        self.episodes += 1
        if self.episodes == 2 and trainer.run.seed == 1:
            trainer.stop("enough")


@pytest.mark.slow
def test_run_stopped_by_a_callback_stays_stopped(tmp_path: Path) -> None:
    own: dict[str, Any] = {"callbacks": (StopsOne,), "why_alone": why_alone(make_callbacks([StopsOne]))}
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, 0, **own)], whole)
    assert len([each for each in whole.records[0] if each.seed == 1]) == 2
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, 0, **own)], KillingAtRung())
    assert sorted(found.keys for found in list_saved(tmp_path)) == [((0, 0),), ((0, 1),)]
    run_cohort([make_trial(tmp_path, 0, **own)], again)
    assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)
    assert again.outcomes[0].seed_values == whole.outcomes[0].seed_values


@pytest.mark.slow
def test_trial_resumes_alone_after_the_others_have_ended(tmp_path: Path) -> None:
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, number) for number in range(3)], whole)
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, number) for number in range(3)], Killing(3))
    run_cohort([make_trial(tmp_path, 1)], again)
    assert recorded_episodes(again, 1) == recorded_episodes(whole, 1)
    assert set(again.outcomes) == {1}


@pytest.mark.slow
def test_trials_that_resumed_separately_use_their_newest_checkpoints(tmp_path: Path) -> None:
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, number) for number in range(2)], whole)
    trials = [make_trial(tmp_path, number) for number in range(2)]
    with pytest.raises(KilledError):
        run_cohort(trials, Killing(1))
    for trial in trials:
        with pytest.raises(KilledError):
            run_cohort([trial], Killing(3))
    assert len({(found.path, found.env_steps) for found in list_saved(tmp_path)}) == 3
    [(own, _)] = Checkpoints(str(tmp_path), 1.0).find(trials[:1], [(0, 0), (0, 1)])
    assert own.env_steps > min(found.env_steps for found in list_saved(tmp_path))
    run_cohort(trials, again)
    for number in range(2):
        assert recorded_episodes(again, number) == recorded_episodes(whole, number)


@pytest.mark.slow
def test_separately_trained_seeds_resume_from_their_own_checkpoints(tmp_path: Path) -> None:
    """When seeds are trained in turns, one run may have ended before another one starts."""
    trial = make_trial(tmp_path)
    runs = [(TrialRun(trial), seed) for seed in trial.seeds]
    first, second = single_run_groups(runs)
    while first.is_before(320):
        first.step()
    Checkpoints(str(tmp_path), 1.0).save([first])
    listener, whole = RecordingListener(), RecordingListener()
    run_cohort([trial], listener)
    run_cohort([make_trial(None)], whole)
    assert recorded_episodes(listener, 0) == recorded_episodes(whole, 0)
    assert second.trainer.env_steps == 0


@pytest.mark.slow
def test_seeds_that_resume_in_two_processes_leave_the_file_of_the_other(tmp_path: Path) -> None:
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None)], whole)
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path)], Killing(1))
    [common] = list_saved(tmp_path)
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, epoch=2, seeds=(0,))], Killing(2))
    assert common.path.exists(), "seed 1 has not resumed from it yet"
    assert len(list_saved(tmp_path)) == 2
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, epoch=2, seeds=(1,))], Killing(2))
    run_cohort([make_trial(tmp_path, epoch=3)], again)
    assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)


@pytest.mark.slow
def test_process_with_an_earlier_epoch_replaces_no_later_checkpoint(tmp_path: Path) -> None:
    def group_of(epoch: int, n_steps: int) -> Group:
        run = TrialRun(make_trial(tmp_path, epoch=epoch))
        [group] = single_run_groups([(run, 0)])
        for _ in range(n_steps):
            group.step()
        return group

    away, successor = group_of(1, 2), group_of(2, 1)
    kept = Checkpoints(str(tmp_path), 1.0)
    kept.save([away])
    [first] = list_saved(tmp_path)
    Checkpoints(str(tmp_path), 1.0).save([successor])
    [own] = list_saved(tmp_path)
    assert own.path != first.path, "the file of the second epoch must replace that of the first"
    before = own.path.read_bytes()
    away.step()
    kept.save([away])
    assert own.path.read_bytes() == before
    [(found, _)] = kept.find([make_trial(tmp_path, epoch=3)], [(0, 0)])
    assert (found.path, found.env_steps) == (own.path, successor.trainer.env_steps)
    assert max(each.env_steps for each in list_saved(tmp_path)) == away.trainer.env_steps > found.env_steps


def test_checkpoint_identity_ignores_aliases_of_the_vectorization(tmp_path: Path) -> None:
    trials = [
        make_trial(tmp_path, environment=EnvironmentSpec("CartPole-v1", vectorization=name))
        for name in ("sync", "dummy", "async", "subproc")
    ]
    sync, dummy, in_processes, subproc = map(checkpoints.identity, trials)
    assert sync == dummy != in_processes == subproc


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("env", ["CartPole-v1", "Acrobot-v1"])
def test_weights_slots_and_replay_are_identical_after_resuming(
    tmp_path: Path, agent: str, alone: bool, env: str
) -> None:
    def make() -> Group:
        trial = make_trial(tmp_path, 0, agent, environment=replace(EnvironmentSpec.of(env), vectorization="sync"))
        run = TrialRun(trial)
        runs = [(run, seed) for seed in ((0,) if alone else (0, 1))]
        return next(single_run_groups(runs) if alone else make_groups(runs, TemplateCache(4)))

    def to_end(group: Group) -> list[np.ndarray[Any, Any]]:
        while group.is_before(320):
            group.step()
        assert group.error is None
        state = group.trainer.get_state(environments=False)
        return arrays_of([state["agent"], state["memory"]])

    straight, stopped = make(), make()
    for _ in range(2):
        stopped.step()
    kept = Checkpoints(str(tmp_path), 1.0)
    kept.save([stopped])
    [(found, keys)] = kept.find([stopped.trials[0].spec], stopped.keys)
    trial = TrialRun(stopped.trials[0].spec)
    again = restore_group(found.keys, [(trial, seed) for _, seed in keys], TemplateCache(4), alone=found.alone)
    again.load(checkpoints.load(found))
    for one, other in zip(to_end(straight), to_end(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def arrays_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return all arrays of a state in order."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, Mapping):
        return [each for key in sorted(value, key=str) for each in arrays_of(value[key])]
    if isinstance(value, list | tuple):
        return [each for item in value for each in arrays_of(item)]
    return []


@pytest.mark.slow
def test_environments_that_cannot_be_copied_start_new_episodes(tmp_path: Path) -> None:
    environment = EnvironmentSpec.of("fakes:Uncopyable-v0")
    trial = make_trial(tmp_path, environment=environment)
    with pytest.raises(KilledError):
        run_cohort([trial], Killing(3))
    listener = RecordingListener()
    run_cohort([trial], listener)
    assert listener.outcomes[0].state == "complete"
    for seed in (0, 1):
        numbers = [r.episode for r in listener.records[0] if r.seed == seed]
        assert numbers == list(range(len(numbers)))  # no episode is missing or duplicated


def test_interrupted_trial_is_saved(tmp_path: Path) -> None:
    class Stopping(RecordingListener):
        def episodes(self, records: Any) -> str | None:
            super().episodes(records)
            return INTERRUPTED

    run_cohort([make_trial(tmp_path, checkpoint_seconds=1e9)], Stopping())
    assert [found.keys for found in list_saved(tmp_path)] == [((0, 0), (0, 1))]


def test_checkpoint_of_another_configuration_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path)], Killing(3))
    kept = Checkpoints(str(tmp_path), 1.0)
    runs = [(0, 0), (0, 1)]
    assert kept.find([make_trial(tmp_path)], runs)
    assert not kept.find([make_trial(tmp_path, params={"gamma": 0.5})], runs)
    assert not kept.find([make_trial(tmp_path, env_steps=640)], runs)
    assert not kept.find([make_trial(tmp_path, number=1)], [(1, 0)])


@pytest.mark.parametrize("harm", ["cut", "flip", "empty"])
@pytest.mark.slow
def test_damaged_checkpoint_is_reported_and_the_trial_restarts(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    trial = make_trial(tmp_path)
    with pytest.raises(KilledError):
        run_cohort([trial], Killing(3))
    [path] = tmp_path.glob("*.checkpoint")
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes({"cut": data[:-7], "flip": data, "empty": b""}[harm])
    listener = RecordingListener()
    with caplog.at_level(logging.WARNING):
        run_cohort([trial], listener)
    assert listener.outcomes[0].state == "complete"
    assert ("its checksum is wrong" in caplog.text) == (harm == "flip")


@pytest.mark.slow
def test_older_checkpoint_is_used_when_the_newest_is_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None, number) for number in range(2)], whole)
    trials = [make_trial(tmp_path, number) for number in range(2)]
    with pytest.raises(KilledError):
        run_cohort(trials, Killing(1))
    with pytest.raises(KilledError):
        run_cohort(trials[:1], Killing(3))
    newest = max(list_saved(tmp_path), key=lambda found: found.env_steps)
    data = bytearray(newest.path.read_bytes())
    data[100] ^= 0xFF
    newest.path.write_bytes(data)
    [older] = [found for found in list_saved(tmp_path) if found.path != newest.path]
    started = older.env_steps
    with caplog.at_level(logging.WARNING):
        run_cohort(trials[:1], again)
    assert "cannot be used, and its trials restart: ValueError: its checksum is wrong" in caplog.text
    assert started > 0
    assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)


@pytest.mark.slow
@pytest.mark.parametrize("error", [MemoryError("no room"), OSError("the disk does not answer")], ids=["memory", "disk"])
def test_checkpoint_that_cannot_be_loaded_now_is_kept_for_a_later_process(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trial = make_trial(tmp_path)
    with pytest.raises(KilledError):
        run_cohort([trial], Killing(3))
    [found] = list_saved(tmp_path)
    content = found.path.read_bytes()

    def fail(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("finder.trials.cohort.load", fail)
        with pytest.raises(KilledError):
            run_cohort([replace(trial, epoch=2)], Killing(1))  # which writes a checkpoint after every step
    assert f"cannot be used, and its trials restart: {type(error).__name__}: {error}" in caplog.text
    assert [each.path for each in list_saved(tmp_path)] == [found.path]
    assert found.path.read_bytes() == content
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None)], whole)
    monkeypatch.setattr("finder.trials.cohort.make_groups", fail)
    run_cohort([replace(trial, epoch=3)], again)
    assert recorded_episodes(again, 0) == recorded_episodes(whole, 0)


@pytest.mark.slow
def test_checkpoint_that_is_kept_does_not_keep_other_trials_from_being_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, 0)], Killing(3))
    monkeypatch.setattr("finder.trials.cohort.load", fail)
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, 0, epoch=2), make_trial(tmp_path, 1)], Killing(1))
    assert {number for found in list_saved(tmp_path) for number, _ in found.runs} == {0, 1}


@pytest.mark.slow
def test_restarted_trial_replaces_the_checkpoint_that_it_has_overtaken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise MemoryError

    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path)], Killing(2))
    [found] = list_saved(tmp_path)
    monkeypatch.setattr("finder.trials.cohort.load", fail)
    run_cohort([make_trial(tmp_path, epoch=2)], RecordingListener())
    [newer] = list_saved(tmp_path)
    assert newer.env_steps > found.env_steps


@pytest.mark.slow
def test_checkpoint_that_does_not_fit_is_replaced_by_the_restarted_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("there is no such layer")

    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path)], Killing(3))
    [found] = list_saved(tmp_path)
    monkeypatch.setattr("finder.trials.cohort.load", fail)
    with pytest.raises(KilledError):
        run_cohort([make_trial(tmp_path, epoch=2)], Killing(1))
    [other] = list_saved(tmp_path)
    assert other.env_steps < found.env_steps


@pytest.mark.slow
def test_member_that_left_is_not_resumed(tmp_path: Path) -> None:
    """A member is pruned, and the process is killed before that is recorded."""

    class Pruning(Killing):
        def rung(self, env_steps: int, values: Any) -> Any:
            return {0: "pruned: it fell behind"} if env_steps == 160 else {}

        def ended(self, number: int, outcome: Any) -> None:
            pass

    trials = [make_trial(tmp_path, number) for number in range(2)]
    with pytest.raises(KilledError):
        run_cohort(trials, Pruning(7))
    [found] = list_saved(tmp_path)
    assert found.env_steps > 160
    assert set(found.runs) == {(1, 0), (1, 1)}
    again, whole = RecordingListener(), RecordingListener()
    run_cohort(trials, again)
    run_cohort([make_trial(None, number) for number in range(2)], whole)
    for number in range(2):
        assert again.outcomes[number].state == "complete"
        assert again.outcomes[number].seed_values == whole.outcomes[number].seed_values


def test_unwritable_checkpoint_folder_is_reported_and_the_trial_completes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    listener = RecordingListener()
    with caplog.at_level(logging.WARNING):
        run_cohort([make_trial(tmp_path / "file")], listener)
    assert listener.outcomes[0].state == "complete"
    assert "1 checkpoint could not be written" in caplog.text


def test_group_that_cannot_be_written_does_not_keep_the_others_from_being_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and the third of four groups are larger than what is left of the disk."""
    trial = make_trial(tmp_path, seeds=(0, 1, 2, 3))
    groups = list(single_run_groups([(TrialRun(trial), seed) for seed in trial.seeds]))
    too_large, write = {(0, 0), (0, 2)}, checkpoints._write

    def write_to_a_full_disk(path: Path, group: Group, **options: Any) -> None:
        if too_large.intersection(group.keys):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, group, **options)

    monkeypatch.setattr(checkpoints, "_write", write_to_a_full_disk)
    kept = Checkpoints(str(tmp_path), 1.0)
    with caplog.at_level(logging.WARNING):
        kept.save(groups)
    assert sorted(found.runs for found in list_saved(tmp_path)) == [((0, 1),), ((0, 3),)]
    assert [record.message for record in caplog.records] == [
        f"2 checkpoints could not be written to {tmp_path}: {os.strerror(errno.ENOSPC)}"
    ]
    too_large.clear()  # the disk has space again
    kept.save(groups)
    assert [found.runs for found in list_saved(tmp_path)].count(((0, 0),)) == 1
    assert len(list_saved(tmp_path)) == 4


def test_unneeded_checkpoints_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    with pytest.raises(KilledError):
        run_cohort([make_trial(folder, number) for number in range(2)], Killing(3))
    (folder / ".half.new").write_text("killed while it was written")
    remove_ended(str(folder), [1])
    assert len(list(folder.iterdir())) == 2
    remove_unneeded(str(folder), [1])
    assert [found.keys for found in list_saved(folder)] == [((0, 0), (0, 1), (1, 0), (1, 1))]
    assert len(list(folder.iterdir())) == 1
    remove_unneeded(str(folder), [])
    assert not folder.exists()
    remove_unneeded(str(folder), [])  # the folder no longer exists


def test_slow_checkpoints_are_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(checkpoints, "MAX_COST", 0.02)
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: clock[0])

    class Slow(Checkpoints):
        def _save_group(self, group: Group, ending: bool) -> None:
            clock[0] += 3.0

    kept = Slow(str(tmp_path), 60.0)
    clock[0] = 59.0
    assert not kept.due
    clock[0] = 61.0
    assert kept.due
    kept.save([None])  # type: ignore[list-item]
    clock[0] += 149.0  # 3 s are 2% of 150 s
    assert not kept.due
    clock[0] += 2.0
    assert kept.due


@pytest.mark.parametrize(
    "harm",
    [
        *[pytest.param(part, marks=pytest.mark.slow) for part in ("agent", "environments", "callbacks")],
        "training",
        "of before",
    ],
)
def test_checkpoint_of_another_user_is_not_read(
    tmp_path: Path, harm: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trial, marker = make_trial(tmp_path / "folder"), tmp_path / "ran"
    with pytest.raises(KilledError):
        run_cohort([trial], Killing(3))
    [path] = (tmp_path / "folder").glob("*.checkpoint")
    write_old_format(path, marker) if harm == "of before" else insert_pickle(path, harm, marker)
    content = path.read_bytes()
    listener = RecordingListener()
    run_cohort([trial], listener)
    assert not marker.exists()
    assert listener.outcomes[0].state == "complete"
    assert f"The checkpoint {path} was not written by Finder as this user" in caplog.text
    path.write_bytes(content)
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    run_cohort([trial], RecordingListener())
    assert marker.exists()


def test_machines_with_the_same_key_resume_trials_of_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trial = make_trial(tmp_path)
    with pytest.raises(KilledError):
        run_cohort([trial], Killing(3))
    [found] = Checkpoints(str(tmp_path), 1.0).find([trial], [(0, 0), (0, 1)])
    assert found[1] == {(0, 0), (0, 1)}
    own = os.environ[KEY_VARIABLE]
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "key"))
    assert not Checkpoints(str(tmp_path), 1.0).find([trial], [(0, 0), (0, 1)])
    assert f"need the same key ({KEY_VARIABLE}=FILE)" in caplog.text
    assert found[0].path.exists()
    monkeypatch.setenv(KEY_VARIABLE, own)
    assert Checkpoints(str(tmp_path), 1.0).find([trial], [(0, 0), (0, 1)])


@pytest.mark.slow
def test_trial_resumes_from_a_checkpoint_of_the_previous_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, again = RecordingListener(), RecordingListener()
    run_cohort([make_trial(None)], whole)
    shutil.copy(Path(__file__).parents[2] / "support" / "old" / "trial-1.checkpoint", tmp_path)
    monkeypatch.setenv(TRUST_VARIABLE, "1")
    [(found, runs)] = Checkpoints(str(tmp_path), 1.0).find([make_trial(tmp_path)], [(0, 0), (0, 1)])
    assert (found.env_steps > 0, len(runs)) == (True, 2)
    run_cohort([make_trial(tmp_path)], again)
    assert again.outcomes[0].state == "complete"
    kept = checkpoints.load(found)["runs"][0]["episodes"]
    ours = [(r.env_steps, r.length) for r in again.records[0] if r.seed == 0]
    assert ours[: len(kept)] == [(episode.env_steps, episode.length) for episode in kept]
