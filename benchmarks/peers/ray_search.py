"""A search with Ray Tune, Stable-Baselines3 as its trainer; started by `searches.py`, answers with JSON.

The search space is that of rl-baselines3-zoo's samplers, in Ray's words, over the zoo's values for the environment. The
first trial has these values themselves (Stable-Baselines3's defaults where the zoo has none for the environment), and
ranges that do not contain them are widened; Finder does both. With `has_first` false it does neither. A trial reports
greedy returns of five episodes at each fifth of its steps, as the zoo's trials do. ASHA stops trials by environment
steps. PBT trains a population of eight for as long as there is time: two at a time, which Ray exchanges; it copies
weights, optimizers, normalization and replay by checkpoints, and changes all hyperparameters but those of the networks.
The pick is `get_best_result`, by the last return that a trial reported, as in Ray's documentation; a long run has its
hyperparameters from the first step, also of PBT, whose pick changed them on the way.
"""
# mypy: ignore-errors

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining
from ray.tune.search.basic_variant import BasicVariantGenerator

POPULATION = 8
REPORTS = 5
BUFFER_SIZE = 100_000  # of SAC in a search: checkpoints contain it, and no trial fills it
PPO_NETWORKS = {"tiny": [64], "small": [64, 64], "medium": [256, 256]}
SAC_NETWORKS = {"small": [64, 64], "medium": [256, 256], "big": [400, 300]}
ZOO = "zoo"
"""Networks of the zoo's values, with their activation and all other arguments of the policy."""


def first_trial(base: dict) -> dict:
    """Return the zoo's values in the words of the search space; where it names none, those of Stable-Baselines3."""
    usual = {"learning_rate": 3e-4, "gamma": 0.99, "batch_size": 64}
    usual |= {"n_steps": 2048, "gae_lambda": 0.95, "ent_coef": 0.0, "clip_range": 0.2, "n_epochs": 10}
    usual |= {"max_grad_norm": 0.5}
    if base["algo"] == "sac":
        usual = {"learning_rate": 3e-4, "gamma": 0.99, "batch_size": 256, "train_freq": 1, "tau": 0.005}
    values = {name: base["kwargs"].get(name, value) for name, value in usual.items()}
    for name, value in values.items():
        if isinstance(value, str):  # a rate that falls linearly to 0
            values[name] = float(value.removeprefix("lin_"))
    for name in ("gamma", "gae_lambda"):
        if name in values:
            values[f"one_minus_{name}"] = 1.0 - values.pop(name)
    values["net_arch"] = ZOO
    if base["algo"] == "ppo":
        values["activation_fn"] = "tanh"
    return values


def space(algo: str, first: dict | None) -> tuple[dict, dict]:
    """Return the search space in two parts: what PBT may change while a trial trains, and the rest.

    Args:
        algo: `ppo` or `sac`.
        first: The first trial, which lies in it; None: there is none, and the space is that of the zoo.
    """
    networks = [] if first is None else [ZOO]
    first = first or {}

    def between(name: str, low: float, high: float):
        value = first.get(name, low)
        return tune.loguniform(min(low, value), max(high, value)) if value > 0 else tune.loguniform(low, high)

    def among(name: str, values: list) -> list:
        return sorted({*values, first.get(name, values[0])})

    mutable = {
        "one_minus_gamma": between("one_minus_gamma", 1e-4, 0.03),
        "learning_rate": between("learning_rate", 1e-5, 2e-3),
    }
    if algo == "sac":
        mutable |= {
            "batch_size": among("batch_size", [2**k for k in range(2, 12)]),
            "train_freq": among("train_freq", list(range(1, 11))),
            "tau": between("tau", 1e-3, 0.08),
        }
        return mutable, {"net_arch": [*SAC_NETWORKS, *networks]}
    mutable |= {
        "batch_size": among("batch_size", [2**k for k in range(2, 11)]),
        "n_steps": among("n_steps", [2**k for k in range(5, 13)]),
        "one_minus_gae_lambda": between("one_minus_gae_lambda", 1e-4, 0.1),
        "ent_coef": between("ent_coef", 1e-8, 0.1),
        "clip_range": among("clip_range", [0.1, 0.2, 0.3, 0.4]),
        "n_epochs": among("n_epochs", [1, 5, 10, 20]),
        "max_grad_norm": tune.uniform(
            min(0.3, first.get("max_grad_norm", 0.3)), max(2.0, first.get("max_grad_norm", 2.0))
        ),
    }
    return mutable, {"net_arch": [*PPO_NETWORKS, *networks], "activation_fn": ["tanh", "relu"]}


def described(base: dict, config: dict) -> dict:
    """Return the zoo's values with those of a trial; values that PBT multiplied keep to their bounds."""
    found, values = copy.deepcopy(base), {name: value for name, value in config.items() if name != "seed"}
    values["gamma"] = 1.0 - min(max(values.pop("one_minus_gamma"), 0.0), 1.0)
    networks = SAC_NETWORKS if base["algo"] == "sac" else PPO_NETWORKS
    network, activation = values.pop("net_arch"), values.pop("activation_fn", None)
    if network != ZOO:
        found["policy_kwargs"] = {"net_arch": networks[network]}
        if activation is not None:
            found["policy_kwargs"]["activation_fn"] = activation
    if base["algo"] == "sac":
        values["train_freq"] = values["gradient_steps"] = max(1, int(values["train_freq"]))
    else:
        values["gae_lambda"] = 1.0 - min(max(values.pop("one_minus_gae_lambda"), 0.0), 1.0)
    found["kwargs"].update(values)
    return found


def load(model, folder: str) -> None:
    """Take up the training of a checkpoint."""
    from stable_baselines3.common.save_util import load_from_zip_file
    from stable_baselines3.common.vec_env import VecNormalize

    model.set_parameters(f"{folder}/model.zip")
    for name, value in (load_from_zip_file(f"{folder}/model.zip")[2] or {}).items():  # SAC's log_ent_coef
        getattr(model, name).data.copy_(value.data)
    model.num_timesteps = int(Path(folder, "steps").read_text())
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        saved = VecNormalize.load(f"{folder}/normalizer.pkl", normalizer.venv)
        normalizer.obs_rms, normalizer.ret_rms = saved.obs_rms, saved.ret_rms
    if hasattr(model, "load_replay_buffer"):
        model.load_replay_buffer(f"{folder}/replay.pkl")


def save(model, folder: str) -> None:
    """Write a checkpoint."""
    model.save(f"{folder}/model.zip")
    Path(folder, "steps").write_text(str(model.num_timesteps))
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None:
        normalizer.save(f"{folder}/normalizer.pkl")
    if hasattr(model, "save_replay_buffer"):
        model.save_replay_buffer(f"{folder}/replay.pkl")


def trial(config: dict, asked: dict) -> None:
    """Train, report and, for PBT, write checkpoints."""
    import torch
    from sb3_model import build, greedy

    from benchmarks.learning.judged_episodes import SEARCH_SEED, judged_returns

    torch.set_num_threads(1)
    keeps = asked["scheduler"] == "pbt"
    description = described(asked["base"], config)
    if description["algo"] == "sac":
        description["kwargs"]["buffer_size"] = min(BUFFER_SIZE, description["kwargs"].get("buffer_size", BUFFER_SIZE))
    model = build(description, asked["env"], config["seed"])
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            load(model, folder)
    every = max(1, asked["steps"] // REPORTS)
    while keeps or model.num_timesteps < asked["steps"]:
        before = model.num_timesteps
        try:
            model.learn(every, reset_num_timesteps=before == 0)
            worth = float(judged_returns(asked["env"], greedy(model), 5, SEARCH_SEED).mean())
        except (ValueError, AssertionError):  # parameters that are not finite
            tune.report({"return": -1e9, "env_steps": max(before + every, model.num_timesteps)})
            return
        metrics = {"return": worth, "env_steps": model.num_timesteps}
        if not keeps:
            tune.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            save(model, folder)
            tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


def main(asked: dict) -> None:
    """Search until the time is over; print the description of the pick, and what was tried."""
    ends = asked["began"] + asked["seconds"]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    random.seed(asked["number"])  # of PBT's changes
    np.random.seed(asked["number"])
    first = first_trial(asked["base"]) if asked["has_first"] else None
    mutable, constant = space(asked["base"]["algo"], first)
    every = max(1, asked["steps"] // REPORTS)
    if asked["scheduler"] == "asha":
        scheduler = ASHAScheduler(time_attr="env_steps", max_t=asked["steps"], grace_period=every)
    else:
        scheduler = PopulationBasedTraining(
            time_attr="env_steps", perturbation_interval=every, hyperparam_mutations=mutable
        )
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, asked=asked), {"cpu": 1}),
        param_space={
            name: tune.choice(given) if isinstance(given, list) else given
            for name, given in {**mutable, **constant, "seed": tune.randint(0, 2**24)}.items()
        },
        tune_config=tune.TuneConfig(
            metric="return", mode="max", scheduler=scheduler, reuse_actors=True,
            search_alg=BasicVariantGenerator(points_to_evaluate=first and [first], random_state=asked["number"]),
            num_samples=POPULATION if asked["scheduler"] == "pbt" else -1, time_budget_s=max(1.0, ends - time.time()),
        ),
        run_config=tune.RunConfig(storage_path=asked["folder"], name="search", verbose=0),
    )  # fmt: skip
    results = tuner.fit()
    reported = [result for result in results if result.metrics and "return" in result.metrics]
    found = {"description": None, "value": None, "n_trials": len(results), "n_reported": len(reported)}
    found["search_steps"] = sum(result.metrics["env_steps"] for result in reported)
    if reported:
        best = results.get_best_result(metric="return", mode="max")
        found |= {"description": described(asked["base"], best.config), "value": best.metrics["return"]}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
