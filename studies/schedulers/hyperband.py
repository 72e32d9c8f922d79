"""Hyperband: successive halving in brackets with different first rungs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from studies.schedulers.geometric_rungs import GeometricRungs
from studies.schedulers.scheduler import Action, AtRung, RungScheduler, best_of, keep
from studies.schedulers.trial_view import TrialView


class Hyperband(RungScheduler):
    """Hyperband (Li et al. 2018, arXiv 1603.06560): successive halving in brackets with different first rungs.

    Early values may mislead to an unknown degree. Trials are therefore distributed over brackets: the first one halves
    from the first rung on, the next from the second, and so on; the last one never prunes. A bracket gets as many
    trials as in Hyperband, and trials are compared within their bracket only. Trials that diverged count as the worst
    of their bracket.

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        max_resource: Environment steps of a whole run, >= `min_resource`.
        reduction_factor: Inverse of the share that continues, >= 2.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, min_resource: int, max_resource: int, reduction_factor: int = 3) -> None:
        if max_resource < min_resource:
            raise ValueError(f"max_resource is {max_resource}: it must be at least min_resource, {min_resource}.")
        self._rungs = GeometricRungs(min_resource, reduction_factor)
        n_rungs = 1
        while min_resource * reduction_factor**n_rungs <= max_resource:
            n_rungs += 1
        sizes = [-(-n_rungs * reduction_factor**k // (k + 1)) for k in range(n_rungs - 1, -1, -1)]
        self._first_rungs = [min_resource * reduction_factor**bracket for bracket in range(n_rungs)]
        self._order = _spread_out(sizes)

    def bracket_of(self, number: int) -> int:
        """Return the bracket of a trial: bracket 0 halves from the first rung on."""
        return self._order[number % len(self._order)]

    def rung_of(self, step: int) -> int | None:
        return self._rungs.below(step)

    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        kept: set[int] = set()
        for bracket, first in enumerate(self._first_rungs):
            own = {number: value for number, value in at_rung.items() if self.bracket_of(number) == bracket}
            halves = first <= rung < self._first_rungs[-1]  # the highest rung is at, or shortly before, the end
            of_bracket = [trial for trial in trials if self.bracket_of(trial.number) == bracket]
            n_trials = len(own) + self.n_diverged(rung, of_bracket, first)
            kept.update(best_of(own, math.ceil(n_trials / self._rungs.factor)) if halves else own)
        return keep(kept, at_rung)


def _spread_out(sizes: Sequence[int]) -> list[int]:
    """Return each position as often as its size, evenly mixed."""
    dealt = [((j + 0.5) / size, position) for position, size in enumerate(sizes) for j in range(size)]
    return [position for _, position in sorted(dealt)]
