"""The numbers of a plan: its trials, environment steps, time and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.config.work import gradient_steps_in
from agents.contract.spec import FunctionSpec
from agents.environments.time_limits import EpisodeLength
from agents.errors import ConfigurationError
from finder.budgets.cost import Costs
from finder.budgets.search_plan import TimeEstimate
from finder.executors.choice import PROCESS_BYTES
from finder.trials.speed import copies_of, latest_first_update, steps_before_update
from finder.trials.trial import larger_budget, limits_of
from studies.adapters.expected_pruning import (
    MOST_SIMULATED,
    Course,
    Stage,
    at_most,
    expected_courses,
    kept_trials,
    run_steps,
)
from studies.judging.search_history import n_finalists
from studies.spaces.conditions import in_order
from studies.spaces.rate_schedules import end_text, schedules_in
from studies.spaces.spaces import extremes
from studies.spec.objectives import needs_episodes
from studies.spec.scheduler_names import canonical_pruner_name
from studies.spec.spec import StudySpec

if TYPE_CHECKING:
    from agents.contract.spec import AgentSpec

_FIRST_RUNG_IS_ARGUMENT = ("asha", "successive-halving", "hyperband")
"""Schedulers whose first rung is their argument `min_resource`."""


TrialsAtOnce = Callable[[int], int]
"""Returns the number of trials of a batch, given their number of seeds."""

_APART = {"n_trials", "seeds", "confirm", "confirm_seeds", "confirm_env_steps"}
"""Fields of a study that its courses do not depend on, apart from the size of its batches."""


class Courses:
    """Expected courses of studies among which one is chosen: those of studies that are alike are simulated once.

    Args:
        trials_at_once: Returns the number of trials of a batch, given their number of seeds.
    """

    def __init__(self, trials_at_once: TrialsAtOnce) -> None:
        self._trials_at_once = trials_at_once
        self._known: dict[tuple[int, int, str], Sequence[Course]] = {}

    def of(self, spec: StudySpec) -> Sequence[Course]:
        """Return the courses of all batches of a study, as `expected_courses` does."""
        size = min(spec.n_trials, MOST_SIMULATED, self._trials_at_once(len(spec.seeds)))
        if spec.n_trials <= MOST_SIMULATED:
            return self._simulated(spec, spec.n_trials, size)
        # Studies of more trials have the same batches, of which the last one may be smaller.
        first = self._simulated(spec, 2 * (MOST_SIMULATED // size) * size, size)
        n_whole, rest = divmod(spec.n_trials, size)
        whole = [*first, *[first[-1]] * (n_whole - len(first))][:n_whole]
        return [*whole, at_most(first[-1], rest)] if rest else whole

    def _simulated(self, spec: StudySpec, n_trials: int, size: int) -> Sequence[Course]:
        key = n_trials, size, spec.model_dump_json(exclude=_APART)
        if key not in self._known:
            self._known[key] = expected_courses(spec, n_trials, size)
        return self._known[key]


def most_steps(spec: StudySpec) -> int:
    """Return the environment steps of all runs if nothing is pruned; no more than the budget of the search has.

    The budget of each run is in environment steps.
    """
    unpruned = unpruned_steps(spec)
    return unpruned if spec.total_env_steps is None else min(unpruned, spec.total_env_steps)


def unpruned_steps(spec: StudySpec) -> int:
    """Return the environment steps of all runs if nothing is pruned."""
    return spec.budget * spec.n_trials * len(spec.seeds) + _confirming_steps(spec)


def expected_steps(spec: StudySpec, courses: Sequence[Course]) -> int:
    """Return the environment steps of all runs with the expected pruning."""
    return len(spec.seeds) * sum(map(run_steps, courses)) + _confirming_steps(spec)


def _confirming_steps(spec: StudySpec) -> int:
    """Return the environment steps of all runs of the confirmation."""
    return spec.confirm_budget * n_finalists(spec) * spec.confirm_seeds


def estimated_time(spec: StudySpec, costs: Costs, courses: Sequence[Course]) -> TimeEstimate:
    """Estimate the time of a search whose batches have these courses."""
    costs = costs.of_study(spec)
    n_confirmed = n_finalists(spec)
    return TimeEstimate(
        start_seconds=costs.start_seconds(len(courses), n_confirmed),
        search_seconds=sum(costs.batch_seconds(course, len(spec.seeds)) for course in courses),
        confirmation_seconds=costs.confirmation_seconds(spec.confirm_budget, n_confirmed, spec.confirm_seeds),
        minutes=spec.minutes,
    )


def rungs_of(courses: Sequence[Course]) -> tuple[Stage, ...]:
    """Return the rungs of the first batch."""
    return tuple(kept_trials(courses[0])) if courses else ()


def memory_of(costs: Costs, n_runs: int) -> float:
    """Return the bytes of all processes, each with its share of the runs that are trained at the same time."""
    of_runs = n_runs * max(speed.run_bytes for speed in costs.speeds.values())
    return costs.n_processes * PROCESS_BYTES + of_runs


def notes_on_schedules(spec: StudySpec, agent_of: Callable[[Mapping[str, Any], str], AgentSpec]) -> list[str]:
    """Return notes on learning-rate schedules that end early in the runs of a study.

    Schedules that the rates of the trials replace are left out.

    Args:
        spec: The study, with the budget of each run.
        agent_of: Returns the agent with the parameters of a trial, and the label of the agent if they have none.
    """
    if spec.env_steps is None:
        return []
    notes = []
    for settings in _optimizer_settings(spec):
        label = str(settings.get("agent", spec.agents[0]))
        try:
            agent = agent_of({**spec.fixed, **settings}, label)
        except ConfigurationError:  # a combination that fails its trial
            continue
        if isinstance(agent, FunctionSpec):
            continue
        n_steps = gradient_steps_in(agent.config, spec.env_steps)
        for name, schedule in schedules_in(agent.config.to_dict()).items():
            if n_steps is not None and (text := end_text(schedule, n_steps)):
                searched = settings.get(f"{name}.optimizer" if name else "optimizer")
                several = f"{label}: " if len(spec.agents) > 1 else ""
                owner = f"{label}{f' ({name})' if name else ''}" if searched is None else f"{several}{searched}"
                notes.append(f"{owner}: {text}")
    return list(dict.fromkeys(notes))


def _optimizer_settings(spec: StudySpec) -> list[dict[str, Any]]:
    """Return the combinations of agents, optimizers and of whether there is a rate that the trials of a study have.

    Each has one of the rates in its place.
    """
    if rows := spec.plan():
        found = [{name: value for name, value in row.items() if _is_of_optimizer(name)} for row in rows]
        return list({_without_numbers(settings): settings for settings in found}.values())
    found = [{}]
    for name, space in in_order(spec.search_space()).items():
        if _is_of_optimizer(name):
            values = extremes(space)[:1] if name.endswith("learning_rate") else extremes(space)
            found = [further for settings in found for further in _with_values(settings, name, values, space.when)]
    return found


def _is_of_optimizer(name: str) -> bool:
    return name == "agent" or name.rpartition(".")[2] in ("optimizer", "learning_rate")


def _without_numbers(settings: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return settings in which all numbers are alike."""
    return tuple((name, "" if isinstance(value, int | float) else str(value)) for name, value in settings.items())


def _with_values(
    settings: dict[str, Any], name: str, values: Sequence[Any], when: Mapping[str, Sequence[Any]]
) -> Iterator[dict[str, Any]]:
    """Yield settings with each value of a parameter, and without it where a condition does not or may not hold."""
    holds = all(settings[other] in wanted for other, wanted in when.items() if other in settings)
    is_sure = all(other in settings for other in when)
    if holds:
        yield from ({**settings, name: value} for value in values)
    if not (holds and is_sure):
        yield settings


def notes_on_confirmation(asked: StudySpec) -> list[str]:
    """Return a note if further seeds are given for a confirmation that there is not.

    Args:
        asked: The study as it was requested.
    """
    if asked.confirm or "confirm_seeds" not in asked.model_fields_set:
        return []
    return [f"confirm_seeds is {asked.confirm_seeds}, which has no effect, as nothing is confirmed (confirm is 0)"]


def notes_on_first_updates(spec: StudySpec, agents: Mapping[str, AgentSpec]) -> list[str]:
    """Return notes on runs, and on first rungs, that end before the first update of an agent with its own settings.

    Args:
        spec: The study, with the budget of each run.
        agents: Label -> agent.
    """
    firsts = {
        label: steps_before_update(agent) for label, agent in agents.items() if not isinstance(agent, FunctionSpec)
    }
    if spec.env_steps is None or not firsts:
        return []
    notes = [
        f"{label} makes its first update after {first:,} environment steps with its own settings, and each run has "
        f"{spec.env_steps:,}: a run that makes none stays untrained, and its value says nothing"
        for label, first in firsts.items()
        if first > spec.env_steps
    ]
    if notes or canonical_pruner_name(spec.pruner) not in _FIRST_RUNG_IS_ARGUMENT:
        return notes
    label, first = max(firsts.items(), key=lambda item: item[1])
    rungs = rungs_of(expected_courses(spec, spec.n_trials))
    if rungs and rungs[0].until <= first:
        notes.append(
            f"the first rung is at {rungs[0].until:,} environment steps, and {label} makes its first update after "
            f"{first:,}: untrained trials are equal, and continue together (scheduler argument min_resource)"
        )
    return notes


def longest_episode_of(agents: Mapping[str, AgentSpec]) -> int | None:
    """Return the step limit of the environment of a study."""
    limit = limits_of(next(iter(agents.values())).environment)["max_episode_steps"]
    return limit if isinstance(limit, int) else None


def most_copies(spec: StudySpec, agents: Mapping[str, AgentSpec]) -> int:
    """Return the most copies of the environment that share the environment steps of a run.

    Args:
        spec: The study, which may search `n_envs`.
        agents: Label -> agent.
    """
    searched = spec.search_space().get("n_envs")
    values = [] if searched is None else extremes(searched)
    return max([*map(copies_of, agents.values()), *(n for n in values if isinstance(n, int))])


def least_steps(
    spec: StudySpec, agents: Mapping[str, AgentSpec], episode: Callable[[], EpisodeLength | None]
) -> Iterator[int]:
    """Yield the fewest environment steps of a run that says something, then fewer that must do for a small budget.

    A run has two first updates. Unless it is judged by greedy episodes alone, every copy of the environment has an
    episode: as long as it may be. Where the budget does not suffice for that, episodes of the copies are as long as
    those of random actions, and the run has the steps of one that is as long as it may be; then not even those.

    Args:
        spec: The study.
        agents: Label -> agent.
        episode: Returns the length of random episodes, which are played if it is called; None if it is unknown.
    """
    updates, copies = max(2 * latest_first_update(agents), 1), most_copies(spec, agents)
    if not needs_episodes(spec):
        yield updates
        return
    limit = longest_episode_of(agents)
    longest = updates if limit is None else max(updates, copies * limit)
    if limit is not None:
        yield longest
        if longest == updates:
            return
    seen = episode()
    of_random = max(updates, copies * seen.steps if seen is not None and seen.ended else 0)
    if limit is None:
        yield of_random
    elif seen is not None and seen.ended:
        yield from (steps for steps in dict.fromkeys((max(limit, of_random), of_random)) if steps < longest)


def notes_on_episodes(
    spec: StudySpec, agents: Mapping[str, AgentSpec], seen: EpisodeLength | None, *, chosen_for: str = ""
) -> list[str]:
    """Return notes on runs in which an episode may not end.

    Args:
        spec: The study, with the budget of each run.
        agents: Label -> agent.
        seen: Length of random episodes; None if it is unknown.
        chosen_for: The budget of the whole search for which the steps of each run were chosen
            (`StudySpec.limit_field`). Defaults to "": they were given.
    """
    known = {label: agent for label, agent in agents.items() if not agent.is_own_function}
    if spec.env_steps is None or not known or not needs_episodes(spec):
        return []
    copies, limit, env = most_copies(spec, known), longest_episode_of(known), spec.env
    of_each = spec.env_steps // copies
    run = f"each run has {of_each:,} steps" + (f" for each of {copies} copies of {env}" if copies > 1 else f" of {env}")
    without_value = "a run in which none ends has no value"
    longest = limit if limit is not None else seen.steps if seen is not None else 0
    other = "," if chosen_for else " or"
    fewer = f"{other} n_envs=1 (--set n_envs=1)" if copies > 1 and spec.env_steps >= longest else ""
    longer = ", ".join(larger_budget(chosen_for)) or "longer runs (--env-steps)"
    if limit is None and seen is not None and not seen.ended:
        return [
            f"no episode of {env} ended within {seen.steps:,} steps of random actions, and {run}: {without_value}; "
            f"give {longer}{fewer}, or a time limit (--max-episode-steps) if episodes never end"
        ]
    if of_each >= longest:
        return []
    at_random = ""
    if limit is not None and seen is not None and seen.ended and seen.steps < limit:
        at_random = f" (those of random actions had up to {seen.steps:,})"
    why = f"{run}, and an episode may have {longest:,}{at_random}: long episodes do not end, and {without_value}"
    if not chosen_for:
        return [f"{why}; --env-steps {copies * longest}{fewer} has room for one"]
    smaller = "a time limit" if limit is None else "a smaller time limit"
    return [f"{why}; give {longer}{fewer}, or {smaller} (--max-episode-steps)"]
