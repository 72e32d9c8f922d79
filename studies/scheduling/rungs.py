"""Pruners with rungs: trials are compared when they reach a rung, and some of them continue."""

from __future__ import annotations

import bisect
import json
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optuna.pruners import BasePruner
from optuna.study import StudyDirection
from optuna.trial import TrialState

from studies.spec.attributes import RUNG_ATTR, has_diverged, is_confirmation
from studies.statistics.racing import Racer, survivors
from studies.statistics.rate_curve import log10_rate
from studies.statistics.sequential_test import LEVEL, undecided
from studies.statistics.values import mean_of_seeds

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial


AtRung = Mapping[int, tuple[float, ...]]
"""Number of a trial -> its value at a rung, or that of each seed; higher is better, never NaN."""


class RungPruner(BasePruner):
    """Base class for pruners that compare trials at rungs.

    A trial reaches a rung with its first report at or after it. It is compared with every trial of the study that has
    reported at that rung and did not fail, including ended ones. Where trials advance together, as in a population, the
    comparison is synchronous whatever the order of calls; where they advance independently, the first ones meet few
    others and later ones are judged more strictly. A trial whose value is NaN never continues.
    """

    def __init__(self) -> None:
        self._judged: tuple[Any, set[int]] = (None, set())

    @property
    def needs_seed_values(self) -> bool:
        """Return whether the pruner compares single seeds, whose values are then stored at every rung."""
        return False

    @abstractmethod
    def rung_of(self, step: int) -> int | None:
        """Return the highest rung at or below a step, None before the first."""

    @abstractmethod
    def survivors(self, rung: int, at_rung: AtRung, trials: Sequence[FrozenTrial]) -> set[int]:
        """Return the numbers of the trials that continue.

        Args:
            rung: Environment steps of the rung.
            at_rung: Trials at the rung, at least one.
            trials: All trials of the search.
        """

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return whether the last report of a trial is at a rung from which it does not continue."""
        step = trial.last_step
        rung = None if step is None else self.rung_of(step)
        if step is None or rung is None or first_at(trial, rung) != step:
            return False
        if math.isnan(trial.intermediate_values[step]):
            return True
        trials = [other for other in study.get_trials(deepcopy=False) if not is_confirmation(other)]
        sign = -1.0 if study.direction == StudyDirection.MINIMIZE else 1.0
        at_rung: dict[int, tuple[float, ...]] = {}
        for other in trials:
            at = first_at(other, rung)
            if at is None or self.rung_of(at) != rung:  # a resumed study may report at other steps than before
                continue
            if other.state != TrialState.FAIL and not math.isnan(other.intermediate_values[at]):
                seeds = other.user_attrs.get(RUNG_ATTR, {}).get(str(at), {}) if self.needs_seed_values else {}
                values = tuple(seeds.values()) or (other.intermediate_values[at],)
                at_rung[other.number] = tuple(sign * value for value in values)
        key = (study.study_name, rung, tuple(at_rung.items()))
        if self._judged[0] != key:  # all trials of a rung are judged one after another
            self._judged = key, self.survivors(rung, at_rung, trials)
        return trial.number not in self._judged[1]


def first_at(trial: FrozenTrial, rung: int) -> int | None:
    """Return the step of a trial's first report at or after a rung, None if it has none."""
    return min((step for step in trial.intermediate_values if step >= rung), default=None)


def best_of(at_rung: AtRung, n: int) -> set[int]:
    """Return the best `n`, and those that are equal to the last of them."""
    values = {number: float(mean_of_seeds(own)) for number, own in at_rung.items()}
    ordered = sorted(values.values(), reverse=True)
    return set(values) if n >= len(ordered) else {number for number, own in values.items() if own >= ordered[n - 1]}


class HalvingPruner(RungPruner):
    """Successive halving (Jamieson and Talwalkar 2016, arXiv 1502.07943): the best part of each rung continues.

    Rungs lie at ``min_resource * reduction_factor**k`` environment steps; of the trials at a rung the best ``1 /
    reduction_factor`` continue (rounded up). (Optuna's `SuccessiveHalvingPruner` always lets the first trial pass.)

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        reduction_factor: Inverse of the share that continues, >= 2.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, min_resource: int, reduction_factor: int = 4) -> None:
        super().__init__()
        self._rungs = _Geometric(min_resource, reduction_factor)

    def rung_of(self, step: int) -> int | None:
        return self._rungs.below(step)

    def survivors(self, rung: int, at_rung: AtRung, trials: Sequence[FrozenTrial]) -> set[int]:
        return best_of(at_rung, math.ceil(len(at_rung) / self._rungs.factor))


class HyperbandPruner(RungPruner):
    """Hyperband (Li et al. 2018, arXiv 1603.06560): successive halving in brackets with different first rungs.

    Early values may mislead to an unknown degree. Trials are therefore distributed over brackets: the first one halves
    from the first rung on, the next from the second, and so on; the last one never prunes. A bracket gets as many
    trials as in Hyperband, and trials are compared within their bracket only.

    Args:
        min_resource: Environment steps of the first rung, >= 1.
        max_resource: Environment steps of a whole run, >= `min_resource`.
        reduction_factor: Inverse of the share that continues, >= 2.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, min_resource: int, max_resource: int, reduction_factor: int = 3) -> None:
        super().__init__()
        if max_resource < min_resource:
            raise ValueError(f"max_resource is {max_resource}: it must be at least min_resource, {min_resource}.")
        self._rungs = _Geometric(min_resource, reduction_factor)
        n_rungs = 1
        while min_resource * reduction_factor**n_rungs <= max_resource:
            n_rungs += 1
        sizes = [math.ceil(n_rungs / (k + 1) * reduction_factor**k) for k in range(n_rungs - 1, -1, -1)]
        self._first_rungs = [min_resource * reduction_factor**bracket for bracket in range(n_rungs)]
        self._order = _spread_out(sizes)

    def bracket_of(self, number: int) -> int:
        """Return the bracket of a trial: bracket 0 halves from the first rung on."""
        return self._order[number % len(self._order)]

    def rung_of(self, step: int) -> int | None:
        return self._rungs.below(step)

    def survivors(self, rung: int, at_rung: AtRung, trials: Sequence[FrozenTrial]) -> set[int]:
        kept: set[int] = set()
        for bracket, first in enumerate(self._first_rungs):
            own = {number: value for number, value in at_rung.items() if self.bracket_of(number) == bracket}
            halves = rung >= first and bracket + 1 < len(self._first_rungs)
            kept |= best_of(own, math.ceil(len(own) / self._rungs.factor)) if halves else set(own)
        return kept


class KeepTopPruner(RungPruner):
    """Train all trials up to one rung, then continue the best few: the simplest rule, and a strong baseline.

    See Egele et al. 2023, "Is one epoch all you need for multi-fidelity hyperparameter optimization?" (arXiv
    2307.15422).

    Args:
        at: Environment steps of the rung, >= 1.
        keep: Number of trials that continue, >= 1.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, at: int, keep: int = 3) -> None:
        super().__init__()
        if at < 1 or keep < 1:
            raise ValueError(f"at is {at} and keep is {keep}: both must be at least 1.")
        self._at, self._keep = at, keep

    def rung_of(self, step: int) -> int | None:
        return self._at if step >= self._at else None

    def survivors(self, rung: int, at_rung: AtRung, trials: Sequence[FrozenTrial]) -> set[int]:
        return best_of(at_rung, self._keep)


class RacePruner(RungPruner):
    """Prune the worst trials at every rung, in proportion to the elapsed share of the runs.

    See `studies.statistics.racing`.

    Args:
        rungs: Environment steps of the rungs, ascending, each >= 1.
        budget: Environment steps of a whole run, at least the last rung.
        per: Parameter such as `optimizer`: trials race only against those with the same value of it, so that each value
            is judged at its best.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, rungs: Sequence[int], budget: int, per: str | None = None) -> None:
        super().__init__()
        if not rungs or min(rungs) < 1 or sorted(set(rungs)) != list(rungs):
            raise ValueError(f"rungs is {list(rungs)}: give ascending environment steps, from 1.")
        if budget < rungs[-1]:
            raise ValueError(f"budget is {budget}: it must be at least the last rung, {rungs[-1]}.")
        self._rungs = [int(rung) for rung in rungs]
        self._budget, self._per = int(budget), per

    @property
    def needs_seed_values(self) -> bool:
        return True

    def rung_of(self, step: int) -> int | None:
        at = bisect.bisect_right(self._rungs, step)
        return self._rungs[at - 1] if at else None

    def survivors(self, rung: int, at_rung: AtRung, trials: Sequence[FrozenTrial]) -> set[int]:
        races: dict[str, dict[int, Racer]] = {}
        tried = [trial.params for trial in trials if trial.state != TrialState.FAIL]
        for trial in trials:
            # A diverged trial counts as the worst; trials that failed for other reasons, or were retried, carry no
            # information.
            diverged = has_diverged(trial) and trial.params not in tried
            if trial.number in at_rung or trial.state == TrialState.PRUNED or diverged:
                race = json.dumps(trial.params.get(self._per)) if self._per else ""
                races.setdefault(race, {})[trial.number] = _racer(trial, at_rung.get(trial.number, ()))
        kept: set[int] = set()
        for racers in races.values():
            numbers = list(racers)
            kept |= {numbers[i] for i in self._racing_survivors(list(racers.values()), rung / self._budget)}
        return kept

    def _racing_survivors(self, racers: Sequence[Racer], share: float) -> list[int]:
        return survivors(racers, share)


class SequentialTestPruner(RacePruner):
    """Prune trials that are distinguishable from the best by their seeds (`studies.statistics.sequential_test`).

    Args:
        rungs: As in `RacePruner`.
        budget: As in `RacePruner`.
        level: Confidence at which a trial must be distinguishable to be pruned, above 0 and below 1.
        per: As in `RacePruner`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, rungs: Sequence[int], budget: int, level: float = LEVEL, per: str | None = None) -> None:
        super().__init__(rungs, budget, per)
        if not 0 < level < 1:
            raise ValueError(f"level is {level}: it must be above 0 and below 1.")
        self._level = level

    def _racing_survivors(self, racers: Sequence[Racer], share: float) -> list[int]:
        return undecided(racers, share, level=self._level)


def _racer(trial: FrozenTrial, values: tuple[float, ...]) -> Racer:
    """Return a trial as a candidate of a race, without values if it was removed before."""
    rates = [name for name in trial.params if name.endswith("learning_rate")]
    name = rates[0] if len(rates) == 1 else None
    others = {key: own for key, own in trial.params.items() if key != name}
    return Racer(
        values=values,
        group=json.dumps(others, sort_keys=True, default=str),
        position=log10_rate(trial.params[name]) if name else math.nan,
    )


class _Geometric:
    """Rungs at ``first * factor**k``."""

    def __init__(self, first: int, factor: int) -> None:
        if first < 1:
            raise ValueError(f"min_resource is {first}: it must be at least 1.")
        if factor < 2:
            raise ValueError(f"reduction_factor is {factor}: it must be at least 2.")
        self._first, self.factor = first, factor

    def below(self, step: int) -> int | None:
        """Return the highest rung at or below a step."""
        if step < self._first:
            return None
        rung = self._first
        while rung * self.factor <= step:
            rung *= self.factor
        return rung


def _spread_out(sizes: Sequence[int]) -> list[int]:
    """Return each position as often as its size, evenly mixed."""
    dealt = [((j + 0.5) / size, position) for position, size in enumerate(sizes) for j in range(size)]
    return [position for _, position in sorted(dealt)]
