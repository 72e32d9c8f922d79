"""Hyperparameters of Finder in the words of Stable-Baselines3 and back, with what cannot be translated.

A configuration of Stable-Baselines3 is a description as `peers/sb3_model.py` builds it. Both functions return sentences
on what the other library has not, which `head_to_head/compare.py` writes into its results. The table:

| Finder | Stable-Baselines3 |
|---|---|
| `n_steps`, `batch_size`, `n_epochs`, `gamma`, `gae_lambda`, `ent_coef`, `clip_range`, `vf_coef` (PPO) | the same |
| `max_grad_norm`, null: none (PPO) | `max_grad_norm`, infinity |
| `normalize_advantages` | `normalize_advantage` |
| `normalize_observations`, `normalize_rewards` | `VecNormalize(norm_obs, norm_reward)` |
| `buffer_size`, `learning_starts`, `batch_size`, `tau`, `gamma`, `train_freq`, `gradient_steps` (SAC) | the same |
| `ent_coef` null with `initial_ent_coef` (SAC) | `ent_coef="auto_..."` |
| `target_entropy`, `target_update_interval` (SAC) | the same |
| `learning_rate` | the same |
| `hidden_sizes`, `activation` | `policy_kwargs` `net_arch`, `activation_fn` |
| `optimizer`: adam, adamw, rmsprop, sgd with their arguments | `policy_kwargs` `optimizer_class`, `optimizer_kwargs` |
| epsilon of rmsprop, which Keras adds under the root | its root, which PyTorch adds to the root |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

SAME = {
    "ppo": ("n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "ent_coef", "clip_range", "vf_coef"),
    "sac": (
        "buffer_size", "learning_starts", "batch_size", "tau", "gamma", "train_freq", "gradient_steps",
        "target_update_interval",
    ),
}  # fmt: skip
"""Hyperparameters with one name and one meaning in both libraries."""

SB3_DEFAULTS: dict[str, Json] = {
    "ppo": {
        "n_steps": 2048, "batch_size": 64, "n_epochs": 10, "gamma": 0.99, "gae_lambda": 0.95, "ent_coef": 0.0,
        "clip_range": 0.2, "vf_coef": 0.5, "max_grad_norm": 0.5, "learning_rate": 3e-4, "normalize_advantage": True,
    },
    "sac": {
        "buffer_size": 1_000_000, "learning_starts": 100, "batch_size": 256, "tau": 0.005, "gamma": 0.99,
        "train_freq": 1, "gradient_steps": 1, "target_update_interval": 1, "learning_rate": 3e-4, "ent_coef": "auto",
        "target_entropy": "auto",
    },
}  # fmt: skip
"""Defaults of Stable-Baselines3 2.9.2."""

SB3_NETWORKS = {"ppo": ([64, 64], "tanh"), "sac": ([256, 256], "relu")}
"""Units of the hidden layers and activation by default."""

FINDER_OPTIMIZERS = {"ppo": "adam(epsilon=1e-05)", "sac": "adam(epsilon=1e-08)"}
"""Name here of the optimizer of Stable-Baselines3, if the policy does not name one."""

ARGUMENTS = {  # Keras's argument -> PyTorch's
    "adam": {"epsilon": "eps"},  # its weight decay is another one in PyTorch
    "adamw": {"epsilon": "eps", "weight_decay": "weight_decay"},
    "rmsprop": {"epsilon": "eps", "rho": "alpha", "momentum": "momentum", "centered": "centered"},
    "sgd": {"momentum": "momentum", "nesterov": "nesterov"},
}
KERAS_DEFAULTS: dict[str, Json] = {
    "adam": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    "adamw": {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7, "weight_decay": 0.004},
    "rmsprop": {"rho": 0.9, "momentum": 0.0, "epsilon": 1e-7},
    "sgd": {"momentum": 0.0},
}
"""Arguments that Keras sets where none are given, and where PyTorch's defaults differ."""

UNTRANSLATED = (
    "Small differences that no value translates: Keras adds Adam's epsilon before the correction of the bias, and "
    "PyTorch after it; epsilon of RMSprop is under Keras's root, and its root is added to PyTorch's, which is the same "
    "for gradients of 0 and for large ones; where a rollout cannot be split evenly, the last minibatch is "
    "smaller in Stable-Baselines3 and filled up in Finder; normalization clips at other values."
)

_OURS_ONLY: Json = {
    "share_layers": False, "gru_units": None, "networks": {}, "optimizers": {}, "convolutions": None, "explore": True,
    "noise": None, "n_step": 1, "replay": "uniform",
}  # fmt: skip
"""Hyperparameters that Stable-Baselines3 has not, and the values that need none."""


def to_sb3(agent: str, config: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """Return the description of a configuration of Finder, and what it lacks.

    Args:
        agent: `ppo` or `sac`.
        config: The whole configuration of the agent.
    """
    lost = [
        f"{name}={config[name]} has no counterpart in Stable-Baselines3."
        for name, usual in _OURS_ONLY.items()
        if name in config and config[name] != usual and not (usual == {} and not config[name])
    ]
    kwargs: Json = {name: config[name] for name in SAME[agent]}
    kwargs["learning_rate"] = _rate(config["learning_rate"], lost)
    normalize: bool | Json = False
    if agent == "ppo":
        kwargs["max_grad_norm"] = math.inf if config["max_grad_norm"] is None else config["max_grad_norm"]
        kwargs["normalize_advantage"] = config["normalize_advantages"]
        if config["normalize_observations"] or config["normalize_rewards"]:
            names = {"norm_obs": "normalize_observations", "norm_reward": "normalize_rewards"}
            normalize = {theirs: config[ours] for theirs, ours in names.items()}
    else:
        learned = f"auto_{config['initial_ent_coef']:g}"
        kwargs["ent_coef"] = learned if config["ent_coef"] is None else config["ent_coef"]
        kwargs["target_entropy"] = "auto" if config["target_entropy"] is None else config["target_entropy"]
        if config.get("max_grad_norm") is not None:
            lost.append("max_grad_norm: SAC of Stable-Baselines3 does not clip gradients.")
    sizes = config["hidden_sizes"]
    optimizer, arguments = _torch_optimizer(config["optimizer"], config.get("optimizer_kwargs") or {}, lost)
    policy: Json = {
        "net_arch": list(SB3_NETWORKS[agent][0] if sizes is None else sizes),
        "activation_fn": config["activation"],
        "optimizer_class": optimizer,
        "optimizer_kwargs": arguments,
    }
    if config["activation"] not in ("tanh", "relu", "elu", "leaky_relu"):
        lost.append(f"activation={config['activation']}: {SB3_NETWORKS[agent][1]} is taken.")
        policy["activation_fn"] = SB3_NETWORKS[agent][1]
    return {
        "algo": agent, "n_envs": config["n_envs"], "normalize": normalize, "kwargs": kwargs, "policy_kwargs": policy,
    }, lost  # fmt: skip


def to_finder(description: Mapping[str, Any]) -> tuple[Json, list[str]]:
    """Return the hyperparameters of Finder's agent for a description, and what they lack."""
    agent = description["algo"]
    lost: list[str] = []
    given = {**SB3_DEFAULTS[agent], **description["kwargs"]}
    policy = dict(description.get("policy_kwargs") or {})
    params: Json = {name: given.pop(name) for name in SAME[agent]}
    params["n_envs"] = description.get("n_envs", 1)
    params["learning_rate"] = _number(given.pop("learning_rate"), "learning_rate", lost)
    if agent == "ppo":
        params["clip_range"] = _number(params["clip_range"], "clip_range", lost)
        largest = given.pop("max_grad_norm")
        params["max_grad_norm"] = None if math.isinf(largest) else largest
        params["normalize_advantages"] = given.pop("normalize_advantage")
        normalize = description.get("normalize") or {"norm_obs": False, "norm_reward": False}
        arguments = normalize if isinstance(normalize, Mapping) else {}
        params["normalize_observations"] = arguments.get("norm_obs", True)
        params["normalize_rewards"] = arguments.get("norm_reward", True)
    else:
        coefficient, target = given.pop("ent_coef"), given.pop("target_entropy")
        if isinstance(coefficient, str):
            params |= {"ent_coef": None, "initial_ent_coef": float(coefficient.partition("_")[2] or 1.0)}
        else:
            params["ent_coef"] = coefficient
        params["target_entropy"] = None if target == "auto" else target
        if description.get("normalize"):
            lost.append("normalize: SAC of Finder does not normalize observations and rewards.")
    sizes, activation = SB3_NETWORKS[agent]
    params["hidden_sizes"] = _sizes(policy.pop("net_arch", sizes), lost)
    params["activation"] = policy.pop("activation_fn", activation)
    params["optimizer"] = FINDER_OPTIMIZERS[agent]
    if "optimizer_class" in policy:
        params["optimizer"] = _keras_optimizer(policy.pop("optimizer_class"), policy.pop("optimizer_kwargs", {}))
    lost += [f"{name}={value} has no counterpart in Finder." for name, value in {**given, **policy}.items()]
    return params, lost


def _rate(rate: Any, lost: list[str]) -> float:
    if isinstance(rate, Mapping):
        lost.append("learning_rate: the schedule is replaced by its initial value.")
        return float(rate["config"]["initial_learning_rate"])
    return float(rate)


def _number(value: Any, name: str, lost: list[str]) -> float:
    if isinstance(value, str):  # "lin_0.001"
        lost.append(f"{name}={value}: falls linearly to 0; its initial value is taken.")
        return float(value.removeprefix("lin_"))
    return float(value)


def _sizes(arch: Any, lost: list[str]) -> list[int]:
    if not isinstance(arch, Mapping):
        return list(arch)
    actor, critic = (list(arch[name]) for name in (("pi", "vf") if "vf" in arch else ("pi", "qf")))
    if actor != critic:
        lost.append(f"net_arch={dict(arch)}: the sizes of the actor are taken for the critic.")
    return actor


def _torch_optimizer(optimizer: str, more: Mapping[str, Any], lost: list[str]) -> tuple[str, Json]:
    from agents.config.optimizers import OptimizerSpec

    spec = OptimizerSpec.of(optimizer)
    name = spec.name
    if name not in ARGUMENTS:
        lost.append(f"optimizer={optimizer}: Adam is taken.")
        return "adam", {"eps": 1e-5}
    given = {**KERAS_DEFAULTS[name], **spec.arguments, **more}
    arguments: Json = {}
    if name in ("adam", "adamw"):
        arguments["betas"] = [given.pop("beta_1"), given.pop("beta_2")]
    for ours, value in given.items():
        if ours in ARGUMENTS[name]:
            is_under_root = (name, ours) == ("rmsprop", "epsilon")
            arguments[ARGUMENTS[name][ours]] = math.sqrt(value) if is_under_root else value
        elif value not in (None, False):
            lost.append(f"{name}({ours}={value}) has no counterpart in PyTorch.")
    return name, arguments


def _keras_optimizer(name: str, arguments: Mapping[str, Any]) -> str:
    given = dict(arguments)
    words = [f"beta_{k}={value}" for k, value in enumerate(given.pop("betas", ()), 1)]
    if name == "rmsprop" and "eps" in given:
        given["eps"] **= 2
    words += [f"{ours}={given[theirs]}" for ours, theirs in ARGUMENTS[name].items() if theirs in given]
    return f"{name}({', '.join(words)})" if words else name
