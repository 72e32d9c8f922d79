"""Regret of picks for longer runs, and the table of minutes that were kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.picks import horizon
from benchmarks.searches import minutes


def test_regret_by_hand() -> None:
    grid = np.array([[0.0, 0.0], [10.0, 10.0], [5.0, 5.0]])
    assert horizon.regrets(grid, np.array([[10.0, 10.0]])) == (0.0, 0.0, 0.0)
    regret, low, high = horizon.regrets(grid, np.array([[5.0, 5.0], [10.0, 10.0]]))
    assert regret == pytest.approx(0.25)
    assert (low, high) == pytest.approx((0.0, 0.5))  # both draws one of the two searches


def test_table_has_the_worst_value_where_a_run_diverged(tmp_path: Path) -> None:
    path = tmp_path / "horizon.jsonl"
    picks = {"suggested": horizon.RATES[8], "tested": horizon.RATES[9]}
    rows: list[dict[str, object]] = [{"kind": "search", "case": "ppo-tanks", "search": 1, **picks}]
    for k, rate in enumerate(horizon.RATES):
        for seed in horizon.SEEDS:
            value = None if k == 9 else float(-abs(k - 8))
            rows.append(
                {"kind": "run", "case": "ppo-tanks", "env_steps": 2_000, "rate": rate, "seed": seed, "value": value}
            )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    line = horizon.table(path)[-1]
    assert line.startswith("| ppo-tanks | 100 | 2,000 | 1.0e-03 | 1.0e-03 | 0.0% (0.0% to 0.0%) |")
    assert "100.0% (100.0% to 100.0%)" in line


def test_incomplete_grids_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "horizon.jsonl"
    path.write_text(json.dumps({"kind": "search", "case": "ppo-tanks", "search": 1, "suggested": 1e-3}) + "\n")
    assert len(horizon.table(path)) == 2


def test_table_of_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "minutes.jsonl"
    kept = {"search": "lr", "minutes": 5.0, "states": {"complete": 16}, "env_steps": 40_000, "confirmation": 3}
    rows = [{**kept, "seconds": 290.0, "ratio": 0.967}, {**kept, "seconds": 310.0, "ratio": 1.033}]
    rows.append({"search": "opt", "minutes": 5.0, "seconds": 4.0, "refused": "too few"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(minutes, "RESULTS", path)
    lines = minutes.table()
    command = "`finder lr ppo --env CartPole-v1`"
    assert lines[2] == f"| {command} | 5 | 2 | 300 | 1.00 | 1.03 | 40,000 | 16 complete |"
    assert lines[3] == "| `finder opt ppo --env Acrobot-v1` | 5 | refused | | | | | |"
