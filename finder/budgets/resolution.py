"""Chooses the environment steps of each run, or the number of trials, for the budget of a whole search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from finder.budgets.cost import brackets, largest_within
from finder.budgets.estimating import Measured
from finder.budgets.plan_numbers import Courses, TrialsAtOnce, estimated_time, expected_steps, unpruned_steps
from finder.budgets.search_plan import counted_minutes
from studies.errors import StudyError
from studies.judging.search_history import finalists_text, n_finalists
from studies.spaces.configurations import n_configurations
from studies.spaces.spaces import LARGEST
from studies.spec.budget_rules import long_run_steps
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec
from studies.words import counted

TARGET = 0.95
"""Share of the minutes that a search is planned for; the rest is for what was not measured."""

_FEW_TRIALS = 4
"""Trials below which a search with given environment steps takes a smaller design instead, if there is one; the fewest
of a search whose runs are as short as they may be."""

_SMALLER_DESIGNS: tuple[tuple[float, dict[str, Any]], ...] = (
    (1, {"seeds": 2}),
    (1, {"seeds": 1}),
    (1, {"seeds": 1, "confirm": 3}),
    (1, {"seeds": 1, "confirm": 3, "factor": 2, "confirm_seeds": 3}),
    (1, {"seeds": 1, "confirm": 2, "factor": 2, "confirm_seeds": 3}),
    (1, {"seeds": 1, "confirm": 2, "factor": 2, "confirm_seeds": 2}),
    (1, {"seeds": 1, "confirm": 2, "factor": 2, "confirm_seeds": 2, "n_trials": 12}),
    (1, {"seeds": 1, "confirm": 2, "factor": 4, "confirm_seeds": 1}),
    (1, {"seeds": 1, "confirm": 2, "factor": 4, "confirm_seeds": 1, "n_trials": 12}),
    (math.inf, {"seeds": 1, "confirm": 2, "factor": 2, "confirm_seeds": 2, "n_trials": 8, "baseline": None}),
    (math.inf, {"seeds": 1, "confirm": 2, "confirm_seeds": 2, "n_trials": _FEW_TRIALS, "baseline": None}),
)
"""Designs of a search, in order, each for budgets with which the longest runs of the one before it are shorter than the
whole long run; the last two for those that are too small for any runs of the others.

`factor` is the length of the runs that confirm, as a multiple of the length of those of the search. Of designs of equal
cost these lead to the best picks: at equal length of runs three seeds are hardly better than one, and finalists in runs
of twice the length are as good as a whole search of this length (benchmarks/results/designs.md). Where the budget is
not enough for that, one further seed in the whole long run is better than two in a half of it: what learns fast leads
in short runs. Beside a good baseline, picks of the latter are worse than these by more than 2% of the range in 14%
of the searches, those of the former in 0.5% (benchmarks/results/baselines.md)."""

_OF_ONE_LENGTH: tuple[tuple[float, dict[str, Any]], ...] = (
    (1, {"seeds": 2}),
    (1, {"seeds": 1}),
    (1, {"seeds": 1, "confirm": 3}),
    (2, {"seeds": 1, "confirm": 3, "confirm_seeds": 3}),
    (2, {"seeds": 1, "confirm": 2, "confirm_seeds": 3}),
    (4, {"seeds": 1, "confirm": 2, "confirm_seeds": 3, "n_trials": 12}),
    (math.inf, {"seeds": 1, "confirm": 2, "confirm_seeds": 3, "n_trials": 8, "baseline": None}),
    (math.inf, {"seeds": 1, "confirm": 2, "confirm_seeds": 3, "n_trials": _FEW_TRIALS, "baseline": None}),
)
"""The same where the runs that confirm are given, or choose nothing."""

_MOST_FINALISTS = 16
"""Most finalists of a search with a sampler."""

_MORE_TRIALS = 2
"""Times as many trials for which a large budget has trials of one seed: where seeds are trained together, these cost
little."""

_SPARE = 1.1
"""Factor of the minutes that a message asks for, as the next measurement may be slower."""

_DIGITS = 3
"""Significant digits of the chosen environment steps."""

_MOST_TRIALS = 100_000


@dataclass(frozen=True, kw_only=True)
class _Budget:
    """The budget of a whole search, and how it is named.

    Attributes:
        amount: What is left of it, in its unit.
        cost: Returns the cost of a study with a budget of each run; or more, if that is within the amount too.
        field: Field of the study.
        given: Value of the field, as text.
        text: Returns an amount as text, rounded up.
        spare: Factor of the amount that a message asks for, as the next estimate may be larger.
    """

    amount: float
    cost: Callable[[StudySpec], float]
    field: str
    given: str
    text: Callable[[float], str]
    spare: float = 1.0


def with_finalists(spec: StudySpec) -> StudySpec:
    """Return a study with the finalists that suit its number of trials, if a sampler proposes these.

    Further seeds of finalists are worth more than seeds of all trials: 44 racing trials of two seeds have a regret of
    0.4% with 6 finalists and of 0.6% with 3, as those of three seeds with 3 (benchmarks/results/finalists.md).

    Args:
        spec: The study as it was requested. A number of finalists that was given remains.
    """
    if not spec.has_limit or spec.plan() or not _is_confirm_open(spec) or is_population_based(spec.pruner):
        return spec
    return spec.model_copy(update={"confirm": finalists_of(spec.n_trials)})


def finalists_of(n_trials: int) -> int:
    """Return how many of so many trials of a sampler are confirmed: 5 of 20 to 47, fewer of less, 1 in 8 of more."""
    return max(3, min(n_trials // 4, 5), min(n_trials // 8, _MOST_FINALISTS))


def chooses_finalists(spec: StudySpec) -> bool:
    """Return whether a budget of the whole search chooses the number of finalists for that of the trials."""
    return chooses_trials(spec) and _is_confirm_open(spec)


def _is_confirm_open(spec: StudySpec) -> bool:
    """Return whether the best trials are confirmed, and their number was not given."""
    return spec.confirm > 0 and "confirm" not in spec.model_fields_set


def with_n_trials(spec: StudySpec, n_trials: int, *, chooses: bool) -> StudySpec:
    """Return a study with so many trials, and if they are to be chosen with as many finalists as suit them.

    A space of fewer configurations has a trial for each. Where a plan had budget for fewer finalists, their number
    remains until it is less than 1 in 8 trials.
    """
    n_trials = n_trials if spec.plan() else n_configurations(spec.search_space(), n_trials)
    confirm = finalists_of(n_trials) if chooses else spec.confirm
    if chooses and spec.confirm < finalists_of(spec.n_trials):
        confirm = min(confirm, max(spec.confirm, n_trials // 8))
    return spec.model_copy(update={"n_trials": n_trials, "confirm": confirm})


def chooses_trials(spec: StudySpec) -> bool:
    """Return whether a budget of the whole search may change the number of trials of a study, as it is requested."""
    return not (spec.plan() or "n_trials" in spec.model_fields_set or is_population_based(spec.pruner))


def within_minutes(
    spec: StudySpec, measured: Measured, trials_at_once: TrialsAtOnce, least: Iterable[int], spent: float
) -> StudySpec:
    """Return a study whose runs, or trials, are chosen so that the search takes its minutes.

    Args:
        spec: The study, with `minutes`.
        measured: The measured costs.
        trials_at_once: Returns the trials of a batch by their number of seeds.
        least: Fewest environment steps of a run, then fewer that must do for a small budget (`least_steps`).
        spent: Seconds that the search has taken already.

    Raises:
        StudyError: The time is too short; the message has the time that is needed.
    """
    assert spec.minutes is not None
    courses = Courses(trials_at_once)

    def seconds(candidate: StudySpec) -> float:
        return estimated_time(candidate, measured.costs, courses.of(candidate)).total_seconds

    def text(amount: float) -> str:
        minutes = (amount + spent) / TARGET / 60
        return f"{math.ceil(minutes * 10) / 10:g}" if minutes < 10 else f"{math.ceil(minutes):g}"

    budget = _Budget(
        amount=60 * spec.minutes * TARGET - spent,
        cost=seconds,
        field="minutes",
        given=counted_minutes(spec.minutes),
        text=text,
        spare=_SPARE,
    )
    return _with_least_of(spec, budget, least)


def within_steps(spec: StudySpec, trials_at_once: TrialsAtOnce, least: Iterable[int]) -> StudySpec:
    """Return a study whose runs, or trials, are chosen so that the search takes its environment steps in total.

    Args:
        spec: The study, with `total_env_steps`.
        trials_at_once: Returns the trials of a batch by their number of seeds.
        least: Fewest environment steps of a run, then fewer that must do for a small budget (`least_steps`).

    Raises:
        StudyError: There are too few steps; the message has the number that is needed.
    """
    assert spec.total_env_steps is not None
    amount, courses = spec.total_env_steps, Courses(trials_at_once)

    def steps(candidate: StudySpec) -> int:
        unpruned = unpruned_steps(candidate)  # needs no simulation
        return unpruned if unpruned <= amount else expected_steps(candidate, courses.of(candidate))

    budget = _Budget(
        amount=amount,
        cost=steps,
        field="total_env_steps",
        given=counted(amount, "environment step"),
        text=lambda amount: f"{math.ceil(amount)}",
    )
    return _with_least_of(spec, budget, least)


def _with_least_of(asked: StudySpec, budget: _Budget, least: Iterable[int]) -> StudySpec:
    """Return the study with the first of these fewest environment steps of a run that the budget pays for."""
    refusal: StudyError | None = None
    for steps in least:
        try:
            return _resolved(asked, budget, steps)
        except StudyError as error:
            refusal = error
        if asked.env_steps is not None:
            break  # the length of runs is given
    assert refusal is not None
    raise refusal


def _resolved(asked: StudySpec, budget: _Budget, least: int) -> StudySpec:
    spec, chooses = with_finalists(asked), chooses_finalists(asked)
    if spec.env_steps is not None:
        n_first = max(1, len(spec.first))  # none of them is left out
        given = _Design(spec, spec.env_steps, spec.env_steps)
        designs = [spec, *(smaller.spec for _, smaller in _smaller_designs(given, asked))]
        for n_least in (max(_FEW_TRIALS, n_first), max(2, n_first), n_first):  # smaller designs before fewer trials
            for own in designs:
                if most := _with_most_trials(own, budget, n_least, asked, chooses=chooses):
                    return most
        smallest = with_n_trials(designs[-1], n_first, chooses=chooses)
        what = f"{counted(n_first, 'trial')} of {counted(spec.env_steps, 'environment step')} with {_seeds(smallest)}"
        raise _too_little(budget, budget.cost(smallest), what)
    longest = LARGEST if spec.horizon is None else max(least, spec.horizon)
    if spec.confirm_env_steps is not None:
        if spec.confirm_env_steps < least:
            raise StudyError(
                f"confirm_env_steps is {spec.confirm_env_steps}, but a run needs {least:,} environment steps to say "
                "something: give at least as many (--confirm-env-steps), or leave it out."
            )
        longest = min(longest, spec.confirm_env_steps)
    design, env_steps = _long_enough(_Design(spec, least, longest), budget, asked)
    n_trials = design.spec.n_trials
    if env_steps is None:
        needed = budget.cost(design.of(least))
        what = f"{counted(n_trials, 'trial')} of {counted(least, 'environment step')} with {_seeds(design.spec)}"
        if spec.confirm_env_steps is not None and (again := finalists_text(design.spec)):
            what += f", then {again} with {counted(spec.confirm_env_steps, 'environment step')}"
        fewer = "fewer candidates, seeds or confirmations" if spec.plan() else "fewer trials (--n-trials)"
        raise _too_little(budget, needed, what, fewer if n_trials > 1 else "")
    if env_steps < design.most:
        return design.of(max(least, _rounded_down(env_steps)))
    chosen = design.of(design.most)
    if not chooses_trials(asked):
        return chosen
    return _with_most_trials(chosen, budget, n_trials, asked, chooses=chooses) or chosen


class _Design(NamedTuple):
    """A study whose runs are still to be given their length.

    Attributes:
        spec: The study.
        least: Fewest environment steps of a run.
        longest: Most environment steps of a run.
        factor: Length of the runs that confirm, as a multiple of the length of those of the search.
    """

    spec: StudySpec
    least: int
    longest: int
    factor: int = 1

    @property
    def most(self) -> int:
        """Most environment steps of a run of the search."""
        return max(self.least, -(-self.longest // self.factor))

    def of(self, env_steps: int) -> StudySpec:
        """Return the study with so many environment steps of each run of the search."""
        budgets = {"env_steps": env_steps}
        if self.factor > 1:
            budgets["confirm_env_steps"] = min(self.longest, self.factor * env_steps)
        return self.spec.model_copy(update=budgets)

    def reach(self, env_steps: int) -> int:
        """Return the environment steps of the longest runs, where those of the search have so many."""
        return self.of(env_steps).confirm_budget if self.factor > 1 else env_steps

    def steps_within(self, budget: _Budget) -> int | None:
        """Return the most environment steps of a run of the search within a budget, None if the fewest cost more."""
        return largest_within(lambda steps: budget.cost(self.of(steps)), budget.amount, self.least, self.most)

    def reaches(self, length: float, budget: _Budget) -> bool:
        """Return whether the longest runs are so long with the most environment steps within a budget."""
        for within, beyond in brackets(lambda steps: budget.cost(self.of(steps)), budget.amount, self.least, self.most):
            if self.reach(within) >= length:
                return True
            if self.reach(beyond - 1) < length:
                break
        return False


def _long_enough(design: _Design, budget: _Budget, asked: StudySpec) -> tuple[_Design, int | None]:
    """Return the largest design with runs that are long enough, else the smallest; its steps, None if too few.

    Args:
        design: The first one.
        budget: The budget.
        asked: The study as it was requested: what was given remains.
    """
    long_run = min(long_run_steps(design.spec.horizon), design.longest)
    for part, smaller in _smaller_designs(design, asked):
        if design.reaches(long_run // part, budget):
            break
        design = smaller
    return design, design.steps_within(budget)


def _smaller_designs(first: _Design, asked: StudySpec) -> Iterator[tuple[float, _Design]]:
    """Yield smaller designs of a study, with what is at its default.

    Without a confirmation the seeds remain, as nothing else shows how sure the pick is.
    """
    spec = first.spec
    given = {*asked.model_fields_set, *(["n_trials"] if spec.plan() else []), *([] if spec.confirm else ["seeds"])}
    given.discard("baseline")  # set by the search itself
    several = min(spec.confirm, spec.n_trials) > 1  # a single one is chosen already
    is_open = first.least < first.longest and "confirm_env_steps" not in given
    chooses = several and is_open and not is_population_based(spec.pruner)
    for part, design in _SMALLER_DESIGNS if chooses else _OF_ONE_LENGTH:
        if design.get("confirm_seeds") == 1 and (spec.plan() or "confirm_seeds" in given):
            continue  # a plan of rates needs two seeds for its intervals, and a number that was given remains
        own: dict[str, Any] = {name: n for name, n in design.items() if name not in {*given, "factor"}}
        if "seeds" in own:
            own["seeds"] = spec.seeds[: own["seeds"]]
        if "n_trials" in own:
            own["n_trials"] = max(min(own["n_trials"], spec.n_trials), len(spec.first))
        yield part, first._replace(spec=spec.model_copy(update=own), factor=design.get("factor", 1))


def _with_most_trials(
    spec: StudySpec, budget: _Budget, least: int, asked: StudySpec, *, chooses: bool
) -> StudySpec | None:
    """Return the study with the most trials within a budget, None if `least` of them cost more.

    Trials have one seed where there are then `_MORE_TRIALS` times as many.
    """

    def most(candidate: StudySpec) -> int:
        found = largest_within(
            lambda n: budget.cost(with_n_trials(candidate, n, chooses=chooses)), budget.amount, least, _MOST_TRIALS
        )
        return with_n_trials(candidate, found, chooses=chooses).n_trials if found else 0

    n_trials = most(spec)
    if len(spec.seeds) > 1 and "seeds" not in asked.model_fields_set and n_finalists(spec):
        of_one_seed = spec.model_copy(update={"seeds": spec.seeds[:1]})
        if (n := most(of_one_seed)) >= _MORE_TRIALS * max(1, n_trials):
            spec, n_trials = of_one_seed, n
    return with_n_trials(spec, n_trials, chooses=chooses) if n_trials else None


def _too_little(budget: _Budget, needed: float, what: str, instead: str = "shorter runs") -> StudyError:
    flag = f"--{budget.field.replace('_', '-')}"
    amount, enough = budget.text(needed), budget.text(budget.spare * needed)
    shown = f"{int(amount):,}" if amount.isdigit() else amount
    unit = ("minute" if budget.field == "minutes" else "environment step") + ("" if amount == "1" else "s")
    too_few = "is too little" if budget.given.startswith("1 ") else "are too few"
    return StudyError(
        f"{budget.given} {too_few}: {what} would take about {shown} {unit}, confirmation included. Give {flag} "
        f"{enough} ({budget.field}={enough}){f', or {instead}' if instead else ''}."
    )


def _seeds(spec: StudySpec) -> str:
    return counted(len(spec.seeds), "seed") + (" each" if spec.n_trials > 1 else "")


def _rounded_down(number: int) -> int:
    unit: int = 10 ** max(0, len(str(number)) - _DIGITS)
    return number // unit * unit
