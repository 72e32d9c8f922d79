"""Translation between libraries, and what is made of results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from agents import AgentSpec
from benchmarks.head_to_head import report as reports
from benchmarks.head_to_head import sides as side_runs
from benchmarks.head_to_head.cells import CELLS, starts_alike
from benchmarks.head_to_head.compare import numbers, scaled
from benchmarks.head_to_head.translation import SB3_DEFAULTS, to_finder, to_sb3


def described(agent: str, **given: Any) -> dict[str, Any]:
    return {"algo": agent, "n_envs": 4, "normalize": False, "kwargs": SB3_DEFAULTS[agent], **given}


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_defaults_survive_the_way_to_finder_and_back(agent: str) -> None:
    params, lost = to_finder(described(agent))
    assert not lost
    config = AgentSpec.of(agent, "Pendulum-v1", params).config
    back, lost = to_sb3(agent, config.to_dict())
    assert not lost
    expected = {**SB3_DEFAULTS[agent], **({"ent_coef": "auto_1"} if agent == "sac" else {})}
    assert back["kwargs"] == pytest.approx(expected) if agent == "ppo" else back["kwargs"] == expected
    assert back["n_envs"] == 4
    assert back["policy_kwargs"]["net_arch"] == ([64, 64] if agent == "ppo" else [256, 256])
    assert back["policy_kwargs"]["activation_fn"] == ("tanh" if agent == "ppo" else "relu")
    assert back["policy_kwargs"]["optimizer_class"] == "adam"
    eps = 1e-5 if agent == "ppo" else 1e-8
    assert back["policy_kwargs"]["optimizer_kwargs"] == {"betas": [0.9, 0.999], "eps": eps}


def test_normalization_and_optimizers() -> None:
    given = described("ppo", normalize={"norm_reward": False})
    given["policy_kwargs"] = {"optimizer_class": "sgd", "optimizer_kwargs": {"momentum": 0.9, "nesterov": True}}
    params, lost = to_finder(given)
    assert (params["normalize_observations"], params["normalize_rewards"]) == (True, False)
    assert params["optimizer"] == "sgd(momentum=0.9, nesterov=True)"
    back, lost = to_sb3("ppo", AgentSpec.of("ppo", "CartPole-v1", params).config.to_dict())
    assert not lost
    assert back["normalize"] == {"norm_obs": True, "norm_reward": False}
    assert back["policy_kwargs"]["optimizer_kwargs"] == {"momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        ("adamw", {"betas": [0.9, 0.999], "eps": 1e-7, "weight_decay": 0.004}),
        ("rmsprop", {"alpha": 0.9, "momentum": 0.0, "eps": math.sqrt(1e-7)}),
        ("sgd", {"momentum": 0.0}),
    ],
)
def test_kerass_defaults_are_stated(optimizer: str, expected: dict[str, Any]) -> None:
    config = AgentSpec.of("ppo", "CartPole-v1", {"optimizer": optimizer, "max_grad_norm": None}).config
    back, lost = to_sb3("ppo", config.to_dict())
    assert not lost
    assert back["policy_kwargs"]["optimizer_class"] == optimizer
    assert back["policy_kwargs"]["optimizer_kwargs"] == expected
    assert back["kwargs"]["max_grad_norm"] == math.inf


def test_what_cannot_be_translated_is_named() -> None:
    given = described(
        "ppo", policy_kwargs={"log_std_init": -3.29, "ortho_init": False, "net_arch": {"pi": [8], "vf": [9]}}
    )
    given["kwargs"] = {"use_sde": True, "learning_rate": "lin_0.001"}
    params, lost = to_finder(given)
    assert params["learning_rate"] == 1e-3
    assert params["hidden_sizes"] == [8]
    for word in ("use_sde", "log_std_init", "ortho_init", "lin_0.001", "net_arch"):
        assert any(word in sentence for sentence in lost)
    config = AgentSpec.of("ppo", "CartPole-v1", {"optimizer": "lion", "share_layers": True}).config
    back, lost = to_sb3("ppo", config.to_dict())
    assert back["policy_kwargs"]["optimizer_class"] == "adam"
    assert len(lost) == 2


def rows(finals: dict[str, list[float]], seconds: float = 60.0) -> list[dict[str, Any]]:
    """Return results of one search a side, whose runs have their final return from the fifth mark on."""
    found: list[dict[str, Any]] = []
    for side, values in finals.items():
        free = side.endswith("defaults")
        key = {"cell": "ppo-acrobot", "side": side, "minutes": 0.0 if free else 5.0, "search": 0 if free else 1}
        told = {"seconds": 0.0 if free else seconds, "found": True, "untranslated": {"sb3": [], "finder": []}}
        found.append({"kind": "search", **key, **told, "pick": {}})
        for seed, value in enumerate(values):
            points = [[10_000 * k, value if k >= 5 else -500.0, 0.0, 10.0 * k] for k in range(1, 11)]
            run = {"library": "sb3", "env_steps": 100_000, "seed": seed, "points": points, "error": None}
            found.append({"kind": "run", **key, **run})
    return found


def test_sides_by_hand() -> None:
    sides = side_runs.sides_of(rows({"finder": [-80.0] * 4, "sb3-defaults": [-300.0] * 4}), "ppo-acrobot", 5.0, "sb3")
    assert sides["finder"].iqm == -80.0
    assert sides["finder"].mean_steps == 50_000
    assert sides["sb3-defaults"].mean_steps == pytest.approx(110_000)
    # the search ends after 60 s, and the run is better than the other one's last return after 50 s more
    assert side_runs.overtakes(sides["finder"], sides["sb3-defaults"]) == pytest.approx(110.0)
    assert side_runs.overtakes(sides["sb3-defaults"], sides["finder"]) is None


def test_diverged_runs_have_the_worst_return() -> None:
    given = rows({"finder": [-80.0] * 4, "zoo": [-90.0] * 4})
    given[-1] |= {"points": given[-1]["points"][:2], "error": "not finite"}
    sides = side_runs.sides_of(given, "ppo-acrobot", 5.0, "sb3")
    assert sides["zoo"].finals == [-90.0, -90.0, -90.0, -500.0]
    assert np.all(sides["finder"].drawn_iqms(0) == -80.0)


def test_report_counts_cells() -> None:
    text = reports.report(rows({"finder": [-80.0] * 4, "zoo": [-90.0] * 4, "sb3-defaults": [-70.0] * 4}))
    # pairs, higher (beyond the interval), lower (beyond it), higher or sooner, the other side is
    assert "| rl-baselines3-zoo | 5 | 1 | 1 (1) | 0 (0) | 1 (100%) | 0 |" in text
    assert "| Stable-Baselines3's defaults | 5 | 1 | 0 (0) | 1 (1) | 0 (0%) | 1 |" in text
    assert "never" in text


def test_report_groups_the_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    monkeypatch.setattr(
        reports, "sides_of", lambda rows, *place: (given.append(place), side_runs.sides_of(rows, *place))[1]
    )
    reports.report(rows({"finder": [-80.0] * 4, "zoo": [-90.0] * 4}))
    assert sorted(given) == [("ppo-acrobot", 5.0, "finder"), ("ppo-acrobot", 5.0, "sb3")]


def test_pairs_begin_alike() -> None:
    assert starts_alike("finder", "ray-asha", "ppo-acrobot")
    assert not starts_alike("finder", "ray-asha-none", "ppo-acrobot")
    assert starts_alike("finder-none", "ray-asha-none", "ppo-acrobot")
    assert not starts_alike("finder-none", "ray-pbt", "ppo-acrobot")
    assert starts_alike("finder", "ray-asha-none", "ppo-tanks")  # of which the zoo has no values
    assert starts_alike("finder-none", "zoo", "ppo-acrobot")
    text = reports.report(rows({"finder": [-80.0] * 4, "ray-asha": [-90.0] * 4, "ray-asha-none": [-70.0] * 4}))
    assert "| Ray Tune, ASHA | 5 | 1 | 1 (1) | 0 (0) |" in text
    assert "| **all** | 5 | 1 | 1 (1) | 0 (0) |" in text


def test_picks_that_were_not_translated_whole_are_in_no_pair() -> None:
    given = rows({"finder": [-80.0] * 4, "zoo": [-70.0] * 4, "ray-asha": [-90.0] * 4})
    given[5] |= {"untranslated": {"sb3": ["something"], "finder": []}}
    text = reports.report(given)
    assert "| ppo-acrobot | 5 | rl-baselines3-zoo † | 1 |" in text
    assert "| **all** | 5 | 1 | 1 (1) | 0 (0) |" in text


def test_pick_of_each_search_has_a_line() -> None:
    given = rows({"finder": [-80.0, -90.0]}) + [{**row, "search": 2} for row in rows({"finder": [-60.0] * 2})]
    text = reports.report(given)
    assert "| ppo-acrobot | 5 | Finder | 1 | earlier | -85 (mean -85, worst -90; 2) |  |" in text
    assert "| ppo-acrobot | 5 | Finder | 2 | earlier | -60 (mean -60, worst -60; 2) |  |" in text


def test_overview_has_a_column_for_each_side() -> None:
    text = reports.report(rows({"finder": [-80.0] * 10, "zoo": [-1000.0] * 4, "sb3-defaults": [-0.001] * 10}))
    line = next(line for line in text.splitlines() if line.startswith("| ppo-acrobot | 5 | -80.0"))
    assert line == "| ppo-acrobot | 5 | -80.0 (-80.0) |  | -1000 (-1000; 4) |  |  |  |  | 0.00 (0.00) |  |  |"


def test_report_has_the_runs_that_an_interquartile_mean_leaves_out() -> None:
    text = reports.report(rows({"finder": [-80.0, -80.0, -80.0, -500.0]}))
    assert "| Finder | 1 | 4 | -80 (" in text
    assert "| -185 | -500 |" in text


def test_a_bad_search_is_not_left_out_by_an_interquartile_mean() -> None:
    given = rows({"finder": [-80.0] * 4})
    for row in rows({"finder": [-500.0] * 4}):
        given.append({**row, "search": 2})
    side = side_runs.sides_of(given, "ppo-acrobot", 5.0, "sb3")["finder"]
    assert side.iqm == side.mean == -290.0
    # two searches are drawn out of two: both the good one, one of each, or both the bad one
    assert set(np.unique(side.drawn_iqms(0))) == {-80.0, -290.0, -500.0}
    assert side_runs.curve(side, np.array([1_000.0]), -500.0) == [-290.0]


def test_tuned_values_that_the_zoo_has_not_are_no_side() -> None:
    given = rows({"finder": [-80.0] * 4, "zoo-tuned": [-70.0] * 4})
    for row in given:
        if row["side"] == "zoo-tuned":
            row |= {"minutes": 0.0, "search": 0, "found": False}
    assert set(side_runs.sides_of(given, "ppo-acrobot", 5.0, "sb3")) == {"finder"}


def test_searches_of_two_versions_are_told_apart() -> None:
    given = rows({"finder": [-80.0] * 4}) + [{**row, "search": 2} for row in rows({"finder": [-80.0] * 4})]
    given[5] |= {"version": "0123abcd", "states": {"COMPLETE": 3, "PRUNED": 2, "FAIL": 1}}
    text = reports.report(given)
    assert "| ppo-acrobot | 5 | Finder | earlier | 1 | 60 |" in text
    assert "| ppo-acrobot | 5 | Finder | 0123abcd | 1 | 60 | 5 |" in text


def test_epsilon_of_rmsprop_survives_the_way_to_finder() -> None:
    given = described("ppo", policy_kwargs={"optimizer_class": "rmsprop", "optimizer_kwargs": {"eps": 1e-4}})
    params, _ = to_finder(given)
    assert "epsilon=1e-08" in params["optimizer"]


def test_cells_and_options() -> None:
    assert CELLS["ppo-acrobot"].marks[-1] == CELLS["ppo-acrobot"].env_steps
    assert CELLS["ppo-tanks"].env_id == "Tanks-v0"
    assert scaled(CELLS["ppo-acrobot"], 0.02).env_steps == 2_000
    assert numbers("1..3") == [1, 2, 3] == numbers("1,2,3")
