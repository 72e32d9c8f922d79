"""Tests of searches with a budget of the whole, with injected speeds and clocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import SMALL_PPO

import finder
from agents.errors import ConfigurationError
from finder import LRFinder, tune
from finder.budgets import estimating, meters
from finder.budgets.limit import Limit
from finder.budgets.resolution import finalists_of
from finder.search.search_budget import KeptBudget
from finder.trials import speed_measurement as speeds
from finder.trials.speed import Speed
from finder.trials.trial import BudgetSpent
from studies import load_study
from studies.analysis.conclusion import conclusion
from studies.analysis.status import study_status
from studies.errors import StudyError
from studies.judging.confirmation import verdict
from studies.judging.judgement import finalists
from studies.judging.search_history import history_of
from studies.spec.attributes import CONFIRM_STEPS_ATTR
from studies.study.budget_attributes import has_chosen_finalists
from studies.study.study import OpenStudy

ENV = "fakes:TwoStep-v0"
QUICK: dict[str, Any] = {"fixed": SMALL_PPO, "seeds": 1, "n_jobs": 1, "progress": False, "pruner": "none"}
RATES = [1e-3, 1e-2]


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace measurements by a number of seconds for each step of a run, which tests may change."""
    seconds = [0.1]

    def measure(trials: Any, **_: Any) -> dict[str, Speed]:
        each = Speed(n_runs=2, start_seconds=1.0, shared_seconds=0.0, run_seconds=seconds[0] / 1.05)
        return {trial.label: each for trial in trials}

    monkeypatch.setattr(estimating, "measure", measure)
    return seconds


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock of the limit: seconds that are spent, of which the last one stays. Trials are equally fast."""
    seconds = [0.0]
    monkeypatch.setattr(meters.TimeMeter, "relative_time", lambda self, work: None)
    monkeypatch.setattr(meters.TimeMeter, "spent", lambda self: seconds.pop(0) if len(seconds) > 1 else seconds[0])
    return seconds


def grid(storage: str | None, **options: Any) -> Any:
    return LRFinder("ppo", ENV).grid(rates=RATES, storage=storage, **{**QUICK, "confirm": 0, **options})


def test_dry_run_returns_the_plan_and_writes_nothing(tmp_path: Path, speed: list[float]) -> None:
    file = tmp_path / "new.db"
    search = LRFinder("ppo", ENV)
    plan = finder.dry_run(
        search.grid, rates=RATES, env_steps=400, storage=str(file), **{**QUICK, "confirm": 1, "confirm_seeds": 2}
    )
    assert not file.exists()
    assert search.result is None
    assert (plan.n_trials, plan.n_seeds, plan.env_steps, plan.most_steps) == (2, 1, 400, 1_600)
    assert plan.time is not None
    assert plan.time.search_seconds == pytest.approx(80)
    assert plan.time.confirmation_seconds == pytest.approx(80)
    assert plan.time.start_seconds == pytest.approx(1)
    assert "Which learning rate of ppo on fakes:TwoStep-v0?" in repr(plan)
    assert plan.to_json()["seconds"]["total_seconds"] == pytest.approx(161)


@pytest.mark.slow
def test_dry_run_of_a_study_says_what_it_has(storage: str, speed: list[float]) -> None:
    grid(storage, env_steps=400).close()
    plan = finder.dry_run(grid, storage, env_steps=400)
    assert any("2 of 2 trials have ended" in note for note in plan.notes)


def test_dry_run_refuses_what_the_search_refuses(storage: str, speed: list[float]) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("measured before it was refused")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimating, "measure", never)
        with pytest.raises(StudyError, match="keep"):
            finder.dry_run(
                tune, "ppo", ENV, {"gamma": "0.9:0.99"}, minutes=1, sampler_kwargs={"keep": 3}, storage=None, **QUICK
            )
        with pytest.raises(StudyError, match="rungs in environment steps"):
            finder.dry_run(grid, None, episodes=10, **{**QUICK, "pruner": "race"})
        grid(storage, env_steps=400, study_name="named")
        with pytest.raises(StudyError, match="400"):
            finder.dry_run(grid, storage, env_steps=600, study_name="named")


def test_dry_run_of_a_range_test_is_refused_before_it_trains(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"has no plan: .*AgentFinder\.find"):
        finder.dry_run(LRFinder("ppo", ENV).find, storage=f"sqlite:///{tmp_path}/r.db")
    assert not list(tmp_path.iterdir())


def test_study_of_an_earlier_version_with_runs_beyond_the_horizon_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**QUICK, "confirm": 0, "storage": f"sqlite:///{tmp_path}/s.db", "study_name": "s"}
    asked = {"rates": RATES, "env_steps": 400, "horizon": 300}
    with pytest.raises(StudyError, match="env_steps is 400 and horizon is 300"):
        LRFinder("ppo", ENV).grid(**asked, **options)
    with monkeypatch.context() as earlier:
        earlier.setattr("finder.budgets.budgeted.exceeds_horizon", lambda spec: "")
        before = LRFinder("ppo", ENV).grid(**asked, **options)
    before.study.close()
    again = LRFinder("ppo", ENV).grid(**asked, **options)
    assert len(again.study.trials()) == len(RATES)


def test_dry_run_of_what_does_not_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"worker.*has no plan"):
        finder.dry_run(finder.work, "s", f"sqlite:///{tmp_path}/r.db")
    with pytest.raises(ConfigurationError, match=r"submission.*has no plan"):
        finder.dry_run(finder.submit_file, tmp_path / "study.toml")
    assert not list(tmp_path.iterdir())


def test_dry_run_keeps_the_last_result(speed: list[float]) -> None:
    search = LRFinder("ppo", ENV)
    search.grid(rates=RATES, storage=None, env_steps=400, **{**QUICK, "confirm": 0})
    before = search.best_learning_rate
    finder.dry_run(search.grid, rates=RATES, storage=None, env_steps=400, **{**QUICK, "confirm": 0})
    assert search.best_learning_rate == before


def test_dry_run_needs_a_search() -> None:
    with pytest.raises(finder_error(), match="ended without a search"):
        finder.dry_run(print, "nothing")


def finder_error() -> type[Exception]:
    from agents.errors import ConfigurationError

    return ConfigurationError


@pytest.mark.slow
def test_minutes_choose_the_steps_of_each_run(storage: str, speed: list[float], spent: list[float]) -> None:
    with grid(storage, minutes=2).study as study:  # 113 s of two runs of 0.1 s a step, less what has passed
        assert 400 < (study.spec.env_steps or 0) <= 565
        assert study.spec.minutes == 2
        assert len(study.trials()) == 2
    with load_study(study.name, storage) as kept:
        assert kept.spec == study.spec.model_copy(update={"storage": kept.spec.storage})


@pytest.mark.slow
def test_resumed_study_keeps_its_steps_and_its_time(storage: str, speed: list[float], spent: list[float]) -> None:
    spent[:] = [50.0]
    first = grid(storage, minutes=2)
    first.close()
    speed[0] = 0.01  # would give ten times as many steps
    spent[:] = [60.0]
    with grid(storage, minutes=2).study as again:
        assert again.name == first.study.name
        assert again.spec.env_steps == first.study.spec.env_steps
        assert again.study.user_attrs["finder_seconds"] == 60.0
    with grid(storage, minutes=3).study as other:
        assert other.name == f"{first.study.name}-2"
        assert (other.spec.env_steps or 0) > 2_000


@pytest.mark.slow
def test_trials_that_do_not_fit_do_not_begin(storage: str, speed: list[float], spent: list[float]) -> None:
    # The first trial begins; the second would not end in time. They are trained one after another.
    spent[:] = [0.0, 100.0]
    with grid(storage, minutes=2, executor="inline").study as study:
        assert [trial.state.name for trial in study.trials()] == ["COMPLETE"]
        found = conclusion(study)
        assert "1 of 2 trials done" in found.certainty
        [remedy] = found.remedies
        assert dict(remedy.changes) == {"minutes": 4.0, "study_name": study.name}
    spent[:] = [100.0]
    with grid(storage, minutes=4, study_name=study.name, executor="inline").study as again:
        assert (again.name, again.spec.env_steps) == (study.name, study.spec.env_steps)
        assert [trial.state.name for trial in again.trials()] == ["COMPLETE", "COMPLETE"]
        assert len({trial.user_attrs["configuration"]["env_steps"] for trial in again.trials()}) == 1


@pytest.mark.slow
def test_running_trials_stop_when_the_time_is_over(storage: str, speed: list[float], spent: list[float]) -> None:
    spent[:] = [0.0, 0.0, 0.0, 1_000.0]
    with grid(storage, minutes=2).study as study:
        assert [trial.state.name for trial in study.trials()] == ["WAITING", "WAITING"]
    spent[:] = [0.0]
    with grid(storage, minutes=2).study as study:
        assert [trial.state.name for trial in study.trials()] == ["COMPLETE", "COMPLETE"]
        assert len(study.all_trials()) == 2


@pytest.mark.slow
def test_spare_time_goes_to_further_seeds(speed: list[float], spent: list[float]) -> None:
    # Runs of half the long run leave time for five further seeds.
    with grid(None, minutes=2, confirm=1, horizon=300).study as study:
        [confirmation] = study.confirmation_trials()
        assert study.spec.confirm_seeds == 20
        assert len(confirmation.user_attrs["seed_values"]) == 20


@pytest.mark.parametrize(
    ("minutes", "horizon", "note"),
    [  # 0.1 s a step: at 2 minutes about 1,100 steps for 11, 7 or 5 runs
        (2, 80, None),
        (2, 300, "with 1 seed instead of 3, so that runs are longer"),
        (
            2,
            1_600,
            "with 1 seed instead of 3, 3 further seeds instead of 5, so that runs are longer; a quarter of a long run "
            "of 1,600 steps (--horizon) would be 400",
        ),
    ],
)
def test_plan_says_of_what_there_is_less(speed: list[float], minutes: int, horizon: int, note: str | None) -> None:
    options = {**QUICK, "minutes": minutes, "horizon": horizon, "confirm": 1}
    del options["seeds"]
    plan = finder.dry_run(LRFinder("ppo", ENV).grid, rates=RATES, storage=None, **options)
    [told] = [each for each in plan.notes if "chosen for 2 minutes" in each]
    if note is None:
        assert told.endswith("are those chosen for 2 minutes")
    else:
        assert told.endswith(f", {note}")


@pytest.mark.slow
def test_given_number_of_further_seeds_is_kept(speed: list[float], spent: list[float]) -> None:
    with grid(None, minutes=2, confirm=1, confirm_seeds=2).study as study:
        [confirmation] = study.confirmation_trials()
        assert len(confirmation.user_attrs["seed_values"]) == 2


def test_confirmation_is_left_out_without_time(
    speed: list[float], spent: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limit, "plan_confirmation", lambda self, finalists, **_: None)  # see `test_limit.py`
    with grid(None, minutes=2, confirm=1, confirm_seeds=2).study as study:
        assert study.confirmation_trials() == []
        assert "not confirmed on further seeds yet" in conclusion(study).certainty


@pytest.mark.slow
@pytest.mark.parametrize(("spent_before", "left"), [(0.0, None), (95.0, 25.0)])
@pytest.mark.parametrize("is_interrupted", [False, True])
def test_runs_that_confirm_are_as_long_as_there_is_time(
    storage: str, speed: list[float], spent: list[float], monkeypatch: pytest.MonkeyPatch, *, spent_before: float,
    left: float | None, is_interrupted: bool,
) -> None:  # fmt: skip
    """The plan has 12 trials of about 235 steps, and two finalists in four times as many, beside the present values."""
    speed[0] = 0.02
    plan, interruptions = Limit.plan_confirmation, [KeyboardInterrupt()] if is_interrupted else []

    def planned(self: Limit, finalists: Any, **more: Any) -> Any:
        if interruptions:
            raise interruptions.pop()
        spent[:] = [spent_before]
        return plan(self, finalists, **more)

    monkeypatch.setattr(Limit, "plan_confirmation", planned)
    monkeypatch.setattr(Limit, "further_seeds", lambda self, finalists: None)  # the time stands still
    monkeypatch.setattr(KeptBudget, "add_trials", lambda self, at_once: 0)
    given = {**QUICK, "storage": storage, "executor": "inline", "minutes": 2, "horizon": 1_000}

    def search() -> Any:
        return tune("ppo", ENV, {"learning_rate": "1e-4:1e-2:log"}, **given).study

    if is_interrupted:
        with pytest.raises(KeyboardInterrupt):
            search()
        spent[:] = [0.0]
    with search() as study, load_study(study.name, storage) as stored:
        runs, spec = stored.confirmation_trials(), stored.spec
        expected = 1_000 if left is None else 0.97 * left / speed[0] / len(runs)
        assert (spec.n_trials, spec.confirm) == (12, 2)
        assert spec.confirm_env_steps == study.spec.confirm_env_steps == pytest.approx(expected, rel=0.01)
        assert {run.user_attrs[CONFIRM_STEPS_ATTR] for run in runs} == {spec.confirm_env_steps}
        assert study_status(study).complete


@pytest.mark.slow
def test_number_of_trials_is_chosen_for_a_sampler(
    storage: str, speed: list[float], spent: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptBudget, "add_trials", lambda self, at_once: 0)
    given = {**QUICK, "confirm": 0, "storage": storage, "executor": "inline"}
    space = {"learning_rate": "1e-4:1e-2:log"}
    with tune("ppo", ENV, space, minutes=2, env_steps=250, **given).study as study:
        assert study.spec.n_trials == len(study.trials()) == 4  # 113 s of 25 s each
    with tune("ppo", ENV, space, minutes=2, env_steps=250, **given).study as study:
        assert len(study.trials()) == 4


class TestLargerBudgets:
    """Studies whose confirmation has begun, and which get a larger budget."""

    def tune(self, storage: str, total: int, **given: Any) -> Any:
        options = {**QUICK, "confirm": 2, "storage": storage, "executor": "inline", "study_name": "s", **given}
        space = {"learning_rate": "1e-4:1e-2:log"}
        return tune("ppo", ENV, space, total_env_steps=total, env_steps=250, **options).study

    @pytest.mark.slow
    @pytest.mark.parametrize("given", [{}, {"confirm_seeds": 1}])
    def test_they_run_further_trials_and_confirm_all_finalists(self, storage: str, given: Any) -> None:
        numbers = []
        for total in (6_000, 6_000, 16_000):
            with self.tune(storage, total, **given) as study:
                numbers.append(len(study.trials()))
                assert len(study.confirmation_trials()) >= 2
                assert study_status(study).complete
        assert numbers[0] == numbers[1]
        assert numbers[2] >= numbers[0] + 8

    @pytest.mark.slow
    def test_under_a_default_name_they_count_what_was_spent_where_steps_are_given(self, storage: str) -> None:
        names, steps = set(), []
        for total in (6_000, 12_000):
            with self.tune(storage, total, study_name=None) as study:
                names.add(study.name)
                steps.append(sum(250 * len(trial.user_attrs["seed_values"]) for trial in study.all_trials()))
        assert len(names) == 1
        assert steps[0] <= 6_000
        assert 9_000 <= steps[1] <= 12_000

    @pytest.mark.slow
    def test_finalists_grow_with_the_trials(self, storage: str) -> None:
        options = {**QUICK, "storage": storage, "executor": "inline", "study_name": "s", "env_steps": 250}
        counts = []
        for total in (16_000, 40_000):
            with tune("ppo", ENV, {"learning_rate": "1e-4:1e-2:log"}, total_env_steps=total, **options).study as study:
                n_trials, confirm = len(study.trials()), study.spec.confirm
                counts.append((n_trials, confirm))
                confirmed = {trial.user_attrs["confirms"] for trial in study.confirmation_trials()}
                assert {each.number for each in finalists(history_of(study))} <= confirmed
            with load_study("s", storage) as stored:
                assert stored.spec.confirm == confirm == finalists_of(n_trials)
                assert has_chosen_finalists(stored)
        assert counts[0][1] == 5
        assert counts[1][1] > 6

    @pytest.mark.slow
    def test_number_of_finalists_that_was_given_remains(self, storage: str) -> None:
        for total, given in ((16_000, {"confirm": 7}), (40_000, {})):
            options = {**QUICK, "storage": storage, "executor": "inline", "study_name": "s", "env_steps": 250, **given}
            with tune("ppo", ENV, {"learning_rate": "1e-4:1e-2:log"}, total_env_steps=total, **options).study as study:
                assert study.spec.confirm == 7
                assert not has_chosen_finalists(study)
        assert len(study.trials()) > 20

    @pytest.mark.slow
    def test_finalists_suit_the_trials_for_which_there_was_budget(
        self, storage: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = {**QUICK, "storage": storage, "executor": "inline", "study_name": "s", "env_steps": 250}
        allowed = [True] * 21
        monkeypatch.setattr(Limit, "request_trial", lambda self, counted=0, resumed=0: bool(allowed) and allowed.pop())
        monkeypatch.setattr(Limit, "ended_search", property(lambda self: not allowed))
        with tune("ppo", ENV, {"learning_rate": "1e-4:1e-2:log"}, total_env_steps=40_000, **options).study as study:
            assert (len(study.trials()), study.spec.n_trials, study.spec.confirm) == (21, 21, 5)
            confirmed = {trial.user_attrs["confirms"] for trial in study.confirmation_trials()}
            assert {each.number for each in finalists(history_of(study))} <= confirmed

    @pytest.mark.slow
    def test_they_do_so_after_an_interruption(self, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with self.tune(storage, 6_000) as study:
            n_trials = len(study.trials())

        def interrupt(self: Any, at_once: int) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(KeptBudget, "add_trials", interrupt)
            with pytest.raises(KeyboardInterrupt):
                self.tune(storage, 16_000)
        with self.tune(storage, 16_000) as study:
            assert len(study.trials()) >= n_trials + 8

    @pytest.mark.slow
    def test_more_confirmations_are_what_they_are_for_if_they_are_asked_for(self, storage: str) -> None:
        numbers = []
        for total, seeds in ((6_000, 2), (16_000, 4)):
            with self.tune(storage, total, confirm_seeds=seeds) as study:
                numbers.append(len(study.trials()))
                assert study_status(study).complete
                confirmed = verdict(study).confirmed
                assert len(confirmed) >= 2
                assert {len(each.seed_values) for each in confirmed} == {seeds}
        assert numbers[0] == numbers[1]


@pytest.mark.slow
def test_resumed_study_keeps_its_smaller_design(
    storage: str, speed: list[float], spent: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeptBudget, "add_trials", lambda self, at_once: 0)
    given = {name: value for name, value in QUICK.items() if name != "seeds"} | {"storage": storage}
    space = {"learning_rate": "1e-4:1e-2:log"}

    def search() -> Any:
        return tune("ppo", ENV, space, minutes=2, horizon=400, executor="inline", **given).study

    with search() as first:
        design = (first.spec.seeds, first.spec.n_trials, first.spec.confirm)
        assert design == ((0,), 8, 2)  # 113 s of 0.1 s a step are less than 100 steps for each of its 14 runs
    speed[0] = 0.001
    with search() as again:
        assert again.name == first.name
        assert again.spec.model_copy(update={"confirm_seeds": first.spec.confirm_seeds}) == first.spec
        assert len(again.trials()) == 8


@pytest.mark.slow
def test_trials_are_added_while_there_is_time(
    storage: str, speed: list[float], spent: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [2, 1]
    monkeypatch.setattr(Limit, "n_further", lambda self, n: left.pop(0) if left else 0)  # see `test_limit.py`
    given = {**QUICK, "confirm": 1, "confirm_seeds": 1, "storage": storage, "executor": "inline"}
    space = {"learning_rate": "1e-4:1e-2:log"}
    with tune("ppo", ENV, space, minutes=2, env_steps=250, **given).study as study:
        n_chosen = 2  # 113 s of 25 s each, two of which are reserved for the confirmation
        assert study.spec.n_trials == len(study.trials()) == n_chosen + 3
        assert len(study.confirmation_trials()) == 2
    left += [5]
    with tune("ppo", ENV, space, minutes=2, env_steps=250, **given).study as study:
        assert len(study.trials()) == n_chosen + 3  # its search was over
    with tune("ppo", ENV, space, minutes=2, n_trials=2, study_name="given", **given).study as study:
        assert len(study.trials()) == 2


@pytest.mark.slow
def test_total_steps_are_kept(storage: str) -> None:
    with grid(storage, total_env_steps=1_000, confirm=1, confirm_seeds=2).study as study:
        assert study.spec.env_steps == 250
        steps = [trial.user_attrs["env_steps"] * len(trial.user_attrs["seed_values"]) for trial in study.all_trials()]
        assert len(steps) == 3
        assert sum(steps) <= 1_000 + 4 * 2 * 16  # runs end with a rollout


@pytest.mark.slow
def test_extension_of_the_range_keeps_the_total_steps(storage: str) -> None:
    options = {**QUICK, "confirm": 0, "storage": storage}
    result = LRFinder("ppo", ENV).grid(1e-3, 1e-2, 3, total_env_steps=900, **options)
    with result.study as study:
        assert study.spec.env_steps == 300
        assert len(study.trials()) == 3


def test_submitting_needs_the_steps_of_each_run(tmp_path: Path, storage: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        f'name = "s"\nagents = "ppo"\nenv = "CartPole-v1"\nminutes = 3\nstorage = "{storage}"\n'
        '[params]\ngamma = "0.9:0.99"\n'
    )
    with pytest.raises(StudyError, match="minutes is 3 and env_steps is still to be chosen"):
        finder.submit_file(file)


@pytest.mark.parametrize("executor", ["population", "process"])
@pytest.mark.real
def test_real_measurement(monkeypatch: pytest.MonkeyPatch, executor: str) -> None:
    monkeypatch.setattr(speeds, "ALL_SECONDS", 0.05)
    monkeypatch.setattr(speeds, "FEW_SECONDS", 0.05)
    n_jobs = 1 if executor == "population" else 2
    plan = finder.dry_run(grid, None, env_steps=400, **{"executor": executor, "n_jobs": n_jobs, "seeds": 3})
    assert plan.time is not None
    assert plan.time.search_seconds > 0
    assert plan.memory_bytes is not None
    assert plan.memory_bytes > 9e8 * n_jobs
    [measured] = plan.measured
    assert measured.startswith(
        "6 runs of ppo together for" if executor == "population" else "3 runs of ppo together for"
    )


def test_failing_run_is_reported_by_the_measurement() -> None:
    with pytest.raises(finder_error(), match="speed of ppo cannot be measured, because its run failed: RuntimeError"):
        finder.dry_run(grid_of_broken)


def grid_of_broken() -> Any:
    from agents import EnvironmentSpec

    broken = EnvironmentSpec(ENV, kwargs={"fail_after": 20})
    return LRFinder("ppo", broken).grid(rates=RATES, storage=None, env_steps=400, **{**QUICK, "confirm": 0})


class TestFurtherRounds:
    """Budget that is left when a confirmation has ended: a second round, of as many further seeds as the first one."""

    def search(self, storage: str) -> Any:
        options = {**QUICK, "confirm": 2, "n_trials": 4, "storage": storage, "executor": "inline", "study_name": "s"}
        space = {"learning_rate": "1e-4:1e-2:log"}
        return tune("ppo", ENV, space, total_env_steps=40_000, horizon=250, **options).study

    @pytest.fixture(autouse=True)
    def rounds(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        """Yield what the second round does at its first episode: an exception, or nothing."""
        events: list[Any] = []
        further, check = Limit.further_seeds, Limit.check

        def second(limit: Limit, finalists: Any) -> Any:
            monkeypatch.setattr("finder.budgets.confirmation_budget.MOST_FURTHER", 2)
            planned = further(limit, finalists)
            if events:
                monkeypatch.setattr(Limit, "check", fail)
            return planned

        def fail(limit: Limit) -> None:
            monkeypatch.setattr(Limit, "check", check)
            raise events.pop()

        monkeypatch.setattr("finder.budgets.confirmation_budget.MOST_FURTHER", 1)
        monkeypatch.setattr(Limit, "further_seeds", second)
        return events

    def assert_confirmed(self, study: OpenStudy, n_seeds: int) -> None:
        assert study_status(study).complete
        assert study.spec.confirm_seeds == n_seeds
        seeds: dict[int, list[int]] = {}
        for run in study.confirmation_trials():
            seeds.setdefault(run.user_attrs["confirms"], []).extend(map(int, run.user_attrs.get("seed_values", {})))
        assert {tuple(sorted(own)) for own in seeds.values()} == {tuple(range(1, n_seeds + 1))}

    @pytest.mark.slow
    def test_all_finalists_get_them(self, storage: str) -> None:
        with self.search(storage) as study:
            self.assert_confirmed(study, 10)

    @pytest.mark.slow
    def test_they_are_left_out_where_the_budget_ends_before(self, storage: str, rounds: list[Any]) -> None:
        rounds.append(BudgetSpent())
        with self.search(storage) as study:
            self.assert_confirmed(study, 5)

    @pytest.mark.slow
    def test_they_go_on_after_an_interruption(self, storage: str, rounds: list[Any]) -> None:
        rounds.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            self.search(storage)
        with self.search(storage) as study:
            self.assert_confirmed(study, 20)  # the second round, and a third one of the new process
