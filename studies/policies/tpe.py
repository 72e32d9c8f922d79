"""Optuna's TPE sampler with its median pruner, the most common choice."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Hashable, Sequence
from typing import Any

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values


def tpe_median(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Run trials proposed by TPE and pruned by the median rule, one seed each, until the budget is spent.

    Proposals are rounded to the nearest candidate; one that is proposed again is run on its next seed.
    """
    import optuna

    sampler: Any = optuna.samplers.TPESampler(seed=int(rng.integers(2**31)))
    pruner: Any = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=problem.mark(0.2))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    finally:
        optuna.logging.set_verbosity(verbosity)
    cost, next_seed = 0.0, dict.fromkeys(range(problem.n_configs), 0)
    best: tuple[float, int] | None = None
    while cost + problem.shares[0] <= problem.budget:
        open_configs = [config for config, seed in next_seed.items() if seed < problem.n_seeds]
        if not open_configs:
            break
        trial = study.ask()
        config = _propose(trial, problem, open_configs)
        seed, next_seed[config] = next_seed[config], next_seed[config] + 1
        last, value = -1, -np.inf
        for mark, share in enumerate(problem.shares):
            before = problem.shares[mark - 1] if mark else 0.0
            if cost + share - before > problem.budget + 1e-9:
                break
            cost += share - before
            value = (yield Round(runs=[(config, seed)], mark=mark))[config, seed]
            last = mark
            trial.report(value, mark)
            if mark + 1 < len(problem.shares) and trial.should_prune():
                break
        ended = last == len(problem.shares) - 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = optuna.trial.TrialState.COMPLETE if ended else optuna.trial.TrialState.PRUNED
            study.tell(trial, value if ended else None, state=state)
        if ended and (best is None or value > best[0]):
            best = (value, config)
    if best is None:
        return Decision(pick=config)
    return Decision(pick=best[1])


def _propose(trial: Any, problem: Problem, open_configs: Sequence[int]) -> int:
    """Return the proposal of TPE, or the nearest candidate with remaining seeds."""
    if not problem.groups:
        config = int(trial.suggest_categorical("config", range(problem.n_configs)))
        return config if config in open_configs else open_configs[0]
    names: list[Hashable] = list(dict.fromkeys(problem.groups))
    group = names[trial.suggest_categorical("group", range(len(names)))] if len(names) > 1 else names[0]
    members = [i for i, own in enumerate(problem.groups) if own == group]
    # A common range is useless for groups whose rates lie decades apart.
    low, high = (end(problem.positions[i] for i in members) for end in (min, max))
    position = trial.suggest_float(f"rate-{names.index(group)}", low, high) if high > low else low
    near = [i for i in members if i in open_configs] or open_configs
    return min(near, key=lambda i: abs(problem.positions[i] - position))
