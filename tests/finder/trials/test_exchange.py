"""Tests of exchanges between the trials of a cohort, some of which diverge."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import SMALL_DQN, SMALL_PPO, RecordingListener

from agents import AgentSpec, Callback, EnvironmentSpec, Trainer
from agents.errors import NonFiniteError, with_cause
from agents.training.run import Run
from finder.trials.cohort import run_cohort
from finder.trials.exchange import replace_diverged
from finder.trials.trial import TrialSpec
from studies.population_based.population_based import Perturbation


class Exchanging(RecordingListener):
    """Lets every trial that diverged copy the first trial with a value."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[int, tuple[list[int], list[int]]] = {}

    def exchange(
        self, env_steps: int, values: Mapping[int, Mapping[int, float]], diverged: Collection[int]
    ) -> list[Perturbation]:
        self.seen[env_steps] = sorted(values), sorted(diverged)
        return [Perturbation(number, min(values), {"learning_rate": 2e-3}) for number in sorted(diverged)]


class Poison(Callback):
    """Makes weights of members NaN at the beginning of the rollout at some steps, once each.

    Args:
        at: Environment steps -> members.
        network: Name of the network.
    """

    of_members = True

    def __init__(self, at: Mapping[int, Collection[int]], network: str) -> None:
        self.at, self.network = dict(at), network

    def on_rollout_begin(self, trainer: Trainer) -> None:
        population: Any = trainer.agent
        values = population._values()
        own = {id(variable) for variable in population.agent.networks[self.network].weights}
        positions = [trainer.position(member) for member in self.at.pop(trainer.env_steps, ())]
        for variable, value in zip(population._template.stacks.variables, values, strict=True):
            if id(variable) in own:
                value[positions] = np.nan
        population._set_values(values)


class Fails(Callback):
    """Lets member 1 fail at step 64, because of its environment."""

    of_members = True

    def on_rollout_end(self, trainer: Trainer) -> None:
        if trainer.env_steps == 64:
            trainer.fail(with_cause(NonFiniteError("the reward is nan"), "environment"), 1)


def run(callback: Any, algorithm: str = "ppo", n_seeds: int = 1, **fields: Any) -> Exchanging:
    """Run three trials of 320 steps that exchange at 96 and 192; rollouts of PPO end at 32, 64, 96, ..."""
    environment = EnvironmentSpec.of("fakes:TwoStep-v0")
    params = {"ppo": SMALL_PPO, "dqn": {**SMALL_DQN, "replay": "prioritized", "n_envs": 2}}[algorithm]
    trials = [
        TrialSpec(
            **{
                "number": number, "agent": AgentSpec.of(algorithm, environment, {**params, "learning_rate": 1e-3}),
                "env_steps": 320, "report_marks": (96, 192, 320), "exchanges": (96, 192), "callbacks": (callback,),
                "seeds": tuple(range(n_seeds)), **fields,
            }
        )
        for number in range(3)
    ]  # fmt: skip
    listener = Exchanging()
    run_cohort(trials, listener)
    return listener


def states(listener: Exchanging) -> list[str]:
    return [listener.outcomes[number].state for number in range(3)]


@pytest.mark.parametrize(
    ("network", "fields"),
    [
        ("actor", {}),  # acting fails
        ("critic", {}),  # the targets of the update cannot be computed
        pytest.param("actor", {"metric": "greedy-return:2"}, marks=pytest.mark.slow),
    ],
)
def test_a_trial_that_diverges_copies_another_one_at_the_next_exchange(network: str, fields: dict[str, Any]) -> None:
    listener = run(functools.partial(Poison, {64: [1]}, network), **fields)
    assert listener.seen == {96: ([0, 2], [1]), 192: ([0, 1, 2], [])}
    assert states(listener) == ["complete"] * 3
    assert [at for at, _ in listener.reports[1]] == [192, 320], "what it did before the copy counts"
    assert [at for at, _ in listener.reports[0]] == [96, 192, 320]


def test_a_replay_with_priorities_of_diverged_weights_is_used_by_the_copy() -> None:
    sums = []

    class WithSums(Poison):
        def on_rollout_begin(self, trainer: Trainer) -> None:
            super().on_rollout_begin(trainer)
            sums.append(trainer.buffer._tree.totals.copy())  # type: ignore[attr-defined]

    listener = run(functools.partial(WithSums, {66: [1]}, "target"), "dqn")  # rollouts end at 34, 50, 66, ...
    assert listener.seen == {96: ([0, 2], [1]), 192: ([0, 1, 2], [])}
    assert states(listener) == ["complete"] * 3
    assert np.isfinite(sums).all()


def test_a_trial_fails_if_one_of_its_seeds_diverges_after_the_last_exchange() -> None:
    listener = run(functools.partial(Poison, {64: [1], 224: [3]}, "actor"), n_seeds=2)
    assert listener.seen == {96: ([1, 2], [0]), 192: ([0, 1, 2], [])}
    assert states(listener) == ["complete", "failed", "complete"]
    assert listener.outcomes[1].failure == "diverged"


class PoisonThenStop(Poison):
    """Stops all members at step 96."""

    def on_rollout_end(self, trainer: Trainer) -> None:
        if trainer.env_steps == 96:
            trainer.stop("enough")


def test_a_trial_that_diverges_fails_if_training_ends_before_it_copies_another_one() -> None:
    stops = functools.partial(PoisonThenStop, {64: [1]}, "actor")
    listener = run(stops, exchanges=(96, 192, 256), report_marks=(96, 192, 256, 320))
    assert states(listener) == ["complete", "failed", "complete"]
    assert listener.outcomes[1].failure == "diverged"


def test_a_trial_that_diverges_after_an_exchange_that_copies_nothing_fails() -> None:
    """At the second exchange no update follows; the last steps are part of a rollout."""
    diverges = functools.partial(Poison, {320: [1]}, "actor")
    listener = run(diverges, env_steps=340, exchanges=(96, 310), report_marks=(96, 310, 340))
    assert list(listener.seen) == [96]
    assert states(listener) == ["complete", "failed", "complete"]


def test_all_trials_fail_if_all_diverge() -> None:
    listener = run(functools.partial(Poison, {64: [0, 1, 2]}, "actor"))
    assert listener.seen == {}
    assert states(listener) == ["failed"] * 3


def test_a_trial_whose_copy_diverges_again_copies_again() -> None:
    listener = run(functools.partial(Poison, {64: [1], 128: [1, 0]}, "actor"))
    assert listener.seen == {96: ([0, 2], [1]), 192: ([2], [0, 1])}
    assert states(listener) == ["complete"] * 3


def test_a_trial_that_fails_for_another_reason_copies_nothing() -> None:
    listener = run(Fails)
    assert listener.seen == {96: ([0, 2], []), 192: ([0, 2], [])}
    assert states(listener) == ["complete", "failed", "complete"]
    assert listener.outcomes[1].failure == "environment"


def test_a_member_that_diverges_again_before_a_step_fails() -> None:
    spec = SimpleNamespace(exchanges=(96, 192))
    runs: Any = [SimpleNamespace(divergence=None, trial=SimpleNamespace(spec=spec)) for _ in range(2)]
    members = [Run(member) for member in range(2)]

    def replace(target: int, source: int) -> None:
        assert (target, source) == (1, 0)
        members[target].error = None

    trainer: Any = SimpleNamespace(
        present=(0, 1), runs=members, env_steps=64, agent=SimpleNamespace(gradient_steps=2), replace=replace
    )

    def fails_again(exchanged_at: int = 0) -> bool:
        members[1].error = NonFiniteError("the loss is nan")
        replace_diverged(trainer, dict(enumerate(runs)), exchanged_at)
        return members[1].error is not None

    assert not fails_again()
    assert fails_again()
    trainer.agent.gradient_steps = 4
    assert not fails_again()
    trainer.env_steps = 96
    assert not fails_again(exchanged_at=96)
    trainer.env_steps = 224
    assert fails_again(exchanged_at=192), "there is no further exchange"


def test_a_divergence_is_known_after_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Exchanging, env_steps: int, values: Any) -> Any:
        raise KeyboardInterrupt

    poison = functools.partial(Poison, {64: [1]}, "actor")
    with monkeypatch.context() as patched:
        patched.setattr(Exchanging, "rung", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(poison, checkpoints=str(tmp_path))
    assert list(tmp_path.iterdir()), "there is no checkpoint"
    listener = run(poison, checkpoints=str(tmp_path), resumed=True, epoch=2)
    assert listener.seen[96] == ([0, 2], [1])
    assert states(listener) == ["complete"] * 3
