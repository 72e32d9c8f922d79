"""Tests of several objectives on the command line: the front, picks by one objective, and the long run with a trial."""

from __future__ import annotations

import json
from typing import Any

import pytest

import studies

SMALL = ("--set=jit_compile=false", "--set=n_steps=32", "--set=n_epochs=1", "--set=batch_size=32", "--quiet")
SEVERAL = (
    "tune", "ppo", "--env", "CartPole-v1", "--env-steps=600", "--metric=return", "--metric=auc", "--seeds=2",
    "--param", "learning_rate=1e-4,1e-2", "--sampler=grid", "--study-name=both", "--executor=inline",
)  # fmt: skip


@pytest.mark.slow
def test_front_picks_and_the_long_run(finder: Any) -> None:
    ran = finder(*SEVERAL, *SMALL)
    assert ran.code == 0, ran.err
    assert ran.out.startswith("Pareto front of return and return over the whole training: ")
    assert "front" in ran.out.splitlines()[-2]

    found = json.loads(finder("best", "both", "--json").out)
    assert found["metrics"] == ["return", "auc"]
    numbers = [trial["trial"] for trial in found["pareto_front"]]
    assert numbers
    assert set(found["pareto_front"][0]["values"]) == {"return", "auc"}
    assert len(found["pareto_front"][0]["values"]["auc"]["seed_values"]) == 2

    shown = finder("best", "both")
    assert shown.code == 0
    assert "Pareto front of return and return over the whole training" in shown.out
    assert "finder train --from both --trial 1 " in shown.err

    by_one = finder("best", "both", "--metric", "auc")
    assert by_one.code == 0
    assert "return over the whole training " in by_one.out
    assert "has no objective 'loss'. Allowed: auc, return" in finder("best", "both", "--metric", "loss").err

    single = [word for word in SEVERAL if word != "--metric=return" and not word.startswith("--study-name")]
    assert finder(*single, "--study-name=single", *SMALL).code in (0, 1)
    assert (
        "'both' has several objectives: give one of return, auc (--metric, study.by_objective)"
        in finder("compare", "both", "single").err
    )
    compared = json.loads(finder("compare", "both", "single", "--metric", "auc", "--json").out)
    assert compared["metric"] == "return over the whole training"
    assert {each["study"] for each in compared["studies"]} == {"both", "single"}

    listed = finder("show", "both")
    assert "auc" in listed.out.splitlines()[1]
    assert finder("studies").code == 0
    assert finder("report", "both").code == 0

    refused = finder("train", "--from", "both", "--env-steps=64", "--quiet")
    assert refused.code == 2
    by_one = finder("best", "both", "--metric", "auc")
    assert "studies.best_optimizer('both', 'sqlite:///finder.db', metric='auc')" in by_one.out
    assert "finder train --from both --trial 1" in by_one.err
    with pytest.warns(UserWarning, match="no safe suggestion"):
        optimizer = studies.best_optimizer("both", f"sqlite:///{finder.folder}/finder.db", metric="auc")
    assert optimizer.learning_rate is not None
    assert "finder train --from both --trial N" in refused.err
    assert "no complete trial 7: complete are 0, 1" in finder("train", "--from", "both", "--trial", "7").err
    trained = finder("train", "--from", "both", "--trial", str(numbers[-1]), "--env-steps=64", "--json", "--quiet")
    assert trained.code == 0, trained.err
    settings = (finder.folder / json.loads(trained.out)["folder"] / "run.json").read_text()
    assert f'"trial": {numbers[-1]}' in settings


@pytest.mark.slow
def test_several_metrics_in_a_file(finder: Any) -> None:
    (finder.folder / "several.toml").write_text(
        'name = "file"\nagents = "ppo"\nenv = "CartPole-v1"\nenv_steps = 300\nseeds = 1\nn_trials = 3\n'
        'metric = ["return", "greedy-return:2"]\nsampler = "nsgaii"\nn_reports = 3\nexecutor = "inline"\n'
        '[params]\nlearning_rate = "1e-4:1e-2:log"\n[fixed]\njit_compile = false\nn_steps = 32\nn_epochs = 1\n'
    )
    ran = finder("run", "several.toml", "--json", "--quiet")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["metrics"] == ["return", "greedy-return:2"]
    assert found["pick"] is None
    assert found["pareto_front"]
