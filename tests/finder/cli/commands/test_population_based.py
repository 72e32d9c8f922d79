"""Tests of population-based training on the command line, from the search to the long run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from studies.words import param_text

if TYPE_CHECKING:
    from conftest import Finder

SMALL = [
    *("--set", "n_envs=2", "--set", "n_steps=16", "--set", "batch_size=16", "--set", "n_epochs=2"),
    *("--set", "hidden_sizes=[8]", "--set", "jit_compile=false"),
]
SEARCH = [
    *("tune", "ppo", "--env", "CartPole-v1", "-p", "learning_rate=1e-4:1e-1", "--n-trials", "4", "--env-steps", "320"),
    *("--study-name", "p", "--confirm", "1", "--confirm-seeds", "2", *SMALL),
]
PBT = [*SEARCH, "--scheduler", "pbt", "--perturb-steps", "64", "--scheduler-kwargs", '{"quantile": 0.5}']

CALLBACK = '''
import json
from pathlib import Path

from agents import Callback


class Rates(Callback):
    """Writes the learning rate of every rollout."""

    def on_rollout_begin(self, trainer):
        path = Path("rates.json")
        seen = json.loads(path.read_text()) if path.exists() else []
        path.write_text(json.dumps([*seen, [trainer.env_steps, trainer.agent.config.learning_rate]]))
        if Path("stop").exists() and trainer.env_steps >= 128:
            trainer.stop("enough")
'''


def expected_rates(schedule: list[dict[str, object]], stretch: int, end: int) -> list[list[float]]:
    """Return the rate at the beginning of each rollout of 32 steps, by hand."""
    found = []
    for step in range(0, end, 32):
        reached = [entry for entry in schedule if int(str(entry["env_steps"])) * stretch <= step]
        params = reached[-1]["params"]
        assert isinstance(params, dict)
        found.append([step, params["learning_rate"]])
    return found


@pytest.mark.slow
def test_a_search_is_followed_by_the_long_run(finder: Finder) -> None:
    (finder.folder / "watch.py").write_text(CALLBACK)
    ran = finder(*PBT)
    assert ran.code == 0, ran.err
    first = ran.out.splitlines()[0]
    assert "learning_rate" in first
    assert "4 trials are members of one population" in ran.err

    best = finder("best", "p", "--json").json
    schedule = best["schedule"]
    assert schedule[0]["env_steps"] == 0
    assert {entry["env_steps"] for entry in schedule} <= {0, 64, 128, 192, 256}
    assert best["config"]["learning_rate"] == schedule[0]["params"]["learning_rate"]
    assert best["n_seeds"] == 2
    ends = [param_text("learning_rate", entry["params"]["learning_rate"]) for entry in (schedule[0], schedule[-1])]
    assert " → ".join(dict.fromkeys(ends)) in finder("show", "p").out
    text = finder("best", "p").out
    assert ("agents.HyperparameterSchedule([" in text) == (len(schedule) > 1)

    for stretch, name in ((1, "same"), (2, "longer")):
        steps = 320 * stretch
        ran = finder(
            "train", "--from", "p", "--env-steps", str(steps), "--folder", name, "--callback", "watch.py:Rates"
        )
        assert ran.code == 0, ran.err
        seen = json.loads((finder.folder / "rates.json").read_text())
        (finder.folder / "rates.json").unlink()
        assert seen == [pytest.approx(each) for each in expected_rates(schedule, stretch, steps)]

    report = finder("report", "p")
    assert report.code == 0
    assert "finder-schedules" in (finder.folder / report.out.strip()).read_text()


@pytest.mark.slow
def test_a_long_run_resumes_in_the_middle_of_its_schedule(finder: Finder) -> None:
    (finder.folder / "watch.py").write_text(CALLBACK)
    assert finder(*PBT, "--quiet").code == 0
    schedule = finder("best", "p", "--json").json["schedule"]
    words = ("train", "--from", "p", "--env-steps", "320", "--folder", "run", "--callback", "watch.py:Rates")
    (finder.folder / "stop").touch()
    assert finder(*words).code == 0
    (finder.folder / "stop").unlink()
    stored = json.loads((finder.folder / "run" / "run.json").read_text())["settings"]["schedule"]
    assert [at for at, _ in stored] == [entry["env_steps"] for entry in schedule[1:]]
    before = json.loads((finder.folder / "rates.json").read_text())
    assert before[-1][0] == 128
    assert finder("train", "--resume", "run", "--env-steps", "320").code == 0
    seen = json.loads((finder.folder / "rates.json").read_text())
    rollouts = [each for each in seen if each[0] % 32 == 0]  # the one that was stopped begins again in its middle
    assert rollouts == [pytest.approx(each) for each in expected_rates(schedule, 1, 320)]


@pytest.mark.slow
def test_workers_cannot_help(finder: Finder) -> None:
    assert finder(*PBT, "--quiet").code == 0
    ran = finder("worker", "p")
    assert ran.code == 2
    assert "workers cannot help" in ran.err


@pytest.mark.slow
def test_a_plateau_does_not_fit_a_schedule(finder: Finder) -> None:
    assert finder(*PBT, "--quiet").code == 0
    if len(finder("best", "p", "--json").json["schedule"]) > 1:
        ran = finder("train", "--from", "p", "--plateau", "2")
        assert ran.code == 2
        assert "follows a schedule" in ran.err
