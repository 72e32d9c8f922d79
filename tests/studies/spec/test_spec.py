"""StudySpec: defaults, validation, plans, and TOML files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from studies.errors import StudyError
from studies.judging.search_history import finalists_text, n_finalists
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange
from studies.spec.spec import StudySpec
from studies.spec.spec_file import key_lines
from studies.spec.stored_spec import VERSION_ATTR, stored_attributes

Make = Callable[..., StudySpec]


def test_spec_round_trips_through_json(make_spec: Make) -> None:
    spec = make_spec(
        params={"learning_rate": "1e-5:1:log", "n_steps": [64, 128], "gamma": "0:1", "net": [[64], [32, 32]]},
        fixed={"tau": 0.005},
        env_kwargs={"gravity": 9.8},
        seeds=(0, 7),
        sampler_kwargs={"n_startup_trials": 3},
    )
    assert StudySpec.from_json_dict(json.loads(json.dumps(spec.to_json_dict()))) == spec


def test_counts_may_be_written_as_whole_floats(make_spec: Make) -> None:
    spec = make_spec(env_steps=2e5, n_trials=3.0)
    assert (spec.env_steps, spec.n_trials) == (200_000, 3)
    assert isinstance(spec.env_steps, int)
    with pytest.raises(StudyError, match=r"env_steps is 2000\.5"):
        make_spec(env_steps=2000.5)


def test_storage_may_be_a_path(make_spec: Make) -> None:
    assert make_spec(storage=Path("a.db")).storage == "a.db"


def test_spec_defaults() -> None:
    spec = StudySpec(name="s", agents="ppo", env="E", env_steps=10)
    assert (spec.storage, spec.n_trials, spec.seeds, spec.n_reports) == ("sqlite:///finder.db", 20, (0, 1, 2), 20)
    assert (spec.metric, spec.direction, spec.sampler, spec.pruner) == ("return", "maximize", "tpe", "median")
    assert (spec.executor, spec.n_jobs, spec.seed, spec.max_failures_in_a_row) == ("auto", None, 0, 3)
    assert (spec.kind, spec.agents) == ("tune", ("ppo",))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nam": "x"}, ["'nam'", "'name'"]),
        ({"n_trials": "3"}, ["n_trials", "'3'"]),
        ({"n_trials": 0}, ["n_trials is 0"]),
        ({"n_trials": True}, ["n_trials is True"]),
        ({"env_steps": -5}, ["env_steps is -5"]),
        ({"episodes": 3}, ["both", "env_steps", "episodes"]),
        ({"env_steps": None}, ["neither"]),
        ({"sampler": "tep"}, ["'tep'", "'tpe'"]),
        ({"pruner": "medain"}, ["'medain'", "'median'"]),
        ({"seeds": (1, 1)}, ["seeds", "once"]),
        ({"seeds": ()}, ["seeds"]),
        ({"seeds": (-1,)}, ["seeds.0 is -1"]),
        ({"agents": ("a", "a")}, ["agents"]),
        ({"agents": ()}, ["agents"]),
        ({"name": ""}, ["name"]),
        ({"n_reports": 1001}, ["n_reports is 1001"]),
        ({"metric": "reward"}, ["there is no metric 'reward'", "'return'"]),
        ({"executor": "cloud"}, ["executor"]),
        ({"kind": "foo"}, ["kind"]),
        ({"params": {"gamma": "1:0"}}, ["params.gamma", "low is 1"]),
        ({"fixed": {"learning_rate": 1}}, ["'learning_rate'", "both searched and fixed"]),
        ({"fixed": {"x": object()}}, ["fixed.x"]),
        ({"trials": [{"learning_rate": 5.0}]}, ["planned trial 0", "learning_rate", "5.0"]),
        ({"trials": [{}]}, ["planned trial 0 is empty"]),
        ({"trials": [{"learning_rate": 0.1}], "n_trials": 4}, ["n_trials is 4", "plan of 1"]),
        ({"sampler": "grid"}, ["learning_rate", "not a grid"]),
        ({"sampler": "grid", "sampler_kwargs": {"points": 1}}, ["points is 1"]),
        ({"first": [{"gamma": 0.9}]}, ["first has 'gamma'", "not searched"]),
        ({"first": [{"learning_rate": 5.0}]}, ["first trial 0, learning_rate", "5.0"]),
        ({"first": [{"learning_rate": 0.1}], "trials": [{"learning_rate": 0.1}]}, ["first is for samplers"]),
        ({"baseline": {"learning_rate": 0.1}}, ["baseline is {'learning_rate': 0.1}", "add it to them"]),
        ({"baseline": {"gamma": 0.1}, "first": [{"learning_rate": 0.1}]}, ["baseline is {'gamma': 0.1}"]),
        ({"baseline": {"learning_rate": 9.0}, "first": [{"learning_rate": 0.1}]}, ["baseline, learning_rate", "9.0"]),
        (
            {"baseline": {"gamma": 0.9}, "first": [{"gamma": 0.9}], "params": {"gamma": "0.8:1", "tau": "0:1"}},
            ["without tau: give it, and its trial, all parameters"],
        ),
        ({"agents": ("a", "b"), "trials": [{"learning_rate": 0.1}]}, ["'agent'"]),
        ({"agents": ("a", "b"), "params": {"agent": ["a", "c"]}}, ["agent"]),
    ],
)
def test_invalid_spec_names_field_and_value(make_spec: Make, changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(StudyError) as error:
        make_spec(**changes)
    for word in words:
        assert word in str(error.value)


def test_invalid_spec_reports_all_errors_in_one_message(make_spec: Make) -> None:
    with pytest.raises(StudyError) as error:
        make_spec(n_trials=0, seeds=(), metric="x")
    assert all(field in str(error.value) for field in ("n_trials", "seeds", "metric"))


def test_seeds_accept_a_number_of_seeds(make_spec: Make) -> None:
    assert make_spec(seeds=2).seeds == (0, 1)
    assert make_spec(seeds=[2]).seeds == (2,)
    assert make_spec(seeds=np.array([3, 4])).seeds == (3, 4)
    assert make_spec(seeds=(np.int32(seed) for seed in (3, 4))).seeds == (3, 4)


@pytest.mark.parametrize("seeds", [0, 1.5, "3", True, [0.5], ["0"], [True]])
def test_what_is_no_number_and_no_list_of_seeds_is_refused(make_spec: Make, seeds: Any) -> None:
    with pytest.raises(StudyError, match=f"seeds: {re.escape(repr(seeds))} is not a .* give how many seeds, .*list of"):
        make_spec(seeds=seeds)


NUMBERS = {
    **dict.fromkeys(("env_steps", "horizon", "n_trials", "seed", "confirm", "confirm_seeds", "n_jobs"), np.int64(500)),
    "max_episode_steps": np.int32(40),
    "checkpoint_seconds": np.float32(2.5),
    "fixed": {"gamma": np.float32(0.5), "hidden_sizes": (np.int64(8), np.int64(8)), "flag": np.bool_(True)},
    "params": {"width": np.array([32, 64]), "depth": Choice(np.array([1, 2])), "rate": FloatRange(np.float32(1), 2)},
    "first": [{"width": np.int64(32), "depth": 1, "rate": np.float64(1.5)}],
}


@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_of_numpy_are_stored_as_those_of_python(make_spec: Make, field: str) -> None:
    given = {field: NUMBERS[field], **({"params": NUMBERS["params"]} if field == "first" else {})}
    stored = make_spec(**given).to_json_dict()
    assert StudySpec.from_json_dict(json.loads(json.dumps(stored))).to_json_dict() == stored


def test_numbers_of_numpy_keep_their_values(make_spec: Make) -> None:
    spec = make_spec(fixed=NUMBERS["fixed"], env_steps=np.int64(500))
    assert spec.fixed == {"gamma": 0.5, "hidden_sizes": [8, 8], "flag": True}
    assert spec.env_steps == 500


@pytest.mark.parametrize(
    ("written", "read"), [("None", "none"), (" Mirrored: 2", "mirrored:2"), ("mirrored", "mirrored")]
)
def test_strategy_spelling_is_normalized(make_spec: Make, written: str, read: str) -> None:
    spec = make_spec(strategy=written, executor="inline" if read == "none" else "process")
    assert spec.strategy == StudySpec.from_json_dict(spec.to_json_dict()).strategy == read


def test_several_agents_become_a_searched_parameter(make_spec: Make) -> None:
    assert make_spec(agents=("dqn", "ppo")).search_space()["agent"] == Choice(("dqn", "ppo"))
    assert "agent" not in make_spec().search_space()


def test_plan_determines_n_trials_and_search_space(make_spec: Make) -> None:
    spec = make_spec(
        params={},
        trials=[
            {"optimizer": "adam", "learning_rate": 1e-3, "n_steps": 64, "same": 1},
            {"optimizer": "sgd", "learning_rate": 1, "n_steps": 128, "same": 1},
        ],
    )
    assert spec.n_trials == 2
    assert spec.search_space() == {
        "optimizer": Choice(("adam", "sgd")),
        "learning_rate": FloatRange(1e-3, 1.0, log=True),
        "n_steps": IntRange(64, 128, log=True),
        "same": Fixed(1),
    }
    assert isinstance(spec.trials[1]["learning_rate"], float)
    assert StudySpec.from_json_dict(spec.to_json_dict()) == spec


def test_report_marks_are_evenly_spaced_and_end_at_the_budget(make_spec: Make) -> None:
    assert make_spec(env_steps=100, n_reports=4).report_marks == (25, 50, 75, 100)
    assert make_spec(env_steps=3, n_reports=10).report_marks == (1, 2, 3)
    assert make_spec(env_steps=None, episodes=7, n_reports=2).report_marks == (4, 7)


TOML = """\
name = "from a file"   # a comment
agents = ["ppo"]
env = "CartPole-v1"
env_steps = 500
note = 3

[params]
gamma = "0.9:0.999"
"actor.learning_rate" = { low = 1e-5, high = 1e-2, log = true }

[[trials]]
gamma = 0.95
[[trials]]
gamma = 0.99
"""


def test_spec_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(TOML.replace("note = 3\n", ""))
    spec = StudySpec.from_toml(path)
    assert spec.params["gamma"] == FloatRange(0.9, 0.999)
    assert spec.params["actor.learning_rate"] == FloatRange(1e-5, 1e-2, log=True)
    assert spec.trials == ({"gamma": 0.95}, {"gamma": 0.99})
    assert spec == StudySpec.from_json_dict(spec.to_json_dict())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("note = 3", "n_trails = 3", ["line 5", "'n_trails'", "'n_trials'"]),
        ("note = 3", 'n_jobs = "3"', ["line 5", "n_jobs is '3'"]),
        ('gamma = "0.9:0.999"', 'gamma = "0.9:0.8"', ["line 8", "gamma"]),
        ("low = 1e-5", "lwo = 1e-5", ["line 9", "'lwo'", "'low'"]),
        ("note = 3", "episodes = 3", ["study.toml", "both"]),
        ("gamma = 0.99\n", "gamma = 2.0\n", ["study.toml", "planned trial 1", "2.0"]),
        ("note = 3", "note = = 3", ["study.toml", "line 5"]),
        ("[params]", "[parms]", ["line 7", "'parms'", "'params'"]),
    ],
)
def test_invalid_toml_names_file_key_and_line(tmp_path: Path, before: str, after: str, words: list[str]) -> None:
    path = tmp_path / "study.toml"
    text = TOML if before == "note = 3" else TOML.replace("note = 3\n", "\n")
    path.write_text(text.replace(before, after))
    with pytest.raises(StudyError) as error:
        StudySpec.from_toml(path)
    for word in ("study.toml", *words):
        assert word in str(error.value)


def test_missing_toml_raises(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no file"):
        StudySpec.from_toml(tmp_path / "none.toml")
    with pytest.raises(StudyError, match="cannot be read"):
        StudySpec.from_toml(tmp_path)


def test_key_lines_skip_multiline_strings_and_count_tables() -> None:
    lines = key_lines('a = """\nb = 1\n"""\nc.d = 2\n[[t]]\nx = 1\n[[t]]\nx = 2\n')
    assert lines == {"a": 1, "c": 4, "c.d": 4, "t": 5, "t.0": 5, "t.0.x": 6, "t.1": 7, "t.1.x": 8}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"confirm_env_steps": 500}, "confirm_env_steps is 500, fewer than the 1000 of each run of the search"),
        (
            {"confirm_env_steps": 2000, "env_steps": None, "episodes": 5},
            "2000 environment steps, but the budget is in epi",
        ),
        ({"confirm_env_steps": 2000, "confirm": 0}, "confirm_env_steps is 2000, but confirm is 0, so that no trial is"),
        (
            {"confirm_env_steps": 2000, "pruner": "pbt"},
            "with the scheduler pbt, whose schedules are as long as the runs",
        ),
        ({"confirm_env_steps": 0}, "confirm_env_steps"),
    ],
)
def test_impossible_lengths_of_confirming_runs_are_refused(
    make_spec: Make, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        make_spec(**{"env_steps": 1000, **fields})


def test_runs_that_confirm_report_as_often_as_others(make_spec: Make) -> None:
    own = make_spec(env_steps=1000, confirm_env_steps=3000, n_reports=4)
    assert (own.confirm_budget, own.confirms_longer) == (3000, True)
    assert own.report_marks == (250, 500, 750, 1000)
    assert own.marks_of(own.confirm_budget) == (750, 1500, 2250, 3000)
    assert not make_spec(env_steps=1000, confirm_env_steps=1000).confirms_longer
    assert "confirm_env_steps" not in make_spec(env_steps=1000).to_json_dict()  # earlier versions read it
    assert stored_attributes(make_spec(env_steps=1000, confirm_env_steps=2000), "memory")[VERSION_ATTR] == 2
    assert StudySpec.from_json_dict(own.to_json_dict()) == own


def test_baseline_is_one_of_the_first_trials_or_of_the_plan(make_spec: Make) -> None:
    for planned in ("first", "trials"):
        spec = make_spec(
            **{planned: [{"learning_rate": 1e-2}, {"learning_rate": 0.1}]}, baseline={"learning_rate": 0.1}
        )
        assert spec.baseline == {"learning_rate": 0.1}
        assert StudySpec.from_json_dict(spec.to_json_dict()) == spec
        assert stored_attributes(spec, "memory")[VERSION_ATTR] == 2
    assert "baseline" not in make_spec().to_json_dict()
    own = {"first": [{"learning_rate": 0.1}], "baseline": {"learning_rate": 0.1}}
    assert [n_finalists(make_spec(**own, confirm=n)) for n in (2, 0)] == [3, 0]
    assert [n_finalists(make_spec(**own, confirm=2, n_trials=n)) for n in (1, 2, 3)] == [0, 2, 3]
    assert finalists_text(make_spec(**own, confirm=2)) == "the best 2 and the baseline"


def test_grid_has_all_its_combinations_unless_fewer_trials_are_given() -> None:
    space = {name: [0.9, 0.95, 0.99] for name in ("gamma", "gae_lambda", "clip_range")}
    fields = {"name": "s", "agents": "ppo", "env": "CartPole-v1", "env_steps": 100, "params": space, "sampler": "grid"}
    whole = StudySpec(**fields)  # type: ignore[arg-type]
    assert (whole.n_trials, len(whole.plan())) == (27, 27)
    assert StudySpec.from_json_dict(whole.to_json_dict()) == whole
    for asked, n in ((20, 20), (30, 27)):
        part = StudySpec(**fields, n_trials=asked)  # type: ignore[arg-type]
        assert (part.n_trials, part.plan(), len(part.grid())) == (n, whole.plan()[:n], 27)


def test_spec_with_tuples_is_the_same_from_a_storage() -> None:
    spec = StudySpec(
        name="x", agents=("ppo",), env="CartPole-v1", env_steps=1000, params={"hidden_sizes": [(64, 64), (32,)]},
        fixed={"sizes": (1, 2)}, env_kwargs={"size": (5, 5)}, first=[{"hidden_sizes": (32,)}],
    )  # fmt: skip
    assert StudySpec.from_json_dict(spec.to_json_dict()) == spec


def test_every_row_of_a_grid_may_be_the_baseline() -> None:
    values = [round(0.9 + 0.002 * k, 4) for k in range(40)]
    for value in values:
        spec = StudySpec(
            name="x", agents=("ppo",), env="CartPole-v1", env_steps=1000, params={"gamma": values}, sampler="grid",
            baseline={"gamma": value},
        )  # fmt: skip
        assert spec.n_trials == 40


@pytest.mark.parametrize(
    "fields", [{"trials": [{"agent": "pppo"}]}, {"params": {"agent": "ppo"}}, {"params": {"agent": "1:3"}}]
)
def test_agents_of_trials_are_those_of_the_study(fields: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match=r"but agents is \['ppo', 'dqn'\]"):
        StudySpec(name="x", agents=("ppo", "dqn"), env="CartPole-v1", env_steps=1000, **fields)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ({"env_steps": 50_000}, "50,000 environment steps"),
        ({"env_steps": 1}, "1 environment step"),
        ({"episodes": 1_200}, "1,200 episodes"),
        ({"episodes": 1}, "1 episode"),
    ],
)
def test_text_of_a_budget_counts_its_unit(budget: dict[str, int], text: str, make_spec: Make) -> None:
    assert make_spec(**{"env_steps": None, **budget}).budget_text == text
