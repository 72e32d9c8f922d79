"""A search with its budgets: what was chosen for them, its plan, and the limit that it keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agents.environments.time_limits import EpisodeLength
from finder.budgets.dry_run import is_dry_run
from finder.budgets.earlier import EarlierStudy, earlier_study, with_choices_of
from finder.budgets.estimating import AgentOf, Measured, make_plan, measured_search, random_episodes_of
from finder.budgets.limit import Limit
from finder.budgets.meters import LATE, Meter, StepMeter, TimeMeter
from finder.budgets.plan_numbers import least_steps, longest_episode_of, notes_on_episodes
from finder.budgets.resolution import (
    chooses_finalists,
    chooses_trials,
    with_finalists,
    within_minutes,
    within_steps,
)
from finder.budgets.search_plan import SearchPlan, chosen_text, counted_minutes
from finder.executors.executor import Executor
from finder.trials.speed import latest_first_update
from studies.errors import StudyError
from studies.recording.opening import check_adapters
from studies.spec.budget_rules import (
    check_budgets,
    check_horizon,
    exceeds_horizon,
    least_useful_steps,
    long_run_steps,
)
from studies.spec.metrics import metric_of
from studies.spec.objectives import names_of, needs_episodes
from studies.spec.spec import StudySpec
from studies.storage.storage import StudyStorage
from studies.words import counted

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec


@dataclass(frozen=True, kw_only=True)
class BudgetedSearch:
    """A search whose budgets are chosen.

    Attributes:
        spec: The study, with the budget of each run.
        asked: The study as it was requested.
        executor: The executor.
        agents: Label -> agent.
        extends: Whether the range is extended if the best rate is at its edge.
        began: Time at which the search began, by `time.monotonic`.
        measured: The measured costs; None if they were not needed.
        earlier: The study that the search continues, or None.
        episode: Length of random episodes; None if it was not needed, or is unknown.
    """

    spec: StudySpec
    asked: StudySpec
    executor: Executor
    agents: Mapping[str, AgentSpec]
    extends: bool
    began: float
    measured: Measured | None = None
    earlier: EarlierStudy | None = None
    episode: EpisodeLength | None = None

    @property
    def notes_on_episodes(self) -> list[str]:
        """Notes on runs in which an episode may not end."""
        chosen_for = self.spec.limit_field if self.asked.chooses_budget else ""
        return notes_on_episodes(self.spec, self.agents, self.episode, chosen_for=chosen_for)

    def plan(self) -> SearchPlan:
        """Return the plan of the search."""
        return make_plan(
            self.spec,
            self.executor,
            measured=self.measured,
            extends=self.extends,
            longest_episode=longest_episode_of(self.agents),
            notes=self._notes(),
        )

    def chosen(self) -> str:
        """Return what was chosen for the budget of the whole search, with the estimated time or what is left of it."""
        earlier, minutes = self.earlier, self.spec.minutes
        if earlier is None:
            return chosen_text(self.spec, self.plan().time) + self._fewer()
        text = f"{chosen_text(self.spec, None)}, as the study has it already"
        if minutes is None:
            return text
        return f"{text}; {max(0.0, minutes - earlier.seconds / 60):.1f} minutes are left"

    @property
    def only_confirms(self) -> bool:
        """True if a study is continued with more or longer confirmations, for which its larger budget is meant."""
        earlier, asked = self.earlier, self.asked
        given = {"confirm", "confirm_seeds", "confirm_env_steps"} & asked.model_fields_set
        return earlier is not None and any(getattr(asked, name) != getattr(earlier.spec, name) for name in given)

    def seconds_left(self) -> float | None:
        """Return the seconds until the running trials of the search are stopped; None without a time limit."""
        if self.spec.minutes is None:
            return None
        before = 0.0 if self.earlier is None else self.earlier.seconds
        return LATE * 60 * self.spec.minutes - before - (time.monotonic() - self.began)

    def limit(self) -> Limit | None:
        """Return the limit that the search keeps, None without a budget of the whole search."""
        spec = self.spec
        if not spec.has_limit:
            return None
        earlier, asked = self.earlier, self.asked
        # The number of finalists of a study that exists may have been given when it was begun.
        chosen = earlier is None or earlier.has_chosen_finalists
        is_confirming = earlier is not None and earlier.is_confirming
        meter: Meter
        if spec.total_env_steps is not None:
            meter = StepMeter(spec.total_env_steps, 0 if earlier is None else earlier.env_steps)
        else:
            assert spec.minutes is not None
            assert self.measured is not None
            before, costs = 0.0 if earlier is None else earlier.seconds, self.measured.costs
            meter = TimeMeter(60 * spec.minutes, costs.of_study(spec), before=before, began=self.began)
        return Limit(
            spec,
            meter,
            together=self.executor.trains_together,
            adjusts_seeds="confirm_seeds" not in asked.model_fields_set,
            adjusts_length=chosen
            and not is_confirming
            and spec.confirms_longer
            and "confirm_env_steps" not in asked.model_fields_set,
            chooses_trials=chooses_trials(asked),
            chooses_finalists=chooses_finalists(asked) and chosen,
            first_update=latest_first_update(self.agents),
        )

    def _notes(self) -> tuple[str, ...]:
        earlier, notes = self.earlier, []
        if earlier is not None:
            done = f"{earlier.n_ended} of {counted(earlier.n_total, 'trial')}"
            spent = f", in {earlier.seconds / 60:.1f} minutes" if earlier.seconds else ""
            notes.append(
                f"the study {earlier.spec.name} exists: {done} have ended{spent}, and are not run again; steps and "
                "time are those of the whole search"
            )
        elif self.spec.warm_start is not None:
            notes.append(self.spec.warm_start.note)
        if self.spec.minutes is not None and self.asked.chooses_budget:
            how = "of the study" if earlier is not None else f"chosen for {counted_minutes(self.spec.minutes)}"
            notes.append(f"the {self.spec.env_steps:,} environment steps of each run are those {how}{self._fewer()}")
        elif fewer := self._fewer():
            notes.append(f"the search is planned{fewer}")
        return tuple(notes)

    def _fewer(self) -> str:
        """Return which numbers were reduced, as text; empty if none were."""
        asked, spec = with_finalists(self.asked), self.spec
        if self.earlier is not None:
            return ""
        pairs = [
            (len(spec.seeds), len(asked.seeds), "seed"),
            (spec.n_trials, asked.n_trials, "trial"),
            (spec.confirm, asked.confirm, "finalist"),
            (spec.confirm_seeds, asked.confirm_seeds, "further seed"),
        ]
        fewer = [f"{counted(now, word)} instead of {before}" for now, before, word in pairs if now < before]
        if asked.baseline is not None and spec.baseline is None:
            fewer.append("no baseline")
        if not fewer:
            return ""
        assert spec.env_steps is not None
        wanted, long_run = least_useful_steps(spec.horizon), long_run_steps(spec.horizon)
        rest = f"; a quarter of a long run of {long_run:,} steps (--horizon) would be {wanted:,}"
        short = rest if spec.confirm_budget < wanted else ""
        why = "" if asked.env_steps is not None else ", so that runs are longer"
        return f", with {', '.join(fewer)}{why}{short}"


def budgeted_search(
    spec: StudySpec,
    agents: Mapping[str, AgentSpec],
    agent_of: AgentOf,
    executor: Executor,
    *,
    why_alone: str,
    extends: bool,
    storage: StudyStorage | None,
    is_named: bool,
    began: float,
    measuring_begins: Callable[[], None],
) -> BudgetedSearch:
    """Choose what the budget of a whole search leaves open, after a short measurement.

    A study that exists keeps its environment steps of each run, so that its trials stay comparable.

    Args:
        spec: The study as it is requested.
        agents: Label -> agent.
        agent_of: Returns the agent of a trial.
        executor: The executor.
        why_alone: Why no run can be a member of a population; empty if runs can.
        extends: Whether the range is extended if the best rate is at its edge.
        storage: An open storage; None for the one that the study names.
        is_named: Whether the user gave the name of the study, which is continued with another budget too.
        began: Time at which the search began, by `time.monotonic`.
        measuring_begins: Called before the speed is measured, after everything else was checked.

    Raises:
        ConfigurationError: A run failed while its speed was measured.
        StudyError: The budgets contradict each other, or are too small.
    """
    refuse_contradictions(spec)
    fixed = {label: agent_of({**spec.fixed, "agent": label}, label) for label in agents}
    search = BudgetedSearch(spec=spec, asked=spec, executor=executor, agents=fixed, extends=extends, began=began)
    if exceeds_horizon(spec) and earlier_study(spec, storage, is_named=is_named) is None:
        check_horizon(spec)
    if not (spec.has_limit or is_dry_run()):
        return search
    check_adapters(spec)  # before the measurement; opening the study checks them, too
    earlier = earlier_study(spec, storage, is_named=is_named)
    measures = spec.minutes is not None or is_dry_run()
    measured = None
    if measures:
        measuring_begins()
        measured = measured_search(spec, agent_of, executor, why_alone)
    search = replace(search, measured=measured, earlier=earlier)
    return _chosen(search)


def refuse_contradictions(spec: StudySpec) -> None:
    """Raise `StudyError` for a new search whose budget and other settings contradict each other.

    Studies that earlier versions made with such settings can still be read.

    Args:
        spec: The study as it was requested.
    """
    if spec.episodes is not None and any(metric_of(name).kind == "steps-to" for name in names_of(spec)):
        raise StudyError(
            "steps-to counts environment steps, and the budget is in episodes: runs that do not reach the return have "
            "no common end, and those of short episodes would seem to be the fastest. Give env_steps (--env-steps) "
            "instead."
        )
    if not spec.has_limit or spec.chooses_budget:
        return
    field = spec.limit_field
    planned = len(spec.plan())
    given = "n_trials" if "n_trials" in spec.model_fields_set else ""
    what = counted(planned, "planned trial") if planned else given
    if what:
        raise StudyError(
            f"{field} was given with env_steps {spec.env_steps:,} and {what}, which leaves nothing to choose for it: "
            f"leave out env_steps (--env-steps), {'' if spec.plan() else 'n_trials (--n-trials), '}or {field} "
            f"(--{field.replace('_', '-')})."
        )


def _chosen(search: BudgetedSearch) -> BudgetedSearch:
    """Return the search with the budget of each run, or with the number of trials."""
    spec, earlier = search.asked, search.earlier
    if not spec.has_limit:
        return search
    if earlier is not None and earlier.spec.env_steps is None:
        raise StudyError(
            f"the study {earlier.spec.name!r} has a budget in episodes, for which the steps of a whole search are not "
            "known: give another name (--study-name, study_name), or leave out minutes and total_env_steps."
        )
    if earlier is not None:
        spec = with_choices_of(spec, earlier.spec)
        check_budgets(spec)  # those of a study that exists, with those of this call
        if spec.plan() or "n_trials" in spec.model_fields_set:
            return replace(search, spec=spec)
        n_trials = max(earlier.spec.n_trials, earlier.n_ended)
        return replace(search, spec=spec.model_copy(update={"n_trials": n_trials}))
    at_once, seen = search.executor.trials_at_once, _EpisodesOnce(search)
    least = least_steps(spec, search.agents, seen)
    if spec.env_steps is None and needs_episodes(spec) and longest_episode_of(search.agents) is None:
        seen()  # before the time that is left is read
    if spec.minutes is not None:
        assert search.measured is not None
        chosen = within_minutes(spec, search.measured, at_once, least, time.monotonic() - search.began)
    else:
        chosen = within_steps(spec, at_once, least)
    return replace(search, spec=chosen, episode=seen.length)


class _EpisodesOnce:
    """Plays random episodes of a search when it is called, which is at most once.

    Args:
        search: The search.

    Attributes:
        length: Their length; None if they were not played, or have failed.
    """

    def __init__(self, search: BudgetedSearch) -> None:
        self._search = search
        self._played = False
        self.length: EpisodeLength | None = None

    def __call__(self) -> EpisodeLength | None:
        if not self._played:
            self._played = True
            self.length = random_episodes_of(self._search.asked, self._search.agents, self._search.executor)
        return self.length
