"""Creating, continuing, joining and deleting studies."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import optuna
from optuna.exceptions import DuplicatedStudyError
from optuna.trial import FrozenTrial, TrialState

from studies.adapters.prior_trials import prior_trials
from studies.adapters.pruners import make_pruner
from studies.adapters.quiet_optuna import quiet_optuna, without_experimental_warnings
from studies.adapters.samplers import make_sampler
from studies.adapters.trial_sampler import TrialSampler
from studies.coordination.lease_manager import STUDY, LeaseManager
from studies.coordination.owner import Owner
from studies.database.damage import check_trials
from studies.database.fencing import FencedStorage, LeaseLostError
from studies.database.names import check_name
from studies.database.retries import retry_seconds
from studies.errors import StudyError
from studies.recording.network_disks import note_on_network_disks
from studies.recording.study_data import create_key, own_key, remove_study
from studies.spec.attributes import is_open
from studies.spec.budget_rules import USUAL_STEPS
from studies.spec.compatibility import (
    clashes,
    continuation_error,
    describe_changes,
    differences,
    keep_confirming_runs,
    merge_plans,
    merge_warm_starts,
)
from studies.spec.metrics import metric_of
from studies.spec.objectives import directions_of
from studies.spec.scheduler_names import is_population_based
from studies.spec.spec import StudySpec, default_name
from studies.spec.stored_spec import is_finder_study, read_spec
from studies.storage.commands import delete_command
from studies.storage.storage import StudyStorage
from studies.study.argument_order import study_name_first
from studies.study.origin import store_origin
from studies.study.study import (
    AnyStorage,
    OpenStudy,
    opened_storage,
    require_study,
    spec_of,
    storage_of,
    store_spec,
    study_id_of,
)
from studies.study.time_spent import store_beginning
from studies.words import over_seeds_text

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage


def open_study(spec: StudySpec, storage: AnyStorage | None = None) -> OpenStudy:
    """Create a study, or continue the one with the same name.

    An explicit plan is appended to the stored one. If another question was already asked under the default name, the
    new study gets a numbered name; a study without results is replaced.

    Args:
        spec: Spec of the study. `n_trials` is the total, existing trials included.
        storage: An open storage, which stays open when the study is closed, or a URL. Defaults to `None`:
            `spec.storage`.

    Raises:
        StudyError: If the storage cannot be opened; if the study exists with another space, environment, agents,
            metric, seeds or budget (names the differences and what to do); if another live process runs it; if an
            argument of a sampler or scheduler is wrong.
    """
    if not isinstance(spec, StudySpec):
        raise StudyError(
            f"spec is {spec!r}: give a studies.StudySpec. A study that exists is opened by studies.load_study(name, "
            "storage) for reading, and by studies.join_study(name, storage) to run its trials."
        )
    if spec.chooses_budget:
        field = spec.limit_field
        raise StudyError(
            f"{field} is {getattr(spec, field):g} and env_steps is still to be chosen for it, where the search runs: "
            "give env_steps, or run the search (finder run) instead of submitting it."
        )
    with opened_storage(storage or spec.storage, create=True) as opened:
        opened.start_run(retry_seconds())
        owns = storage is not opened
        try:
            return _open(spec, opened, owns)
        except DuplicatedStudyError:  # another process has started it at this moment
            return _open(spec, opened, owns)


def check_adapters(spec: StudySpec) -> None:
    """Raise `StudyError` if the sampler or the scheduler of a study cannot be made, such as for a wrong argument.

    Args:
        spec: Spec of the study. Where its steps are still to be chosen, the usual ones stand for them.
    """
    if spec.chooses_budget:
        spec = spec.model_copy(update={"env_steps": USUAL_STEPS})
    _sampler_of(spec)
    make_pruner(spec.pruner, spec.pruner_kwargs, spec)


def check_continuation(study: OpenStudy, spec: StudySpec) -> None:
    """Raise `StudyError` if a study cannot be continued by another spec; names the differences and what to do."""
    _continued(study.storage, study.study._study_id, spec)


def _open(spec: StudySpec, opened: StudyStorage, owns: bool) -> OpenStudy:
    """Create or continue a study; see `open_study`."""
    asked = spec.trials
    with contextlib.ExitStack() as on_error:
        spec, notes = _with_free_name(opened, spec)
        if on_network := note_on_network_disks(file.path for file in opened.files):
            notes.append(on_network)
        study_id = study_id_of(opened, spec.name)
        if study_id is not None:
            _refuse_foreign(opened, study_id, spec)
            check_trials(opened.optuna.get_all_trials(study_id, deepcopy=False), spec.name)
            key = create_key(opened, study_id, spec.name)
            leases = on_error.enter_context(_lead(opened, key, spec.name))
            spec, changes, goes_on = _continued(opened, study_id, spec)
            notes += changes
            if not goes_on:
                _refuse_if_running(opened, study_id, spec.name)
                remove_study(opened, study_id)
                study_id = None
        sampler = _sampler_of(spec)
        pruner = make_pruner(spec.pruner, spec.pruner_kwargs, spec)
        if study_id is None:
            study_id = _create(spec, opened)
            notes += [spec.warm_start.note] if spec.warm_start is not None else []
            key = create_key(opened, study_id, spec.name)
            leases = on_error.enter_context(_lead(opened, key, spec.name))
        study = _study_of(opened, spec.name, leases, sampler, pruner)
        made = OpenStudy(spec, study, opened, key, owns_storage=owns, leases=leases, notes=tuple(notes))
        store_origin(made, asked)
        store_spec(made)
        store_beginning(made)
        on_error.pop_all()
        return made


@study_name_first
def join_study(study_name: str, storage: AnyStorage) -> OpenStudy:
    """Open a study to help the processes that run it.

    The argument order `(storage, name)` of earlier versions is accepted with a DeprecationWarning.

    Args:
        study_name: Name of the study.
        storage: An open storage, or the URL of an existing one.

    Raises:
        StudyError: If there is no such study (names the nearest), it was not created by Finder, or it is in a file that
            another live process writes.
    """
    with opened_storage(storage, create=False) as opened, contextlib.ExitStack() as on_error:
        opened.start_run(retry_seconds())
        study_id = require_study(opened, study_name)
        spec = spec_of(opened, study_id, study_name)
        check_trials(opened.optuna.get_all_trials(study_id, deepcopy=False), study_name)
        if spec.kind == "range-test":
            raise StudyError(f"the study {study_name!r} is a range test, which one process makes in one run.")
        if is_population_based(spec.pruner):
            raise StudyError(
                f"the study {study_name!r} trains all its members in one population of one process ({spec.pruner}): "
                "workers cannot help. Resume it with the call or the command that started it."
            )
        key, owns = create_key(opened, study_id, study_name), storage is not opened
        leases = LeaseManager(opened.leases, key) if opened.shared else _lead(opened, key, study_name, joins=True)
        on_error.enter_context(leases)
        pruner = make_pruner(spec.pruner, spec.pruner_kwargs, spec)
        study = _study_of(opened, study_name, leases, _sampler_of(spec), pruner)
        on_error.pop_all()
        return OpenStudy(spec, study, opened, key, owns_storage=owns, leases=leases)


@study_name_first
def delete_study(study_name: str, storage: AnyStorage) -> int:
    """Delete a study with its trials, episodes and checkpoints. This cannot be undone.

    The argument order `(storage, name)` of earlier versions is accepted with a DeprecationWarning.

    Args:
        study_name: Name of the study.
        storage: An open storage, or the URL of an existing one.

    Returns:
        Number of deleted trials.

    Raises:
        StudyError: If there is no such study (names the nearest), it was not created by Finder, or a live process runs
            it.
    """
    with storage_of(storage, create=False) as opened:
        opened.require_writable()
        study_id = require_study(opened, study_name)
        n_trials = len(opened.optuna.get_all_trials(study_id, deepcopy=False))
        if n_trials and not is_finder_study(opened.optuna.get_study_user_attrs(study_id)):
            raise StudyError(f"the study {study_name!r} was not made by Finder: remove it with optuna-dashboard.")
        remove_unless_running(opened, study_id, study_name)
        return n_trials


def remove_unless_running(storage: StudyStorage, study_id: int, name: str) -> None:
    """Delete a study, by its id and with its data beside Optuna's; no process can begin a trial of it meanwhile.

    Raises:
        StudyError: If a live process runs it.
    """
    key = own_key(storage, study_id)
    if key is None:
        remove_study(storage, study_id)
        return
    with LeaseManager(storage.leases, key, others=storage.url != "memory") as leases:
        holder = leases.other_owner_with_watch() or leases.acquire_with_watch(STUDY)
        if holder is not None:
            raise _is_run_by(name, holder)
        leases.start_renewing()  # millions of episodes take minutes
        with contextlib.suppress(LeaseLostError), leases.planning():  # workers begin trials with that lease only
            if (holder := leases.other_owner_with_watch()) is not None:
                raise _is_run_by(name, holder)
            remove_study(storage, study_id)  # with its leases, of which this is one


def _lead(opened: StudyStorage, key: str, name: str, *, joins: bool = False) -> LeaseManager:
    """Acquire the lease of a study, given its key and its name, to begin or continue it, or to join its workers.

    Raises:
        StudyError: If another live process holds it.
    """
    leases = LeaseManager(opened.leases, key, others=opened.url != "memory")
    holder = leases.acquire_with_watch(STUDY)
    if holder is None:
        return leases
    leases.close()
    storage = shlex.quote(opened.label)
    if joins:
        raise _is_run_by(name, holder, f"a file takes one process; share it by finder serve --storage {storage}")
    others = f"help it (finder worker {shlex.quote(name)} --storage {storage}), " if opened.shared else ""
    raise _is_run_by(name, holder, f"{others}wait for it, stop it, or choose another name")


def _is_run_by(name: str, holder: Owner, advice: str = "wait for it, or stop it") -> StudyError:
    return StudyError(f"the study {name!r} is being run by process {holder.pid} on {holder.host}: {advice}.")


def _refuse_if_running(storage: StudyStorage, study_id: int, name: str) -> None:
    key = own_key(storage, study_id)
    if key is None:
        return
    with LeaseManager(storage.leases, key, others=False) as leases:
        holder = leases.other_owner_with_watch()
    if holder is not None:
        raise _is_run_by(name, holder)


def _study_of(
    opened: StudyStorage, name: str, leases: LeaseManager, sampler: BaseSampler, pruner: BasePruner
) -> optuna.Study:
    """Return the Optuna study for running: its writes require the leases of this process."""
    storage = cast("BaseStorage", FencedStorage(opened.optuna, leases.fence_of))
    return optuna.load_study(study_name=name, storage=storage, sampler=sampler, pruner=pruner)


def _create(spec: StudySpec, storage: StudyStorage) -> int:
    """Create a study and return its id."""
    check_name(spec.name)
    with quiet_optuna():  # the command line reports the creation itself
        directions = directions_of(spec)
        study = optuna.create_study(study_name=spec.name, storage=storage.optuna, directions=directions)
        with without_experimental_warnings():
            # The axes of the dashboard show this name in place of "Objective 0".
            texts = [metric_of(name).text for name in spec.metrics] or [spec.metric_text]
            study.set_metric_names([f"{text} in the search, {over_seeds_text(len(spec.seeds))}" for text in texts])
        return study._study_id


def _sampler_of(spec: StudySpec) -> BaseSampler:
    if spec.plan():
        return make_sampler("random", {}, spec.seed, spec)  # never called
    return TrialSampler(
        lambda seed: make_sampler(spec.sampler, spec.sampler_kwargs, seed, spec),
        spec.seed,
        prior_trials(spec),
        sees_finished=not is_population_based(spec.pruner),
    )


def _with_free_name(storage: StudyStorage, spec: StudySpec) -> tuple[StudySpec, list[str]]:
    """Return the spec with its default name, or the first numbered one that is free or has the same question.

    A study with another question and results keeps its name; the same question finds its own study again.
    """
    default = default_name(spec.kind, spec.agents, spec.env)
    if spec.name != default:
        return spec, []
    number, taken_for = 1, ""
    while (study_id := study_id_of(storage, spec.name)) is not None:
        made_with = _conflicting_settings(storage, study_id, spec)
        if made_with is None:
            return spec, []
        taken_for = taken_for or made_with
        number += 1
        spec = spec.model_copy(update={"name": f"{default}-{number}"})
    if not taken_for:
        return spec, []
    return spec, [f"{default} was made with {taken_for}, which is another question: this study is {spec.name}."]


def _conflicting_settings(storage: StudyStorage, study_id: int, spec: StudySpec) -> str | None:
    """Return the settings of an existing study with another question and results; None if the name can be used."""
    attributes = storage.optuna.get_study_user_attrs(study_id)
    trials = storage.optuna.get_all_trials(study_id, deepcopy=False)
    if not is_finder_study(attributes):
        return None
    pairs = _obstacles(read_spec(attributes, spec.name), spec, trials)
    return _settings_text(pairs) if pairs and _has_something_to_show(trials) else None


def _obstacles(old: StudySpec, spec: StudySpec, trials: Sequence[FrozenTrial]) -> list[tuple[str, str]]:
    """Return what prevents a study from being continued, as pairs like those of `differences`; none if nothing does."""
    return differences(old, spec) or clashes(old, merge_plans(old, spec), trials)


def _settings_text(pairs: Sequence[tuple[str, str]]) -> str:
    return " and ".join(dict.fromkeys(before for before, _ in pairs))


def _continued(storage: StudyStorage, study_id: int, spec: StudySpec) -> tuple[StudySpec, list[str], bool]:
    """Return the spec of the continued study, notes for users, and whether it is continued rather than replaced."""
    backend, name = storage.optuna, spec.name
    trials = backend.get_all_trials(study_id, deepcopy=False)
    if not is_finder_study(backend.get_study_user_attrs(study_id)):
        return spec, [], True
    old = spec_of(storage, study_id, name)
    pairs = _obstacles(old, spec, trials)
    if not pairs:
        merged = keep_confirming_runs(old, merge_warm_starts(old, merge_plans(old, spec)))
        return merged, describe_changes(old, merged, spec), True
    default = re.escape(default_name(spec.kind, spec.agents, spec.env))
    if not _has_something_to_show(trials) and re.fullmatch(rf"{default}(-\d+)?", name):
        return (
            spec,
            [f"The study {name} with {_settings_text(pairs)} had nothing to show: a new one takes its place."],
            False,
        )
    raise continuation_error(old, pairs, optuna.get_all_study_names(backend), delete_command(name, storage.label))


def _refuse_foreign(storage: StudyStorage, study_id: int, spec: StudySpec) -> None:
    """Reject a study of another program; one without spec and trials, as a killed process leaves, is accepted."""
    backend = storage.optuna
    if not is_finder_study(backend.get_study_user_attrs(study_id)) and (
        backend.get_all_trials(study_id, deepcopy=False)
        or backend.get_study_directions(study_id)[0].name.lower() != spec.direction
    ):
        raise StudyError(f"there is a study {spec.name!r} already, not made by Finder: choose another name.")


def _has_something_to_show(trials: Sequence[FrozenTrial]) -> bool:
    """Return whether a trial has results: it was completed, pruned, or has reported and can be resumed."""
    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    return any(trial.state in ended or (is_open(trial) and trial.intermediate_values) for trial in trials)


def rename_study(storage: StudyStorage, study_id: int, name: str) -> bool:
    """Rename a study in place; return False for a journal, whose studies can only be copied.

    Raises:
        StudyError: If another study has the name, or the study is in a journal and a live process runs it.
    """
    check_name(name)
    if storage.names is not None:
        storage.names.rename(study_id, name)
        return True
    _refuse_if_running(storage, study_id, storage.optuna.get_study_name_from_id(study_id))
    return False
