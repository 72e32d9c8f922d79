"""Default search of `finder lr` and `finder opt`, as a policy that can be replayed.

The rates of each group (optimizer) race on three seeds (pruner `race`), and the best three of all that finish are run
again on five further seeds. The search spends what it needs, and stops at the end of the budget.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping

import numpy as np

from studies.analysis.learning_rate_estimate import estimate_learning_rate
from studies.analysis.ranking import Candidate, rank
from studies.analysis.robust_choice import PrunedEstimate, recommended
from studies.policies.policy import Decision, Problem, Round, Values
from studies.policies.race import racers_of
from studies.scheduling.pruners import RACE_RUNGS
from studies.spec.spaces import Json
from studies.statistics.pruned_estimate import clearly_worse, estimate_final
from studies.statistics.racing import survivors
from studies.statistics.values import mean_of_seeds

N_SEEDS = 3
N_FINALISTS = 3
N_FURTHER = 5


def default_search(problem: Problem, rng: np.random.Generator) -> Generator[Round, Values, Decision]:
    """Run the search; see the module.

    Args:
        problem: Search problem. With fewer than eight seeds, the race gets three and the finalists the rest.
        rng: Draws the recommendation if the budget is too small for the first rung.
    """
    n_seeds = min(N_SEEDS, max(1, problem.n_seeds - 1))
    alive = list(range(problem.n_configs))
    cost, share = 0.0, 0.0
    seen: dict[float, dict[int, tuple[float, ...]]] = {}  # share -> config -> values of its seeds at that share
    for rung in (*RACE_RUNGS, 1.0):
        mark = problem.mark(rung)
        price = len(alive) * n_seeds * (problem.shares[mark] - share)
        if cost + price > problem.budget + 1e-9:
            break
        if price == 0.0:
            continue
        values = yield Round(runs=[(config, seed) for config in alive for seed in range(n_seeds)], mark=mark)
        cost, share = cost + price, problem.shares[mark]
        seen[share] = {config: tuple(values[config, seed] for seed in range(n_seeds)) for config in alive}
        if share < 1:
            alive = _survivors(problem, seen[share], share)
    if share < 1:  # the budget ended before; without values all are equal
        last = seen.get(share, {})
        order = sorted(alive, key=lambda config: -float(np.mean(last.get(config, (0.0,)))))
        return Decision(pick=order[0] if last else int(rng.choice(alive)))
    last, left = seen[share], _pruned_finals(problem, seen)
    ranked = rank([_candidate(problem, config, last[config]) for config in alive])
    first = recommended(ranked, left=left) or ranked[0]
    finalists = [first, *(each for each in ranked if each is not first)][:N_FINALISTS]
    n_further = min(N_FURTHER, problem.n_seeds - n_seeds, int((problem.budget - cost + 1e-9) // len(finalists)))
    if n_further < 1 or len(ranked) < 2:
        return Decision(pick=first.number, rate=estimate_learning_rate(ranked, left, first))
    seeds = range(n_seeds, n_seeds + n_further)
    further = yield Round(
        runs=[(each.number, seed) for each in finalists for seed in seeds], mark=len(problem.shares) - 1
    )
    held_out = {each.number: tuple(further[each.number, seed] for seed in seeds) for each in finalists}
    together = rank([_candidate(problem, config, last[config] + held_out.get(config, ())) for config in alive])
    pick = recommended(together, left=left, among=list(held_out)) or first
    beside = rank([_candidate(problem, config, held_out.get(config, last[config])) for config in alive])
    own = next(each for each in beside if each.number == pick.number)
    rate = estimate_learning_rate(together, left, pick)
    return Decision(pick=pick.number, interval=(own.low, own.high), rate=rate)


def _survivors(problem: Problem, values: Mapping[int, tuple[float, ...]], share: float) -> list[int]:
    """Return the candidates that continue, of each group separately."""
    races: dict[Hashable, list[int]] = {}
    racers = racers_of(problem, values)
    for config, racer in enumerate(racers):
        races.setdefault(racer.group, []).append(config)
    return sorted(
        configs[i] for configs in races.values() for i in survivors([racers[config] for config in configs], share)
    )


def _pruned_finals(problem: Problem, seen: Mapping[float, Mapping[int, tuple[float, ...]]]) -> list[PrunedEstimate]:
    """Return the estimates of the final values of pruned candidates."""
    *before, ends = seen.values()
    left = {config: values for values in before for config in values if config not in ends}
    result = []
    for config, values in left.items():
        own = [other for other in ends if not problem.groups or problem.groups[other] == problem.groups[config]]
        survivors = [(float(mean_of_seeds(values[other])), float(mean_of_seeds(ends[other]))) for other in own or ends]
        value, error, df = estimate_final(values[config], survivors, same_kind=bool(own))
        worse = _was_clearly_worse(problem, config, values)
        result.append(
            PrunedEstimate(params=_params(problem, config), value=value, error=error, df=df, clearly_worse=worse)
        )
    return result


def _was_clearly_worse(problem: Problem, config: int, values: Mapping[int, tuple[float, ...]]) -> bool:
    """Return whether a candidate was clearly worse than others of its group when it was pruned."""
    if not problem.groups:
        return False
    same = [other for other in values if problem.groups[other] == problem.groups[config]]
    return clearly_worse([values[other] for other in same])[same.index(config)]


def _params(problem: Problem, config: int) -> dict[str, Json]:
    if not problem.groups:
        return {"config": config}
    return {"group": str(problem.groups[config]), "learning_rate": 10 ** problem.positions[config]}


def _candidate(problem: Problem, config: int, values: tuple[float, ...]) -> Candidate:
    return Candidate(label=str(config), params=_params(problem, config), seed_values=values, number=config)
