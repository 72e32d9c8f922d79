"""Conclusion of a study in three lines: safe, tie or not safe, with the remedies that would make it safe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from studies import open_study
from studies.analysis.conclusion import Conclusion, conclusion, pick_json
from studies.analysis.recommendation import best
from studies.analysis.remedies import (
    Remedy,
    for_rate,
    for_tie,
    longer_runs,
    more_confirmed,
    more_further_seeds,
    more_seeds,
    remedy_text,
    within_limit,
)
from studies.database.records import EpisodeRecord
from studies.judging.confirmation import verdict
from studies.judging.learning_rate_estimate import estimate_learning_rate
from studies.judging.ranking import Candidate, rank
from studies.recording.recorder import Recorder
from studies.reports.explanation import choice_sentence
from studies.spec.attributes import LIMITS_KEY
from studies.spec.spec import StudySpec
from studies.study.budget_attributes import store_given
from studies.study.study import OpenStudy

RATES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
Values = Sequence[float | None]


def spec_of(rows: Sequence[Mapping[str, Any]] | None = None, **fields: Any) -> StudySpec:
    planned = tuple(dict(row) for row in rows or [{"learning_rate": rate} for rate in RATES])
    given = {
        "name": "s", "storage": "memory", "agents": ("ppo",), "env": "CartPole-v1", "env_steps": 1000, "kind": "lr",
        "trials": planned, "pruner": "none", **fields,
    }  # fmt: skip
    return StudySpec(**given)


def finished_study(spec: StudySpec, values: Values, *, spread: float = 1.0, further: float = 0.0) -> OpenStudy:
    """Return a study whose trials have these values, and whose confirmations are better by `further`."""
    study = open_study(spec)
    worth: dict[int, float] = {}
    with Recorder(study) as recorder:
        for value in values:
            ask = recorder.ask()
            assert ask is not None
            if value is None:
                recorder.failed(ask.number, "its process was killed (signal 9)")
                continue
            worth[ask.number] = value
            recorder.completed(ask.number, value, {seed: value + spread * (seed % 3 - 1) for seed in ask.seeds})
        while (confirmation := recorder.ask_confirmation()) is not None:
            value = worth[confirmation.confirms or 0] + further
            seeds = {seed: value + spread * (seed % 3 - 1) for seed in confirmation.seeds}
            recorder.completed(confirmation.number, value, seeds)
    return study


def options(found: Conclusion) -> dict[str, Any]:
    return found.remedies[0].options


def test_clear_winner_is_safe() -> None:
    study = finished_study(spec_of(), (0.0, 10.0, 100.0, 20.0, 0.0))
    found = conclusion(study)
    assert found.status == "safe"
    assert found.safe
    first, second, third = found.lines
    assert first.startswith("learning_rate 1e-3; the best rate lies between ")
    assert second.startswith("return 99.8 ± 0.8 confirmed over 5 further seeds; expected ")
    assert second.endswith("; in the search 100")
    assert third == "safe: no other trial may be as good, with 95% confidence"
    assert found.reasons == ()


@pytest.mark.parametrize(
    ("values", "options", "line"),
    [
        ((15.0, 10.0, 100.0, 20.0, 18.0), {}, r"gain over .*\(#1, .*\): 90; expected 6\d to 9[12] \(95%\)$"),
        ((0.0, 10.0, 100.0, 20.0, 0.0), {"confirm": 0}, r"gain over .*\(#1, .*\) in the search: 90; expected "),
        ((0.0, 99.0, 100.0, 20.0, 0.0), {"spread": 9.0}, r": 1; expected -\d.* to \d.* \(95%\), so there may be none$"),
        ((0.0, 100.0, 10.0, 20.0, 0.0), {}, r"^this is the baseline, the agent's own settings: no other trial was"),
        ((0.0, None, 10.0, 20.0, 0.0), {}, r"^the baseline \(#1, the agent's own settings\) failed$"),
    ],
)
def test_gain_over_the_baseline_has_a_line(values: Values, options: Any, line: str) -> None:
    spread = options.pop("spread", 1.0)
    found = conclusion(finished_study(spec_of(baseline={"learning_rate": 1e-4}, **options), values, spread=spread))
    assert re.search(line, found.gain), found.gain
    assert found.lines == (found.pick, found.value, found.gain, f"{found.status}: {found.certainty}")
    assert found.to_json()["baseline"]["trial"] == 1


def test_a_baseline_that_was_pruned_has_the_value_of_the_pick_beside_its_own() -> None:
    study = open_study(spec_of(baseline={"learning_rate": 1e-5}, confirm=0, pruner="race"))
    with Recorder(study) as recorder:
        for value in (10.0, 480.0, 490.0, 485.0, 20.0):
            ask = recorder.ask()
            assert ask is not None
            recorder.report(ask.number, 500, value)
            seeds = dict.fromkeys(ask.seeds, value)
            if value == 10.0:
                recorder.pruned(ask.number, 500, value, seeds)
            else:
                recorder.completed(ask.number, value + 9.0, seeds)
    own = "the baseline (#0, the agent's own settings)"
    expected = f"{own} was pruned at 500 environment steps, with 10 where the pick had 490"
    assert conclusion(study).gain == expected


def test_equally_good_rates_are_safe() -> None:
    found = conclusion(finished_study(spec_of(), (0.0, 500.0, 500.0, 500.0, 400.0), spread=0.5))
    assert found.status == "safe"
    assert (
        "2 other trials cannot be distinguished from it, and may be better by at most 1% of the range"
        in found.certainty
    )


def test_pruned_trials_count_towards_the_range_of_values() -> None:
    study = open_study(spec_of(confirm=0, pruner="race"))
    with Recorder(study) as recorder:
        for value in (10.0, 480.0, 490.0, 485.0, 20.0):
            ask = recorder.ask()
            assert ask is not None
            seeds = {seed: value + 8.0 * (seed - 1) for seed in ask.seeds}
            if value < 100:
                recorder.pruned(ask.number, 500, value, seeds)
            else:
                recorder.report(ask.number, 500, value)
                recorder.completed(ask.number, value, seeds)
    found = conclusion(study)
    assert found.status == "safe"
    assert "may be better by at most " in found.certainty


def test_tie_names_the_other_trial_and_a_remedy() -> None:
    rows = [{"optimizer": name} for name in ("adam", "rmsprop", "sgd")]
    study = finished_study(spec_of(rows, kind="opt"), (60.0, 58.0, 0.0), spread=12.0)
    found = conclusion(study)
    assert found.status == "tie"
    assert found.lines[2].startswith("tie: with 1 other trial, #1, optimizer rmsprop; it may be better by up to ")
    n = best(study).seeds_to_settle
    assert n is not None
    wanted = {"confirm_seeds": n - 3} if n <= 20 else {"env_steps": 2000, "study_name": "s-2000-steps"}
    assert options(found) == wanted


def test_tie_without_distinguishable_trials_gives_no_cost() -> None:
    rows = [{"agent": "ppo"}, {"agent": "dqn"}]
    spec = spec_of(rows, kind="agents", agents=("ppo", "dqn"), confirm=0)
    found = conclusion(finished_study(spec, (50.0, 48.0), spread=20.0))
    assert found.lines[2] == "tie: with 1 other trial, #1, agent dqn; nothing distinguishes them"


@pytest.mark.parametrize(
    ("values", "rates"), [((100.0, 60, 10, 0, 0), [1e-7, 1e-6]), ((0.0, 0, 10, 60, 100), [1.0, 10.0])]
)
def test_best_rate_at_an_edge_needs_further_rates(values: Values, rates: list[float]) -> None:
    found = conclusion(finished_study(spec_of(), values))
    assert found.status == "not safe"
    assert "ones may be better" in found.lines[2]
    assert options(found)["rates"] == pytest.approx(rates)
    assert found.remedies[0].joins


@pytest.mark.parametrize(("best", "rates"), [(3, [1e-5, 1e-4]), (5, [1.0, 10.0])])
def test_edge_is_that_of_the_rates_of_the_same_optimizer(best: int, rates: list[float]) -> None:
    """Further rates of another optimizer would not extend the range of the best one."""
    rows = [
        *({"optimizer": "adam", "learning_rate": rate} for rate in (1e-5, 1e-4, 1.0)),
        *({"optimizer": "sgd(momentum=0.9)", "learning_rate": rate} for rate in (1e-3, 1e-2, 1e-1)),
    ]
    found = conclusion(finished_study(spec_of(rows, kind="opt"), [100.0 if i == best else float(i) for i in range(6)]))
    assert "rate that was tried" in found.lines[2]
    assert options(found) == {"optimizers": ["sgd(momentum=0.9)"], "learning_rates": pytest.approx(rates)}


def test_sampled_rate_at_the_edge_needs_a_wider_range() -> None:
    rows, values = tuple({"learning_rate": rate} for rate in RATES), (0.0, 0.0, 10.0, 60.0, 100.0)
    sampled = {"trials": (), "first": rows, "n_trials": len(rows), "params": {"learning_rate": "1e-5:1e-1:log"}}
    found = conclusion(finished_study(spec_of(kind="tune", **sampled), values))
    assert options(found) == {"space": {"learning_rate": "1e-05:10:log"}, "study_name": "s-wider"}
    planned = conclusion(finished_study(spec_of(rows, kind="tune"), values))
    assert planned.certainty == found.certainty
    assert not planned.remedies  # a wider range changes nothing in a plan


def test_one_seed_is_not_safe_and_needs_three() -> None:
    found = conclusion(finished_study(spec_of(seeds=(0,), confirm=0), (0.0, 10.0, 100.0, 20.0, 0.0)))
    assert found.status == "not safe"
    assert found.lines[0] == "learning_rate 1e-3; no interval of the best rate is known"
    assert options(found) == {"seeds": 3, "study_name": "s-3-seeds"}
    assert sum("one seed" in reason.text for reason in found.reasons) == 1
    assert not any("--" in reason.text for reason in found.reasons)  # reasons name no command-line flags


@pytest.mark.parametrize(("confirm_seeds", "doubts"), [(2, 1), (3, 0), (5, 0)])
def test_further_seeds_settle_the_doubt_about_one_seed(confirm_seeds: int, doubts: int) -> None:
    found = conclusion(finished_study(spec_of(seeds=(0,), confirm_seeds=confirm_seeds), (0.0, 10.0, 100.0, 20.0, 0.0)))
    own = [reason for reason in found.reasons if "cannot exclude luck" in reason.text]
    assert len(own) == doubts
    for reason in own:
        assert reason.text == "each finalist has 2 further seeds, which cannot exclude luck"
        assert reason.remedy is not None
        assert reason.remedy.options == {"confirm_seeds": 3}


def test_optimizers_of_trials_of_one_seed_are_compared_by_their_finalists() -> None:
    rows = [{"optimizer": name, "learning_rate": rate} for rate in (1e-3, 1e-2) for name in ("adam", "sgd")]
    study = finished_study(spec_of(rows, kind="opt", seeds=(0,), confirm_seeds=3), (100.0, 99.9, 10.0, 20.0))
    sentence = choice_sentence(study)
    assert sentence.startswith("Which optimizer does not matter here: adam and sgd are level")
    close = finished_study(spec_of(rows, kind="opt", seeds=(0,), confirm_seeds=3), (100.0, 99.9, 0.0, 99.8), spread=0.1)
    assert choice_sentence(close) == sentence.replace(re.findall(r"to \d+%", sentence)[0], "to 0%")


def test_rates_of_one_seed_that_were_far_below_are_told_apart() -> None:
    spec = spec_of([{"learning_rate": 10 ** (-5 + k / 2)} for k in range(9)], seeds=(0,), confirm_seeds=3)
    study = finished_study(spec, (20.0, 25.0, 100.0, 300.0, 480.0, 490.0, 470.0, 100.0, 10.0), spread=40.0)
    found = conclusion(study)
    assert found.status == "tie"
    assert found.certainty.startswith("with 2 other finalists")
    luck = {each.params["learning_rate"]: (each.error, each.df) for each in verdict(study).estimated}
    assert luck[1e-5] == (pytest.approx(40.0), 6.0)  # of three finalists with three seeds


def test_half_of_a_confirmation_has_one_doubt() -> None:
    study = open_study(spec_of(seeds=(0,), confirm_seeds=3))
    with Recorder(study) as recorder:
        for value in (0.0, 10.0, 100.0, 20.0, 0.0):
            ask = recorder.ask()
            assert ask is not None
            recorder.completed(ask.number, value, {0: value})
        confirmation = recorder.ask_confirmation()
        assert confirmation is not None
        recorder.completed(confirmation.number, 90.0, dict.fromkeys(confirmation.seeds, 90.0))
    found = conclusion(study)
    assert [reason.text for reason in found.reasons[:1]] == [
        "2 finalists are not confirmed on further seeds yet: this may change"
    ]
    assert not any("nothing to compare it with" in reason.text for reason in found.reasons)


def test_unconfirmed_pick_is_not_safe() -> None:
    found = conclusion(finished_study(spec_of(confirm=0), (0.0, 10.0, 100.0, 20.0, 0.0)))
    assert found.status == "not safe"
    assert found.lines[1].startswith("return 100 ± 1 in the search, over 3 seeds")
    assert "it was not confirmed on further seeds" in found.lines[2]
    assert options(found) == {"confirm": 3}


def test_comparison_of_two_agents_needs_no_confirmation() -> None:
    rows = [{"agent": "ppo"}, {"agent": "dqn"}]
    found = conclusion(finished_study(spec_of(rows, kind="agents", agents=("ppo", "dqn"), confirm=0), (100.0, 20.0)))
    assert found.lines[0] == "agent ppo"
    assert found.lines[2] == "safe: no other trial may be as good, with 95% confidence"


def test_lowest_loss_of_different_agents_is_not_safe() -> None:
    rows = [{"agent": "ppo"}, {"agent": "dqn"}]
    of_two = {"agents": ("ppo", "dqn"), "kind": "agents", "confirm": 0}
    of_losses = spec_of(rows, **of_two, metric="loss")
    found = conclusion(finished_study(of_losses, (0.1, 9.0), spread=0.01))
    assert found.status == "not safe"
    assert "compare their returns" in found.certainty
    assert conclusion(finished_study(spec_of(rows, **of_two), (90.0, 10.0))).status == "safe"


def test_unfinished_search_is_not_safe() -> None:
    found = conclusion(finished_study(spec_of(), (0.0, 10.0, 100.0, 20.0)))
    assert found.lines[2] == "not safe: 4 of 5 trials done: this may change"
    assert found.remedies[0] == Remedy(purpose="runs the rest")
    killed = conclusion(finished_study(spec_of(), (0.0, 10.0, 100.0, 20.0, None)))
    assert killed.status == "safe", "a failed trial counts as tried, and the untried rate lies beyond a worse one"
    most = conclusion(finished_study(spec_of(), (0.0, None, 100.0, 20.0, None)))
    assert most.reasons[0].text == "2 of 5 trials failed and will run again: this may change"
    assert most.remedies[0] == Remedy(purpose="runs them again")


def test_pick_is_not_safe_where_every_finalist_failed_on_further_seeds() -> None:
    study = open_study(spec_of([{"gamma": 0.9 + 0.01 * k} for k in range(8)], kind="tune", confirm=3))
    with Recorder(study) as recorder:
        for value in (10.0, 20.0, 30.0, 40.0, 60.0, 70.0, 80.0, 90.0):
            ask = recorder.ask()
            assert ask is not None
            recorder.completed(ask.number, value, {seed: value + seed % 3 - 1 for seed in ask.seeds})
        n_failed = 0
        while (confirmation := recorder.ask_confirmation()) is not None:
            recorder.failed(confirmation.number, "loss is NaN", kind="diverged")
            n_failed += 1
    found = conclusion(study)
    assert found.status == "not safe"
    assert f"it was not run on further seeds, on which all {n_failed} finalists failed" in [
        r.text for r in found.reasons
    ]


def test_indistinguishable_rates_need_longer_runs() -> None:
    found = conclusion(finished_study(spec_of(), (50.0, 52.0, 49.0, 51.0, 48.0), spread=40.0))
    assert found.lines[0].endswith("; no interval of the best rate is known")
    assert found.status == "not safe"
    assert "do not distinguish any rate from the best" in found.lines[2]
    assert options(found) == {"env_steps": 2000, "study_name": "s-2000-steps"}


def test_no_pick_states_the_reason() -> None:
    found = conclusion(open_study(spec_of()))
    assert (found.status, found.safe) == ("no pick", False)
    assert found.lines[0] == "no pick for ppo on CartPole-v1"
    assert found.lines[1].startswith("no pick: no trial is complete")


def test_pick_json_has_status_reasons_and_remedies() -> None:
    study = finished_study(spec_of(confirm=0), (0.0, 10.0, 100.0, 20.0, 0.0))
    data = pick_json(study, best(study))
    assert (data["safe"], data["status"], data["complete"]) == (False, "not safe", True)
    assert data["reasons"] == ["it was not confirmed on further seeds, and the best of several values is optimistic"]
    assert data["remedies"] == [
        {"options": {"confirm": 3}, "purpose": "the best 3 again on further seeds; they join the study", "joins": True}
    ]
    assert data["value"] == best(study).value, "existing keys must keep their values"


def test_variants_of_a_study_have_names_of_their_own() -> None:
    assert more_seeds(spec_of(name="s-3-seeds"), 6).options["study_name"] == "s-6-seeds"
    assert longer_runs(spec_of(name="s-6-seeds"), 2000).options["study_name"] == "s-6-seeds-2000-steps"
    assert more_seeds(spec_of(name="s-6-seeds-2000-steps"), 9).options["study_name"] == "s-2000-steps-9-seeds"
    assert more_seeds(spec_of(name="a-3-seedsmen"), 9).options["study_name"] == "a-3-seedsmen-9-seeds"
    limited = within_limit(spec_of(name="s-5-minutes", minutes=5.0), longer_runs(spec_of(name="s-5-minutes"), 2000))
    assert limited.options == {"minutes": 10, "study_name": "s-10-minutes"}


def test_longer_runs_are_not_longer_than_those_that_confirm() -> None:
    as_long = longer_runs(spec_of(confirm_env_steps=1000), 2000)
    assert as_long.options == {"env_steps": 2000, "confirm_env_steps": 2000, "study_name": "s-2000-steps"}
    shorter = longer_runs(spec_of(confirm_env_steps=4000), 500)  # a horizon that was given later
    assert shorter.options == {"env_steps": 500, "confirm_env_steps": 500, "study_name": "s-500-steps"}


@pytest.mark.parametrize("gives_trials", [True, False])
def test_remedy_changes_what_the_budget_has_not_chosen(gives_trials: bool) -> None:
    rows = tuple({"learning_rate": rate} for rate in (1e-5, 1e-4, 1e-1))
    fields = {"trials": (), "first": rows, "params": {"learning_rate": "1e-5:1e-1:log"}, "total_env_steps": 90_000}
    spec = spec_of(kind="tune", n_trials=3, **fields)
    study = finished_study(spec, (0.0, 100.0, 10.0))
    store_given(study, spec if gives_trials else spec_of(kind="tune", **fields))
    [remedy, *_] = conclusion(study).remedies
    limit = {"total_env_steps": 180_000, "study_name": "s"}
    assert remedy.options == ({"n_trials": 6, **limit} if gives_trials else limit)
    assert remedy.purpose == f"{'6' if gives_trials else 'more'} trials; they join the study"


def test_grid_with_a_rate_at_its_edge_needs_further_values() -> None:
    rates = [1e-4, 1e-3, 1e-2]
    for sampled in ({"params": {"learning_rate": rates}, "sampler": "grid"}, {"params": {"learning_rate": rates}}):
        spec = spec_of(kind="tune", trials=(), **sampled)
        ranked = rank(
            [
                Candidate(label=str(i), params={"learning_rate": rate}, seed_values=own, number=i)
                for i, (rate, own) in enumerate(zip(rates, ((10, 11, 9), (20, 21, 19), (400, 410, 405)), strict=True))
            ]
        )
        finding = estimate_learning_rate(ranked, [], ranked[0])
        assert finding is not None
        remedy = for_rate(spec, finding, rates, None)
        assert remedy is not None
        assert remedy.options == {"space": {"learning_rate": "0.0001,0.001,0.01,0.1,1"}, "study_name": "s-wider"}
        assert StudySpec(**{**spec.model_dump(exclude_unset=True), "params": remedy.options["space"]}).search_space()


def options_for_tie(spec: StudySpec, seeds_to_settle: int | None, **fields: Any) -> dict[str, Any] | None:
    remedy = for_tie(spec, seeds_to_settle, **{"n_finalists": spec.confirm, **fields})
    return None if remedy is None else remedy.options


def test_remedy_of_a_tie_confirms_the_tied_trials() -> None:
    spec = spec_of()
    assert options_for_tie(spec, 10) == {"confirm_seeds": 7}
    assert options_for_tie(spec, 10, finalists_alone=True) == {"confirm_seeds": 10}  # the search counts for nothing
    assert options_for_tie(spec, 10, n_finalists=5) == {"confirm": 5, "confirm_seeds": 7}
    assert options_for_tie(spec, 8) == {"confirm_seeds": 6}
    assert options_for_tie(spec, 10, n_finalists=10) == {"seeds": 10, "study_name": "s-10-seeds"}


@pytest.mark.parametrize("seeds", [None, 300])
def test_ties_that_no_seeds_settle_need_runs_up_to_the_long_run_and_then_the_most_seeds(seeds: int | None) -> None:
    def own(**fields: Any) -> dict[str, Any] | None:
        return options_for_tie(spec_of(**fields), seeds)  # runs of 1,000 steps

    assert own() == {"env_steps": 2_000, "study_name": "s-2000-steps"}
    assert own(horizon=1_500) == {"env_steps": 1_500, "study_name": "s-1500-steps"}
    assert own(horizon=1_000) == {"confirm_seeds": 17}  # and 3 in the search
    assert own(horizon=1_000, confirm_seeds=17) is None
    tied = spec_of(horizon=1_000, confirm=0)
    assert options_for_tie(tied, seeds, n_finalists=3) == {"confirm": 3, "confirm_seeds": 17}
    assert options_for_tie(tied, seeds, n_finalists=10) == {"seeds": 20, "study_name": "s-20-seeds"}
    most = spec_of(horizon=1_000, confirm=0, seeds=tuple(range(20)))
    assert options_for_tie(most, seeds, n_finalists=3) is None


def test_remedy_for_short_runs_is_the_shortest_sufficient_length() -> None:
    candidates = [
        Candidate(label=str(i), params={"learning_rate": rate}, seed_values=(value - 1, value, value + 1), number=i)
        for i, (rate, value) in enumerate(zip(RATES, (0.0, 10.0, 100.0, 20.0, 0.0), strict=True))
    ]
    ranked = rank(candidates)
    spec = spec_of(env_steps=50_000, horizon=5_000_000)
    finding = estimate_learning_rate(ranked, [], ranked[0], env_steps=50_000, horizon=5_000_000)
    assert finding is not None
    remedy = for_rate(spec, finding, RATES, None)
    assert remedy is not None
    steps = remedy.options["env_steps"]
    assert isinstance(steps, int)
    enough = estimate_learning_rate(ranked, [], ranked[0], env_steps=steps, horizon=5_000_000)
    half = estimate_learning_rate(ranked, [], ranked[0], env_steps=steps // 2, horizon=5_000_000)
    assert enough is not None
    assert half is not None
    assert (enough.cause, half.cause) == ("", "short runs")


def test_remedy_for_runs_longer_than_the_horizon_is_its_length() -> None:
    found = conclusion(finished_study(spec_of(horizon=10), (0.0, 10.0, 100.0, 20.0, 0.0)))
    assert found.lines[2].startswith("not safe: runs of 1,000 environment steps are too long to predict one of 10: ")
    assert found.lines[2].endswith("Train as long as that")
    assert options(found) == {"env_steps": 10, "study_name": "s-10-steps"}


@pytest.mark.parametrize(("horizon", "is_short"), [(None, False), (4_000, False), (4_004, True)])
def test_runs_of_less_than_a_quarter_of_the_long_run_are_not_safe(horizon: int | None, is_short: bool) -> None:
    rows = [{"gamma": gamma} for gamma in (0.9, 0.95, 0.98, 0.99, 0.995)]
    spec = spec_of(rows, kind="tune", horizon=horizon)
    found = conclusion(finished_study(spec, (0.0, 10.0, 100.0, 20.0, 0.0)))
    assert found.status == ("not safe" if is_short else "safe")
    if is_short:
        assert found.lines[2].startswith(
            "not safe: runs of 1,000 environment steps are too short to predict one of 4,004"
        )
        assert options(found) == {"env_steps": 1_001, "study_name": "s-1001-steps"}


def test_remedy_text_lists_the_options() -> None:
    assert remedy_text(Remedy(purpose="runs the rest")) == "the same search again"
    assert remedy_text(more_seeds(spec_of(), 6)) == "the same search with seeds=6, study_name='s-6-seeds'"
    wider = Remedy(changes=(("space", (("gamma", "0.9:0.999"),)),))
    assert remedy_text(wider) == "the same search with gamma searched over 0.9:0.999"


def study_of_equal_returns(episode_return: float, n_trials: int = 5, **fields: Any) -> OpenStudy:
    """Return a study all of whose episodes have the same return, in an environment that is solved by 475."""
    study = open_study(spec_of([{"learning_rate": rate} for rate in RATES[:n_trials]], confirm=0, **fields))
    with Recorder(study) as recorder:
        while (ask := recorder.ask()) is not None:
            of_all: dict[str, Any] = {"episode": 0, "env_steps": 1000, "loss": 0.5, "wall_seconds": 1.0}
            records = [
                EpisodeRecord(seed=seed, episode_return=episode_return, length=10 + ask.number, **of_all)
                for seed in ask.seeds
            ]
            recorder.started(ask.number, {LIMITS_KEY: {"reward_threshold": 475.0}})
            recorder.episodes(ask.number, records)
            recorder.completed(ask.number, episode_return, dict.fromkeys(ask.seeds, episode_return))
    return study


@pytest.mark.parametrize(("params", "hint"), [({}, False), ({"expert": "demos"}, True)])
def test_equal_returns_of_all_episodes_are_nothing_to_choose_by(params: dict[str, Any], hint: bool) -> None:
    found = conclusion(study_of_equal_returns(0.0, agent_params={"ppo": params}))
    assert found.status == "no pick"
    assert found.certainty.startswith("every episode had the return 0, so that nothing tells the trials apart: ")
    assert ("held_out_episodes" in found.certainty) is hint


def test_trials_that_all_solve_the_environment_have_a_pick() -> None:
    assert conclusion(study_of_equal_returns(500.0)).status != "no pick"


def test_a_single_trial_is_a_pick_whatever_its_returns() -> None:
    assert conclusion(study_of_equal_returns(0.0, n_trials=1)).status != "no pick"


def test_value_says_that_it_is_the_loss_on_held_out_demonstrations() -> None:
    study = finished_study(spec_of(metric="loss", fixed={"held_out_episodes": 2}), (5.0, 4.0, 1.0, 3.0, 5.0))
    assert conclusion(study).value.startswith("loss on held-out demonstrations ")
    assert spec_of(metric="loss").metric_text == "loss"
    assert spec_of(fixed={"held_out_episodes": 2}).metric_text == "return"


def test_budget_of_a_remedy_pays_for_its_further_runs() -> None:
    space = {"trials": (), "params": {"learning_rate": "1e-5:1e-1:log"}, "n_trials": 20, "seeds": (0,), "confirm": 6}
    spec = spec_of(kind="tune", total_env_steps=50_000, **space)  # 20 runs, and 30 of 6 finalists
    more = within_limit(spec, more_further_seeds(spec, 14))
    assert more.options == {"confirm_seeds": 14, "total_env_steps": 50_000 + 6 * 9 * 1000, "study_name": "s"}
    others = within_limit(spec, more_confirmed(spec, 8))
    assert others.options["total_env_steps"] == 100_000, "twice as many at least"
    timed = spec.model_copy(update={"total_env_steps": None, "minutes": 5.0})
    assert within_limit(timed, more_further_seeds(timed, 14)).options["minutes"] == 10.4  # 5 of 104 / 50
    longer = spec.model_copy(update={"confirm_env_steps": 2_000})
    assert within_limit(longer, longer_runs(longer, 4_000)).options["total_env_steps"] == 50_000 + 6 * 5 * 4_000


@pytest.mark.parametrize(
    "fields",
    [
        {"params": {"learning_rate": [1e-6, 1e-5, 1e-2, 1e-1]}},
        {"params": {"learning_rate": "1e-7:1e-1:log"}, "sampler": "grid", "sampler_kwargs": {"points": 4}},
    ],
)
def test_remedy_for_a_gap_between_chosen_rates_is_another_space(fields: dict[str, Any]) -> None:
    spec = spec_of(kind="tune", trials=(), **fields)
    rates = [1e-6, 1e-5, 1e-2, 1e-1]
    values = ((10, 11, 9), (400, 410, 405), (20, 21, 19), (5, 6, 4))
    ranked = rank(
        [
            Candidate(label=str(i), params={"learning_rate": rate}, seed_values=own, number=i)
            for i, (rate, own) in enumerate(zip(rates, values, strict=True))
        ]
    )
    finding = estimate_learning_rate(ranked, [], ranked[0])
    assert finding is not None
    remedy = for_rate(spec, finding, rates, None)
    assert remedy is not None
    assert "n_trials" not in remedy.options  # each of the chosen ones was tried
    assert set(remedy.options) == {"space", "study_name"}
    assert not remedy.joins
