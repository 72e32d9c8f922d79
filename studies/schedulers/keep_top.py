"""Keep-top: the best few trials continue after one rung."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from studies.schedulers.scheduler import Action, AtRung, RungScheduler, best_of, keep
from studies.schedulers.trial_view import TrialView


class KeepTop(RungScheduler):
    """Train all trials up to one rung, then continue the best few: the simplest rule, and a strong baseline.

    See Egele et al. 2023, "Is one epoch all you need for multi-fidelity hyperparameter optimization?" (arXiv
    2307.15422).

    Args:
        at: Environment steps of the rung, >= 1. Trials are compared at their first report from there on.
        keep: Number of trials that continue, >= 1.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, at: int, keep: int = 3) -> None:
        if at < 1:
            raise ValueError(
                f"at is {at}: give the environment steps of the rung, not a share of the budget; at least 1."
            )
        if keep < 1:
            raise ValueError(f"keep is {keep}: give how many trials continue, at least 1.")
        self._at, self._keep = at, keep

    def rung_of(self, step: int) -> int | None:
        return self._at if step >= self._at else None

    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        return keep(set(best_of(at_rung, self._keep)), at_rung)
