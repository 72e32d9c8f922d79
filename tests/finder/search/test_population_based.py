"""End-to-end tests of population-based training: search, record, confirmation, interruption."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import finder
from agents import Callback, ConfigurationError, Trainer
from agents.errors import NonFiniteError
from agents.population import Population
from finder.results.search_result import SearchResult
from finder.results.table import trial_table
from studies.analysis.recommendation import best
from studies.analysis.schedules import shown_params
from studies.errors import StudyError
from studies.figures.ranking import ranking
from studies.figures.schedules import plot_schedules, schedules_data
from studies.population_based.by_name import population_based_of
from studies.population_based.schedule import Member
from studies.reports.explanation import explain
from studies.spec.population_rules import exchange_marks
from studies.study.schedules import divergences_of, lineage_of, member_of, schedules_of

SEEN: list[tuple[int, int, float]] = []
"""Number of members, environment steps and learning rate of the last member, at the beginning of each rollout."""


class Watch(Callback):
    """Records learning rates; interrupts the search after some steps, once."""

    of_members = True
    interrupt_at: int | None = None

    def on_rollout_begin(self, trainer: Trainer) -> None:
        population = trainer.agent
        assert isinstance(population, Population)
        SEEN.append((len(population.members), trainer.env_steps, population.members[-1].config.learning_rate))
        if Watch.interrupt_at is not None and trainer.env_steps >= Watch.interrupt_at:
            Watch.interrupt_at = None
            raise KeyboardInterrupt


def search(folder: Path, **changes: Any) -> SearchResult:
    given: dict[str, Any] = {
        "params": {"learning_rate": "1e-4:1e-1:log", "ent_coef": "1e-4:1e-1:log"},
        "scheduler": "pbt", "n_trials": 4, "env_steps": 480, "perturb_steps": 96,
        "pruner_kwargs": {"quantile": 0.5}, "fixed": SMALL_PPO, "confirm": 1, "confirm_seeds": 2,
        "storage": f"sqlite:///{folder / 'pbt.db'}", "progress": False,
    }  # fmt: skip
    return finder.tune("ppo", changes.pop("environment", "CartPole-v1"), **{**given, **changes})


class StopTheBest(Callback):
    """Stops member 0 early, as a callback does whose environment is solved."""

    of_members = True

    def on_rollout_end(self, trainer: Trainer) -> None:
        if 0 in trainer.present and trainer.env_steps >= 64:
            trainer.stop("solved", 0)


class Diverge(Callback):
    """Lets four members of a search diverge, the last one after the last exchange; those of a confirmation are two."""

    of_members = True

    def on_rollout_end(self, trainer: Trainer) -> None:
        for member, at in ((1, 128), (2, 224), (3, 320), (4, 448)):
            if member in trainer.present and trainer.env_steps == at and len(trainer.present) > 2:
                trainer.fail(NonFiniteError("the loss is nan"), member)


@contextmanager
def searched(folder: Path, **changes: Any) -> Iterator[SearchResult]:
    result = search(folder, **changes)
    try:
        yield result
    finally:
        result.study.close()


def until(member: Member, step: int) -> Member:
    """Return a member as it was before the exchange at a step."""
    own = tuple(entry for entry in member.schedule if entry.env_steps < step)
    return Member(number=member.number, schedule=own, values={at: v for at, v in member.values.items() if at <= step})


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["pbt", "pb2"])
def test_schedules_are_those_that_were_decided_and_the_confirmation_repeats_the_winners(
    tmp_path: Path, scheduler: str
) -> None:
    SEEN.clear()
    with searched(tmp_path, scheduler=scheduler, callbacks=[Watch]) as result:
        study = result.study
        assert study.spec.seeds == (0,)
        assert list(exchange_marks(study.spec)) == [96, 192, 288, 384]
        members = [member_of(study.spec, trial) for trial in study.trials()]
        assert {step for member in members for step in member.values} == {96, 192, 288, 384}
        decides = population_based_of(study.spec)
        assert decides is not None
        decided = {
            (step, each.number): (each.copied_from, each.params)
            for step in exchange_marks(study.spec)
            for each in decides.decide(step, [until(member, step) for member in members])
        }
        recorded = {
            (entry.env_steps, member.number): (entry.copied_from, entry.params)
            for member in members
            for entry in member.schedule[1:]
        }
        assert recorded == decided
        assert recorded
        pick = best(study)
        lineage = lineage_of(study, pick.trial)
        assert lineage is not None
        assert pick.schedule == lineage.schedule
        assert (
            pick.config["learning_rate"] == pick.params["learning_rate"] == lineage.schedule[0].params["learning_rate"]
        )
        assert pick.rate is None
        assert pick.confirmed_by is not None
        assert pick.n_seeds == 2
        expected = {
            step: next(e.params["learning_rate"] for e in reversed(lineage.schedule) if e.env_steps <= step)
            for step in range(0, 480, 32)
        }
        assert {step: rate for n, step, rate in SEEN if n == 2} == pytest.approx(expected)
        assert "neighbours" not in explain(study)
        data = schedules_data(study)
        assert sorted(data.lines) == ["ent_coef", "learning_rate"]
        assert data.lineage["learning_rate"].values[-1] == lineage.schedule[-1].params["learning_rate"]
        assert data.lineage["learning_rate"].steps[-1] == 480
        assert len(plot_schedules(study).data) == 2 * (4 + 1)
        table = result.table().set_index("trial")
        assert "learning_rate" not in table
        for when, entry in (("initial", lineage.schedule[0]), ("final", lineage.schedule[-1])):
            assert table[f"{when} learning_rate"][pick.trial] == entry.params["learning_rate"]
        confirmed = trial_table(study, confirmations=True).set_index("trial").loc[pick.confirmed_by]
        assert confirmed["final ent_coef"] == lineage.schedule[-1].params["ent_coef"]


@pytest.mark.slow
def test_a_search_that_was_interrupted_continues_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("finder.trials.checkpoints.MAX_COST", 1e9)
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    with searched(tmp_path / "whole", confirm=0) as whole:
        expected = schedules_of(whole.study)
        values = [trial.value for trial in whole.study.trials()]
    Watch.interrupt_at = 256
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "parts", confirm=0, callbacks=[Watch], checkpoint_seconds=1e-6)
    SEEN.clear()
    with searched(tmp_path / "parts", confirm=0, callbacks=[Watch], checkpoint_seconds=1e-6) as resumed:
        assert SEEN[0][1] == 256, "the population restarted"
        assert schedules_of(resumed.study) == expected
        assert [trial.value for trial in resumed.study.trials()] == values


@pytest.mark.slow
def test_more_members_do_not_restart_an_interrupted_population(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("finder.trials.checkpoints.MAX_COST", 1e9)
    Watch.interrupt_at = 256
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, confirm=0, callbacks=[Watch], checkpoint_seconds=1e-6)
    SEEN.clear()
    with searched(tmp_path, confirm=0, callbacks=[Watch], checkpoint_seconds=1e-6, n_trials=8) as resumed:
        assert SEEN[0][:2] == (4, 256), "the population restarted"
        assert (4, 0) in {seen[:2] for seen in SEEN}, "the others are a second population"
        assert [trial.state.name for trial in resumed.study.trials()] == ["COMPLETE"] * 8


@pytest.mark.slow
def test_a_search_without_checkpoints_restarts_and_repeats_its_schedules(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    with searched(tmp_path / "whole", confirm=0) as whole:
        expected = schedules_of(whole.study)
    Watch.interrupt_at = 256
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path / "parts", confirm=0, callbacks=[Watch], checkpoint_seconds=0)
    SEEN.clear()
    with searched(tmp_path / "parts", confirm=0, callbacks=[Watch], checkpoint_seconds=0) as resumed:
        assert SEEN[0][1] == 0
        assert schedules_of(resumed.study) == expected


@pytest.mark.slow
def test_seeds_of_a_trial_copy_the_same_seeds_of_another(tmp_path: Path) -> None:
    with searched(tmp_path, seeds=2, n_trials=2, env_steps=192, confirm=0) as result:
        assert all(len(trial.user_attrs["seed_values"]) == 2 for trial in result.study.trials())
        assert sum(len(own) > 1 for own in schedules_of(result.study).values()) == 1


@pytest.mark.slow
def test_nothing_is_copied_where_no_rollout_follows(tmp_path: Path) -> None:
    # The exchanges at 360 and 400 are made behind rollouts that end at 384 and 416; the next one would end at 448.
    with searched(tmp_path, n_trials=2, env_steps=440, perturb_steps=40, confirm=0) as result:
        assert exchange_marks(result.study.spec)[-1] == 400
        members = [member_of(result.study.spec, trial) for trial in result.study.trials()]
        assert max(step for member in members for step in member.values) == 360


@pytest.mark.slow
def test_members_that_a_callback_stopped_neither_copy_nor_are_copied(tmp_path: Path) -> None:
    with searched(tmp_path, confirm=0, callbacks=[StopTheBest]) as result:
        states = [trial.state.name for trial in result.study.trials()]
        assert states == ["COMPLETE"] * 4
        entries = [entry for own in schedules_of(result.study).values() for entry in own[1:]]
        assert entries
        assert all(entry.copied_from != 0 for entry in entries)
        assert len(schedules_of(result.study)[0]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["pbt", "pb2"])
def test_members_that_diverge_copy_others_while_there_are_exchanges(tmp_path: Path, scheduler: str) -> None:
    with searched(tmp_path, scheduler=scheduler, callbacks=[Diverge], n_trials=6) as result:
        study = result.study
        states = [trial.state.name for trial in study.trials()]
        assert states == ["COMPLETE", "COMPLETE", "COMPLETE", "COMPLETE", "FAIL", "COMPLETE"]
        assert divergences_of(study) == {1: (192,), 2: (288,), 3: (384,)}
        for number, (step,) in divergences_of(study).items():
            [entry] = [each for each in schedules_of(study)[number] if each.env_steps == step]
            assert entry.copied_from not in (None, number)
        assert result.table().set_index("trial")["divergences"].tolist() == [0, 1, 1, 1, 0, 0]
        assert result.stopped is None
        assert result.study.confirmation_trials()


@pytest.mark.slow
def test_a_value_from_before_the_last_exchange_does_not_count(tmp_path: Path) -> None:
    # Episodes of 200 steps of one environment, and intervals of 96: every other interval has no episode.
    with searched(
        tmp_path, environment="Pendulum-v1", n_trials=2, env_steps=576, confirm=0, fixed={**SMALL_PPO, "n_envs": 1}
    ) as result:
        for trial in result.study.trials():
            known = member_of(result.study.spec, trial).values
            assert sorted(known) == [288, 480]  # episodes end at 200, 400 and 600


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"perturb_steps": 5}, ConfigurationError, "perturb_steps is 5, but members learn from rollouts of"),
        (
            {"perturb_steps": None, "env_steps": 100},
            ConfigurationError,
            "A tenth of the budget, the interval of pbt, is 10 environment steps",
        ),
        (
            {"params": {"learning_rate": None, "gae_lambda": [0.9, 0.95]}},
            StudyError,
            "gae_lambda is searched over the val",
        ),
        ({"executor": "process"}, StudyError, "executor is 'process'"),
        (
            {"fixed": {**SMALL_PPO, "optimizers": {"default": {"learning_rate": 0.02}}}},
            ConfigurationError,
            "default.learning_rate is 0.02: a change of learning_rate while agents train sets all rates",
        ),
        ({"scheduler": "median", "perturb_steps": 96}, ConfigurationError, "which only population-based training has"),
        ({"scheduler": "pbt", "pruner": "race"}, ConfigurationError, "which are one: give scheduler"),
        ({"pruner_kwargs": {"quantil": 1}}, StudyError, "no argument 'quantil'"),
        ({"perturb_steps": 480}, StudyError, "to below 320, two thirds of the budget of a run"),
    ],
)
def test_what_excludes_it_is_refused(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        search(tmp_path, **changes)
    assert not (tmp_path / "pbt.db").exists()


def test_a_parameter_that_cannot_change_during_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"exploration_final_eps is none of these: .* Fix it \(--set"):
        finder.tune(
            "dqn", "CartPole-v1", {"exploration_final_eps": "0.01:0.2"}, scheduler="pbt", n_trials=4, env_steps=200,
            progress=False, storage=f"sqlite:///{tmp_path / 'pbt.db'}",
        )  # fmt: skip
    assert not (tmp_path / "pbt.db").exists()


@pytest.mark.slow
def test_a_warm_start_from_changing_numbers_is_refused(tmp_path: Path) -> None:
    no_scheduler = {"scheduler": "none", "pruner_kwargs": {}, "perturb_steps": None}
    with (
        searched(tmp_path, n_trials=2, env_steps=192, confirm=0) as source,
        pytest.raises(StudyError, match=r"changed their parameters while they trained \(pbt\)"),
    ):
        search(tmp_path, warm_start=source.study, n_trials=2, **no_scheduler)


def test_other_questions_than_tune_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="use it with tune, not lr"):
        finder.LRFinder("ppo", "CartPole-v1").grid(
            n_rates=2, env_steps=100, scheduler="pbt", storage=f"sqlite:///{tmp_path / 'pbt.db'}"
        )


@pytest.mark.slow
def test_without_parameters_the_numbers_that_can_change_are_searched(tmp_path: Path) -> None:
    with searched(tmp_path, params=None, n_trials=2, env_steps=192, confirm=0) as result:
        names = set(result.study.spec.search_space())
        assert {"learning_rate", "clip_range", "ent_coef"} <= names
        assert not names & {"n_steps", "batch_size", "optimizer"}


@pytest.mark.slow
def test_confirmations_are_shown_with_the_numbers_of_their_weights(tmp_path: Path) -> None:
    with searched(tmp_path, confirm=2) as result:
        study = result.study
        lineages = {trial.number: lineage_of(study, trial.number) for trial in study.trials()}
        changed = [number for number, own in lineages.items() if own is not None and len(own.schedule) > 1]
        assert changed
        for number in changed:
            shown = shown_params(study.params(study.trials()[number]), lineages[number])
            assert " → " in shown["learning_rate"]
        ranked = {each.number: each.params for each in ranking(study).ranked}
        assert " → " in ranked[changed[0]]["learning_rate"]
