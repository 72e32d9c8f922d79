"""Tables of finished runs: files, values at common marks, different numbers of seeds, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_tables import frame_of, table_of

from studies.errors import StudyError
from studies.simulation.run_table import RunTable


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


def test_diverged_runs_of_some_seeds_count_as_the_worst_of_these():
    """The worst return of all, -100, is that of a seed which is not among them."""
    table = table_of([[[1.0, np.nan], [2.0, 4.0]], [[5.0, 7.0], [5.0, -100.0]]])
    assert table.values[:, :, 1].tolist() == [[-100.0, 4.0], [7.0, -100.0]]
    own = table.only_seeds(np.array([0]))
    assert own.values[:, :, 1].tolist() == [[7.0], [7.0]]
    assert own.only_seeds(np.array([0, 0])).values[:, :, 1].tolist() == [[7.0, 7.0], [7.0, 7.0]]
    each = table.only_seeds(np.array([[0], [0]]))
    assert each.values[:, :, 1].tolist() == [[7.0], [7.0]]


def test_seeds_without_any_value_at_a_mark_have_the_worst_of_their_other_marks():
    table = table_of([[[1.0, np.nan], [2.0, 4.0]], [[5.0, np.nan], [5.0, -100.0]]])
    assert table.only_seeds(np.array([0])).values[:, 0].tolist() == [[1.0, 1.0], [5.0, 1.0]]
    nothing = table_of([[[np.nan], [4.0]], [[np.nan], [5.0]]], marks=(10,))
    assert nothing.only_seeds(np.array([0])).values[:, 0].tolist() == [[0.0], [0.0]]


def test_configs_without_names_are_named_by_their_hyperparameters():
    frame = frame_of(np.arange(12.0).reshape(2, 3, 2), [{"lr": 0.1, "momentum": np.nan}, {"lr": 0.2, "momentum": 0.9}])
    table = RunTable.of_frame(frame.drop(columns="config"))
    assert table.configs == ("lr=0.1", "lr=0.2, momentum=0.9")
    np.testing.assert_array_equal(table.values, RunTable.of_frame(frame).values)


BAD = [
    (lambda frame: frame.drop(columns="seed"), "no column 'seed': it needs .*, and has config, env_steps, return"),
    (lambda frame: frame.drop(columns="config"), "no column 'config'"),
    (lambda frame: frame.drop(columns="config").assign(loss=range(len(frame))), r"another configuration \(loss\)"),
    (lambda frame: frame.iloc[:0], "has no rows"),
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


def test_marks_without_finished_episodes_are_dropped():
    values = np.full((2, 2, 3), np.nan)
    values[0, :, 1:] = 5.0
    values[1, :, 2] = 9.0
    table = table_of(values, marks=(10, 20, 30))
    assert table.marks == (20, 30)
    np.testing.assert_array_equal(table.values[1, 0], [5.0, 9.0])


def test_cost_of_a_mark_is_the_share_of_a_run_since_the_one_before():
    table = table_of(np.zeros((1, 1, 3)), marks=(10, 30, 100))
    assert [table.cost(mark) for mark in range(3)] == pytest.approx([0.1, 0.2, 0.7])


def test_configuration_is_found_by_its_parameters():
    table = table_of(np.zeros((2, 1, 1)), params=[{"lr": 1e-3, "opt": "a"}, {"lr": 1e-2, "opt": "a"}], marks=(10,))
    assert table.find({"opt": "a", "lr": 0.01}) == 1
    assert table.find({"opt": "a", "lr": 0.010004}) == 1
    assert table.find({"opt": "b", "lr": 0.01}) is None
    assert table.find({"lr": 0.01}) is None


# --- tables of others


def rows(config: str, seed: int, **values: float) -> list[dict[str, Any]]:
    return [
        {"config": config, "seed": seed, "env_steps": int(step[1:]), "return": value} for step, value in values.items()
    ]


def test_runs_with_different_marks_have_their_last_value_at_or_before_common_ones():
    frame = pd.DataFrame([*rows("a", 0, _30=3.0, _70=7.0, _100=10.0), *rows("b", 0, _50=5.0, _100=1.0)])
    table = RunTable.of_frame(frame)
    assert table.marks == tuple(range(30, 105, 5))  # of 5, 10, ... 100; before 30 no run has a value
    a, b = table.values[:, 0, :]
    assert a.tolist() == [3.0] * 8 + [7.0] * 6 + [10.0]
    # Before its first value, a run counts as the worst there: the other one.
    assert b.tolist() == [3.0] * 4 + [5.0] * 10 + [1.0]


def test_run_that_ended_early_keeps_its_last_value():
    frame = pd.DataFrame([
        *rows("a", 0, _50=5.0, _100=10.0), *rows("b", 0, _50=6.0, _100=9.0), *rows("c", 0, _50=7.0),
        *rows("d", 0, _104=1.0),
    ])  # fmt: skip
    table = RunTable.of_frame(frame)
    assert table.marks[-1] == 100  # the median length
    assert table.values[:, 0, -1].tolist() == [10.0, 9.0, 7.0, 7.0]  # d has a value only later


def test_configurations_may_have_different_seeds():
    frame = pd.DataFrame([
        *rows("a", 3, _10=1.0), *rows("a", 7, _10=2.0), *rows("a", 5, _10=4.0),
        *rows("b", 1, _10=9.0), *rows("b", 3, _10=8.0),
    ])  # fmt: skip
    table = RunTable.of_frame(frame)
    assert (table.counts, table.seeds, table.is_even) == ((3, 2), (0, 1, 2), False)
    np.testing.assert_array_equal(table.values[:, :, 0], [[1.0, 4.0, 2.0], [9.0, 8.0, np.nan]])
    assert table.worth().tolist() == pytest.approx([7 / 3, 8.5])
    assert table.worth([1, 1]).tolist() == [3.0, 8.0]
    some = table.only_seeds(np.array([[2, 0], [1, -1]]))
    assert some.counts == (2, 1)
    np.testing.assert_array_equal(some.values[:, :, 0], [[2.0, 1.0], [8.0, np.nan]])
