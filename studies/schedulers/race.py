"""Race: the worst trials stop at every rung, in proportion to the elapsed share of the runs."""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Mapping, Sequence

from studies.schedulers.scheduler import Action, AtRung, RungScheduler, keep
from studies.schedulers.trial_view import TrialView
from studies.spaces.rates import is_learning_rate
from studies.statistics.racing import Racer, survivors
from studies.statistics.rate_curve import log10_rate


class Race(RungScheduler):
    """Stop the worst trials at every rung, in proportion to the elapsed share of the runs.

    See `studies.statistics.racing`.

    Args:
        rungs: Environment steps of the rungs, ascending, each >= 1.
        budget: Environment steps of a whole run, at least the last rung.
        per: Parameter such as `optimizer`: trials race only against those with the same value of it, so that each value
            is judged at its best.

    Raises:
        ValueError: If a number is out of range.
    """

    needs_seed_values = True

    def __init__(self, rungs: Sequence[int], budget: int, per: str | None = None) -> None:
        if not rungs or min(rungs) < 1 or sorted(set(rungs)) != list(rungs):
            raise ValueError(f"rungs is {list(rungs)}: give ascending environment steps, from 1.")
        if budget < rungs[-1]:
            raise ValueError(f"budget is {budget}: it must be at least the last rung, {rungs[-1]}.")
        self._rungs = [int(rung) for rung in rungs]
        self._budget, self._per = int(budget), per

    def rung_of(self, step: int) -> int | None:
        at = bisect.bisect_right(self._rungs, step)
        return self._rungs[at - 1] if at else None

    def on_rung(self, rung: int, at_rung: AtRung, trials: Sequence[TrialView]) -> Mapping[int, Action]:
        races: dict[str, dict[int, Racer]] = {}
        tried = [trial.params for trial in trials if trial.counts]
        for trial in trials:
            # A diverged trial counts as the worst; trials that failed for other reasons, or were retried, carry no
            # information.
            diverged = trial.state == "diverged" and trial.params not in tried
            if trial.number in at_rung or trial.state == "pruned" or diverged:
                race = json.dumps(trial.params.get(self._per)) if self._per else ""
                races.setdefault(race, {})[trial.number] = _racer(trial, at_rung.get(trial.number, ()))
        kept: set[int] = set()
        for racers in races.values():
            numbers = list(racers)
            kept |= {numbers[i] for i in self._survivors(list(racers.values()), rung / self._budget)}
        return keep(kept, at_rung)

    def _survivors(self, racers: Sequence[Racer], share: float) -> list[int]:
        """Return the positions of the candidates of one race that continue after a share of the runs."""
        return survivors(racers, share)


def _racer(trial: TrialView, values: tuple[float, ...]) -> Racer:
    """Return a trial as a candidate of a race, without values if it was removed before."""
    rates = [name for name in trial.params if is_learning_rate(name)]
    name = rates[0] if len(rates) == 1 else None
    others = {key: own for key, own in trial.params.items() if key != name}
    return Racer(
        values=values,
        group=json.dumps(others, sort_keys=True, default=str),
        position=log10_rate(trial.params[name]) if name else math.nan,
    )
