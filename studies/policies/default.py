"""What `finder lr` and `finder opt` do when nobody says otherwise, as a policy that can be replayed.

All candidates race on three seeds (the pruner `race`), and the best three of those that come to their ends are run
again on five further seeds. It takes what it needs, and stops where the budget ends.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence

import numpy as np

from studies.policies.policy import Decision, Problem, Round, Values
from studies.policies.race import racers_of
from studies.pruners import RACE_RUNGS
from studies.racing import staying
from studies.ranking import Candidate, Ranked, rank
from studies.recommending import Left, recommended
from studies.spaces import Json

N_SEEDS = 3
N_FINALISTS = 3
N_FURTHER = 5


def default_search(
    problem: Problem, rng: np.random.Generator, apart: bool = False
) -> Generator[Round, Values, Decision]:
    """Runs the search; see the module.

    Args:
        problem: What is searched. With fewer than eight seeds, the race gets three and the finalists the rest.
        rng: Draws the pick where the budget is too small for the first rung.
        apart: Whether groups (optimizers) race apart, as `finder opt` has it.
    """
    n_seeds = min(N_SEEDS, max(1, problem.n_seeds - 1))
    alive = list(range(problem.n_configs))
    cost, share = 0.0, 0.0
    last: dict[int, tuple[float, ...]] = {}
    for rung in (*RACE_RUNGS, 1.0):
        mark = problem.mark(rung)
        price = len(alive) * n_seeds * (problem.shares[mark] - share)
        if cost + price > problem.budget + 1e-9:
            break
        if price == 0.0:
            continue
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
        cost, share = cost + price, problem.shares[mark]
        last |= {config: tuple(values[config, seed] for seed in range(n_seeds)) for config in alive}
        if share < 1:
            alive = _staying(problem, {config: last[config] for config in alive}, share, apart)
    if not last:
        return Decision(pick=int(rng.integers(problem.n_configs)))
    ranked = rank([_candidate(problem, config, last[config]) for config in alive])
    left = [Left(params=_params(problem, c), value=float(np.mean(v))) for c, v in last.items() if c not in alive]
    first = recommended(ranked, left=left) or ranked[0]
    finalists = [first, *(each for each in ranked if each is not first)][:N_FINALISTS]
    n_further = min(N_FURTHER, problem.n_seeds - n_seeds, int((problem.budget - cost + 1e-9) // len(finalists)))
    if share < 1 or n_further < 1 or len(ranked) < 2:
        return Decision(pick=first.number, tied=_tied(ranked))
    seeds = range(n_seeds, n_seeds + n_further)
    further = yield Round(
        runs=[(each.number, seed) for each in finalists for seed in seeds], mark=len(problem.shares) - 1
    )
    held_out = {each.number: tuple(further[each.number, seed] for seed in seeds) for each in finalists}
    together = rank([_candidate(problem, config, last[config] + held_out.get(config, ())) for config in alive])
    pick = recommended(together, left=left, among=list(held_out)) or first
    beside = rank([_candidate(problem, config, held_out.get(config, last[config])) for config in alive])
    own = next(each for each in beside if each.number == pick.number)
    return Decision(pick=pick.number, tied=_tied(together), interval=(own.low, own.high))


def _staying(problem: Problem, values: Mapping[int, tuple[float, ...]], share: float, apart: bool) -> list[int]:
    """Who goes on, of each group by itself where they race apart."""
    races: dict[Hashable, list[int]] = {}
    racers = racers_of(problem, values)
    for config, racer in enumerate(racers):
        races.setdefault(racer.group if apart else None, []).append(config)
    return sorted(
        configs[i] for configs in races.values() for i in staying([racers[config] for config in configs], share)
    )


def _params(problem: Problem, config: int) -> dict[str, Json]:
    if not problem.groups:
        return {"config": config}
    return {"group": str(problem.groups[config]), "learning_rate": 10 ** problem.positions[config]}


def _candidate(problem: Problem, config: int, values: tuple[float, ...]) -> Candidate:
    return Candidate(label=str(config), params=_params(problem, config), seed_values=values, number=config)


def _tied(ranked: Sequence[Ranked]) -> tuple[int, ...]:
    return tuple(each.number for each in ranked if each.tied)
