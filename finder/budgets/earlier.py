"""The study in the storage that a search would continue, read without writing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from studies.analysis.status import study_status
from studies.errors import StudyError
from studies.recording.opening import check_continuation
from studies.spec.attributes import CONFIRM_STEPS_ATTR, is_confirmation, is_paused, seed_values
from studies.spec.compatibility import differences
from studies.spec.spec import StudySpec, default_name
from studies.storage.storage import StudyStorage, open_storage
from studies.study.budget_attributes import has_chosen_finalists, is_confirming
from studies.study.study import OpenStudy, load_study, study_id_of
from studies.study.time_spent import read_seconds

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, kw_only=True)
class EarlierStudy:
    """A study that a search would continue.

    Attributes:
        spec: Its spec.
        n_ended: Trials that have ended.
        n_total: Trials of the whole study.
        seconds: Seconds that it has taken; 0 if it had no budget in minutes.
        env_steps: Environment steps of all runs of its ended trials, confirmations included.
        has_chosen_finalists: Whether its budget has chosen the number of its finalists.
        is_confirming: Whether its confirmation has begun.
    """

    spec: StudySpec
    n_ended: int
    n_total: int
    seconds: float
    env_steps: int
    has_chosen_finalists: bool
    is_confirming: bool


def earlier_study(
    spec: StudySpec, storage: StudyStorage | None = None, *, is_named: bool = False
) -> EarlierStudy | None:
    """Return the study that a search would continue, None if it would create one.

    A search continues the study of its name. Where this is the default name, and the environment steps of each run are
    still to be chosen, it continues a study with the same budget of the whole search only: another budget chooses other
    steps, and begins another study.

    Args:
        spec: The study of the search.
        storage: An open storage. Defaults to the one that the study names.
        is_named: Whether the user gave the name of the study. Defaults to False.
    """
    if storage is None and spec.storage == "memory":
        return None
    try:
        opened = storage or open_storage(spec.storage, create=False)
    except StudyError:  # there is no such storage yet, or opening it for the search reports what is wrong
        return None
    try:
        return _found(spec, opened, is_named)
    finally:
        if opened is not storage:
            opened.close()


def with_choices_of(spec: StudySpec, earlier: StudySpec) -> StudySpec:
    """Return a spec with what was chosen for an earlier study: steps of each run, its seeds and finalists.

    More further seeds than by default were those for which there was time left; a larger budget chooses them anew.
    """
    if not spec.has_limit:
        return spec
    chosen: dict[str, Any] = {"env_steps": earlier.env_steps} if spec.chooses_budget else {}
    if earlier.baseline is None:
        chosen["baseline"] = None
    left_open = {"seeds", "confirm", "confirm_seeds", "confirm_env_steps"} - spec.model_fields_set
    if "confirm" in left_open:
        chosen["confirm"] = earlier.confirm
    if "confirm_seeds" in left_open:
        same = (spec.minutes, spec.total_env_steps) == (earlier.minutes, earlier.total_env_steps)
        chosen["confirm_seeds"] = earlier.confirm_seeds if same else min(spec.confirm_seeds, earlier.confirm_seeds)
    if "confirm_env_steps" in left_open and spec.confirm:
        chosen["confirm_env_steps"] = earlier.confirm_env_steps
    if "seeds" in left_open and earlier.seeds == spec.seeds[: len(earlier.seeds)]:
        chosen["seeds"] = earlier.seeds
    return spec.model_copy(update=chosen)


def counted_steps(spec: StudySpec, trial: FrozenTrial) -> int:
    """Return the environment steps of all runs of a trial, as they are counted while a search runs.

    Those of failed runs count, and those of a last rollout beyond the budget of a run do not.
    """
    reached = int(trial.user_attrs.get("env_steps", 0))
    if spec.env_steps is not None:
        own = trial.user_attrs.get(CONFIRM_STEPS_ATTR, spec.confirm_budget)  # others may have been asked for since
        reached = min(reached, own if is_confirmation(trial) else spec.env_steps)
    seeds = trial.user_attrs.get("configuration", {}).get("seeds") or seed_values(trial)
    return reached * max(1, len(seeds))


def _found(spec: StudySpec, opened: StudyStorage, is_named: bool) -> EarlierStudy | None:
    default = default_name(spec.kind, spec.agents, spec.env)
    name, number = spec.name, 1
    while study_id_of(opened, name) is not None:
        with load_study(name, opened) as study:
            is_given = spec.name != default
            if is_given and (study.spec.env_steps is not None or not spec.has_limit):  # else it has an error of its own
                check_continuation(study, with_choices_of(spec, study.spec))
            if is_given or _is_same(study.spec, spec, is_named):
                return _earlier(study)
        number += 1
        name = f"{default}-{number}"
    return None


def _is_same(old: StudySpec, new: StudySpec, is_named: bool) -> bool:
    """Return whether a new study would continue a stored one: it has its question, and its budget if that chooses."""
    limits: list[tuple[Any, Any]] = [(each.minutes, each.total_env_steps) for each in (old, new)]
    same_limits = is_named or limits[0] == limits[1] or not new.chooses_budget
    return same_limits and not differences(old, with_choices_of(new, old))


def _earlier(study: OpenStudy) -> EarlierStudy:
    status = study_status(study)
    steps = sum(
        counted_steps(study.spec, trial)
        for trial in study.all_trials()
        if trial.state.is_finished() or is_paused(trial)  # others are counted whole when they end
    )
    return EarlierStudy(
        spec=study.spec,
        n_ended=status.n_ended,
        n_total=status.n_total,
        seconds=read_seconds(study),
        env_steps=steps,
        has_chosen_finalists=has_chosen_finalists(study),
        is_confirming=is_confirming(study),
    )
