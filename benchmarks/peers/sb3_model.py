"""A model of Stable-Baselines3 from its description as JSON; runs in the environment of the peers.

A description has the keys `algo`, `n_envs`, `normalize` (as rl-baselines3-zoo has it), `kwargs` (arguments of the
algorithm) and `policy_kwargs` (`net_arch`, names for `activation_fn` and `optimizer_class`, and numbers).
"""
# mypy: ignore-errors

from __future__ import annotations

import copy
import importlib

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

ALGORITHMS = {"ppo": PPO, "sac": SAC}
ACTIVATIONS = {
    "tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "elu": torch.nn.ELU, "leaky_relu": torch.nn.LeakyReLU,
}  # fmt: skip
OPTIMIZERS = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD,
}  # fmt: skip


def env_id(env: str) -> str:
    """Return the id of an environment, and import the module that registers it."""
    module, _, name = env.rpartition(":")
    if module:
        importlib.import_module(module)
    return name


def build(description: dict, env: str, seed: int):
    """Return a model that has not been trained."""
    kwargs = copy.deepcopy(description["kwargs"])
    policy = copy.deepcopy(description.get("policy_kwargs") or {})
    if "activation_fn" in policy:
        policy["activation_fn"] = ACTIVATIONS[policy["activation_fn"]]
    if "optimizer_class" in policy:
        policy["optimizer_class"] = OPTIMIZERS[policy["optimizer_class"]]
    for name in ("learning_rate", "clip_range"):  # a rate that falls linearly to 0, as the zoo writes it
        if isinstance(kwargs.get(name), str):
            first = float(kwargs[name].removeprefix("lin_"))
            kwargs[name] = lambda remaining, first=first: first * remaining
    where = make_vec_env(env_id(env), description.get("n_envs", 1), seed=seed)
    normalize = description.get("normalize")
    if normalize:
        arguments = dict(normalize) if isinstance(normalize, dict) else {}
        where = VecNormalize(where, gamma=kwargs.get("gamma", 0.99), **arguments)
    algorithm = ALGORITHMS[description["algo"]]
    return algorithm("MlpPolicy", where, seed=seed, device="cpu", policy_kwargs=policy or None, **kwargs)


def greedy(model):
    """Return the function from observations of the environment to greedy actions."""
    normalizer = model.get_vec_normalize_env()

    def act(observations):
        seen = observations if normalizer is None else normalizer.normalize_obs(observations)
        return model.predict(seen, deterministic=True)[0]

    return act
