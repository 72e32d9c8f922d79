"""Tests of the advice that makes a pick safe, for each interface: commands, study files and Python calls."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import typer

from finder.cli.app import app
from finder.results.advice import advice, advice_of, call_text, changed_words, file_keys, run_file_text, with_plan
from studies.analysis.conclusion import conclusion
from studies.analysis.remedies import Remedy, longer_runs, more_confirmed, more_seeds, repeat_search
from studies.defaults import DEFAULT_STORAGE
from studies.recording.opening import open_study
from studies.recording.recorder import Recorder
from studies.spaces.space_notation import parse_space
from studies.spec.spec import StudySpec
from studies.study.origin import StudyOrigin, started_by
from studies.study.study import load_study

PLACE = [
    *("--env", "CartPole-v1", "--env-kwargs", '{"sutton_barto_reward": false}'),
    *("--wrapper", "NormalizeObservation", "--max-episode-steps", "100", "--set", "n_envs=2"),
]
SPEC = StudySpec(
    name="s", storage="memory", agents=("ppo",), env="CartPole-v1", env_steps=1000, trials=({"learning_rate": 0.1},)
)
RATES = Remedy(changes=(("rates", (1e-5, 3e-5)),))
OWN_RATES = Remedy(changes=(("optimizers", ("sgd(momentum=0.9)",)), ("learning_rates", (1.0, 10.0))))
WIDER = Remedy(changes=(("space", (("learning_rate", "1e-05:10:log"),)), ("study_name", "s-wider")))
IN_PLACE = ["-pgamma=0.9:0.99", "-p", "gamma=0.9:0.99", "--param=gamma=0.9:0.99", "--param", "gamma"]


@pytest.mark.parametrize(
    ("words", "remedy", "kept", "added"),
    [
        (["lr", "ppo", *PLACE], more_seeds(SPEC, 3), [], ["--seeds", "3", "--study-name", "s-3-seeds"]),
        (["lr", "ppo", *PLACE, "--seeds=0,1"], more_seeds(SPEC, 3), [], ["--seeds", "3", "--study-name", "s-3-seeds"]),
        (
            ["lr", "ppo", *PLACE, "--env-steps", "1000", "--study-name", "s"],
            longer_runs(SPEC, 2000),
            [],
            ["--env-steps", "2000", "--study-name", "s-2000-steps"],
        ),
        (["agents", "ppo", "dqn", *PLACE, "--confirm=0"], more_confirmed(SPEC, 3), [], ["--confirm", "4"]),
        (["lr", "ppo", *PLACE, "--n-rates", "3", "--no-extend"], RATES, ["--no-extend"], ["--rates", "1e-5,3e-5"]),
        (
            ["opt", "ppo", *PLACE, "--optimizer", "adam", "--vary", "momentum=0,0.9", "--n-rates=3"],
            OWN_RATES,
            [],
            ["--optimizer", "sgd(momentum=0.9)", "--rates", "1,1e1"],
        ),
        (
            ["tune", "ppo", *PLACE, *IN_PLACE, "--param", "learning_rate=1e-4:1:log", "-plearning_rate@optimizer=sgd"],
            WIDER,
            IN_PLACE,
            ["--param", "learning_rate=1e-05:10:log", "--study-name", "s-wider"],
        ),
    ],
)
def test_remedy_changes_only_its_own_options(words: Any, remedy: Remedy, kept: Any, added: Any) -> None:
    changed = changed_words(words, remedy)
    command, *agents = words[: words.index("--env")]
    assert changed == [command, *agents, *PLACE, *kept, *added]
    parser: Any = typer.main.get_command(app)
    parser.commands[command].make_context(command, changed[1:])  # raises if the command is invalid


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (repeat_search("runs the rest"), "the same call again"),
        (more_seeds(SPEC, 3), "the same call with seeds=3, study_name='s-3-seeds'"),
        (
            OWN_RATES,
            "the same call with learning_rates=[1.0, 10.0], without n_rates, "
            "of an OptFinder(..., ['sgd(momentum=0.9)'])",
        ),
        (WIDER, "the same call with 'learning_rate': '1e-05:10:log' in params, study_name='s-wider'"),
    ],
)
def test_remedy_is_written_as_arguments_of_the_call(remedy: Remedy, text: str) -> None:
    assert call_text(remedy) == text


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (repeat_search("runs the rest"), "the same call again"),
        (more_seeds(SPEC, 3), "the same call with seeds=3, name='s-3-seeds'"),
        (RATES, "the same call with trials=[{'learning_rate': 1e-05}, {'learning_rate': 3e-05}]"),
        (WIDER, "the same call with 'learning_rate': '1e-05:10:log' in params, name='s-wider'"),
    ],
)
def test_remedy_is_written_as_arguments_of_run_file(remedy: Remedy, text: str) -> None:
    assert run_file_text(remedy) == text


@pytest.mark.parametrize(
    ("remedy", "kind", "keys"),
    [
        (more_seeds(SPEC, 3), "tune", {"seeds": (0, 1, 2), "name": "s-3-seeds"}),
        (longer_runs(SPEC, 2000), "tune", {"env_steps": 2000, "name": "s-2000-steps"}),
        (more_confirmed(SPEC, 3), "tune", {"confirm": 4}),
        (RATES, "lr", {"trials": ({"learning_rate": 1e-5}, {"learning_rate": 3e-5})}),
        (
            OWN_RATES,
            "opt",
            {"trials": tuple({"optimizer": "sgd(momentum=0.9)", "learning_rate": rate} for rate in (1.0, 10.0))},
        ),
        (WIDER, "tune", {"params": {"learning_rate": parse_space("1e-05:10:log")}, "name": "s-wider"}),
    ],
)
def test_remedy_is_written_as_keys_of_a_study_file(
    tmp_path: Path, remedy: Remedy, kind: str, keys: dict[str, Any]
) -> None:
    """The suggested keys, written to a study file, give the spec of the remedy."""
    written = file_keys(remedy)
    given = {line.partition(" = ")[0] for line in written}
    own = ['name = "s"', 'agents = "ppo"', 'env = "CartPole-v1"', "env_steps = 1000", f'kind = "{kind}"']
    own += [] if "trials" in keys or "params" in keys else ["params.learning_rate = 1e-3"]
    path = tmp_path / "study.toml"
    path.write_text("\n".join([*(line for line in own if line.partition(" = ")[0] not in given), *written]))
    spec = StudySpec.from_toml(path)
    assert {key: getattr(spec, key) for key in keys} == keys


BEGUN = {
    None: "the same search with confirm_seeds=7",
    StudyOrigin("python"): "the same call with confirm_seeds=7",
    StudyOrigin("run_file"): "the same call with confirm_seeds=7",
    StudyOrigin(
        "command", ("lr", "ppo", "--confirm-seeds=5")
    ): "finder lr ppo --confirm-seeds 7 --storage sqlite:///s.db",
    StudyOrigin("file", ("run", "a b.toml", "--n-jobs", "2")): (
        "confirm_seeds = 7 in a b.toml, then finder run 'a b.toml' --n-jobs 2 --storage sqlite:///s.db"
    ),
}


@pytest.mark.parametrize(("begun", "text"), BEGUN.items())
def test_advice_uses_the_interface_that_started_the_study(begun: StudyOrigin | None, text: str) -> None:
    remedy = Remedy(changes=(("confirm_seeds", 7),), purpose="7 further seeds")
    advice = advice_of(begun, "sqlite:///s.db", remedy)
    assert advice.text == text
    is_call = begun is None or begun.by in ("python", "run_file")
    assert advice.command == ("" if is_call else text.rpartition("then ")[2])


def test_name_of_the_remedy_replaces_the_name_on_the_command_line() -> None:
    advice = advice_of(
        StudyOrigin("file", ("run", "s.toml", "--study-name", "mine")), DEFAULT_STORAGE, more_seeds(SPEC, 3)
    )
    assert advice.command == f"finder run s.toml --study-name s-3-seeds --storage {DEFAULT_STORAGE}"
    assert advice.before == "seeds = 3 in s.toml"


def test_advice_replaces_the_rates_of_a_range_that_was_extended() -> None:
    words = ("lr", "ppo", "--env", "E-v0", "--n-rates", "9", "--extend", "--seeds", "3")
    remedy = Remedy(changes=(("rates", (1.0, 10.0)),), purpose="")
    assert changed_words(words, remedy) == ["lr", "ppo", "--env", "E-v0", "--seeds", "3", "--rates", "1,1e1"]


def test_flags_beside_a_file_are_replaced_rather_than_keys_that_they_override() -> None:
    origin = StudyOrigin("file", ("run", "s.toml", "--minutes", "1", "--study-name", "s"))
    remedy = Remedy(changes=(("seeds", 3), ("minutes", 3), ("study_name", "s-3-seeds")), purpose="")
    given = advice_of(origin, DEFAULT_STORAGE, remedy)
    assert given.before == "seeds = 3 in s.toml"
    assert given.command.startswith("finder run s.toml --minutes 3 --study-name s-3-seeds")


RATES_OF_BOTH = [{"optimizer": name, "learning_rate": rate} for name in ("adam", "sgd") for rate in (1e-3, 1e-2)]
SEVERAL = [*RATES_OF_BOTH, {"optimizer": "sgd", "learning_rate": 1.0}]

BOTH_RATES = [{"actor.learning_rate": rate, "critic.learning_rate": 1e-2} for rate in (1e-3, 1e-4)]


@pytest.mark.parametrize(
    ("by", "rows", "changes"),
    [
        ("command", [{"learning_rate": 1e-2}, {"learning_rate": 1e-3}], (("rates", (1e-3, 1e-2)),)),
        ("command", [{"actor.learning_rate": 1e-2}], (("rates", (1e-2,)),)),
        ("command", RATES_OF_BOTH, (("optimizers", ("adam", "sgd")), ("learning_rates", (1e-3, 1e-2)))),
        (
            "python",
            SEVERAL,
            (
                ("optimizers", ("adam", "sgd")),
                ("learning_rates", {"adam": [1e-3, 1e-2], "sgd": [1e-3, 1e-2, 1.0]}),
            ),
        ),
        ("file", SEVERAL, (("trials", tuple(SEVERAL)),)),
        ("run_file", SEVERAL, (("trials", tuple(SEVERAL)),)),
        ("file", BOTH_RATES, (("trials", tuple(BOTH_RATES)),)),
        ("python", BOTH_RATES, (("trials", tuple(BOTH_RATES)),)),
        ("python", [{"learning_rate": [1e-3, 1e-2]}], (("trials", ({"learning_rate": [1e-3, 1e-2]},)),)),
    ],
)
def test_another_study_has_the_trials_of_all_calls(by: Any, rows: Any, changes: Any) -> None:
    assert with_plan(more_seeds(SPEC, 3), by, rows).changes == (*changes, *more_seeds(SPEC, 3).changes)


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("command", SEVERAL),
        ("command", BOTH_RATES),
        ("command", [{"learning_rate": [1e-3, 1e-2]}]),
        ("command", [{"actor.learning_rate": 1e-3}, {"critic.learning_rate": 1e-2}]),
        ("python", [{"actor.learning_rate": 1e-3}, {"critic.learning_rate": 1e-2}]),
        ("python", [*SEVERAL, {"optimizer": "sgd #2", "learning_rate": 1.0}]),
        ("python", [*SEVERAL, {"optimizer": "rmsprop"}]),
    ],
)
def test_trials_that_cannot_be_written_are_named_in_words(by: Any, rows: Any) -> None:
    remedy = with_plan(more_seeds(SPEC, 3), by, rows)
    assert remedy.changes == more_seeds(SPEC, 3).changes
    assert (
        remedy.purpose == f"{more_seeds(SPEC, 3).purpose}, without some of its trials, which other calls have planned"
    )


def test_plan_of_several_optimizers_is_written_for_each_interface() -> None:
    words = ("opt", "ppo", "--env", "E-v0", "--optimizer", "adam", "--n-rates=3")
    both = with_plan(more_seeds(SPEC, 3), "command", RATES_OF_BOTH)
    flags = ["--optimizer", "adam", "--optimizer", "sgd", "--rates", "1e-3,1e-2"]
    assert changed_words(words, both) == [*words[:4], *flags, "--seeds", "3", "--study-name", "s-3-seeds"]
    assert call_text(with_plan(more_seeds(SPEC, 3), "python", SEVERAL)) == (
        "the same call with learning_rates={'adam': [0.001, 0.01], 'sgd': [0.001, 0.01, 1.0]}, seeds=3, "
        "study_name='s-3-seeds', without n_rates, of an OptFinder(..., ['adam', 'sgd'])"
    )
    keys = file_keys(with_plan(more_seeds(SPEC, 3), "file", [{"optimizer": "sgd", "actor.learning_rate": 1e-3}]))
    assert keys[0] == 'trials = [{ optimizer = "sgd", "actor.learning_rate" = 1e-3 }]'


def studied(storage: str, name: str, *calls: tuple[StudyOrigin | None, dict[str, Any]]) -> list[str]:
    """Return the remedies of a study of one seed that these calls ran, in which the last rate is the best."""
    fields: dict[str, Any] = {
        "name": name, "storage": storage, "agents": "ppo", "env": "CartPole-v1", "env_steps": 1000, "kind": "lr",
        "seeds": 1, "confirm": 0, "pruner": "none",
    }  # fmt: skip
    for origin, own in calls:
        given = started_by(origin) if origin is not None else contextlib.nullcontext()
        with given, open_study(StudySpec(**{**fields, **own})) as study, Recorder(study) as recorder:
            while (ask := recorder.ask()) is not None:
                recorder.completed(ask.number, float(ask.number), {0: float(ask.number)})
    with load_study(name, storage) as study:
        return [each.text for each in advice(study, conclusion(study))]


def test_remedies_have_what_the_latest_call_had(tmp_path: Path) -> None:
    """A later call adds rates and a horizon to the study of the first one; and is repeated without its rates."""
    storage = f"sqlite:///{tmp_path}/s.db"
    first = {"trials": [{"learning_rate": rate} for rate in (1e-4, 1e-3)]}
    later = {"trials": [{"learning_rate": rate} for rate in (1e-2, 3e-2)], "horizon": 4000}
    words = ("lr", "ppo", "--env", "CartPole-v1", "--confirm", "0")
    begun = StudyOrigin("command", (*words, "--start-lr=1e-4", "--end-lr=1e-3", "--n-rates", "2"))
    added = StudyOrigin("command", (*words, "--rates", "1e-2,3e-2", "--horizon", "4000"))
    again = StudyOrigin("command", (*begun.words, "--horizon", "4000"))
    place = f" --storage {storage}"
    of_all = f"finder {' '.join(words)} --horizon 4000 --rates 1e-4,1e-3,1e-2,3e-2 --seeds 3 --study-name"
    plan = " ".join(begun.words[6:])
    for name, calls in (("a", [(added, later)]), ("b", [(added, later), (again, {**first, "horizon": 4000})])):
        texts = studied(storage, name, (begun, first), *calls)
        assert f"{of_all} {name}-3-seeds{place}" in texts
        joining = next(text for text in texts if "--confirm 3" in text)
        assert sorted(joining.split()) == sorted(
            f"finder lr ppo --env CartPole-v1 --horizon 4000 {plan} --confirm 3{place}".split()
        )


def test_remedies_of_calls_have_the_rates_of_earlier_ones(tmp_path: Path) -> None:
    calls = [(None, {"trials": [{"learning_rate": rate} for rate in rates]}) for rates in ((1e-4, 1e-3), (1e-2, 3e-2))]
    texts = studied(f"sqlite:///{tmp_path}/s.db", "s", *calls)
    of_all = "the same call with rates=[0.0001, 0.001, 0.01, 0.03], seeds=3, study_name='s-3-seeds'"
    assert f"{of_all}, without start_lr, end_lr and n_rates" in texts
    assert "the same call with confirm=3" in texts
    assert "the same call with seeds=3, study_name='t-3-seeds'" in studied(f"sqlite:///{tmp_path}/s.db", "t", calls[0])
