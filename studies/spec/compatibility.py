"""Compatibility of a stored study with the spec that continues it, as pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optuna.distributions import check_distribution_compatibility

from studies.errors import StudyError
from studies.spaces.plan import pending_rows
from studies.spaces.space_notation import space_text
from studies.spaces.spaces import Choice, Fixed, FloatRange, IntRange, distribution
from studies.spec.fields import IDENTITY_FIELDS
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec
from studies.words import counted, free_name, plural

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


def merge_plans(old: StudySpec, new: StudySpec) -> StudySpec:
    """Return a spec whose explicit plan is the stored plan followed by the new rows.

    Raises:
        StudyError: If the two plans contradict each other.
    """
    if not (old.trials and new.trials):
        return new
    rows = (*old.trials, *pending_rows(new.trials, old.trials))
    if rows == new.trials:
        return new
    return new.with_trials(rows)


def merge_warm_starts(old: StudySpec, new: StudySpec) -> StudySpec:
    """Return a spec that keeps the stored warm start and its first trials, unless another study is asked for.

    The trials of that study were copied when the study began, and remain the same while it is continued. Without a
    warm start, the new spec may add first trials; with one, further ones come from trials that the other study has had
    since.
    """
    before, after = old.warm_start, new.warm_start
    if before is None or new.plan() or (after is not None and after.source != before.source):
        return new
    baseline = [new.baseline] if new.baseline is not None else []
    further = pending_rows(new.first if after is None else baseline, old.first)
    return new.model_copy(update={"warm_start": before, "first": (*old.first, *further)})


def keep_confirming_runs(old: StudySpec, new: StudySpec) -> StudySpec:
    """Return a spec that keeps the length of the runs that confirm, unless another one is asked for."""
    if "confirm_env_steps" in new.model_fields_set or old.confirm_env_steps is None or not new.confirm:
        return new
    return new.model_copy(update={"confirm_env_steps": old.confirm_env_steps})


def differences(old: StudySpec, new: StudySpec) -> list[tuple[str, str]]:
    """Return differences that make results incomparable, as pairs of the stored and the requested setting."""
    found = []
    for field in IDENTITY_FIELDS:
        before, after = getattr(old, field), getattr(new, field)
        if field == "objects":  # studies of earlier versions, and files, have none
            before, after = ({name: side[name] for name in before.keys() & after.keys()} for side in (before, after))
        if before == after:
            continue
        by_budget = field in ("env_steps", "episodes")
        found += [(old.budget_text, new.budget_text)] if by_budget else _pairs(field, before, after)
    if is_population_based(old.pruner) or is_population_based(new.pruner):  # schedules are made of all intervals
        before, after = (f"the scheduler {_chosen(spec, 'pruner')}" for spec in (old, new))
        found += [(before, after)] if before != after else []
    return found


def clashes(old: StudySpec, new: StudySpec, trials: Sequence[FrozenTrial]) -> list[tuple[str, str]]:
    """Return parameters whose spaces Optuna cannot hold in one study, as pairs of the stored and the requested space.

    Args:
        old: Spec as it is stored.
        new: Requested spec, including the stored plan (`merge_plans`).
        trials: Trials of the study.
    """
    found = []
    known: dict[str, BaseDistribution] = {}
    for trial in trials:
        known.update(trial.distributions)
    old_spaces, new_spaces = old.search_space(), new.search_space()
    for name in sorted(set(known) & set(new_spaces)):
        try:
            check_distribution_compatibility(known[name], distribution(new_spaces[name]))
        except ValueError:
            before, after = (
                f"the search space {name}={_text(spaces[name])}" if name in spaces else f"other values of {name}"
                for spaces in (old_spaces, new_spaces)
            )
            found.append((f"{before} of an earlier version of Finder" if before == after else before, after))
    return found


def continuation_error(
    old: StudySpec, pairs: Sequence[tuple[str, str]], taken: Collection[str], delete_command: str
) -> StudyError:
    """Return the error for a study that cannot be continued: the differences, and what to do.

    Args:
        old: Spec as it is stored.
        pairs: Result of `differences` or `clashes`.
        taken: Names of all studies in the storage.
        delete_command: Command that deletes the study.
    """
    before, after = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
    choice = "Give"
    if before == [_setting_text("metric", old.metric)]:
        choice = f"Continue it with --metric {old.metric} (in Python and in files metric = {old.metric!r}), give"
    several = len(after) > 1 or after[0].startswith(_PLURALS) or after[0].endswith(_PLURALS)
    free = free_name(old.name, taken)
    return StudyError(
        f"the study {old.name!r} was made with {' and '.join(before)}; now {' and '.join(after)} "
        f"{'are' if several else 'is'} requested. {choice} the new study another name (--study-name "
        f"{shlex.quote(free)}; in Python study_name={free!r}), or remove the old one first "
        f"({delete_command})."
    )


def describe_changes(old: StudySpec, new: StudySpec, asked: StudySpec) -> list[str]:
    """Return sentences for users on how a continued study changes.

    Args:
        old: Spec before.
        new: Spec from now on.
        asked: Requested spec, which may lack rows that were planned before.
    """
    notes = []
    n_more = len(new.trials) - len(asked.trials)
    if old.trials and len(new.trials) > len(old.trials):
        notes.append(f"The plan grows from {len(old.trials)} to {len(new.trials)} trials.")
    elif n_more > 0:
        notes.append(f"The study has {n_more} more {plural('trial', n_more)}, planned before.")
    if old.horizon != new.horizon:
        before, after = (f"{each.horizon:,} steps" if each.horizon else "no horizon" for each in (old, new))
        notes.append(f"From here on the pick is for {after}; until now it was for {before}.")
    if old.confirm and new.confirm and old.confirm_budget != new.confirm_budget:
        before, after = (counted(each.confirm_budget, each.budget_unit) for each in (old, new))
        notes.append(f"From here on finalists have runs of {after}; until now they had runs of {before}.")
    if new.warm_start is not None and new.warm_start != old.warm_start:
        notes.append(new.warm_start.note)
    for field, word in (("sampler", "sampler"), ("pruner", "scheduler")):
        if field == "sampler" and new.plan():
            continue
        before, after = _chosen(old, field), _chosen(new, field)
        if before != after:
            notes.append(f"From here on the {word} is {after}; until now it was {before}.")
    return notes


def _chosen(spec: StudySpec, field: str) -> str:
    arguments: Mapping[str, Any] = getattr(spec, f"{field}_kwargs")
    given = ", ".join(f"{key}={value!r}" for key, value in sorted(arguments.items()))
    return f"{getattr(spec, field)}({given})" if given else str(getattr(spec, field))


def _pairs(field: str, before: Any, after: Any) -> list[tuple[str, str]]:
    if field == "agent_params":
        before, after = (
            {f"{agent}'s {name}": value for agent, params in side.items() for name, value in params.items()}
            for side in (before, after)
        )
    if field not in _ENTRIES:
        return [(_setting_text(field, before), _setting_text(field, after))]
    with_it, without_it = _ENTRIES[field]
    names = [
        name for name in {**before, **after} if name not in before or name not in after or before[name] != after[name]
    ]

    def entry_text(side: Mapping[str, Any], name: str) -> str:
        return with_it.format(name, _text(side[name])) if name in side else without_it.format(name)

    return [(entry_text(before, name), entry_text(after, name)) for name in names]


_ENTRIES = {
    "fixed": ("{} fixed to {}", "{} not fixed"),
    "env_kwargs": ("{}={} for the environment", "no {} for the environment"),
    "params": ("the search space {}={}", "no search space of {}"),
    "agent_params": ("{} {}", "{} as usual"),
    "objects": ("{1} as {0}", "another {0}"),
    "agent_weights": ("the weights {1} of {0}", "new weights of {}"),
}
"""Field that is a table -> text of an entry, and text of a missing entry."""

_PLURALS = ("seeds", "agents", "steps", "episodes")


def _setting_text(field: str, value: Any) -> str:
    words = {"env": "the environment", "kind": "the question", "metric": "the metric"}
    if field == "max_episode_steps":
        return "the environment's own step limit" if value is None else f"at most {value:,} steps an episode"
    if field == "wrappers":
        return f"the wrappers {', '.join(value)}" if value else "no wrappers"
    return f"{words.get(field, field)} {_text(value)}"


def _text(value: Any) -> str:
    if isinstance(value, FloatRange | IntRange | Choice | Fixed):
        return space_text(value)
    return str(list(value)) if isinstance(value, tuple) else str(value)
