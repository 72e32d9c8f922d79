"""Tables of finished runs, search policies, and the costs, regrets and coverages that a replay measures."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.errors import StudyError
from studies.policies import POLICIES, Decision, Problem, Round, Values, make_policy
from studies.policies.replay import coverage, replay, replay_often, run_policy
from studies.policies.run_table import RunTable


def frame_of(
    values: np.ndarray, params: list[dict[str, Any]] | None = None, marks: tuple[int, ...] = (50, 100)
) -> pd.DataFrame:
    rows = [
        {
            "config": f"c{c}",
            "seed": s,
            "env_steps": marks[t],
            "return": values[c, s, t],
            **(params[c] if params else {}),
        }
        for c in range(values.shape[0])
        for s in range(values.shape[1])
        for t in range(values.shape[2])
    ]
    return pd.DataFrame(rows)


def table_of(values: Any, **kwargs: Any) -> RunTable:
    return RunTable.of_frame(frame_of(np.asarray(values, np.float64), **kwargs))


def rates_table(n_seeds: int = 10, noise: float = 1.0, seed: int = 0) -> RunTable:
    """Return a table of two optimizers with nine rates each; the best is 1e-3 of the first, higher rates lead early."""
    rng = np.random.default_rng(seed)
    marks = tuple(range(5, 101, 5))
    shares = np.array(marks) / 100
    values, params = [], []
    for optimizer, top in (("adam", 100.0), ("sgd", 60.0)):
        for power in np.arange(-5, -0.9, 0.5):
            end = top - 20 * (power + 3) ** 2
            early = top - 20 * (power + 2.5) ** 2
            curve = (1 - shares) * early * 0.6 + shares * end
            values.append(curve[None] + noise * rng.normal(size=(n_seeds, 1)) + 0 * shares[None])
            params.append({"optimizer": optimizer, "learning_rate": float(10**power)})
    return table_of(np.array(values), params=params, marks=marks)


# --- tables


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_is_read_from_a_file(tmp_path: Path, suffix: str):
    frame = frame_of(np.arange(12.0).reshape(2, 3, 2), [{"lr": 0.1}, {"lr": 0.2}]).sample(frac=1, random_state=0)
    path = tmp_path / f"runs.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    table = RunTable.read(path)
    assert sorted(table.configs) == ["c0", "c1"]
    assert table.seeds == (0, 1, 2)
    assert table.marks == (50, 100)
    at = table.configs.index("c1")
    np.testing.assert_array_equal(table.values[at], np.arange(6.0, 12.0).reshape(3, 2))
    assert table.params[at] == {"lr": 0.2}


def test_diverged_runs_count_as_the_worst_at_their_mark():
    table = table_of([[[1.0, np.nan]], [[5.0, 7.0]], [[3.0, np.inf]], [[0.0, 9.0]]])
    np.testing.assert_array_equal(table.values[:, 0, 1], [7.0, 7.0, 7.0, 9.0])


BAD = [
    (lambda frame: frame.drop(columns="seed"), "no column 'seed'"),
    (lambda frame: frame.iloc[:0], "has no rows"),
    (lambda frame: frame.iloc[1:], "11 rows, not 12"),
    (lambda frame: pd.concat([frame, frame.iloc[:1]]), "has two values of 'c0' with seed 0 after 50"),
    (lambda frame: frame.assign(**{"return": np.nan}), "no return that is a number"),
    (lambda frame: frame.assign(**{"return": "abc"}), "column 'return' has 'abc', which is not a number"),
    (lambda frame: frame.assign(seed="s0"), "column 'seed' has 's0', which is not a number"),
    (lambda frame: frame.assign(env_steps=0), "env_steps has a value that is not above 0"),
    (lambda frame: frame.assign(lr=range(len(frame))), "column 'lr' is not the same on all rows of 'c0'"),
]


@pytest.mark.parametrize(("corrupt", "message"), BAD)
def test_invalid_table_raises(corrupt: Any, message: str):
    frame = frame_of(np.arange(12.0).reshape(2, 3, 2))
    with pytest.raises(StudyError, match=message):
        RunTable.of_frame(corrupt(frame))


def test_unreadable_files_raise(tmp_path: Path):
    with pytest.raises(StudyError, match="there is no table"):
        RunTable.read(tmp_path / "nothing.csv")
    with pytest.raises(StudyError, match=r"neither a .csv nor a .parquet"):
        RunTable.read(tmp_path / "runs.xlsx")
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(StudyError, match="cannot be read"):
        RunTable.read(tmp_path / "text.parquet")


# --- rules and costs of policies


def test_cost_counts_whole_runs_once():
    table = table_of(np.zeros((3, 4, 2)))

    def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
        assert problem.shares == (0.5, 1.0)
        yield Round(runs=[(0, 0), (1, 0)], mark=0)
        yield Round(runs=[(1, 0)], mark=1)
        yield Round(runs=[(1, 0), (2, 3)], mark=1)  # the first run is complete and costs nothing more
        return Decision(pick=1)

    decision, cost = run_policy(table, policy, budget=10, rng=np.random.default_rng(0))
    assert decision.pick == 1
    assert cost == pytest.approx(0.5 + 0.5 + 0.5 + 1.0)
    with pytest.raises(StudyError, match=r"spent 2.5 whole runs, and may spend 2.0"):
        run_policy(table, policy, budget=2, rng=np.random.default_rng(0))


def test_abandoned_run_cannot_be_continued():
    def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
        yield Round(runs=[(0, 0), (1, 0)], mark=0)
        yield Round(runs=[(1, 0)], mark=1)
        yield Round(runs=[(0, 0)], mark=1)
        return Decision(pick=0)

    with pytest.raises(StudyError, match="continues config 0 on seed 0, which it abandoned"):
        run_policy(table_of(np.zeros((2, 2, 2))), policy, budget=10, rng=np.random.default_rng(0))


def test_regret_is_measured_on_held_out_seeds():
    values = np.zeros((3, 4, 1))
    values[0] = 10.0
    values[1] = 9.0
    seen: list[float] = []

    def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
        assert problem.n_seeds == 2
        message = yield Round(runs=[(1, 0), (1, 1)], mark=0)
        seen.extend(message.values())
        return Decision(pick=1)

    result = replay(table_of(values, marks=(100,)), policy, budget=2, rng=np.random.default_rng(0))
    assert seen == [9.0, 9.0]
    assert result.regret == pytest.approx(0.1)
    assert np.isnan(result.decades)


def test_coverage_counts_intervals_that_contain_the_value_of_the_pick():
    values = np.zeros((2, 4, 1))
    values[1, :, 0] = [0.0, 1.0, 2.0, 9.0]  # the middle half: 1 and 2

    def policy_with_interval(low: float, high: float) -> Any:
        def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
            assert problem.n_seeds == 2
            yield Round(runs=[(1, 0)], mark=0)
            return Decision(pick=1, interval=(low, high))

        return policy

    table = table_of(values, marks=(100,))
    assert coverage(table, policy_with_interval(2.9, 3.1), budget=2, n=5) == 1.0
    assert coverage(table, policy_with_interval(3.1, 9.0), budget=2, n=5) == 0.0
    assert coverage(table, make_policy("random"), budget=2, n=5) is None


@pytest.mark.parametrize("name", ["race", pytest.param("default", marks=pytest.mark.slow)])
def test_intervals_of_policies_have_nominal_coverage(name: str):
    table = rates_table(noise=8.0)
    assert 0.88 <= coverage(table, make_policy(name), budget=60.0, n=150) <= 1.0


def test_default_policy_races_and_confirms():
    table = rates_table(n_seeds=16, noise=4.0)
    message = [replay(table, make_policy("default"), budget=200.0, rng=np.random.default_rng(i)) for i in range(20)]
    costs = [each.cost - 15 for each in message]  # confirmation: three finalists on five further seeds
    assert max(costs) < 0.67 * 3 * len(table.configs), "most trials must be pruned"
    assert np.mean([each.regret <= 0.05 for each in message]) > 0.8
    rates = [each.decision.rate for each in message]
    assert np.mean([rate.low <= 1e-3 <= rate.high for rate in rates]) > 0.85


def test_best_rate_of_a_plateau_is_its_middle():
    params = [{"learning_rate": 10.0**power} for power in (-5, -4, -3, -2, -1)]
    values = np.array([0.0, 99.5, 99.0, 100.0, 50.0])[:, None, None].repeat(4, axis=1)  # a plateau from 1e-4 to 1e-2

    def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
        yield Round(runs=[(0, 0)], mark=0)
        return Decision(pick=1)

    table = table_of(values, params=params, marks=(100,))
    assert replay(table, policy, budget=1, rng=np.random.default_rng(0)).decades == pytest.approx(-1.0)


def test_distance_to_the_best_rate_is_in_decades():
    table = rates_table(noise=0.0)

    def policy(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
        yield Round(runs=[(0, 0)], mark=0)
        return Decision(pick=table.configs.index("c6"))  # adam at 1e-2

    assert replay(table, policy, budget=1, rng=np.random.default_rng(0)).decades == pytest.approx(1.0)


# --- the policies


def replays(table: RunTable, policy: Any, budget: float, n: int) -> list[Any]:
    """Return the results of `n` replays."""
    found = list(replay_often(table, policy, budget=budget, n=n))
    assert len(found) == n
    return found


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("budget", [1.0, 3.7, 18.0, 90.0])
def test_policies_stay_within_their_budget(name: str, budget: float):
    table = rates_table()
    for result in replays(table, make_policy(name), budget=budget, n=5):
        assert result.cost <= budget + 1e-6
        assert 0 <= result.decision.pick < len(table.configs)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policies_work_with_few_seeds(name: str):
    table = rates_table(n_seeds=4)
    for result in replays(table, make_policy(name), budget=40.0, n=5):
        assert result.cost <= 40.0 + 1e-6


def test_halving_uses_most_of_its_budget():
    for result in replays(rates_table(), make_policy("halving"), budget=40.0, n=5):
        assert result.cost > 25.0


def test_budget_below_one_run_raises():
    with pytest.raises(StudyError, match="a search needs at least 1"):
        replay(rates_table(), make_policy("race"), budget=0.5, rng=np.random.default_rng(0))


def test_marks_without_finished_episodes_are_dropped():
    values = np.full((2, 2, 3), np.nan)
    values[0, :, 1:] = 5.0
    values[1, :, 2] = 9.0
    table = table_of(values, marks=(10, 20, 30))
    assert table.marks == (20, 30)
    np.testing.assert_array_equal(table.values[1, 0], [5.0, 9.0])


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("shape", [(1, 8, 1), (1, 8, 2), (6, 2, 1), (6, 8, 1)], ids=str)
@pytest.mark.parametrize("budget", [1.0, 4.0])
def test_policies_work_with_one_candidate_or_one_mark(name: str, shape: tuple[int, int, int], budget: float):
    table = table_of(np.arange(float(np.prod(shape))).reshape(shape))
    for result in replays(table, make_policy(name), budget=budget, n=2):
        assert result.cost <= budget + 1e-6


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_policies_work_without_learning_rates(name: str):
    table = table_of(np.arange(24.0).reshape(6, 4, 1).repeat(2, axis=2))
    for result in replays(table, make_policy(name), budget=9.0, n=5):
        assert result.cost <= 9.0 + 1e-6


@pytest.mark.parametrize("name", ["grid", "race", "keep-top", "halving"])
def test_policies_find_the_best_with_a_large_budget_and_no_noise(name: str):
    table = rates_table(noise=0.0)
    for result in replays(table, make_policy(name), budget=90.0, n=3):
        assert table.params[result.decision.pick] == {"optimizer": "adam", "learning_rate": pytest.approx(1e-3)}
        assert result.regret == pytest.approx(0.0)


def test_race_beats_random_search_under_noise():
    table = rates_table(noise=8.0)

    def regret(name: str) -> float:
        return float(np.mean([each.regret for each in replay_often(table, make_policy(name), budget=36.0, n=60)]))

    assert regret("race") < 0.5 * regret("random")


def test_unknown_policy_suggests_the_nearest_name():
    with pytest.raises(StudyError, match="race"):
        make_policy("rase")
