"""Opening, continuing, loading and listing studies."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING

import optuna
from optuna.trial import FrozenTrial, TrialState

from studies.attributes import is_confirmation, is_open
from studies.beginning import put_back
from studies.checkpoint_folder import checkpoint_folder
from studies.continuing import changes_told, clashes, differences, refusal, with_old_plan
from studies.errors import StudyError, nearest
from studies.lease import is_running_elsewhere
from studies.pruners import make_pruner
from studies.samplers import make_sampler
from studies.spaces import Json, decode_params
from studies.spec import StudySpec, default_name
from studies.storage import StudyStorage, open_storage
from studies.trial_sampler import TrialSampler

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from studies.ranking import Direction

SPEC_ATTR = "finder_spec"
"""Study attribute: the spec as JSON. A study without it was not made by this package."""

EPISODES_ATTR = "finder_episodes"
"""Study attribute: the name that its episodes are stored under; stays when the dashboard renames the study."""

RUNNER_ATTR = "finder_runner"
"""Study attribute: the process that runs the study (`studies.lease`)."""

TRACEBACK_ATTR = "traceback"


@dataclass(frozen=True, slots=True)
class OpenStudy:
    """A study that is open for running or for reading. A context manager.

    Attributes:
        spec: What the study searches.
        study: The Optuna study.
        storage: Where it lives.
        episodes_key: The name that its episodes are stored under.
        owns_storage: Whether closing the study closes the storage.
        notes: What opening the study did that a person should know, a sentence each.
    """

    spec: StudySpec
    study: optuna.Study
    storage: StudyStorage
    episodes_key: str
    owns_storage: bool
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The study's name in the storage."""
        return self.study.study_name

    @property
    def direction(self) -> Direction:
        """Whether high (`maximize`) or low values are good."""
        return self.spec.direction

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Returns the trials of the search in these states (all if none is given), by number.

        They are not copied: do not change them. Trials that only confirm others are `confirmation_trials`.
        """
        trials = self.study.get_trials(deepcopy=False, states=states or None)
        return [trial for trial in trials if not is_confirmation(trial)]

    def confirmation_trials(self) -> list[FrozenTrial]:
        """Returns the trials that ran others again on further seeds, by number, not copied."""
        return [trial for trial in self.study.get_trials(deepcopy=False) if is_confirmation(trial)]

    def all_trials(self) -> list[FrozenTrial]:
        """Returns both, by number, not copied."""
        return self.study.get_trials(deepcopy=False)

    def params(self, trial: FrozenTrial) -> dict[str, Json]:
        """Returns a trial's searched parameters as they were given (lists as lists)."""
        return decode_params(trial.params, self.spec.search_space())

    def close(self) -> None:
        """Ends the storage's connections if this study opened them."""
        if self.owns_storage:
            self.storage.close()

    def __enter__(self) -> OpenStudy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def open_study(spec: StudySpec, storage: StudyStorage | str | None = None) -> OpenStudy:
    """Creates a study, or continues the one of the same name.

    An explicit plan joins the one that the study has. A study of the default name gets a number behind it where there
    is one of that name that asks something else; one in which nothing was completed, pruned or is running is replaced.
    Trials that a dead run left RUNNING wait from now on, to go on where they were.

    Args:
        spec: What to search. `n_trials` is the total wanted, including the trials that exist.
        storage: An open storage, which stays open when the study is closed, or a URL. Defaults to `None`:
            `spec.storage`.

    Raises:
        StudyError: If the storage cannot be opened; if the study exists with another space, environment, agents,
            metric, seeds or budget (says what differs and the ways out); if another living process runs it; if a
            sampler's or pruner's argument is wrong.
    """
    with _opened(storage or spec.storage, create=True) as opened:
        spec, notes = _named(opened, spec)
        study_id = _found(opened, spec.name)
        if study_id is not None:
            _refuse_if_running(opened, study_id, spec.name)
            spec, changes, goes_on = _continued(opened, study_id, spec)
            notes += changes
            if not goes_on:
                _delete(opened, study_id)
                study_id = None
        sampler = _sampler_of(spec)
        pruner = make_pruner(spec.pruner, spec.pruner_kwargs, spec)
        if study_id is None:
            study = _create(spec, opened, sampler, pruner)
        else:
            study = optuna.load_study(study_name=spec.name, storage=opened.optuna, sampler=sampler, pruner=pruner)
            for left in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
                put_back(study, left._trial_id)
        attrs = study.user_attrs
        if EPISODES_ATTR not in attrs:
            key = _free_episodes_key(opened, spec.name, study._study_id)
            _remove_checkpoints(opened, key)  # of a study that somebody deleted in another way
            study.set_user_attr(EPISODES_ATTR, key)
        owns, key = storage is not opened, study.user_attrs[EPISODES_ATTR]
        made = OpenStudy(spec, study, opened, key, owns_storage=owns, notes=tuple(notes))
        _keep_spec(made)
        return made


def load_study(storage: StudyStorage | str, name: str) -> OpenStudy:
    """Opens a study for reading; nothing is changed.

    Args:
        storage: An open storage, or the URL of an existing one.
        name: The study's name.

    Raises:
        StudyError: If there is no such study (names the nearest), or it was not made by this package.
    """
    with _opened(storage, create=False) as opened:
        _require(opened, name)
        study = optuna.load_study(study_name=name, storage=opened.optuna)
        attrs = study.user_attrs
        if SPEC_ATTR not in attrs:
            raise StudyError(f"the study {name!r} was not made by Finder: look at it with optuna-dashboard.")
        spec = StudySpec.from_json_dict(attrs[SPEC_ATTR])
        return OpenStudy(spec, study, opened, attrs.get(EPISODES_ATTR, name), owns_storage=storage is not opened)


def delete_study(storage: StudyStorage | str, name: str) -> int:
    """Removes a study: its trials and its episodes. Nothing brings them back.

    Args:
        storage: An open storage, or the URL of an existing one.
        name: The study's name.

    Returns:
        How many trials it had.

    Raises:
        StudyError: If there is no such study (names the nearest), it was not made by this package, or a living process
            runs it.
    """
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_storage(storage, create=False)) if isinstance(storage, str) else storage
        study_id = _require(opened, name)
        n_trials = len(opened.optuna.get_all_trials(study_id, deepcopy=False))
        if n_trials and SPEC_ATTR not in opened.optuna.get_study_user_attrs(study_id):
            raise StudyError(f"the study {name!r} was not made by Finder: remove it with optuna-dashboard.")
        _refuse_if_running(opened, study_id, name)
        _delete(opened, study_id)
        return n_trials


def planned_further(study: OpenStudy, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
    """Returns a study whose explicit plan has further trials, kept in its storage.

    Raises:
        StudyError: If it has no explicit plan, or a row does not fit.
    """
    if not study.spec.trials:
        raise StudyError(f"the study {study.name!r} has no plan of trials that could grow.")
    grown = replace(study, spec=study.spec.with_trials([*study.spec.trials, *(dict(row) for row in rows)]))
    _keep_spec(grown)
    return grown


def _keep_spec(study: OpenStudy) -> None:
    # The label has no password: everyone who sees the dashboard sees the study's attributes.
    kept = {**study.spec.to_json_dict(), "storage": study.storage.label}
    if study.study.user_attrs.get(SPEC_ATTR) != kept:
        study.study.set_user_attr(SPEC_ATTR, kept)


@contextlib.contextmanager
def _opened(storage: StudyStorage | str, create: bool) -> Iterator[StudyStorage]:
    """Gives an open storage, which is closed again only if it was opened here and an error follows."""
    opened = open_storage(storage, create=create) if isinstance(storage, str) else storage
    try:
        yield opened
    except BaseException:
        if isinstance(storage, str):
            opened.close()
        raise


def _create(
    spec: StudySpec, storage: StudyStorage, sampler: optuna.samplers.BaseSampler, pruner: optuna.pruners.BasePruner
) -> optuna.Study:
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # the command line says what was created, once
    try:
        study = optuna.create_study(
            study_name=spec.name, storage=storage.optuna, direction=spec.direction, sampler=sampler, pruner=pruner
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names([f"mean {spec.metric}"])  # the dashboard's axes say this instead of "Objective 0"
        return study
    finally:
        optuna.logging.set_verbosity(verbosity)


def _found(storage: StudyStorage, name: str) -> int | None:
    try:
        return storage.optuna.get_study_id_from_name(name)
    except KeyError:
        return None


def _require(storage: StudyStorage, name: str) -> int:
    study_id = _found(storage, name)
    if study_id is None:
        names = optuna.get_all_study_names(storage.optuna)
        raise StudyError(f"there is no study {name!r} in {storage.label}. {nearest(name, names)}")
    return study_id


def _delete(storage: StudyStorage, study_id: int) -> None:
    key = storage.optuna.get_study_user_attrs(study_id).get(EPISODES_ATTR)
    storage.optuna.delete_study(study_id)
    if key is not None:
        storage.episodes.delete(key)
        _remove_checkpoints(storage, key)


def _remove_checkpoints(storage: StudyStorage, key: str) -> None:
    folder = checkpoint_folder(storage.url, key)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _sampler_of(spec: StudySpec) -> BaseSampler:
    if spec.plan():
        return make_sampler("random", {}, spec.seed, spec)  # never asked
    return TrialSampler(lambda seed: make_sampler(spec.sampler, spec.sampler_kwargs, seed, spec), spec.seed)


def _named(storage: StudyStorage, spec: StudySpec) -> tuple[StudySpec, list[str]]:
    """Returns a study of the default name with that name, or with the first number behind it, which is free for it.

    One that asked for something else and has something to show keeps its name; the same question finds its own again.
    """
    default = default_name(spec.kind, spec.agents, spec.env)
    if spec.name != default:
        return spec, []
    number, taken_for = 1, ""
    while (study_id := _found(storage, spec.name)) is not None:
        told = _another_question(storage, study_id, spec)
        if told is None:
            return spec, []
        taken_for = taken_for or told
        number += 1
        spec = spec.model_copy(update={"name": f"{default}-{number}"})
    if not taken_for:
        return spec, []
    return spec, [f"{default} was made with {taken_for}, which is another question: this study is {spec.name}."]


def _another_question(storage: StudyStorage, study_id: int, spec: StudySpec) -> str | None:
    """Returns with what a study was made that has something to show for another question; None if it can go on."""
    stored = storage.optuna.get_study_user_attrs(study_id).get(SPEC_ATTR)
    trials = storage.optuna.get_all_trials(study_id, deepcopy=False)
    if stored is None:
        return None
    pairs = _against(StudySpec.from_json_dict(stored), spec, trials)
    return _made_with(pairs) if pairs and _has_something_to_show(trials) else None


def _against(old: StudySpec, spec: StudySpec, trials: Sequence[FrozenTrial]) -> list[tuple[str, str]]:
    """Returns what keeps a study from going on as it is asked for; pairs as in `differences`, none if it can."""
    return differences(old, spec) or clashes(old, with_old_plan(old, spec), trials)


def _made_with(pairs: Sequence[tuple[str, str]]) -> str:
    return " and ".join(dict.fromkeys(before for before, _ in pairs))


def _continued(storage: StudyStorage, study_id: int, spec: StudySpec) -> tuple[StudySpec, list[str], bool]:
    """Returns the study as it goes on, what is to be said of it, and whether it goes on or is begun anew."""
    backend, name = storage.optuna, spec.name
    stored = backend.get_study_user_attrs(study_id).get(SPEC_ATTR)
    trials = backend.get_all_trials(study_id, deepcopy=False)
    if stored is None:
        # A run that died right after creating the study leaves it without a spec, and empty: it is ours to take.
        if trials or backend.get_study_directions(study_id)[0].name.lower() != spec.direction:
            raise StudyError(f"there is a study {name!r} already, not made by Finder: choose another name.")
        return spec, [], True
    old = StudySpec.from_json_dict(stored)
    pairs = _against(old, spec, trials)
    if not pairs:
        merged = with_old_plan(old, spec)
        return merged, changes_told(old, merged, spec), True
    default = re.escape(default_name(spec.kind, spec.agents, spec.env))
    if not _has_something_to_show(trials) and re.fullmatch(rf"{default}(-\d+)?", name):
        return (
            spec,
            [f"The study {name} with {_made_with(pairs)} had nothing to show: a new one takes its place."],
            False,
        )
    raise refusal(name, pairs, optuna.get_all_study_names(backend), storage.label)


def _has_something_to_show(trials: Sequence[FrozenTrial]) -> bool:
    """Whether a trial has learned anything: it was completed, pruned, or has reported and can go on."""
    ended = (TrialState.COMPLETE, TrialState.PRUNED)
    return any(trial.state in ended or (is_open(trial) and trial.intermediate_values) for trial in trials)


def _refuse_if_running(storage: StudyStorage, study_id: int, name: str) -> None:
    mark = storage.optuna.get_study_user_attrs(study_id).get(RUNNER_ATTR)
    if mark and is_running_elsewhere(mark):
        ago = max(0, round(time.time() - float(mark["seen"])))
        raise StudyError(
            f"the study {name!r} is being run by process {mark['pid']} on {mark['host']} (last seen {ago} s ago): wait "
            "for it, stop it, or choose another name."
        )


def _free_episodes_key(storage: StudyStorage, name: str, study_id: int) -> str:
    """Returns a name to store episodes under, free of a deleted study's rows and of a renamed study's key."""
    taken = {
        frozen.user_attrs.get(EPISODES_ATTR)
        for frozen in storage.optuna.get_all_studies()
        if frozen._study_id != study_id
    }
    if name in taken:
        return f"{name}#{study_id}"
    storage.episodes.delete(name)
    return name
