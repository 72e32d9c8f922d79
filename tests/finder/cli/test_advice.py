"""The commands that would make a pick safe: they keep all that the search was about, and are commands."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from finder.cli.advice import changed_words
from finder.cli.app import app
from studies.remedies import Remedy, longer_runs, more_confirmed, more_seeds
from studies.spec import StudySpec

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
            ["tune", "ppo", *PLACE, *IN_PLACE, "--param", "learning_rate=1e-4:1:log", "-plearning_rate"],
            WIDER,
            IN_PLACE,
            ["--param", "learning_rate=1e-05:10:log", "--study-name", "s-wider"],
        ),
    ],
)
def test_a_remedy_changes_its_own_options_only(words: Any, remedy: Remedy, kept: Any, added: Any) -> None:
    told = changed_words(words, remedy)
    command, *agents = words[: words.index("--env")]
    assert told == [command, *agents, *PLACE, *kept, *added]
    parser: Any = typer.main.get_command(app)
    parser.commands[command].make_context(command, told[1:])  # raises where it is no such command
