"""Keeps the budget of a whole search while it runs: which trials begin, which stop at rungs, when the search ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from finder.budgets.confirmation_budget import ConfirmationBudget
from finder.budgets.meters import Meter
from finder.budgets.resolution import with_n_trials
from finder.trials.trial import BudgetSpent, Work
from studies.adapters.expected_pruning import Course, Stage, at_most, expected_courses, run_steps
from studies.spec.scheduler_names import canonical_pruner_name
from studies.spec.spec import StudySpec
from studies.statistics.values import mean_of_seeds, sign_of

_FEWEST_SEEDS = 2
"""Further seeds for which trials are pruned until fewer are left than there are finalists."""


class Limit:
    """Keeps a budget, whatever its unit (`Meter`).

    The budget of the confirmation is reserved. A trial begins only if it is expected to end within the rest; at rungs
    the worst trials are pruned in addition if the others could not reach their end otherwise; and what is left over
    goes to further trials of a sampler whose number is not given, and to further seeds of the confirmation.

    Args:
        spec: The study, with the budget of each run.
        meter: What is spent, and what trials will cost.
        together: Whether trials are trained in batches that reach rungs together.
        adjusts_seeds: Whether the number of further seeds of the confirmation may change. Defaults to True.
        adjusts_length: Whether its runs may become shorter, down to the length of those of the search, or longer, up to
            the horizon of the study, if it has one. Defaults to False.
        chooses_trials: Whether there may be fewer trials than planned, and further ones. Defaults to False.
        chooses_finalists: Whether there are more finalists with further trials. Defaults to False.
        first_update: Environment steps of a run up to which its trials are untrained, and not pruned. Defaults to 0.
    """

    def __init__(
        self,
        spec: StudySpec,
        meter: Meter,
        *,
        together: bool,
        adjusts_seeds: bool = True,
        adjusts_length: bool = False,
        chooses_trials: bool = False,
        chooses_finalists: bool = False,
        first_update: int = 0,
    ) -> None:
        self._confirmation = ConfirmationBudget(spec, meter, adjusts_seeds=adjusts_seeds, adjusts_length=adjusts_length)
        self._meter = meter
        self.chooses_trials, self.chooses_finalists = chooses_trials, chooses_finalists
        self._together, self._adjusts_seeds = together, adjusts_seeds
        self._first_update = first_update
        self._running: dict[int, int] = {}  # trial -> number of its seeds
        self._counted: dict[int, int] = {}  # trial -> environment steps that are recorded already
        self._resumed: dict[int, int] = {}  # trial -> environment steps that were paid for before it was interrupted
        self._n_begun = 0
        self._confirming = self._refused = self._is_spent = False
        self._reached = self._n_of_batch = 0
        self._courses: dict[int, Course] = {}

    @property
    def _spec(self) -> StudySpec:
        return self._confirmation.spec

    @property
    def prunes(self) -> bool:
        """True if trials may be pruned to keep the budget."""
        return self._together and canonical_pruner_name(self._spec.pruner) != "none"

    @property
    def ended_search(self) -> bool:
        """True if a trial did not begin, or was stopped, because the budget does not suffice."""
        return self._refused or self._is_spent

    @property
    def is_spent(self) -> bool:
        """True if the running trials were stopped, as the budget is spent."""
        return self._is_spent

    @property
    def spent(self) -> float:
        """Amount that the search has spent, in the unit of the budget."""
        return self._meter.spent()

    @property
    def reserve(self) -> float:
        """The part of the budget that is kept for the confirmation."""
        return self._confirmation.reserve()

    def check(self) -> None:
        """Raise `BudgetSpent` if the budget is spent; only once, as running trials report while they are stopped."""
        if not self._is_spent and self._meter.spent() > self._meter.hard_limit:
            self._is_spent = True
            raise BudgetSpent

    def request_trial(self, counted: int = 0, resumed: int = 0) -> bool:
        """Return whether one more trial can begin now and end within the budget; if not, the search has ended.

        Args:
            counted: Environment steps after which it was paused. Defaults to 0: it was not.
            resumed: Environment steps of the last report before it was interrupted. Defaults to 0: it was not.
        """
        return self._grant(self._cost_of_trial(counted, resumed))

    def fits_trial(self, counted: int = 0) -> bool:
        """Return whether one more trial could begin now; see `request_trial`. If not, another one may."""
        return self._cost_of_trial(counted, 0) <= self._room

    def _cost_of_trial(self, counted: int, resumed: int) -> float:
        """Return the cost of one more trial, of those that are trained beside it, and of what is reserved then."""
        if self._meter.adds_up and not self._together:  # at rungs of its own, any of them may go on to its end
            return self._to_their_ends(counted) + self.reserve
        beside = list(self._running) if self._together else []
        starts = self._n_begun == len(beside)  # nothing has been trained by this process
        if self.prunes and (reached := self._left_out(resumed)):  # the worst are pruned at the next rung if it must be
            cost = self._meter.batch((), len(self._spec.seeds), starts=starts)
            return cost + self._meter.rest(self._to_the_end(1), len(self._spec.seeds), reached)
        n_promoted = self._n_promoted(beside) + bool(counted)
        left = [steps for steps in (self._left_out(resumed), *map(self._resumed.get, beside)) if steps]
        n_new, n_seeds = len(beside) + 1 - n_promoted - len(left), len(self._spec.seeds)
        cost = self._meter.batch(self._course(n_new) if n_new else (), n_seeds, starts=starts)
        if left:
            course = at_most(self._course(max(len(left), self._spec.n_trials)), len(left))
            cost += self._meter.rest(course, n_seeds, min(left))
        if n_promoted:
            earliest = min(filter(None, [counted, *(self._counted.get(number, 0) for number in beside)]))
            cost += self._meter.rest(self._to_the_end(n_promoted), n_seeds, earliest)
        return cost + self.reserve

    @property
    def has_spare(self) -> bool:
        """True if one more trial fits, by the present estimate, whoever runs it."""
        if self._meter.adds_up and not self._together:
            return self._to_their_ends(0) + self.reserve <= self._room
        cost = self.reserve + self._meter.batch(self._course(1), len(self._spec.seeds), starts=False)
        if self._meter.adds_up and self._running:
            cost += self._rest(len(self._running), len(self._spec.seeds), self._reached)
        return cost <= self._room

    def request_waiting(self, seconds: float) -> bool:
        """Return whether the confirmation may wait so long for other processes; if not, the search has ended."""
        return self._grant(self.reserve + self._meter.waiting(seconds))

    def count(self, env_steps: int, n_elsewhere: int) -> None:
        """Set the environment steps of all trials but for what those of this process make now.

        Args:
            env_steps: Of all runs of ended trials, and of those of this process before they were paused.
            n_elsewhere: Trials of the search that other processes run, with the expected pruning.
        """
        elsewhere = run_steps(self._course(n_elsewhere)) * len(self._spec.seeds) if n_elsewhere else 0
        self._meter.count(env_steps + elsewhere)

    def _grant(self, cost: float) -> bool:
        """Return whether there is budget for this; if not, the search has ended."""
        fits = cost <= self._room  # read once: time passes
        self._refused |= not fits
        return fits

    def n_further(self, n_rows: int) -> int:
        """Return how many of the rows of an extended plan can still be run."""
        fits = 0
        for n in range(1, n_rows + 1):
            cost = self._meter.batch(self._course(n), len(self._spec.seeds), starts=False) + self._meter.compilation(n)
            if self._meter.spent() + cost + self._confirmation.reserve(self._grown(n)) > self._meter.limit:
                break
            fits = n
        return fits

    def n_finalists(self, n_ended: int) -> int | None:
        """Return how many of so many trials are confirmed; None if the number is not chosen."""
        return with_n_trials(self._spec, n_ended, chooses=True).confirm if self.chooses_finalists else None

    def grow(self, n_added: int) -> StudySpec:
        """Record that so many trials are added, and return the study with the new numbers of trials and finalists."""
        self._confirmation.spec = self._grown(n_added)
        return self._spec

    def _grown(self, n_added: int) -> StudySpec:
        n_trials = self._spec.n_trials + n_added
        return with_n_trials(self._spec, n_trials, chooses=self.chooses_finalists)

    def _left_out(self, resumed: int) -> int:
        """Return how many environment steps of an interrupted trial are paid for; they are counted when it ends."""
        return 0 if self._meter.adds_up else resumed

    def begun(
        self, number: int, n_seeds: int, counted: int = 0, resumed: int = 0, *, is_baseline: bool = False
    ) -> None:
        """Record that a trial has begun, or continues.

        Args:
            number: The trial.
            n_seeds: Its seeds.
            counted: Environment steps that are recorded already. Defaults to 0.
            resumed: Environment steps of its last report before it was interrupted. Defaults to 0.
            is_baseline: Whether it has the parameters of the baseline, and is not pruned here. Defaults to False.
        """
        if is_baseline:
            self._confirmation.baselines.add(number)
        self._counted[number] = counted
        self._resumed[number] = self._left_out(resumed)
        self._n_of_batch = self._n_of_batch + 1 if self._running else 1
        self._running[number] = n_seeds
        self._n_begun += 1
        self._reached = 0

    def ended(self, number: int, env_steps: int, value: float | None = None, work: Work | None = None) -> None:
        """Record that a trial has ended.

        Args:
            number: The trial.
            env_steps: Environment steps of each of its seeds.
            value: Its value if it was completed. Defaults to None.
            work: Its training. Defaults to None: unknown.
        """
        n_seeds = self._running.pop(number, 0)
        if not self._confirming:
            if value is not None:
                self._confirmation.values[number] = value
            if work is not None and (relative := self._meter.relative_time(work)):
                self._confirmation.relative.add(number, relative, env_steps * max(1, n_seeds))
                if not self._together:  # others report at rungs how fast they are
                    self._meter.trained(work, len(self._running))
        if n_seeds:
            # A run may end its last rollout beyond its budget.
            budget = self._spec.confirm_budget if self._confirming else self._spec.budget
            reached = min(env_steps, budget)
            self._meter.ended(max(0, reached - self._counted.get(number, 0)), n_seeds)

    def rung(self, env_steps: int, values: Mapping[int, Mapping[int, float]], pruned: set[int]) -> set[int]:
        """Return the further trials to prune at a rung, so that the others can reach their end.

        Args:
            env_steps: Environment steps of each run.
            values: Trial -> seed -> value.
            pruned: The trials that are pruned there already.
        """
        n_seeds = len(next(iter(values.values()), ())) or 1
        if not self._together or self._confirming:
            return set()
        # Promoted and interrupted trials have passed their first rungs before. (A checkpoint may be older than the
        # last report: what is trained again until there is neither measured nor pruned.)
        before = {number: max(self._counted.get(number, 0), self._resumed.get(number, 0)) for number in self._running}
        trained = [number for number, steps in before.items() if steps < env_steps]
        counted = sum(self._counted.get(number, 0) for number in trained)
        if env_steps > self._reached:  # without pruning, slower processes report the same marks later
            self._meter.advanced(self._reached, env_steps, len(trained), n_seeds, counted)
            self._reached = env_steps if trained else 0
        left = [number for number in trained if number in values and number not in pruned]
        if not self.prunes or len(left) < 2 or env_steps <= self._first_update or env_steps == self._spec.env_steps:
            return set()
        least_reserve = self._confirmation.reserve(most_seeds=_FEWEST_SEEDS) if self._adjusts_seeds else self.reserve
        room, least_room = self._room - self.reserve, self._room - least_reserve
        n_finalists = self._spec.confirm if self._spec.confirm > 1 else 0
        n_unknown = len(self._running) - len(pruned & self._running.keys()) - len(left)
        keep = len(left)
        # Finalists to compare are worth more than their further seeds, of which there may be fewer.
        while keep > 1 and self._rest(keep + n_unknown, n_seeds, env_steps) > (
            room if keep > n_finalists else least_room
        ):
            keep -= 1
        sign = sign_of(self._spec.direction)
        worst_first = sorted(
            left, key=lambda number: (sign * float(mean_of_seeds(list(values[number].values()))), -number)
        )
        others = [number for number in worst_first if number not in self._confirmation.baselines]
        return set(others[: min(len(left) - keep, len(others) - 1)])

    def plan_confirmation(
        self, finalists: Sequence[int], *, known: int = 0, resumed: int = 0, are_others_confirmed: bool = False
    ) -> StudySpec | None:
        """Begin or continue the confirmation; see `ConfirmationBudget.plan`, whose steps are those to be paid for."""
        self._confirming = True
        return self._confirmation.plan(
            finalists, known=known, resumed=self._left_out(resumed), are_others_confirmed=are_others_confirmed
        )

    def further_seeds(self, finalists: Sequence[int]) -> StudySpec | None:
        """Add further seeds to the confirmation that has ended; see `ConfirmationBudget.further_seeds`."""
        return self._confirmation.further_seeds(finalists)

    @property
    def _room(self) -> float:
        return self._meter.limit - self._meter.spent()

    def _course(self, n_trials: int) -> Course:
        """Return the expected course of a batch of so many trials."""
        if n_trials not in self._courses:
            self._courses[n_trials] = expected_courses(self._spec, n_trials)[0]
        return self._courses[n_trials]

    def _rest(self, n_trials: int, n_seeds: int, reached: int) -> float:
        """Return the cost of the rest of the running batch with so many trials, with the expected pruning."""
        if self._n_promoted(self._running):
            return self._meter.rest(self._to_the_end(n_trials), n_seeds, reached)
        course = at_most(self._course(max(n_trials, self._n_of_batch)), n_trials)
        marks = self._spec.report_marks  # none is pruned before the next one
        next_mark = next((mark for mark in marks if mark > reached), marks[-1])
        later = (stage for stage in course if stage.until > next_mark)
        return self._meter.rest((Stage(next_mark, n_trials), *later), n_seeds, reached)

    def _n_promoted(self, numbers: Iterable[int]) -> int:
        """Return how many trials go on after a pause."""
        return sum(self._counted.get(number, 0) > 0 for number in numbers)

    def _to_their_ends(self, counted: int) -> float:
        """Return the cost of the running trials and one more, with these recorded steps, if none of them is pruned."""
        recorded, n_seeds = [counted, *map(self._counted.__getitem__, self._running)], len(self._spec.seeds)
        return sum(self._meter.rest(self._to_the_end(1), n_seeds, steps) for steps in recorded)

    def _to_the_end(self, n_trials: int) -> Course:
        """Return the course of trials none of which is pruned."""
        assert self._spec.env_steps is not None
        return (Stage(self._spec.env_steps, n_trials),)
