"""Estimate of the best learning rate: its interval, its safety, and its correction for longer runs; by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from studies.judging.learning_rate_estimate import LearningRateEstimate, cost_of_choice, estimate_learning_rate
from studies.judging.ranking import Candidate, rank
from studies.judging.robust_choice import PrunedEstimate, _reaching, rate_name, recommended
from studies.statistics.drift import measured
from studies.statistics.rate_curve import Peak

RATES = [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]


def estimated(
    centers: list[float], spread: float = 1.0, pick: int | None = None, **more: Any
) -> LearningRateEstimate | None:
    """Return the estimate from five rates whose three seeds lie at each center and one `spread` beside it."""
    candidates = [
        Candidate(
            label=str(i),
            params={"learning_rate": rate},
            seed_values=(center - spread, center, center + spread),
            number=i,
        )
        for i, (rate, center) in enumerate(zip(RATES, centers, strict=True))
    ]
    ranked = rank(candidates)
    number = ranked[0].number if pick is None else pick
    return estimate_learning_rate(
        ranked, more.pop("left", []), next(each for each in ranked if each.number == number), **more
    )


def test_interval_reaches_halfway_to_the_neighbours_of_the_best_rate() -> None:
    finding = estimated([0.0, 10.0, 100.0, 20.0, 0.0])
    assert finding is not None
    assert (finding.tested, finding.suggested, finding.edge, finding.why_unsafe) == (1e-3, 1e-3, "", "")
    # Halfway to the neighbours, less 2.5% of a decade on either side.
    assert (math.log10(finding.low), math.log10(finding.high)) == pytest.approx((-3.475, -2.525), abs=0.02)
    assert finding.decades == pytest.approx(0.95, abs=0.03)
    assert finding.cost == 0.0
    assert not finding.corrected


def test_tied_rates_widen_the_interval() -> None:
    finding = estimated([0.0, 10.0, 99.5, 100.0, 0.0])
    assert finding is not None
    assert (math.log10(finding.low), math.log10(finding.high)) == pytest.approx((-3.45, -1.55), abs=0.05)
    assert 0 < finding.cost < 0.05
    assert finding.why_unsafe == ""


@pytest.mark.parametrize(
    ("centers", "edge", "beyond"),
    [([100.0, 10, 0, 0, 0], "lowest", "lower"), ([0.0, 0, 0, 10, 100], "highest", "higher")],
)
def test_best_rate_at_an_edge_is_not_safe(centers: list[float], edge: str, beyond: str) -> None:
    finding = estimated(centers)
    assert finding is not None
    assert finding.edge == edge
    assert f"is the {edge} rate that was tried: {beyond} ones may be better" in finding.why_unsafe
    assert finding.to_json()["safe"] is False


def test_indistinguishable_rates_are_not_safe() -> None:
    finding = estimated([50.0, 52.0, 49.0, 51.0, 48.0], spread=40.0, pick=2)
    assert finding is not None
    assert "do not distinguish any rate from the best" in finding.why_unsafe


def test_wide_interval_with_a_cost_is_not_safe() -> None:
    finding = estimated([0.0, 60.0, 70.0, 65.0, 60.0], spread=12.0, pick=2)
    assert finding is not None
    assert finding.decades > 2
    assert "the best rate lies anywhere between" in finding.why_unsafe


def test_wide_plateau_is_safe() -> None:
    finding = estimated([0.0, 500.0, 500.0, 500.0, 500.0], spread=1.0, pick=2)
    assert finding is not None
    assert finding.decades > 2.5
    assert finding.why_unsafe == ""


def test_gap_of_decades_beside_the_best_rate_is_not_safe() -> None:
    candidates = [
        Candidate(label=str(i), params={"learning_rate": rate}, seed_values=(v - 1, v, v + 1), number=i)
        for i, (rate, v) in enumerate([(1e-6, 0.0), (1e-5, 26.0), (1e-1, 9.0)])
    ]
    ranked = rank(candidates)
    finding = estimate_learning_rate(ranked, [], ranked[0])
    assert finding is not None
    assert (finding.cause, finding.gap) == ("gap", (1e-5, 1e-1))
    assert finding.why_unsafe == "no rate between 1e-5 and 1e-1 was tried, and the best one may lie there."
    left = [PrunedEstimate(params={"learning_rate": rate}, value=9.0, clearly_worse=True) for rate in (1e-3,)]
    closer = estimate_learning_rate(ranked, left, ranked[0])
    assert closer is not None
    assert (closer.cause, closer.gap) == ("", None)


def test_failed_rates_limit_the_interval() -> None:
    left = [PrunedEstimate(params={"learning_rate": rate}, value=math.nan) for rate in (2e-3, 5e-4)]
    finding = estimated([0.0, 10.0, 100.0, 20.0, 0.0], left=left)
    assert finding is not None
    ends = math.sqrt(5e-4 * 1e-3), math.sqrt(2e-3 * 1e-3)
    assert (finding.low, finding.high) == pytest.approx(ends, rel=0.05)


def test_interval_at_the_last_rate_extends_to_the_next_pruned_rate() -> None:
    left = [PrunedEstimate(params={"learning_rate": rate}, value=90.0) for rate in (1e-7, 1e-6, 0.5, 1.0)]
    finding = estimated([100.0, 99.0, 100.0, 99.0, 100.0], spread=20.0, left=left)
    assert finding is not None
    assert (finding.low, finding.high) == pytest.approx((1e-6, 0.5))
    inside = estimated([0.0, 10.0, 100.0, 20.0, 0.0], left=left)
    alone = estimated([0.0, 10.0, 100.0, 20.0, 0.0])
    assert inside is not None
    assert alone is not None
    assert (inside.low, inside.high) == pytest.approx((alone.low, alone.high), rel=0.1)


def test_clearly_worse_pruned_rate_makes_rates_distinguishable() -> None:
    values = [100.0, 99.0, 100.5, 99.5, 100.2]
    for is_worse in (False, True):
        left = [
            PrunedEstimate(params={"learning_rate": rate}, value=5.0, error=8.0, df=4, clearly_worse=is_worse)
            for rate in (1e-6, 1.0)
        ]
        finding = estimated(values, spread=5.0, left=left)
        assert finding is not None
        assert finding.told_apart is is_worse


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("error", "told_apart"), [(8.0, True), (30.0, False), (0.0, False)])
def test_estimates_beside_finalists_make_rates_distinguishable(sign: float, error: float, told_apart: bool) -> None:
    values = [sign * value for value in (100.0, 99.0, 100.5, 99.5, 100.2)]
    left = [
        PrunedEstimate(params={"learning_rate": rate}, value=sign * 5.0, error=error, df=4) for rate in (1e-6, 1.0)
    ]  # 95.5 below, less 3.5 errors (97.5% of two, 4 degrees of freedom)
    direction: Any = "maximize" if sign > 0 else "minimize"
    candidates = [
        Candidate(label=str(i), params={"learning_rate": rate}, seed_values=(value - 5, value, value + 5), number=i)
        for i, (rate, value) in enumerate(zip(RATES, values, strict=True))
    ]
    ranked = rank(candidates, direction)
    for alone in (False, True):
        finding = estimate_learning_rate(ranked, left, ranked[0], direction, finalists_alone=alone)
        assert finding is not None
        assert finding.told_apart is (told_apart and alone)


def test_longer_horizon_lowers_the_rate_and_widens_the_interval() -> None:
    finding = estimated([0.0, 10.0, 100.0, 20.0, 0.0], env_steps=50_000, horizon=200_000)
    assert finding is not None
    # A factor of 4 is 0.602 decades: 0.452 lower, ±1.96 * 0.301 combined with half a decade of the grid.
    assert finding.corrected
    assert finding.suggested == pytest.approx(10 ** (-3 - 0.75 * math.log10(4)), rel=0.06)
    reach = math.hypot(0.475, 1.96 * 0.5 * math.log10(4))
    assert math.log10(finding.high / finding.suggested) == pytest.approx(reach, abs=0.03)
    assert math.log10(finding.suggested / finding.low) == pytest.approx(reach, abs=0.03)
    assert finding.why_unsafe == ""


def test_rate_that_is_kept_is_not_corrected() -> None:
    centers, more = [0.0, 10.0, 100.0, 20.0, 0.0], {"env_steps": 50_000, "horizon": 5_000_000}
    moved, kept = estimated(centers, **more), estimated(centers, **more, keeps_rate=True)
    assert moved is not None
    assert kept is not None
    assert (kept.suggested, kept.corrected, kept.low, kept.cause) == (1e-3, False, moved.low, "short runs")
    assert kept.high == max(moved.high, 1e-3)


def test_interval_is_wider_for_optimizers_without_measured_drift() -> None:
    centers, more = [0.0, 10.0, 100.0, 20.0, 0.0], {"env_steps": 50_000, "horizon": 200_000}
    known, unknown = estimated(centers, **more), estimated(centers, **more, drift_known=False)
    assert known is not None
    assert unknown is not None
    assert unknown.suggested == known.suggested
    assert unknown.decades > 1.5 * known.decades
    assert (known.cause, unknown.cause) == ("", "short runs")
    assert "not measured on this optimizer" in unknown.why_unsafe


@pytest.mark.parametrize(
    ("optimizer", "arguments", "known"),
    [
        ("adam", None, True),
        ("Lion", {}, True),
        ("sgd(momentum=0.9)", None, True),
        ("sgd", {"momentum": 0.9}, True),
        ("sgd", {"momentum": 0.0}, False),
        ("sgd(momentum=0.0, nesterov=True)", None, False),
        ("sgd", None, False),
        ("adagrad", None, False),
    ],
)
def test_drift_is_measured_for_adam_lion_and_sgd_with_momentum(optimizer: str, arguments: Any, known: bool) -> None:
    assert measured(optimizer, arguments) is known


def test_much_longer_horizon_is_not_safe() -> None:
    finding = estimated([0.0, 10.0, 100.0, 20.0, 0.0], env_steps=50_000, horizon=5_000_000)
    assert finding is not None
    assert "runs of 50,000 environment steps are too short to predict one of 5,000,000" in finding.why_unsafe


def test_runs_of_the_horizon_are_not_corrected() -> None:
    finding = estimated([0.0, 10.0, 100.0, 20.0, 0.0], env_steps=50_000, horizon=50_000)
    assert finding is not None
    assert not finding.corrected


def test_one_seed_per_rate_is_not_safe() -> None:
    ranked = rank(
        [
            Candidate(label=str(i), params={"learning_rate": rate}, seed_values=(float(i == 2),), number=i)
            for i, rate in enumerate(RATES)
        ]
    )
    finding = estimate_learning_rate(ranked, [], ranked[0])
    assert finding is not None
    assert "one seed each" in finding.why_unsafe
    assert finding.to_json()["cost"] is None


def test_estimate_needs_two_learning_rates() -> None:
    plain = rank([Candidate(label="a", params={"gamma": 0.9}, seed_values=(1.0, 2.0))])
    assert estimate_learning_rate(plain, [], plain[0]) is None
    one = rank([Candidate(label="a", params={"learning_rate": 0.1}, seed_values=(1.0, 2.0))])
    assert estimate_learning_rate(one, [], one[0]) is None


def test_outlier_does_not_change_the_estimate() -> None:
    usual = estimated([0.0, 10.0, 100.0, 20.0, 0.0])
    exploded = estimated([0.0, 10.0, 100.0, 20.0, -1e8])
    assert usual is not None
    assert exploded is not None
    assert exploded.told_apart
    assert (exploded.low, exploded.high) == pytest.approx((usual.low, usual.high), rel=0.2)
    noisy = estimated([50.0, 52.0, 49.0, 51.0, -1e8], spread=40.0, pick=2)
    assert noisy is not None
    assert noisy.why_unsafe != "", "an outlier must not widen the range of costs"


def test_failed_rates_alone_do_not_make_rates_distinguishable() -> None:
    one = rank([Candidate(label="a", params={"learning_rate": 1e-3}, seed_values=(1.0, 2.0, 3.0))])
    left = [PrunedEstimate(params={"learning_rate": rate}, value=math.nan) for rate in (1e-5, 1e-4, 1e-2)]
    finding = estimate_learning_rate(one, left, one[0])
    assert finding is not None
    assert not finding.told_apart
    assert "only one rate came to its end" in finding.why_unsafe


def test_optimizer_with_a_schedule_does_not_affect_the_other_candidates() -> None:
    candidates = [
        Candidate(
            label=str(i),
            params={"optimizer": "adam", "learning_rate": rate},
            seed_values=(center - 1, center, center + 1),
            number=i,
        )
        for i, (rate, center) in enumerate(zip(RATES, [0.0, 10.0, 100.0, 20.0, 0.0], strict=True))
    ]
    scheduled = Candidate(
        label="s", params={"optimizer": "adam with a schedule"}, seed_values=(99.0, 100.5, 101.0), number=9
    )
    ranked = rank([*candidates, scheduled])
    finding = estimate_learning_rate(ranked, [], next(each for each in ranked if each.number == 2))
    assert finding is not None
    assert finding.tested == 1e-3
    assert recommended(ranked) is not None
    assert estimate_learning_rate(ranked, [], next(each for each in ranked if each.number == 9)) is None


def test_cost_of_choice_is_symmetric_in_the_direction() -> None:
    seeds = {0: (490.0, 495.0, 500.0), 1: (500.0, 500.0, 500.0), 2: (0.0, 1.0, 2.0)}
    costs = []
    for direction, sign in (("maximize", 1.0), ("minimize", -1.0)):
        ranked = rank(
            [
                Candidate(label=str(i), params={}, seed_values=tuple(sign * value for value in values), number=i)
                for i, values in seeds.items()
            ],
            direction,  # type: ignore[arg-type]
        )
        pick = next(each for each in ranked if each.number == 0)
        costs.append(cost_of_choice(pick, ranked[:2], ranked, direction))  # type: ignore[arg-type]
    assert costs[0] == pytest.approx(costs[1])
    assert 0 < costs[0] < 0.05


def test_interval_is_never_shortened_by_a_pruned_rate() -> None:
    assert _reaching(Peak(-4.0, -5.0, -3.0), [-4.0, -2.0], [math.log10(9e-5)]) == Peak(-4.0, -5.0, -3.0)
    assert _reaching(Peak(-4.0, -4.2, -3.0), [-4.0, -2.0], [-5.0]) == Peak(-4.0, -5.0, -3.0)


def test_names_of_rates() -> None:
    def name_of(*names: str) -> str | None:
        return rate_name([Candidate(label="", params=dict.fromkeys(names, 1e-3), seed_values=(1.0,))])

    for name in ("learning_rate", "actor.learning_rate", "policy_learning_rate"):
        assert name_of(name, "gamma") == name
    assert name_of("learning_rate.initial_learning_rate") is None
    assert name_of("actor.learning_rate", "critic.learning_rate") is None
