"""The confirmation within the budget of a whole search: its reserve, its further seeds and the length of its runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from finder.budgets.cost import largest_within
from finder.budgets.meters import Meter, RelativeTimes
from studies.judging.confirmation import confirmed_seeds, unconfirmed
from studies.judging.search_history import n_finalists
from studies.spec.fields import MOST_SEEDS
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

MOST_FURTHER = 4
"""Largest multiple of the further seeds of a confirmation for which spare budget is used."""

_LENGTHENED, _SHORTENED = 0.9, 0.97
"""Shares of the remaining budget that a confirmation may take whose runs are longer or shorter than planned. Without
longer runs there is a confirmation, so less is risked for them."""


LEAST_SHARE = 0.75
"""Share of the runs of a search after which finalists that are stopped are judged."""


class ConfirmationBudget:
    """Cost of the confirmation of a search, and the further seeds and run lengths that are chosen for it.

    Args:
        spec: The study, with the budget of each run.
        meter: What is spent, and what trials will cost.
        adjusts_seeds: Whether the number of further seeds may change.
        adjusts_length: Whether its runs may become shorter, down to the length of those of the search, or longer, up to
            the horizon of the study, if it has one.

    Attributes:
        spec: The study, with its present numbers of trials and finalists, and the steps of the runs that confirm.
        values: Trial -> value, of completed trials of the search.
        baselines: Trials with the parameters of the baseline.
        relative: Times of a training step of the trials that have ended.
    """

    def __init__(self, spec: StudySpec, meter: Meter, *, adjusts_seeds: bool, adjusts_length: bool) -> None:
        self.spec, self._meter = spec, meter
        self._adjusts_seeds, self._adjusts_length = adjusts_seeds, adjusts_length
        self.values: dict[int, float] = {}
        self.baselines: set[int] = set()
        self.relative = RelativeTimes()
        self._seeds: int | None = None  # further seeds of the confirmation that has begun
        self._began = (0.0, 0.0)  # what was spent when its newest runs began, and their estimated cost

    def reserve(self, spec: StudySpec | None = None, most_seeds: int = MOST_SEEDS) -> float:
        """Return the part of the budget that is kept for the confirmation.

        Args:
            spec: The study with further trials. Defaults to the present one.
            most_seeds: Most further seeds. Defaults to those of the study.
        """
        spec = spec or self.spec
        n = n_finalists(spec)
        best = sorted(self.values, key=lambda number: self.values[number], reverse=spec.direction == "maximize")
        known = list(dict.fromkeys([*best[: spec.confirm], *sorted(self.baselines & self.values.keys())[:1]]))[:n]
        n_seeds = min(most_seeds, spec.confirm_seeds)
        return self._cost([*known, *[None] * (n - len(known))], n_seeds) if n else 0.0

    def plan(
        self, finalists: Sequence[int], *, known: int = 0, resumed: int = 0, are_others_confirmed: bool = False
    ) -> StudySpec | None:
        """Set the further seeds of finalists, and the steps of their runs, for which there is budget.

        Runs become longer, up to the horizon, before there are more seeds, and shorter where there is no budget for
        one further seed.

        Args:
            finalists: Numbers of the trials, at least one.
            known: Further seeds that each of them has already. Defaults to 0.
            resumed: Environment steps of the runs of all of them that were paid for before they were interrupted; their
                length and their seeds remain where there is budget for the rest. Defaults to 0.
            are_others_confirmed: Whether others are confirmed already, whose runs have another length or lack further
                seeds if these are changed. Defaults to False.

        Returns:
            The study with these numbers; None if there is no budget for a confirmation.
        """
        is_begun = self._seeds is not None
        if self._adjusts_length and not is_begun and not are_others_confirmed and not resumed:
            self._set_length(finalists)
        wanted = self._seeds or self.spec.confirm_seeds
        adjusts = self._adjusts_seeds and not is_begun
        known = min(known, wanted - 1)
        least = known + 1 if adjusts else wanted
        grows = adjusts and not are_others_confirmed and not resumed
        most = min(MOST_FURTHER * wanted, MOST_SEEDS) if grows else wanted
        steps, fits = self.spec.confirm_budget - resumed, 0
        for n_seeds in range(least, most + 1):
            share = 1.0 if n_seeds <= wanted else self._meter.sure_share
            if self._cost(finalists, n_seeds - known, steps) > share * self._room:
                break
            fits = n_seeds
        if not fits:
            return None
        self._seeds = fits
        self._began = (self._meter.spent(), self._cost(finalists, fits - known, steps))
        return self.spec.model_copy(update={"confirm_seeds": fits})

    def further_seeds(self, finalists: Sequence[int]) -> StudySpec | None:
        """Add further seeds for which there is still budget when the confirmation has ended.

        They are priced by the estimate, or by what the runs before them have cost where that was more.

        Args:
            finalists: Numbers of the confirmed trials, at least one.

        Returns:
            The study with the new number of further seeds; None if there is no budget for another one.
        """
        if self._seeds is None or not self._adjusts_seeds:
            return None
        began, estimated = self._began
        # Runs that diverged, or were resumed, make the others look cheap.
        factor = max(1.0, (self._meter.spent() - began) / estimated) if estimated > 0 else 1.0
        room = self._meter.sure_share * self._room
        most = min(MOST_FURTHER * self.spec.confirm_seeds, MOST_SEEDS) - self._seeds
        n = largest_within(lambda n: factor * self._cost(finalists, n), room, 1, most) if most > 0 else None
        if n is None:
            return None
        self._seeds += n
        self._began = (self._meter.spent(), self._cost(finalists, n))
        return self.spec.model_copy(update={"confirm_seeds": self._seeds})

    def _set_length(self, finalists: Sequence[int]) -> None:
        """Set the steps of the runs that confirm, at least as many as those of the search."""
        spec, room = self.spec, self._room
        least = 1 if self._adjusts_seeds else spec.confirm_seeds
        planned, longest = spec.confirm_budget, max(spec.confirm_budget, spec.horizon or 0)

        def most(n_seeds: int, share: float, low: int, high: int) -> int | None:
            return largest_within(lambda steps: self._cost(finalists, n_seeds, steps), share * room, low, high)

        env_steps = most(spec.confirm_seeds, _LENGTHENED, planned, longest)
        if env_steps is None and self._cost(finalists, least) > room:
            env_steps = most(least, _SHORTENED, spec.budget, planned)
        if env_steps is not None:
            self.spec = spec.model_copy(update={"confirm_env_steps": env_steps})

    @property
    def _room(self) -> float:
        return self._meter.limit - self._meter.spent()

    def _cost(self, finalists: Sequence[int | None], n_seeds: int, env_steps: int | None = None) -> float:
        """Return the cost of a confirmation.

        Args:
            finalists: Numbers of the trials; None for those that are not known yet.
            n_seeds: Further seeds of each.
            env_steps: Environment steps of each run. Defaults to those that are planned.
        """
        steps = self.spec.confirm_budget if env_steps is None else env_steps
        return self._meter.confirmation(steps, len(finalists), n_seeds, self.relative.of(finalists))


def last_common_report(study: OpenStudy, reports: Mapping[int | None, Collection[int]]) -> int:
    """Return the environment steps of the report by which finalists are judged that a spent budget has stopped.

    In replays of tables of finished runs, finalists that were stopped after three quarters of the runs of a search
    choose better than the search itself, and after half of them worse (benchmarks/results/stopped.md).

    Args:
        study: The study.
        reports: Stopped finalist -> environment steps of its reports.

    Returns:
        Those of the last report that all finalists have made; 0 if there is none after `LEAST_SHARE` of the runs of the
        search, or one of them has ended.
    """
    spec = study.spec
    if not reports or spec.env_steps is None or spec.metrics or is_population_based(spec.pruner):
        return 0
    if confirmed_seeds(study) or not {finalist.number for finalist, _ in unconfirmed(study)} <= reports.keys():
        return 0
    at = max(set.intersection(*map(set, reports.values())), default=0)
    return at if at >= LEAST_SHARE * spec.env_steps else 0
