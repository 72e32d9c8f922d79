"""Tests of the choice of environment steps and trials for the budget of a whole search."""

from __future__ import annotations

from typing import Any

import pytest

from agents.contract.spec import AgentSpec
from finder.budgets.budgeted import refuse_contradictions
from finder.budgets.cost import RECORDING, Costs
from finder.budgets.estimating import Measured
from finder.budgets.plan_numbers import Courses, notes_on_confirmation, notes_on_first_updates
from finder.budgets.resolution import _Budget, _Design, within_minutes, within_steps
from finder.trials.speed import Speed
from studies.adapters.expected_pruning import expected_courses
from studies.errors import StudyError
from studies.spec.budget_rules import check_horizon
from studies.spec.spec import StudySpec

AGENTS = {"ppo": AgentSpec.of("ppo", "CartPole-v1", {"n_envs": 1, "n_steps": 128})}
LEAST = [500]
"""Fewest environment steps of a run: those of an episode."""


def all_at_once(n_seeds: int) -> int:
    """Return the trials of a batch: more than any search here has."""
    return 1_000_000


def planned(n: int = 2, **fields: Any) -> StudySpec:
    rows = [{"learning_rate": 10.0**-k} for k in range(1, n + 1)]
    return spec(**{"trials": rows, **fields})


def spec(**fields: Any) -> StudySpec:
    given = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "seeds": [0], "pruner": "none", "confirm": 0}
    return StudySpec(**{**given, **fields})


def measured(run_seconds: float, start_seconds: float = 3.0) -> Measured:
    """Return costs of runs in one process, without recording."""
    speed = Speed(
        n_runs=1, start_seconds=start_seconds, shared_seconds=0.0, run_seconds=run_seconds / (1 + RECORDING)
    )  # fmt: skip
    costs = Costs(speeds={"ppo": speed}, n_processes=1, n_cores=1, together=True, own_processes=False)
    return Measured(costs=costs, sentences=())


def in_minutes(own: StudySpec, *, run_seconds: float = 0.001, spent: float = 4.0) -> StudySpec:
    """Return the study with what is chosen for its minutes, of which the search has taken some seconds already."""
    return within_minutes(own, measured(run_seconds), all_at_once, LEAST, spent)


def test_runs_that_end_before_the_first_update_are_noted() -> None:
    [note] = notes_on_first_updates(spec(env_steps=127), AGENTS)
    assert note == (
        "ppo makes its first update after 128 environment steps with its own settings, and each run has 127: a run "
        "that makes none stays untrained, and its value says nothing"
    )
    assert notes_on_first_updates(spec(env_steps=128), AGENTS) == []
    assert notes_on_first_updates(spec(episodes=1), AGENTS) == []


@pytest.mark.parametrize("name", ["asha", "SuccessiveHalvingPruner", "hyperband"])
def test_first_rungs_before_the_first_update_are_noted(name: str) -> None:
    short = planned(9, env_steps=1_200, pruner=name, pruner_kwargs={"min_resource": 100})
    [note] = notes_on_first_updates(short, AGENTS)
    assert note == (
        "the first rung is at 120 environment steps, and ppo makes its first update after 128: untrained trials are "
        "equal, and continue together (scheduler argument min_resource)"
    )
    later = short.model_copy(update={"pruner_kwargs": {"min_resource": 200}})
    assert notes_on_first_updates(later, AGENTS) == []


def test_smaller_designs_come_before_searches_of_a_single_trial() -> None:
    own = StudySpec(
        name="s", agents="ppo", env="CartPole-v1", env_steps=3_475, total_env_steps=36_680, pruner="none",
        params={"gamma": "0.9:0.99"},
    )  # fmt: skip
    chosen = within_steps(own, all_at_once, LEAST)
    assert (chosen.n_trials, len(chosen.seeds), chosen.confirm, chosen.confirm_seeds) == (4, 1, 2, 3)


def test_steps_of_each_run_fill_the_minutes() -> None:
    # 57 s less 3 s of compilation and 4 s before; two runs of 1 ms a step.
    chosen = in_minutes(planned(minutes=1))
    assert chosen.env_steps == 25_000
    assert chosen.minutes == 1


def test_confirmation_counts() -> None:
    # 4 runs: two trials, and the best of them on two further seeds.
    chosen = in_minutes(planned(minutes=1, confirm=1, confirm_seeds=2))
    assert chosen.env_steps == 12_500


def test_number_of_trials_follows_for_a_sampler() -> None:
    own = spec(minutes=1, env_steps=5_000, params={"gamma": "0.9:0.99"})
    assert in_minutes(own).n_trials == 10


@pytest.mark.parametrize(
    ("own", "most"), [({}, 20), ({"env_steps": 1_000}, 20), ({"total_env_steps": 30_000_000, "horizon": 20_000}, 2)]
)
def test_planning_simulates_few_searches(own: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Designs of equal trials share simulations, as do searches of many trials; some numbers need none."""
    simulated = []

    def counting(spec: StudySpec, n_trials: int, at_once: int) -> Any:
        simulated.append(n_trials)
        return expected_courses(spec, n_trials, at_once)

    monkeypatch.setattr("finder.budgets.plan_numbers.expected_courses", counting)
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "params": {"gamma": "0.9:0.99"}}
    within_steps(StudySpec(**{"total_env_steps": 150_000, **asked, **own}), lambda n_seeds: 24 // n_seeds, LEAST)
    assert len(simulated) <= most


@pytest.mark.parametrize("n_trials", [1, 20, 200, 201, 240, 1_000])
@pytest.mark.parametrize("size", [8, 30, 128, 1_000])
def test_shared_courses_are_those_of_each_study(n_trials: int, size: int) -> None:
    own = spec(env_steps=1_000, pruner="race", params={"gamma": "0.9:0.99"})
    courses = Courses(lambda _: size)
    for n in (37, 5_000, n_trials):
        found = courses.of(own.model_copy(update={"n_trials": n}))
    assert found == expected_courses(own, n_trials, size)


@pytest.mark.parametrize("length", [1, 500, 900, 1_010, 5_000, 100_000])
@pytest.mark.parametrize("amount", [100, 7_990, 32_000, 10**9])
def test_design_reaches_a_length_with_the_most_steps_within_its_budget(length: int, amount: int) -> None:
    own = spec(env_steps=1_000, params={"gamma": "0.9:0.99"})
    budget = _Budget(amount=amount, cost=lambda one: 8 * one.budget, field="", given="", text=str)
    for factor in (1, 2):
        design = _Design(own, least=500, longest=5_000, factor=factor)
        steps = design.steps_within(budget)
        assert design.reaches(length, budget) is (steps is not None and design.reach(steps) >= length)


def test_smaller_designs_have_batches_of_their_own_size() -> None:
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": {"gamma": "0.9:0.99"}}
    numbers = set()

    def of_process(n_seeds: int) -> int:
        numbers.add(n_seeds)
        return 60 // n_seeds

    spec = StudySpec(**asked, horizon=12_000, minutes=1)  # type: ignore[arg-type]
    chosen = within_minutes(spec, measured(0.001), of_process, LEAST, spent=4.0)
    assert len(chosen.seeds) == 1
    assert numbers == {1, 2, 3}


def test_runs_are_no_longer_than_the_long_run() -> None:
    # 57 s less 7 s are 50,000 steps: 25,000 for each of two trials, of which the long run needs 10,000.
    assert in_minutes(planned(minutes=1, horizon=10_000)).env_steps == 10_000
    assert in_minutes(planned(minutes=1, horizon=123_456)).env_steps == 25_000
    assert in_minutes(planned(minutes=1, horizon=100)).env_steps == 500


def test_what_a_long_run_leaves_goes_to_further_trials_of_a_sampler() -> None:
    own = {"params": {"gamma": "0.9:0.99"}, "horizon": 1_234}
    chosen = in_minutes(spec(minutes=1, **own))
    assert (chosen.env_steps, chosen.n_trials) == (1_234, 40)  # 50,000 // 1,234
    chosen = within_steps(spec(total_env_steps=50_000, **own), all_at_once, LEAST)
    assert (chosen.env_steps, chosen.n_trials) == (1_234, 40)
    chosen = in_minutes(spec(minutes=1, n_trials=8, **own))
    assert (chosen.env_steps, chosen.n_trials) == (1_234, 8)


@pytest.mark.parametrize(
    ("horizon", "given", "expected"),
    [  # 50,000 steps: seeds, trials, finalists, further seeds, and the steps of each run of the search and beyond
        (500, {}, (1, 63, 7, 5, 500, None)),  # 100 runs as long as the long run; 25 trials of three seeds
        (
            600,
            {},
            (2, 29, 5, 5, 600, None),
        ),  # 83 runs; 85 would be shorter, and 53 trials of one seed are not twice as many
        (900, {}, (1, 30, 5, 5, 900, None)),  # 55 runs
        (900, {"seeds": 2}, (2, 20, 3, 5, 900, None)),  # 55 runs; 65 would be shorter
        (1_200, {}, (1, 26, 3, 5, 1_200, None)),  # 41 runs; 45 would be shorter
        (1_400, {}, (1, 20, 3, 5, 1_400, None)),  # 35 runs
        (1_900, {}, (1, 31, 3, 3, 950, 1_900)),  # 20 runs and 9 twice as long: 38, with time for 11 trials, and no 32nd
        (3_000, {}, (1, 21, 2, 3, 1_500, 3_000)),  # 32 runs; 38 would be shorter than it, twice as long
        (5_000, {}, (1, 12, 2, 2, 2_500, 5_000)),  # 20 runs; 28 would be shorter
        (6_000, {}, (1, 23, 2, 1, 1_500, 6_000)),  # 20 runs and 8 shorter ones; a 24th trial would add a finalist
        (8_000, {}, (1, 16, 2, 1, 2_000, 8_000)),  # 20 runs, with time for 4 trials; 28 would be shorter
        (10_000, {}, (1, 12, 2, 1, 2_500, 10_000)),  # 20 runs
        (12_000, {}, (1, 12, 2, 1, 2_500, 10_000)),
        (None, {}, (1, 12, 2, 1, 2_500, 10_000)),  # as for 50,000
        (12_000, {"n_trials": 20}, (1, 20, 2, 1, 1_780, 7_120)),  # 28 runs
        (12_000, {"seeds": 3}, (3, 12, 2, 1, 1_130, 4_520)),  # 44 runs
        (12_000, {"confirm_seeds": 2}, (1, 12, 2, 2, 2_500, 5_000)),  # 20 runs
        (12_000, {"seeds": 3, "confirm": 3, "confirm_seeds": 5}, (3, 12, 3, 5, 757, 1_514)),  # 66 runs
        (12_000, {"first": [{"gamma": 0.9 + k / 1_000} for k in range(15)]}, (1, 15, 2, 1, 2_170, 8_680)),  # 23 runs
        (3_000, {"confirm": 1}, (1, 20, 1, 5, 2_000, None)),  # 25 runs: longer ones of one finalist choose nothing
        (12_000, {"confirm": 1}, (1, 12, 1, 3, 3_330, None)),  # 15 runs
        (12_000, {"confirm_env_steps": 4_000}, (1, 20, 2, 3, 1_300, 4_000)),  # 6 of these and 20 runs
    ],
)
def test_seeds_and_trials_are_fewer_rather_than_runs_too_short(
    horizon: int | None, given: dict[str, Any], expected: tuple[int, ...]
) -> None:
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": {"gamma": "0.9:0.99"}}
    own = StudySpec(**asked, **given, horizon=horizon, minutes=1)  # type: ignore[arg-type]
    chosen = in_minutes(own)
    counts = (len(chosen.seeds), chosen.n_trials, chosen.confirm, chosen.confirm_seeds)
    assert (*counts, chosen.env_steps, chosen.confirm_env_steps) == expected


def test_total_steps_have_fewer_seeds_and_trials_too() -> None:
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": {"gamma": "0.9:0.99"}}
    chosen = within_steps(StudySpec(**asked, horizon=12_000, total_env_steps=50_000), all_at_once, LEAST)  # type: ignore[arg-type]
    assert (len(chosen.seeds), chosen.n_trials, chosen.env_steps, chosen.confirm_env_steps) == (1, 12, 2_500, 10_000)


@pytest.mark.parametrize(
    ("horizon", "given", "expected"),
    [  # 50,000 steps for four planned trials: seeds, finalists, further seeds, and the steps of each run
        (1_500, {}, (3, 3, 5, 1_500, None)),  # 27 runs can be as long as the long run
        (2_600, {}, (1, 3, 5, 2_600, None)),  # 19 runs
        (5_000, {}, (1, 2, 3, 2_500, 5_000)),  # 16 runs; 22 would be shorter than it, twice as long
        (50_000, {}, (1, 2, 2, 4_160, 8_320)),  # 12 runs
        (50_000, {"seeds": 3}, (3, 2, 2, 2_500, 5_000)),  # 20 runs
        (50_000, {"confirm": 0}, (3, 0, 3, 4_160, None)),  # 12 runs: nothing else shows how sure the pick is
    ],
)
def test_plans_have_fewer_seeds_and_confirmations(
    horizon: int, given: dict[str, Any], expected: tuple[int, ...]
) -> None:
    rows = [{"learning_rate": 10.0**-k} for k in range(1, 5)]
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "trials": rows, "minutes": 1}
    chosen = in_minutes(StudySpec(**asked, **given, horizon=horizon))  # type: ignore[arg-type]
    assert len(chosen.plan()) == 4
    counts = (len(chosen.seeds), chosen.confirm, chosen.confirm_seeds)
    assert (*counts, chosen.env_steps, chosen.confirm_env_steps) == expected


def test_baseline_is_confirmed_beside_the_finalists_but_leaves_nothing_to_choose() -> None:
    rows = [{"learning_rate": 10.0**-k} for k in range(1, 5)]
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "trials": rows, "confirm": 1}

    def chosen(**fields: Any) -> StudySpec:
        return within_steps(StudySpec(**asked, **fields, total_env_steps=38_000, horizon=2_000), all_at_once, LEAST)

    assert (chosen().env_steps, chosen().confirm_env_steps) == (2_000, None)  # 4 x 3 runs and 5 are 17 runs
    own = chosen(baseline=rows[0])  # 5 more
    assert (len(own.seeds), own.env_steps, own.confirm_env_steps) == (2, 2_000, None)


def test_lengths_of_finalists_suit_the_long_run() -> None:
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": {"gamma": "0.9:0.99"}}

    def chosen(**fields: Any) -> StudySpec:
        return within_steps(StudySpec(**{**asked, **fields}), all_at_once, LEAST)

    for horizon in (30_000, 30_001):  # runs of half of it are rounded up
        own = chosen(horizon=horizon, total_env_steps=1_000_000)
        assert (own.n_trials, own.confirm) == (39, 4)  # planned for 3 of 20
        assert (own.confirm_seeds, own.confirm_env_steps) == (3, horizon)
    rich = chosen(confirm_env_steps=10_000, total_env_steps=2_000_000)
    assert (len(rich.seeds), rich.n_trials, rich.confirm, rich.confirm_seeds) == (1, 125, 15, 5)  # 200 runs
    assert rich.env_steps == 10_000
    alone = chosen(n_trials=1, horizon=50_000, total_env_steps=49_000)  # nothing is confirmed
    assert (alone.confirm_env_steps, alone.env_steps) == (None, 48_900)
    with pytest.raises(StudyError, match="confirm_env_steps is 100, but a run needs 500 environment steps to say some"):
        chosen(confirm_env_steps=100, total_env_steps=1_000_000)


@pytest.mark.parametrize(("budget", "n_trials", "n_seeds"), [(24_000, 7, 3), (9_100, 8, 1)])
def test_a_small_space_keeps_its_seeds(budget: int, n_trials: int, n_seeds: int) -> None:
    """Of eight configurations, seven of three seeds are more than eight of one; two of three are not."""
    params = {"clip_range": [0.1, 0.2, 0.3, 0.4], "n_epochs": [1, 2]}
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": params, "confirm": 1}
    own = StudySpec(**asked, env_steps=1_000, confirm_seeds=1, total_env_steps=budget - 100)  # type: ignore[arg-type]
    chosen = within_steps(own, all_at_once, LEAST)
    assert (chosen.n_trials, len(chosen.seeds)) == (n_trials, n_seeds)


def test_fewer_trials_where_no_run_would_suffice() -> None:
    # 57 s less 7 s are 5,000 steps of 10 ms: 8 runs of 500 and 4 twice as long take 8,000, 4 and 4 of 500 take 4,000.
    asked = {"name": "s", "agents": ["ppo"], "env": "CartPole-v1", "pruner": "none", "params": {"gamma": "0.9:0.99"}}
    with pytest.raises(StudyError, match=r"4 trials of 500 environment steps with 1 seed each .* about 0\.9 minutes"):
        in_minutes(StudySpec(**asked, minutes=0.8), run_seconds=0.01)  # type: ignore[arg-type]
    chosen = in_minutes(StudySpec(**asked, minutes=1), run_seconds=0.01)  # type: ignore[arg-type]
    assert (chosen.n_trials, chosen.confirm, chosen.confirm_seeds) == (4, 2, 2)
    assert (chosen.env_steps, chosen.confirm_env_steps) == (625, None)
    chosen = in_minutes(StudySpec(**asked, minutes=1.7), run_seconds=0.01)  # type: ignore[arg-type]
    assert (chosen.n_trials, chosen.confirm, chosen.confirm_seeds) == (8, 2, 2)
    assert (chosen.env_steps, chosen.confirm_env_steps) == (561, 1_122)  # 8,990 steps for 16 runs of 561


@pytest.mark.parametrize(("minutes", "needed"), [(0.1, "0.3"), (0.01, "0.3")])
def test_too_few_minutes_are_refused_with_those_that_are_needed(minutes: float, needed: str) -> None:
    # 3 s of compilation and 2 * 500 steps of 10 ms, of which 95% are planned: 13.7 s.
    with pytest.raises(StudyError, match=f"2 trials of 500 environment steps .* would take about {needed} minutes"):
        in_minutes(planned(minutes=minutes), run_seconds=0.01, spent=0.0)
    chosen = in_minutes(planned(minutes=float(needed)), run_seconds=0.01, spent=0.0)
    assert chosen.env_steps is not None
    assert chosen.env_steps >= 500


def test_too_few_minutes_for_a_single_trial_are_refused() -> None:
    own = spec(minutes=0.1, env_steps=5_000, params={"gamma": "0.9:0.99"})
    with pytest.raises(StudyError, match="1 trial of 5,000 environment steps with 1 seed would take about 1 minute,"):
        in_minutes(own, run_seconds=0.01, spent=0.0)
    # As the next measurement may be slower.
    with pytest.raises(StudyError, match=r"Give --minutes 1\.1 \(minutes=1\.1\)"):
        in_minutes(own, run_seconds=0.01, spent=0.0)


def test_total_steps_are_those_of_search_and_confirmation() -> None:
    assert within_steps(planned(total_env_steps=10_000), all_at_once, LEAST).env_steps == 5_000
    own = planned(total_env_steps=10_000, confirm=1, confirm_seeds=3)
    assert within_steps(own, all_at_once, LEAST).env_steps == 2_000


def test_total_steps_count_on_pruning() -> None:
    # Eight racing trials take 5.2 budgets (`test_limit.py`).
    own = planned(8, total_env_steps=52_000, pruner="race", n_reports=10)
    assert within_steps(own, all_at_once, LEAST).env_steps == pytest.approx(10_000, rel=0.01)


def test_too_few_total_steps_are_refused() -> None:
    with pytest.raises(
        StudyError, match=r"999 environment steps are too few: 2 trials .* about 1,000 environment steps"
    ):
        within_steps(planned(total_env_steps=999), all_at_once, LEAST)
    assert within_steps(planned(total_env_steps=1_000), all_at_once, LEAST).env_steps == 500


def test_all_first_trials_are_run_or_the_budget_is_refused() -> None:
    rates = [{"learning_rate": 10.0**-k} for k in range(1, 6)]
    asked = {
        "name": "s", "agents": ["ppo"], "env": "CartPole-v1", "env_steps": 10_000, "first": rates,
        "baseline": rates[-1], "params": {"learning_rate": "1e-6:0.1:log"}, "pruner": "none",
    }  # fmt: skip
    chosen = within_steps(StudySpec(**asked, total_env_steps=200_000), all_at_once, LEAST)  # type: ignore[arg-type]
    # 5 trials, and 3 finalists with the present values: of three seeds each, and five further ones, 2 trials would fit.
    assert (chosen.n_trials, len(chosen.seeds), chosen.confirm, chosen.confirm_seeds) == (8, 1, 3, 3)
    least = "5 trials of 10,000 environment steps with 1 seed each would take about 110,000 "
    with pytest.raises(StudyError, match=least):
        within_steps(StudySpec(**asked, total_env_steps=90_000), all_at_once, LEAST)  # type: ignore[arg-type]


def test_contradictions_are_refused_with_what_to_do() -> None:
    with pytest.raises(
        StudyError, match=r"minutes was given with env_steps 600 and 2 planned trials, .* \(--env-steps\)"
    ):
        refuse_contradictions(planned(minutes=1, env_steps=600))
    with pytest.raises(StudyError, match="and n_trials, which leaves nothing to choose"):
        refuse_contradictions(spec(minutes=1, env_steps=600, n_trials=3, params={"gamma": "0.9:0.99"}))
    refuse_contradictions(spec(minutes=1, env_steps=600, params={"gamma": "0.9:0.99"}))
    refuse_contradictions(planned(minutes=1))
    refuse_contradictions(planned(env_steps=600))


def test_steps_to_a_return_in_episodes_are_refused() -> None:
    searched = {"params": {"gamma": "0.9:0.99"}}
    with pytest.raises(StudyError, match="steps-to counts environment steps, and the budget is in episodes"):
        refuse_contradictions(spec(episodes=9, metric="steps-to:100", **searched))
    refuse_contradictions(spec(env_steps=600, metric="steps-to:100", **searched))


def test_runs_longer_than_the_long_run_are_refused() -> None:
    with pytest.raises(StudyError, match=r"env_steps is 1000 and horizon is 500, .* give fewer env_steps"):
        check_horizon(planned(env_steps=1_000, horizon=500))
    longer = planned(env_steps=1_000, confirm=1, confirm_env_steps=2_000, horizon=1_500)
    with pytest.raises(StudyError, match="confirm_env_steps is 2000 and horizon is 1500"):
        check_horizon(longer)
    check_horizon(planned(env_steps=1_000, confirm=1, confirm_env_steps=1_500, horizon=1_500))
    check_horizon(planned(env_steps=1_000))


def test_both_budgets_and_episodes_are_refused_by_the_study() -> None:
    with pytest.raises(StudyError, match="both of env_steps and episodes were given"):
        planned(env_steps=600, episodes=6)
    with pytest.raises(StudyError, match="give one of the two"):
        planned(minutes=1, total_env_steps=600)
    with pytest.raises(StudyError, match="minutes is for runs in environment steps"):
        planned(minutes=1, episodes=5)
    for minutes in (0, -1, float("inf"), "soon", "1"):
        with pytest.raises(StudyError, match="minutes is"):
            planned(minutes=minutes)


def test_fewer_steps_of_a_run_must_do_only_where_the_budget_is_too_small_for_more() -> None:
    own = spec(total_env_steps=20_000, params={"gamma": "0.9:0.99"}, n_trials=4)

    def chosen(*least: int) -> int | None:
        return within_steps(own, all_at_once, iter(least)).env_steps

    def never() -> Any:
        yield 4_000
        raise AssertionError("no fewer steps are needed")

    assert within_steps(own, all_at_once, never()).env_steps == 5_000
    assert chosen(8_000, 500) == 5_000
    with pytest.raises(StudyError, match=r"4 trials of 6,000 environment steps .* Give --total-env-steps 24000 "):
        chosen(8_000, 6_000)


def test_further_seeds_without_a_confirmation_are_noted() -> None:
    [note] = notes_on_confirmation(planned(env_steps=64, confirm=0, confirm_seeds=4))
    assert note == "confirm_seeds is 4, which has no effect, as nothing is confirmed (confirm is 0)"
    assert notes_on_confirmation(planned(env_steps=64, confirm=0)) == []
    assert notes_on_confirmation(planned(env_steps=64, confirm=1, confirm_seeds=4)) == []
