"""Every remedy is a command or a call that plans the search that its words promise; nothing is trained."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from finder import LRFinder, OptFinder, tune
from finder.budgets import budgeted
from finder.budgets.cost import Costs
from finder.budgets.earlier import EarlierStudy
from finder.budgets.estimating import Measured
from finder.budgets.resolution import chooses_trials
from finder.cli.app import app
from finder.cli.commands import searches
from finder.results.advice import advice_of
from finder.trials.speed import Speed
from studies.analysis.remedies import (
    Remedy,
    for_rate,
    for_tie,
    longer_runs,
    more_confirmed,
    more_further_seeds,
    more_seeds,
    repeat_search,
    within_limit,
)
from studies.judging.learning_rate_estimate import Cause, LearningRateEstimate
from studies.spaces.space_notation import parse_space
from studies.spec.compatibility import differences, keep_confirming_runs, merge_plans, merge_warm_starts
from studies.spec.spec import StudySpec
from studies.study.budget_attributes import fields_given
from studies.study.origin import StudyOrigin

MEASURED = Measured(
    costs=Costs(
        speeds={
            name: Speed(n_runs=24, start_seconds=1.0, shared_seconds=0.0, run_seconds=1e-4) for name in ("ppo", "a2c")
        },
        n_processes=1,
        n_cores=2,
        together=True,
        own_processes=False,
    ),
    sentences=(),
)
EXECUTOR: Any = SimpleNamespace(trials_at_once=lambda n_seeds: max(1, 24 // n_seeds), trains_together=True)
PLACE = ("--env", "CartPole-v1", "--study-name", "s")


class Planned(NamedTuple):
    """A search up to its plan: as it was requested, and with what its budget has chosen."""

    asked: StudySpec
    spec: StudySpec


class _Asked(BaseException):
    """Ends a search where it would begin."""


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Planned]:
    """Return a function that plans a call or a command, which continues an earlier study of its name."""
    asked: list[Any] = []

    def stop(spec: StudySpec, *, resolver: Any, is_named: bool, **_: Any) -> None:
        asked[:] = [spec, resolver, is_named]
        raise _Asked

    for module in ("lr", "optimizer", "parallel", "tuning"):
        monkeypatch.setattr(f"finder.finders.{module}.run_search", stop)
    monkeypatch.setattr(searches, "run_search_command", lambda search, *_, **__: search(None))
    monkeypatch.setattr(budgeted, "measured_search", lambda *_: MEASURED)

    def planned(search: Callable[[], Any], earlier: StudySpec | None = None) -> Planned:
        with pytest.raises(_Asked):
            search()
        spec, resolver, is_named = asked
        joins = earlier is not None and earlier.name == spec.name
        known = {"n_ended": 1, "n_total": 1, "seconds": 1.0, "env_steps": 1, "has_chosen_finalists": True}
        found = EarlierStudy(spec=earlier, is_confirming=False, **known) if joins and earlier is not None else None
        monkeypatch.setattr(budgeted, "earlier_study", lambda *_, **__: found)
        chosen = budgeted.budgeted_search(
            spec, {label: resolver.agents[label] for label in spec.agents}, resolver.agent, EXECUTOR,
            why_alone="", extends=False, storage=None, is_named=is_named, began=time.monotonic(),
            measuring_begins=lambda: None,
        )  # fmt: skip
        new = chosen.spec
        if earlier is not None and joins:
            assert not differences(earlier, new)
            new = keep_confirming_runs(earlier, merge_warm_starts(earlier, merge_plans(earlier, new)))
        return Planned(spec, new)

    return planned


def command(words: list[str]) -> Callable[[], Any]:
    return lambda: app(args=words, prog_name="finder", standalone_mode=False, obj=words)


UNPRUNED = ("--scheduler", "none")  # whose plan is made fast
SEARCHES: dict[str, tuple[str, ...]] = {
    "grid": ("lr", "ppo"),
    "rates": ("lr", "ppo", "--rates", "1e-4,1e-3,1e-2"),
    "optimizers": ("opt", "ppo", "--optimizer", "adam", "--optimizer", "sgd", "--n-rates", "3"),
    "agents": ("agents", "ppo", "a2c"),
    "range": ("tune", "ppo", "--param", "learning_rate=1e-5:1e-2:log", "--first", "none", *UNPRUNED),
    "several": ("tune", "ppo", "-p", "learning_rate=1e-5:1e-2:log", "--param=gamma", "--first", "gamma=0.9", *UNPRUNED),
    "choices": ("tune", "ppo", "--param", "learning_rate=1e-4,1e-3,1e-2", "--sampler", "grid", *UNPRUNED),
}
BUDGETS: dict[str, tuple[str, ...]] = {
    "steps": ("--env-steps", "4000"),
    "episodes": ("--episodes", "50"),
    "confirmed as long": ("--env-steps", "4000", "--confirm-env-steps", "4000"),
    "confirmed longer": ("--env-steps", "4000", "--confirm-env-steps", "8000"),
    "total": ("--total-env-steps", "300000"),
    "large total": ("--total-env-steps", "9000000"),
    "total of long finalists": ("--total-env-steps", "300000", "--confirm-env-steps", "8000"),
    "total and steps": ("--total-env-steps", "400000", "--env-steps", "4000"),
    "minutes": ("--minutes", "2"),
    "minutes and steps": ("--minutes", "3", "--env-steps", "4000"),
}
OTHERS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "horizon": ("--horizon", "20000"),
    "one seed": ("--seeds", "1", "--strategy", "mirrored"),
    "asha": ("--scheduler", "asha"),
    "pbt": ("--scheduler", "pbt"),
    "no confirmation": ("--confirm", "0"),
    "trials": ("--n-trials", "12", "--horizon", "30000"),
}


def rate_with(cause: Cause, spec: StudySpec) -> LearningRateEstimate:
    """Return the estimate of a rate between 1e-4 and 1e-2 with this fault."""
    return LearningRateEstimate(
        name="learning_rate", suggested=3e-2 if cause == "untried" else 1e-2, tested=1e-2, low=1e-3, high=1e-1,
        lowest=1e-4, highest=1e-2, told_apart=True, edge="highest" if cause == "edge" else "", cost=0.5,
        env_steps=spec.confirm_budget, horizon=spec.horizon, why_unsafe="", cause=cause, drift_error=0.3,
        gap=(1e-4, 1e-3) if cause == "gap" else None,
    )  # fmt: skip


def remedies_of(spec: StudySpec) -> Iterator[Remedy]:
    """Yield the remedies that a study of this spec may have."""
    yield repeat_search("runs the rest")
    yield more_seeds(spec, len(spec.seeds) + 2)
    yield more_confirmed(spec, spec.confirm + 2)
    if spec.confirm:
        yield more_further_seeds(spec, spec.confirm_seeds + 3)
    if spec.horizon is None or spec.confirm_budget < spec.horizon:
        yield longer_runs(spec, min(2 * spec.confirm_budget, spec.horizon or 10**9))
    found = [for_tie(spec, 9, n_finalists=n) for n in (spec.confirm + 1, 10)]
    if spec.kind in ("lr", "opt") or list(spec.search_space()) == ["learning_rate"]:
        optimizer = "adam" if spec.kind == "opt" else None
        causes: tuple[Cause, ...] = ("edge", "gap", "untried", "wide", "short runs")
        causes = tuple(each for each in causes if spec.horizon is not None or each != "short runs")
        found += [for_rate(spec, rate_with(cause, spec), [1e-3, 1e-2], 6, optimizer=optimizer) for cause in causes]
    yield from dict.fromkeys(each for each in found if each is not None)


KEPT = ("kind", "agents", "env", "horizon", "metric", "pruner", "strategy", "fixed", "first", "sampler")
COUNTS = (
    "env_steps",
    "episodes",
    "n_trials",
    "confirm",
    "confirm_seeds",
    "confirm_env_steps",
    "minutes",
    "total_env_steps",
)


def check(remedy: Remedy, before: StudySpec, after: Planned) -> None:
    """Check that a plan is what a remedy promises."""
    now, options = after.spec, remedy.options
    assert (now.name == before.name) is remedy.joins
    assert now.name == options.get("study_name", before.name)
    for field in KEPT:
        assert getattr(now, field) == getattr(before, field), field
    for field in set(COUNTS) & options.keys():
        assert getattr(now, field) == options[field], field
    if "seeds" in options:
        assert len(now.seeds) == options["seeds"]
    assert len(now.seeds) >= len(before.seeds)
    if not remedy.joins and "space" not in options:
        assert (now.trials, now.params) == (before.trials, before.params)
    for rate in [*options.get("rates", ()), *options.get("learning_rates", ())]:  # type: ignore[misc]
        assert any(row["learning_rate"] == pytest.approx(rate, rel=0.01) for row in now.trials)
    for name, space in options.get("space", {}).items():  # type: ignore[union-attr]
        assert now.params[name] == parse_space(space)
    if "longer runs" in remedy.purpose and "or more seeds" not in remedy.purpose:
        assert now.confirm_budget > before.confirm_budget
    if "more trials" in remedy.purpose:
        assert chooses_trials(after.asked)


@pytest.mark.parametrize(
    ("search", "budget", "other"),
    [
        ("grid", "steps", "defaults"),
        ("grid", "episodes", "defaults"),
        ("grid", "total", "horizon"),
        ("grid", "large total", "one seed"),
        ("grid", "minutes", "no confirmation"),
        ("rates", "confirmed longer", "horizon"),
        ("rates", "total of long finalists", "defaults"),
        ("optimizers", "confirmed as long", "asha"),
        ("optimizers", "total", "defaults"),
        ("optimizers", "minutes", "one seed"),
        ("agents", "steps", "one seed"),
        ("agents", "total", "defaults"),
        ("range", "steps", "pbt"),
        ("range", "confirmed as long", "horizon"),
        ("range", "total", "trials"),
        ("range", "large total", "defaults"),
        ("range", "total and steps", "defaults"),
        ("range", "minutes", "trials"),
        ("range", "minutes and steps", "horizon"),
        ("several", "steps", "asha"),
        ("several", "total and steps", "one seed"),
        ("choices", "steps", "defaults"),
        ("choices", "total", "horizon"),
        ("choices", "minutes", "defaults"),
    ],
)
def test_every_remedy_is_a_command_that_plans_what_it_promises(
    search: str, budget: str, other: str, plan: Callable[..., Planned]
) -> None:
    words = [*SEARCHES[search], *PLACE, *BUDGETS[budget], *OTHERS[other]]
    asked, spec = plan(command(words))
    for remedy in remedies_of(spec):
        limited = within_limit(spec, remedy, fields_given(asked))
        advised = advice_of(StudyOrigin("command", tuple(words)), "memory", limited).command
        name, *arguments = shlex.split(advised)
        assert name == "finder"
        check(limited, spec, plan(command(arguments), spec))


def rates(optimizers: Any = None, **options: Any) -> Any:
    without = {"n_rates"} if "rates" in options else set()
    given = {name: value for name, value in options.items() if name not in without}
    return LRFinder("ppo", "CartPole-v1").grid(**given)


def optimizers(optimizers: Any = ("adam", "sgd"), **options: Any) -> Any:
    without = {"n_rates"} if "learning_rates" in options else set()
    given = {name: value for name, value in options.items() if name not in without}
    return OptFinder("ppo", optimizers, "CartPole-v1").find(**given)


def space(optimizers: Any = None, **options: Any) -> Any:
    return tune("ppo", "CartPole-v1", first=[], scheduler="none", **options)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (rates, {"n_rates": 5, "env_steps": 4_000, "confirm_env_steps": 4_000}),
        (rates, {"rates": [1e-4, 1e-3], "minutes": 2, "horizon": 20_000}),
        (optimizers, {"n_rates": 3, "total_env_steps": 300_000}),
        (space, {"params": {"learning_rate": "1e-5:1e-2:log"}, "total_env_steps": 300_000, "env_steps": 4_000}),
        (space, {"params": {"learning_rate": "1e-5:1e-2:log"}, "minutes": 2, "n_trials": 12}),
        (space, {"params": {"learning_rate": [1e-4, 1e-3]}, "sampler": "grid", "env_steps": 4_000}),
    ],
)
def test_every_remedy_is_a_call_that_plans_what_it_promises(
    call: Callable[..., Any], given: dict[str, Any], plan: Callable[..., Planned]
) -> None:
    given = {**given, "study_name": "s"}
    asked, spec = plan(lambda: call(**given))
    for remedy in remedies_of(spec):
        limited = within_limit(spec, remedy, fields_given(asked))
        changes: dict[str, Any] = dict(limited.options)
        params = {**given.get("params", {}), **changes.pop("space", {})}
        changed = {**given, **changes, **({"params": params} if params else {})}
        check(limited, spec, plan(lambda changed=changed: call(**changed), spec))
