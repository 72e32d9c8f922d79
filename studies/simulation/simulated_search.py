"""A search over a table of finished runs, driven by the schedulers and judged by the functions of a live study.

`finder.search.search.Search` does the same with runs that are trained: it runs every trial of the plan, or those that a
sampler proposes; then the trials beyond an edge of the range, if any; then the finalists on further seeds. A table has
the values of its runs at several marks, so a search takes milliseconds.

Where a table differs from a study: no run fails (a run that diverged has the worst value of the table), and the number
of further seeds is bounded by the table and by the remaining budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from studies.errors import StudyError
from studies.judging.judgement import Verdict, finalists, judge, unconfirmed
from studies.judging.search_history import SearchHistory, TrialResult
from studies.schedulers.scheduler import Action, Scheduler
from studies.simulation.design import SearchDesign
from studies.simulation.run_table import RunTable
from studies.simulation.simulated_trial import SimulatedTrial
from studies.spaces.spaces import Json
from studies.statistics.values import mean_of_seeds

PlanExtension = Callable[[SearchHistory, Verdict], Sequence[Mapping[str, Json]]]
"""Called when all trials have ended; returns the parameters of further ones, as
`studies.judging.range_extension.RangeExtension.further_rows` does."""


class Proposals(Protocol):
    """Source of the configurations of a search, and of the seeds on which each is trained."""

    def take(self, number: int, left: float) -> tuple[int, tuple[int, ...]] | None:
        """Return the configuration of the next trial and its seeds, by position; None if there is none.

        Args:
            number: Number of the trial.
            left: Remaining budget in whole runs.
        """

    def ended(self, trial: SimulatedTrial) -> None:
        """Called when a trial has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSearch:
    """Result of a simulated search.

    Attributes:
        trials: Trials of the search, by number.
        confirmations: Trials that confirm finalists, by number.
        history: The same as numbers.
        verdict: Judgement of the search.
        cost: Cost in whole runs.
        is_over: Whether every trial ended; False if the budget ended before.
    """

    trials: tuple[SimulatedTrial, ...]
    confirmations: tuple[SimulatedTrial, ...]
    history: SearchHistory
    verdict: Verdict
    cost: float
    is_over: bool

    @property
    def finalists(self) -> list[int]:
        """Numbers of the trials that were confirmed, in the order in which they were run."""
        return list(dict.fromkeys(trial.confirms for trial in self.confirmations if trial.confirms is not None))

    @property
    def pick(self) -> int | None:
        """Position of the recommended configuration; None if no trial has a value.

        If the budget ended before any trial did, it is the best of those that had come furthest.
        """
        if self.verdict.pick is not None:
            return self.trials[self.verdict.pick.number].config
        known = [trial for trial in self.trials if trial.last_step is not None]
        return (
            max(known, key=lambda trial: (trial.last_step or 0, trial.value, -trial.number)).config if known else None
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of the value of the pick, from its further seeds alone; None if it was not confirmed."""
        confirmation = self.verdict.confirmation
        if confirmation is None or math.isnan(confirmation.held_out.low):
            return None
        return confirmation.held_out.low, confirmation.held_out.high


def simulate(
    table: RunTable,
    proposals: Proposals,
    design: SearchDesign,
    *,
    budget: float = math.inf,
    extend_plan: PlanExtension | None = None,
    longer: RunTable | None = None,
) -> SimulatedSearch:
    """Run a search over a table of finished runs.

    Args:
        table: Finished runs. Trials report at its marks.
        proposals: Configurations to train.
        design: How they are trained and judged.
        budget: Budget in whole runs, a share of a run counting as much. The search stops before it would spend more.
            Defaults to infinity.
        extend_plan: Returns further trials when all have ended, until it returns none. Those of which the table has no
            configuration are left out. Defaults to None.
        longer: Longer runs of the same configurations and seeds, which confirm the finalists. Defaults to None: those
            of `table`.

    Raises:
        StudyError: If the table has no runs of the baseline.
    """
    if design.baseline is not None and design.baseline not in table.params:
        raise StudyError(f"baseline is {design.baseline}, of which the table has no runs: leave it out.")
    search = _Simulation(table, proposals, design, budget, longer)
    search.run_all()
    while extend_plan is not None and search.extend(extend_plan):
        pass
    search.confirm()
    return search.result()


class _Simulation:
    """One call of `simulate`."""

    def __init__(
        self, table: RunTable, proposals: Proposals, design: SearchDesign, budget: float, longer: RunTable | None
    ) -> None:
        self._table, self._proposals, self._design = table, proposals, design
        self._longer = longer
        self._left = budget
        self._cost = 0.0
        self._trials: list[SimulatedTrial] = []
        self._confirmations: list[SimulatedTrial] = []
        self._is_over = True
        self._n_further = design.n_further
        self._judged: tuple[int, Verdict] | None = None
        self._results: tuple[tuple[int, int], tuple[TrialResult, ...]] | None = None

    def run_all(self) -> None:
        """Run all proposed trials, in batches that advance in step."""
        while self._is_over and (batch := self._next_batch()):
            self._run(batch)
        for trial in self._trials:
            if trial.state == "paused":
                self._end(trial, "pruned")

    def _next_batch(self) -> list[SimulatedTrial]:
        batch: list[SimulatedTrial] = []
        while self._design.at_once is None or len(batch) < self._design.at_once:
            trial = self._promoted() or self._proposed() or self._promoted(is_last=True)
            if trial is None:
                break
            batch.append(trial)
        return batch

    def _proposed(self) -> SimulatedTrial | None:
        taken = self._proposals.take(len(self._trials), self._left)
        return None if taken is None else self._begin(*taken)

    def _promoted(self, *, is_last: bool = False) -> SimulatedTrial | None:
        """Return a paused trial that is promoted now; None if there is none."""
        scheduler = self._design.scheduler
        if scheduler is None or not any(trial.state == "paused" for trial in self._trials):
            return None
        views = [trial.view() for trial in self._trials]
        for number in scheduler.promotable(views, is_last=is_last)[:1]:
            trial = self._trials[number]
            trial.state, trial.promoted_from = "running", trial.last_step
            return trial
        return None

    def _begin(self, config: int, seeds: tuple[int, ...]) -> SimulatedTrial:
        trial = SimulatedTrial(number=len(self._trials), config=config, params=self._table.params[config], seeds=seeds)
        self._trials.append(trial)
        return trial

    def extend(self, extend_plan: PlanExtension) -> bool:
        """Run further trials; return whether there were any."""
        verdict = self._verdict()
        if not self._is_over or verdict.pick is None:
            return False
        configs = [self._table.find(row) for row in extend_plan(self._history(), verdict)]
        batch = [
            self._begin(config, tuple(range(min(self._design.n_seeds, self._table.counts[config]))))
            for config in configs
            if config is not None
        ]
        self._run(batch)
        if self._design.scheduler is not None and self._design.scheduler.pauses:
            self.run_all()
        return bool(batch)

    def _run(self, batch: Sequence[SimulatedTrial]) -> None:
        """Train trials in step, from mark to mark, until they have ended or paused, or the budget has ended.

        Promoted trials have reported at the first marks already, and the others catch up with them.
        """
        running = list(batch)
        for mark, step in enumerate(self._table.marks):
            due = [trial for trial in running if (trial.last_step or 0) < step]
            if not running or not self._spend(due, mark):
                break
            self._report(due, mark)
            if mark + 1 == len(self._table.marks):
                for trial in running:
                    self._end(trial, "complete")
            elif decided := self._decisions(due):
                self._apply(decided, step)
                running = [trial for trial in running if trial.state == "running"]

    def _apply(self, decided: Mapping[int, Action], step: int) -> None:
        """Stop, pause and promote trials after their reports at a step."""
        for number, action in decided.items():
            trial = self._trials[number]
            if not action.continues and trial.params == self._design.baseline:
                continue
            if action == Action.STOP:
                self._end(trial, "pruned")
            elif action == Action.PAUSE:
                trial.state = "paused"
            elif action == Action.PROMOTE:
                trial.promoted_from = step

    def _spend(self, running: Sequence[SimulatedTrial], mark: int) -> bool:
        """Spend what training up to a mark costs; return False if that exceeds the budget, which ends the search."""
        cost = sum(len(trial.seeds) for trial in running) * self._table.cost(mark)
        if cost > self._left + 1e-9:
            self._is_over = False
            return False
        self._left -= cost
        self._cost += cost
        return True

    def _report(self, running: Sequence[SimulatedTrial], mark: int) -> None:
        step, scheduler = self._table.marks[mark], self._design.scheduler
        for trial in running:
            seeds = self._table.values[trial.config, list(trial.seeds), mark]
            trial.values[step], trial.reports[step] = tuple(seeds.tolist()), float(mean_of_seeds(seeds))
            if trial.confirms is None and scheduler is not None and _compares_seeds(scheduler, trial):
                trial.rungs.append(step)

    def _decisions(self, reported: Sequence[SimulatedTrial]) -> Mapping[int, Action]:
        scheduler = self._design.scheduler
        if scheduler is None or not reported or reported[0].confirms is not None:
            return {}
        if not any(scheduler.is_due(trial.view()) for trial in reported):
            return {}
        views = {trial.number: trial.view() for trial in self._trials}
        return scheduler.decisions([views[trial.number] for trial in reported], list(views.values()))

    def _end(self, trial: SimulatedTrial, state: Literal["complete", "pruned"]) -> None:
        trial.state = state
        if trial.confirms is None:
            self._proposals.ended(trial)

    def confirm(self) -> None:
        """Run the finalists on further seeds, and then candidates that are better than the remaining finalists."""
        if not self._is_over or not self._design.n_finalists or self._verdict().pick is None:
            return
        n_finalists = len(finalists(self._history()))
        affordable = self._left / (max(1, n_finalists) * self._cost_of_confirming) + 1e-9
        self._n_further = min(self._design.n_further, int(min(affordable, len(self._table.seeds))))
        while self._is_over and self._n_further and (missing := self._missing()):
            for number, seeds in missing:
                self._confirm(self._trials[number], seeds)

    def _missing(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return the trials to run on further seeds, as far as the table and the budget reach."""
        left, missing = self._left, []
        for number, seeds in unconfirmed(self._history(), self._verdict):
            there = tuple(seed for seed in seeds if seed < self._table.counts[self._trials[number].config])
            cost = len(there) * self._cost_of_confirming
            if there and cost <= left + 1e-9:
                left -= cost
                missing.append((number, there))
        return missing

    def _confirm(self, finalist: SimulatedTrial, seeds: tuple[int, ...]) -> None:
        run = replace(
            finalist,
            number=len(self._trials) + len(self._confirmations),
            seeds=seeds,
            confirms=finalist.number,
            state="running",
            values={},
            reports={},
            rungs=[],
        )
        self._confirmations.append(run)
        if self._longer is None:
            self._run([run])
            return
        last, values = self._longer.marks[-1], self._longer.values[finalist.config, list(seeds), -1]
        run.values[last], run.reports[last] = tuple(values.tolist()), float(mean_of_seeds(values))
        run.state = "complete"
        cost = len(seeds) * self._cost_of_confirming
        self._left -= cost
        self._cost += cost

    @property
    def _cost_of_confirming(self) -> float:
        """Cost of one run that confirms, in whole runs of the search."""
        return 1.0 if self._longer is None else self._longer.marks[-1] / self._table.marks[-1]

    def _history(self) -> SearchHistory:
        first = max((seed for trial in self._trials for seed in trial.seeds), default=self._design.n_seeds - 1) + 1
        n_ended = sum(trial.has_ended for trial in self._trials)
        if self._results is None or self._results[0] != (n_ended, len(self._trials)):
            self._results = (n_ended, len(self._trials)), tuple(trial.result() for trial in self._trials)
        return SearchHistory(
            trials=self._results[1],
            confirmations=[trial.result() for trial in self._confirmations],
            n_finalists=self._design.n_finalists,
            further_seeds=tuple(range(first, first + self._n_further)),
            env_steps=self._table.marks[-1],
            confirm_env_steps=None if self._longer is None else self._longer.marks[-1],
            horizon=self._design.horizon,
            baseline=self._design.baseline,
        )

    def _verdict(self) -> Verdict:
        n_ended = sum(trial.has_ended for trial in (*self._trials, *self._confirmations))
        if self._judged is None or self._judged[0] != n_ended:
            self._judged = n_ended, judge(self._history())
        return self._judged[1]

    def result(self) -> SimulatedSearch:
        return SimulatedSearch(
            trials=tuple(self._trials),
            confirmations=tuple(self._confirmations),
            history=self._history(),
            verdict=self._verdict(),
            cost=self._cost,
            is_over=self._is_over,
        )


def _compares_seeds(scheduler: Scheduler, trial: SimulatedTrial) -> bool:
    """Return whether a scheduler compares single seeds at the last report of a trial."""
    return scheduler.needs_seed_values and scheduler.is_due(trial.view())
