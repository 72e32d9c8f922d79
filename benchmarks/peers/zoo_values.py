"""Values that rl-baselines3-zoo has or found, as descriptions of `sb3_model.py`; runs in the environment of the peers.

zoo_values.py base ALGO ID                       the zoo's own values, those under `default` if it has none
zoo_values.py pick ALGO ID STORAGE STUDY         these, with the best trial of a study of `rl_zoo3.train -optimize`
"""
# mypy: ignore-errors

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import optuna
import rl_zoo3
import yaml
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER

IGNORED = ("n_timesteps", "policy", "n_envs", "normalize", "policy_kwargs", "env_wrapper", "callback")


def value_of(node: ast.expr):
    """Return a value that the zoo writes as Python: literals, dict(...) and nn.ReLU."""
    if isinstance(node, ast.Call):
        return {keyword.arg: value_of(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return ast.literal_eval(node)


def parsed(value):
    """Return a value of the zoo's files as data."""
    return value_of(ast.parse(value, mode="eval").body) if isinstance(value, str) else value


def base(algo: str, env: str) -> dict:
    """Return the zoo's own values for an environment."""
    known = yaml.safe_load((Path(rl_zoo3.__file__).parent / "hyperparams" / f"{algo}.yml").read_text())
    own = known.get(env, known["default"])
    return {
        "algo": algo,
        "n_envs": own.get("n_envs", 1),
        "normalize": parsed(own.get("normalize", False)),
        "kwargs": {name: value for name, value in own.items() if name not in IGNORED},
        "policy_kwargs": parsed(own.get("policy_kwargs", {})),
        "is_tuned": env in known,
    }


def named(policy: dict) -> dict:
    """Return arguments of a policy with names for classes."""
    return {name: value.__name__.lower() if isinstance(value, type) else value for name, value in policy.items()}


def pick(algo: str, env: str, storage: str, study_name: str) -> dict:
    """Return the zoo's values with those of the best trial, as its own scripts load them, and what the study has."""
    found = {"description": base(algo, env), "value": None, "params": {}, "states": {}}
    if not Path(storage).exists():
        return found
    journal = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage))
    study = optuna.load_study(study_name=study_name, storage=journal)
    names = [trial.state.name.lower() for trial in study.trials]
    found["states"] = {name: names.count(name) for name in sorted(set(names))}
    try:
        best = study.best_trial
    except ValueError:  # no trial is complete
        return found
    values = HYPERPARAMS_CONVERTER[algo](dict(best.params))
    description = found["description"]
    if "policy_kwargs" in values:
        description["policy_kwargs"] = named(values.pop("policy_kwargs"))
    description["kwargs"].update(values)
    return {**found, "value": best.value, "params": best.params}


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print(json.dumps({"base": base, "pick": pick}[sys.argv[1]](*sys.argv[2:])))
