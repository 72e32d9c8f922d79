"""Tests of commands that learn the reward from demonstrations."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("minari")

from experts import balance, record_rule

from finder.cli.options.expert_options import from_expert
from studies import load_study

SMALL = ("--set", "jit_compile=false", "--set", "n_steps=16", "--set", "n_envs=2", "--set", "batch_size=16")


@pytest.fixture
def finder_with_expert(finder: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    record_rule(finder.folder / "datasets", "CartPole-v1", balance, monkeypatch, n_episodes=2, name="balance-v0")
    return finder


@pytest.mark.slow
def test_training_learns_its_reward_from_demonstrations(finder_with_expert: Any) -> None:
    words = ("--env", "CartPole-v1", "--expert", "datasets/balance-v0", "--reward", "airl", "--env-steps", "64")
    ran = finder_with_expert("train", "ppo", *words, *SMALL, "--folder", "run", "--quiet")
    assert ran.code == 0, ran.err
    settings = json.loads((finder_with_expert.folder / "run" / "run.json").read_text())["settings"]
    assert settings["agent"] == "airl-ppo"
    assert settings["config"]["expert"] == str(finder_with_expert.folder / "datasets" / "balance-v0")
    again = finder_with_expert("train", "--resume", "run", "--env-steps", "96", "--quiet")
    assert again.code == 0, again.err
    played = finder_with_expert("play", "run", "--headless", "--json")
    assert played.code == 0, played.err


@pytest.mark.slow
def test_pick_of_a_search_with_demonstrations_is_trained(
    finder_with_expert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ("--env-steps", "64", "--seeds", "1", "--rates", "0.3,1e-4", "--confirm", "0", "--executor", "inline")
    words = ("--env", "CartPole-v1", "--expert", "balance", "--storage", "finder.db")
    ran = finder_with_expert("lr", "ppo", *words, *budget, *SMALL, "--json")
    assert ran.code == 0, ran.err
    study = "lr-gail-ppo-CartPole-v1"
    trained = finder_with_expert(
        "train", "--from", study, "--storage", "finder.db", "--env-steps", "64", "--folder", "long", "--quiet"
    )
    assert trained.code == 0, trained.err
    settings = json.loads((finder_with_expert.folder / "long" / "run.json").read_text())["settings"]
    assert (settings["agent"], settings["config"]["expert"]) == ("gail-ppo", "balance-v0")
    lines = finder_with_expert("best", study, "--storage", "finder.db").out.partition("\n\n")[2]
    monkeypatch.chdir(finder_with_expert.folder)
    names: dict[str, Any] = {}
    exec(lines.replace("1_000_000", "64"), names)
    assert names["agent"].config.expert == "balance-v0"
    assert names["agent"].config.n_steps == 16


@pytest.mark.slow
def test_search_that_goes_on_has_the_same_demonstrations(
    finder_with_expert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ("--env-steps", "64", "--seeds", "1", "--confirm", "0", "--executor", "inline", *SMALL, "--quiet")
    words = ("lr", "ppo", "--env", "CartPole-v1", "--expert", "balance", "--storage", "finder.db", *budget)
    first = "lr-gail-ppo-CartPole-v1"
    finder_with_expert(*words, "--rates", "1e-3")
    record_rule(
        finder_with_expert.folder / "datasets", "CartPole-v1", balance, monkeypatch, n_episodes=2, name="balance-v1"
    )
    finder_with_expert(*words, "--rates", "1e-3,1e-4")  # with newer demonstrations, this is another study
    studies = [load_study(name, str(finder_with_expert.folder / "finder.db")) for name in (first, f"{first}-2")]
    assert [study.spec.agent_params["gail-ppo"]["expert"] for study in studies] == ["balance-v0", "balance-v1"]
    assert [len(study.trials()) for study in studies] == [1, 2]


@pytest.mark.slow
def test_run_that_only_started_from_a_clone_is_resumed_without_demonstrations(
    finder_with_expert: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--env", "CartPole-v1", "--expert", "balance", "--pretrain", "--set", "pretrain_steps=5")
    ran = finder_with_expert("train", "ppo", *words, *SMALL, "--env-steps", "64", "--folder", "run", "--quiet")
    assert ran.code == 0, ran.err
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(finder_with_expert.folder / "nothing"))
    again = finder_with_expert("train", "--resume", "run", "--env-steps", "96", "--quiet")
    assert again.code == 0, again.err


def test_loss_of_a_learned_reward_is_nothing_to_judge_by(finder_with_expert: Any) -> None:
    words = ("lr", "ppo", "--env", "CartPole-v1", "--expert", "balance", "--metric", "loss")
    ran = finder_with_expert(*words)
    assert ran.code == 2
    assert "hold out some of the demonstrations" in " ".join(ran.err.split())


@pytest.mark.slow
def test_reward_of_a_run_trains_a_fresh_agent(finder_with_expert: Any) -> None:
    place, budget = ("--env", "CartPole-v1"), ("--env-steps", "64", *SMALL, "--quiet")
    ran = finder_with_expert("train", "airl-ppo", *place, "--expert", "balance", *budget, "--folder", "learned")
    assert ran.code == 0, ran.err
    ran = finder_with_expert("train", "ppo", *place, "--reward", "learned", *budget)
    assert ran.code == 0, ran.err
    folder = finder_with_expert.folder / "runs" / "rewarded-ppo-CartPole-v1-seed0"
    settings = json.loads((folder / "run.json").read_text())["settings"]
    assert settings["agent"] == "rewarded-ppo"
    assert settings["config"]["reward_from"] == str(finder_with_expert.folder / "learned")
    again = finder_with_expert("train", "--resume", str(folder), "--env-steps", "96", "--quiet")
    assert again.code == 0, again.err
    (checkpoint, *_) = (finder_with_expert.folder / "learned" / "checkpoints").iterdir()
    chosen = f"reward_from={checkpoint.relative_to(finder_with_expert.folder)}"
    ran = finder_with_expert("train", "rewarded-ppo", *place, *budget, "--set", chosen, "--folder", "set")
    assert ran.code == 0, ran.err
    settings = json.loads((finder_with_expert.folder / "set" / "run.json").read_text())["settings"]
    assert settings["config"]["reward_from"] == str(checkpoint)


@pytest.mark.slow
def test_search_with_the_reward_of_a_run(finder_with_expert: Any) -> None:
    place = ("--env", "CartPole-v1")
    ran = finder_with_expert(
        *("train", "ppo", *place, "--expert", "balance", "--env-steps", "64", *SMALL, "--quiet", "--folder", "learned"),
    )
    assert ran.code == 0, ran.err
    budget = ("--env-steps", "64", "--seeds", "1", "--confirm", "0", "--executor", "inline", "--storage", "finder.db")
    ran = finder_with_expert(
        *("lr", "ppo", *place, "--reward", "learned", *budget, *SMALL, "--rates", "0.3,1e-4", "--json"),
    )
    assert ran.code == 0, ran.err
    words = ("train", "--from", "lr-rewarded-ppo-CartPole-v1", "--storage", "finder.db", "--env-steps", "64")
    trained = finder_with_expert(*words, "--folder", "long", "--quiet")
    assert trained.code == 0, trained.err
    settings = json.loads((finder_with_expert.folder / "long" / "run.json").read_text())["settings"]
    assert settings["agent"] == "rewarded-ppo"
    assert settings["config"]["reward_from"] == str(finder_with_expert.folder / "learned")
    words = ("tune", "ppo", *place, "--reward", "learned", "--param", "gamma", "--n-trials", "1", *budget, *SMALL)
    ran = finder_with_expert(*words, "--json")
    assert ran.code == 0, ran.err
    with_both = ("--expert", "balance", "--reward", "learned")
    refused = finder_with_expert("agents", "ppo", "a2c", *place, *with_both)
    assert refused.code == 2
    assert "leave out --expert" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "ppo", "--reward", "gial"), "takes gail, airl, or a run that has learned its reward"),
        (("train", "ppo", "--reward", "datasets", "--expert", "balance"), "learned already: leave out --expert"),
        (("train", "ppo", "--reward", "datasets"), "no checkpoint of a training is in it"),
        (("train", "gail-ppo", "--reward", "datasets"), "gail-ppo learns its reward by gail already"),
        (("train", "rewarded-ppo", "--expert", "balance"), "rewarded-ppo has the reward of an earlier run"),
        (("train", "rewarded-ppo", "--reward", "gail"), "rewarded-ppo has the reward of an earlier run"),
        (("train", "rewarded-ppo"), "set reward_from to its folder (finder train --reward RUN)"),
        (("lr", "ppo", "--pretrain"), "--pretrain learns from demonstrations: give them by --expert."),
        (("lr", "ppo", "--pretrain", "--reward", "airl"), "--reward airl and --pretrain learn from demonstrations"),
        (
            ("train", "bc", "--expert", "balance", "--pretrain"),
            "bc learns from demonstrations alone",
        ),
        (("train", "gail-airl-ppo", "--expert", "balance"), "An agent learns one reward and starts from one clone"),
        (("train", "bc-bc-ppo", "--expert", "balance"), "An agent learns one reward and starts from one clone"),
        (("train", "bc"), "BC needs demonstrations: set expert to a Minari dataset"),
        (("lr", "ppo", "--reward", "airl"), "--reward airl learns from demonstrations: give them by --expert."),
        (("train", "airl-ppo", "--reward", "gail", "--expert", "balance"), "learns its reward by airl already"),
        (("train", "gail-ppo"), "needs demonstrations: set expert to a Minari dataset"),
        (("train", "airl-td3", "--expert", "balance"), "AIRL needs a policy with probabilities"),
    ],
)
def test_contradictory_flags_are_refused(finder_with_expert: Any, words: tuple[str, ...], message: str) -> None:
    ran = finder_with_expert(*words, "--env", "CartPole-v1" if "airl-td3" not in words else "Pendulum-v1")
    assert ran.code == 2
    assert message in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (("ppo", None, False), "gail-ppo"),
        (("ppo", "airl", False), "airl-ppo"),
        (("ppo", None, True), "bc-ppo"),
        (("ppo", "airl", True), "bc-airl-ppo"),
        (("airl-ppo", None, True), "bc-airl-ppo"),
        (("bc-ppo", "gail", False), "bc-gail-ppo"),
        (("bc-ppo", None, False), "bc-ppo"),
        (("bc", None, False), "bc"),
        (("airl-ppo", "airl", False), "airl-ppo"),
        (("ppo", "datasets", True), "bc-rewarded-ppo"),
    ],
)
def test_flags_name_the_agent(finder_with_expert: Any, monkeypatch: pytest.MonkeyPatch, flags: Any, name: str) -> None:
    monkeypatch.chdir(finder_with_expert.folder)
    agent, reward, pretrain = flags
    learner, params = from_expert(agent, ["balance"], reward, pretrain)
    assert (learner, params["expert"]) == (name, "balance")
    assert ("reward_from" in params) == (reward == "datasets")


@pytest.mark.slow
def test_training_starts_from_a_clone_of_the_expert(finder_with_expert: Any) -> None:
    words = ("--env", "CartPole-v1", "--expert", "balance", "--pretrain", "--env-steps", "64")
    brief = ("--set", "pretrain_steps=20")
    ran = finder_with_expert("train", "ppo", *words, *SMALL, *brief, "--folder", "run", "--quiet")
    assert ran.code == 0, ran.err
    settings = json.loads((finder_with_expert.folder / "run" / "run.json").read_text())["settings"]
    assert settings["agent"] == "bc-ppo"
    again = finder_with_expert("train", "--resume", "run", "--env-steps", "96", "--quiet")
    assert again.code == 0, again.err


@pytest.mark.slow
def test_learning_rate_of_cloning_is_searched(finder_with_expert: Any) -> None:
    own = ("--set", "jit_compile=false", "--set", "n_steps=16", "--set", "n_envs=2", "--set", "batch_size=16")
    budget = ("--env-steps", "64", "--seeds", "1", "--rates", "0.1,1e-3", "--confirm", "0", "--executor", "inline")
    words = ("--env", "CartPole-v1", "--expert", "balance", "--storage", "finder.db", "--json")
    ran = finder_with_expert("lr", "bc", *words, *budget, *own, "--set", "gradient_steps=4")
    assert ran.code == 0, ran.err
