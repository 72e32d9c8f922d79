"""Tests of population-based training as pure functions, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from studies.errors import StudyError
from studies.population_based.gaussian_process import Kernel, Observations, fitted, log_likelihood, posterior
from studies.population_based.pb2 import PB2, changes, confidence, normalised
from studies.population_based.pbt import PBT, from_unit, to_unit
from studies.population_based.population_based import truncation
from studies.population_based.schedule import Member, ScheduleEntry, entry_of, lineage, scaled
from studies.spaces.spaces import FloatRange

RATE = FloatRange(1e-5, 1e-2, log=True)
SPACES = {"learning_rate": RATE, "clip_range": FloatRange(0.1, 0.4)}


def entry(env_steps: int, rate: float, copied_from: int | None = None) -> ScheduleEntry:
    return ScheduleEntry(env_steps=env_steps, params={"learning_rate": rate}, copied_from=copied_from)


def members(values: dict[int, float], step: int = 100) -> list[Member]:
    params = {"learning_rate": 1e-3, "clip_range": 0.2}
    own = (ScheduleEntry(env_steps=0, params=params),)
    return [Member(number=number, schedule=own, values={step: value}) for number, value in values.items()]


class Cyclic:
    """Generator that returns 0, 1, 2, ... modulo the limit."""

    def __init__(self) -> None:
        self.n = -1

    def integers(self, size: int) -> int:
        self.n += 1
        return self.n % size


class TestTruncation:
    def test_the_lowest_quarter_copies_the_highest(self) -> None:
        values = {0: 5.0, 1: 1.0, 2: 8.0, 3: 7.0, 4: 2.0, 5: 6.0, 6: 3.0, 7: 4.0}
        assert truncation(values, 0.25, Cyclic()) == [(1, 2), (4, 3)]

    def test_quantiles_are_rounded_down_but_not_to_nothing(self) -> None:
        assert truncation({0: 1.0, 1: 2.0, 2: 3.0}, 0.25, Cyclic()) == [(0, 2)]
        assert len(truncation({number: float(number) for number in range(11)}, 0.25, Cyclic())) == 2

    def test_quantiles_do_not_overlap(self) -> None:
        assert truncation({0: 1.0, 1: 2.0, 2: 3.0}, 0.5, Cyclic()) == [(0, 2)]

    @pytest.mark.parametrize("values", [{}, {3: 1.0}, {3: 1.0, 4: 1.0}])
    def test_nothing_is_copied_where_nothing_is_better(self, values: dict[int, float]) -> None:
        assert truncation(values, 0.25, Cyclic()) == []

    def test_of_equal_members_the_later_one_copies(self) -> None:
        assert truncation({0: 1.0, 1: 1.0, 2: 1.0, 3: 2.0}, 0.25, Cyclic()) == [(2, 3)]

    def test_a_donor_is_drawn_among_the_highest(self) -> None:
        values = {number: float(number) for number in range(8)}
        donors = {truncation(values, 0.25, np.random.default_rng(seed))[0][1] for seed in range(20)}
        assert donors == {6, 7}


class TestDivergence:
    """Members that diverged have the value minus infinity."""

    def test_a_member_that_diverged_is_the_worst(self) -> None:
        values = {0: 5.0, 1: 1.0, 2: 8.0, 3: -math.inf, 4: 2.0, 5: 6.0, 6: 3.0, 7: 4.0}
        assert truncation(values, 0.25, Cyclic()) == [(3, 2), (1, 5)]

    def test_all_that_diverged_copy_the_highest_quantile_even_if_they_are_more(self) -> None:
        values = dict.fromkeys(range(5), -math.inf) | {5: 1.0, 6: 3.0, 7: 2.0}
        assert truncation(values, 0.25, Cyclic()) == [(4, 6), (3, 7), (2, 6), (1, 7), (0, 6)]

    def test_the_highest_quantile_has_no_member_that_diverged(self) -> None:
        values = {0: -math.inf, 1: -math.inf, 2: -math.inf, 3: 1.0}
        assert truncation(values, 0.5, Cyclic()) == [(2, 3), (1, 3), (0, 3)]
        assert truncation({0: -math.inf, 1: -math.inf}, 0.5, Cyclic()) == []

    def test_a_copy_continues_with_explored_numbers_of_its_donor(self) -> None:
        pbt = PBT(spaces=SPACES, perturb_steps=100, resample_probability=0.0)
        [found] = pbt.decide(100, members({0: -math.inf, 1: 2.0}))
        assert (found.number, found.copied_from) == (0, 1)
        assert found.params["learning_rate"] / 1e-3 in (pytest.approx(0.8), pytest.approx(1.2))

    def test_divergences_are_the_steps_at_which_a_diverged_member_copied(self) -> None:
        schedule = (entry(0, 1e-2), entry(200, 1e-3, 4), entry(300, 1e-4, 4))
        values = {100: -math.inf, 200: -math.inf, 300: 1.0}  # at 100, no member had a value
        assert Member(number=0, schedule=schedule, values=values).divergences == (200,)

    def test_growth_of_a_member_that_diverged_is_the_least(self) -> None:
        population = [
            Member(number=0, schedule=(entry(0, 1e-3),), values={100: 5.0, 200: 7.0, 300: 4.0}),
            Member(number=1, schedule=(entry(0, 1e-2), entry(200, 2e-3, 0)), values={100: 5.0, 200: -math.inf, 300: 8}),
            Member(number=2, schedule=(entry(0, 1e-1), entry(100, 3e-3, 0)), values={100: -math.inf, 200: 6.0}),
        ]
        found = [(each.interval, each.params["learning_rate"], each.growth) for each in changes(population, 100, 300)]
        assert set(found) == {
            (1, 1e-1, -3.0), (2, 1e-3, 2.0), (2, 3e-3, 1.0), (2, 1e-2, -3.0), (3, 1e-3, -3.0), (3, 2e-3, 1.0),
        }  # fmt: skip
        assert changes(population, 100, 100) == []  # nothing is known that it could be compared with


class TestPBT:
    def test_numbers_are_multiplied_by_one_of_two_factors(self) -> None:
        pbt = PBT(spaces=SPACES, perturb_steps=100, resample_probability=0.0)
        found = {
            (round(params["learning_rate"] / 1e-3, 6), round(params["clip_range"] / 0.2, 6))
            for step in range(100, 4000, 100)
            for _, _, params in pbt.decide(step, members({0: 1.0, 1: 2.0}, step))
        }
        assert found == {(0.8, 0.8), (0.8, 1.2), (1.2, 0.8), (1.2, 1.2)}

    def test_numbers_stay_in_their_range(self) -> None:
        narrow = {"learning_rate": FloatRange(0.9e-3, 1.1e-3, log=True)}
        pbt = PBT(spaces=narrow, perturb_steps=100, resample_probability=0.0)
        found = {
            pbt.decide(step, members({0: 1.0, 1: 2.0}, step))[0].params["learning_rate"]
            for step in range(100, 3000, 100)
        }
        assert found == {0.9e-3, 1.1e-3}

    def test_numbers_do_not_jump_to_the_ends_of_a_narrow_range(self) -> None:
        # 0.8 * 0.95 and 1.2 * 0.95 are outside of the range; a fifth of it is 0.04.
        pbt = PBT(spaces={"gae_lambda": FloatRange(0.8, 1.0)}, perturb_steps=100, resample_probability=0.0)
        own = (ScheduleEntry(env_steps=0, params={"gae_lambda": 0.95}),)
        drawn = {
            round(pbt.decide(step, of_two)[0].params["gae_lambda"], 12)
            for step in range(100, 2100, 100)
            for of_two in [[Member(number=n, schedule=own, values={step: float(n)}) for n in range(2)]]
        }
        assert drawn == {0.91, 0.99}

    def test_drawn_numbers_are_uniform_on_the_scale_of_the_range(self) -> None:
        pbt = PBT(spaces={"learning_rate": RATE}, perturb_steps=100, resample_probability=1.0)
        drawn = [
            math.log10(pbt.decide(step, members({0: 1.0, 1: 2.0}, step))[0].params["learning_rate"])
            for step in range(100, 60_100, 100)
        ]
        assert -5.0 <= min(drawn) < -4.95
        assert -2.05 < max(drawn) <= -2.0
        assert np.mean(drawn) == pytest.approx(-3.5, abs=0.12)  # 3.4 standard errors: 3 / sqrt(12 * 600) = 0.035

    def test_a_quarter_of_the_numbers_is_drawn_anew(self) -> None:
        pbt = PBT(spaces={"learning_rate": RATE}, perturb_steps=100)
        drawn = [
            pbt.decide(step, members({0: 1.0, 1: 2.0}, step))[0].params["learning_rate"]
            for step in range(100, 40_100, 100)
        ]
        anew = [value for value in drawn if min(abs(value / 1e-3 - factor) for factor in (0.8, 1.2)) > 1e-9]
        assert len(anew) == pytest.approx(100, abs=35)  # of 400; 4 standard deviations

    def test_a_decision_depends_on_members_step_and_seed_alone(self) -> None:
        pbt, population = PBT(spaces=SPACES, perturb_steps=100, seed=3), members({n: float(n) for n in range(12)})
        first = pbt.decide(100, population)
        assert PBT(spaces=SPACES, perturb_steps=100, seed=3).decide(100, population[::-1]) == first
        assert PBT(spaces=SPACES, perturb_steps=100, seed=4).decide(100, population) != first

    def test_the_numbers_are_those_of_the_copied_member(self) -> None:
        own = (entry(0, 1e-4), entry(100, 2e-3))
        donor, loser = Member(number=0, schedule=own, values={200: 2.0}), members({1: 1.0}, 200)[0]
        pbt = PBT(spaces={"learning_rate": RATE}, perturb_steps=100, resample_probability=0.0)
        [(number, copied_from, params)] = pbt.decide(200, [donor, loser])
        assert (number, copied_from) == (1, 0)
        assert params["learning_rate"] in (pytest.approx(1.6e-3), pytest.approx(2.4e-3))

    def test_members_without_a_value_take_no_part(self) -> None:
        population = [*members({0: 1.0, 1: 2.0}), *members({2: -5.0}, step=50)]
        assert [each.number for each in PBT(spaces=SPACES, perturb_steps=100).decide(100, population)] == [0]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"perturb_steps": 0}, "perturb_steps is 0"),
            ({"quantile": 0.6}, "quantile is 0.6"),
            ({"quantile": 0.0}, "quantile is 0.0"),
            ({"resample_probability": 1.5}, "resample_probability is 1.5"),
            ({"factors": (1.1, 1.2)}, "factors are"),
            ({"factors": [0.8]}, "factors are"),
        ],
    )
    def test_numbers_out_of_range_are_refused(self, arguments: dict[str, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            PBT(**{"spaces": SPACES, "perturb_steps": 100, **arguments})


def test_units_are_positions_on_the_scale_of_a_range() -> None:
    assert from_unit(RATE, 1 / 3) == pytest.approx(1e-4)
    assert to_unit(RATE, 1e-3) == pytest.approx(2 / 3)
    assert from_unit(FloatRange(0.1, 0.4), 0.5) == pytest.approx(0.25)
    assert [from_unit(RATE, 0.0), from_unit(RATE, 1.0)] == [1e-5, 1e-2]


class TestGaussianProcess:
    KERNEL = Kernel(length_scale=0.5, forgetting=0.19, noise=0.25)

    def test_covariance_falls_with_distance_and_time(self) -> None:
        """exp(-0.5^2 / (2 * 0.5^2)) = exp(-0.5); two steps of time lose 19%, one step 10%."""
        points, times = np.array([[0.0], [0.5]]), np.array([1.0, 3.0])
        covariance = self.KERNEL(points, times, points, times)
        assert covariance == pytest.approx(np.array([[1.0, math.exp(-0.5) * 0.81], [math.exp(-0.5) * 0.81, 1.0]]))
        one = self.KERNEL(points[:1], times[:1], points[:1], np.array([2.0]))
        assert one == pytest.approx(np.array([[0.9]]))

    def test_posterior_of_one_observation(self) -> None:
        """mean = k / (1 + 0.25) * y, variance = 1 - k^2 / 1.25, with k = 0.9 after one step at the same numbers."""
        seen = Observations(np.array([[0.3]]), np.array([1.0]), np.array([2.0]))
        found = posterior(self.KERNEL, seen, np.array([[0.3]]), 2.0)
        assert found.mean == pytest.approx([0.9 / 1.25 * 2.0])
        assert found.deviation == pytest.approx([math.sqrt(1.0 - 0.81 / 1.25)])

    def test_posterior_of_two_observations(self) -> None:
        """K = [[1.25, c], [c, 1.25]] with c = exp(-0.5); its inverse is [[1.25, -c], [-c, 1.25]] / (1.25^2 - c^2)."""
        seen = Observations(np.array([[0.0], [0.5]]), np.array([1.0, 1.0]), np.array([1.0, -1.0]))
        found = posterior(self.KERNEL, seen, np.array([[0.0]]), 1.0)
        c = math.exp(-0.5)
        determinant = 1.25**2 - c**2
        weights = np.array([1.25 + c, -c - 1.25]) / determinant
        assert found.mean == pytest.approx([weights[0] + c * weights[1]])
        variance = 1.0 - (1.25 - 2 * c * c + 1.25 * c * c) / determinant
        assert found.deviation == pytest.approx([math.sqrt(variance)])

    def test_pending_points_reduce_the_deviation_around_them_and_leave_the_mean(self) -> None:
        seen, at = Observations(np.array([[0.0]]), np.array([1.0]), np.array([2.0])), np.array([[0.8], [5.0]])
        without = posterior(self.KERNEL, seen, at, 2.0)
        found = posterior(self.KERNEL, seen, at, 2.0, np.array([[0.8]]))
        assert found.mean == pytest.approx(without.mean)
        assert found.deviation[0] < 0.6 * without.deviation[0]
        assert found.deviation[1] == pytest.approx(without.deviation[1])

    def test_likelihood_of_one_observation_is_that_of_a_normal(self) -> None:
        """Normal with mean 0 and variance 1.25 at 2: -0.5 * (4 / 1.25 + log(1.25) + log(2 pi))."""
        found = log_likelihood(self.KERNEL, Observations(np.array([[0.3]]), np.array([1.0]), np.array([2.0])))
        assert found == pytest.approx(-0.5 * (4 / 1.25 + math.log(1.25) + math.log(2 * math.pi)))

    def test_a_smooth_function_gets_a_long_scale_and_a_rough_one_a_short_scale(self) -> None:
        points, times = np.linspace(0, 1, 20)[:, None], np.ones(20)
        smooth = fitted(Observations(points, times, normalised(points[:, 0].tolist())))
        rough = fitted(Observations(points, times, normalised(np.sin(25 * points[:, 0]).tolist())))
        assert smooth.length_scale > rough.length_scale
        noise = fitted(Observations(points, times, normalised(np.random.default_rng(0).normal(size=20).tolist())))
        assert noise.noise > smooth.noise


class TestPB2:
    def test_changes_begin_at_the_value_of_the_copied_member(self) -> None:
        """Trial 1 copies trial 0 at 100, whose value was 5: from there it grows by 1, and not by 5."""
        population = [
            Member(number=0, schedule=(entry(0, 1e-3),), values={100: 5.0, 200: 7.0}),
            Member(number=1, schedule=(entry(0, 1e-4), entry(100, 2e-3, 0)), values={100: 1.0, 200: 6.0}),
        ]
        found = changes(population, 100, 200)
        assert [(each.interval, each.params["learning_rate"], each.growth) for each in found] == [
            (2, 1e-3, 2.0),
            (2, 2e-3, 1.0),
        ]
        assert changes(population, 100, 100) == []

    def test_the_width_of_the_bound_is_that_of_the_paper(self) -> None:
        assert confidence(1) == 0.2
        assert confidence(10) == pytest.approx(0.2 + math.log(4.0))

    def test_equal_growth_is_normalised_to_zeros(self) -> None:
        assert normalised([3.0, 3.0]).tolist() == [0.0, 0.0]
        assert normalised([1.0, 3.0]).tolist() == [-1.0, 1.0]

    def test_copies_move_to_numbers_that_grew(self) -> None:
        """Growth falls with the distance from 1e-3 on the log scale; the members have tried all of the range."""
        population = []
        for number in range(16):
            rate = from_unit(RATE, number / 15)
            growth = {100 * at: -4.0 * at * abs(math.log10(rate) + 3.0) for at in (1, 2, 3, 4)}
            population.append(Member(number=number, schedule=(entry(0, rate),), values=growth))
        pb2 = PB2(spaces={"learning_rate": RATE}, perturb_steps=100)
        chosen = [each.params["learning_rate"] for each in pb2.decide(400, population)]
        assert len(chosen) == 4
        assert all(10**-3.8 < rate < 10**-2.2 for rate in chosen)
        assert pb2.decide(400, population[::-1]) == pb2.decide(400, population)

    def test_the_kernel_is_chosen_once_for_all_copies_of_a_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Observations] = []

        def counted(observed: Observations) -> Kernel:
            seen.append(observed)
            return fitted(observed)

        monkeypatch.setattr("studies.population_based.pb2.fitted", counted)
        population = [
            replace(member, values={100: float(member.number), 200: 3.0 * member.number})
            for member in members(dict.fromkeys(range(16), 0.0))
        ]
        assert len(PB2(spaces=SPACES, perturb_steps=100).decide(200, population)) == 4
        assert len(seen) == 1

    def test_copies_of_one_step_differ(self) -> None:
        population = members({number: float(number) for number in range(16)})
        chosen = [
            each.params["learning_rate"] for each in PB2(spaces=SPACES, perturb_steps=100).decide(100, population)
        ]
        assert len(set(chosen)) == 4
        assert all(1e-5 <= rate <= 1e-2 for rate in chosen)

    @pytest.mark.parametrize("arguments", [{"n_candidates": 0}, {"memory": 1}])
    def test_numbers_out_of_range_are_refused(self, arguments: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="must be at least 1 and 2"):
            PB2(spaces=SPACES, perturb_steps=100, **arguments)


class TestSchedule:
    SCHEDULES: ClassVar = {
        0: (entry(0, 0.1), entry(300, 0.01, 1)),
        1: (entry(0, 0.2), entry(100, 0.02, 2), entry(400, 0.04, 0)),
        2: (entry(0, 0.3), entry(200, 0.03, 0)),
    }

    def test_a_lineage_follows_the_weights_back(self) -> None:
        """Trial 0 copied trial 1 at 300, which had copied trial 2 at 100: trial 2 began it."""
        found = lineage(0, self.SCHEDULES)
        assert found.root == 2
        rates = [(each.env_steps, each.params["learning_rate"], each.copied_from) for each in found.schedule]
        assert rates == [(0, 0.3, None), (100, 0.02, 2), (300, 0.01, 1)]

    def test_a_lineage_without_copies_is_its_own(self) -> None:
        assert lineage(3, {3: (entry(0, 0.5),)}) == (3, (entry(0, 0.5),))

    def test_what_the_donor_did_later_does_not_count(self) -> None:
        assert [each.env_steps for each in lineage(1, self.SCHEDULES).schedule] == [0, 100, 300, 400]

    def test_a_lineage_with_a_missing_trial_is_refused(self) -> None:
        with pytest.raises(StudyError, match="trial 1 has no schedule"):
            lineage(0, {0: self.SCHEDULES[0]})

    def test_a_longer_run_stretches_every_step(self) -> None:
        found = scaled((entry(0, 0.1), entry(100, 0.2), entry(150, 0.3, 4)), 200, 1000)
        assert found == (entry(0, 0.1), entry(500, 0.2), entry(750, 0.3, 4))
        assert scaled(found, 1000, 1000) == found

    def test_of_entries_on_one_step_the_last_stays(self) -> None:
        found = scaled((entry(0, 0.1), entry(100, 0.2), entry(101, 0.3)), 1000, 10)
        assert [(each.env_steps, each.params["learning_rate"]) for each in found] == [(0, 0.1), (1, 0.3)]

    def test_entries_survive_json(self) -> None:
        for each in (entry(0, 0.1), entry(100, 0.2, 7)):
            assert entry_of(each.to_json()) == each
        with pytest.raises(StudyError, match="no entry of a schedule"):
            entry_of({"env_steps": 1})
