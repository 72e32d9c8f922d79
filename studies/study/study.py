"""An open study, and functions to find and read studies in a storage."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import optuna
from optuna.trial import FrozenTrial, TrialState

from studies.database.damage import check_trials
from studies.database.retries import TooLongError
from studies.errors import StudyError, nearest
from studies.spaces.spaces import Json, Space, decode_params
from studies.spec.attributes import exclusion_reason, is_confirmation, objective_seeds
from studies.spec.fields import Direction
from studies.spec.metrics import check_metric, metric_of
from studies.spec.objectives import names_of
from studies.spec.spec import StudySpec
from studies.spec.stored_spec import is_finder_study, read_spec, stored_attributes
from studies.statistics.values import mean_of_seeds
from studies.storage.storage import StudyStorage, open_storage
from studies.study.argument_order import study_name_first

if TYPE_CHECKING:
    from studies.coordination.lease_manager import LeaseManager

EPISODES_ATTR = "finder_episodes"
"""Study attribute: key of its episodes, leases and files; it remains when the dashboard renames the study."""

AnyStorage = StudyStorage | str | PathLike[str]
"""An open storage, its URL, or the path of its file."""


@dataclass(frozen=True, repr=False)
class OpenStudy:
    """Study that is open for running or for reading. A context manager.

    Attributes:
        spec: Spec of the study.
        study: Optuna study.
        storage: Storage of the study.
        episodes_key: Key of its episodes, leases and files.
        owns_storage: Whether closing the study closes the storage.
        leases: Leases of this process; None if the study is open for reading only.
        notes: Sentences for users on what opening the study changed.
        objective: The metric by which a study with several objectives is seen (`by_objective`); "" for all.
    """

    spec: StudySpec
    study: optuna.Study
    storage: StudyStorage
    episodes_key: str
    owns_storage: bool
    leases: LeaseManager | None = None
    notes: tuple[str, ...] = ()
    objective: str = ""

    def __repr__(self) -> str:
        return f"OpenStudy({self.name!r} in {self.storage.label})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an open study cannot be pickled or copied: pickle result.best or result.table(); the study is opened "
            "again by studies.load_study(name, storage)."
        )

    @property
    def name(self) -> str:
        """Name of the study in the storage."""
        return self.study.study_name

    @property
    def direction(self) -> Direction:
        """Direction in which values are better."""
        return self.spec.direction

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials of the search in these states (all if none is given), by number.

        They are not copied: do not change them. Confirmations are `confirmation_trials`; trials of other programs are
        left out.
        """
        return self.own_among(self.all_trials(*states))

    def own_among(self, trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
        """Return those of the given trials of the Optuna study that are trials of the search."""
        names = self.spec.parameter_names
        return [trial for trial in trials if not is_confirmation(trial) and not exclusion_reason(trial, names)]

    def others_among(self, trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
        """Return those of the given trials that other Optuna programs run, or that have other parameters."""
        names = self.spec.parameter_names
        return [trial for trial in trials if not is_confirmation(trial) and exclusion_reason(trial, names)]

    def confirmation_trials(self) -> list[FrozenTrial]:
        """Return the trials that confirm others on further seeds, by number, not copied."""
        return [trial for trial in self.all_trials() if is_confirmation(trial)]

    def all_trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return all trials of the study in these states (all if none is given), by number, not copied.

        Each has a single value: with several objectives, that of `objective`, or of the first one.

        Raises:
            StudyError: If the study was deleted since it was opened.
        """
        try:
            trials = self.study.get_trials(deepcopy=False, states=states or None)
        except KeyError:
            where = self.storage.label
            raise StudyError(f"there is no study {self.name!r} in {where} any more: it was deleted.") from None
        names = [self.objective] if self.objective else self.spec.metrics
        return [by_objective(trial, names[0]) for trial in trials] if names else trials

    def by_objective(self, metric: str) -> OpenStudy:
        """Return a view of a study with several objectives as a study by one of them, for reading.

        A study with one objective is its own view.

        Raises:
            StudyError: If it has no such objective.
        """
        known = names_of(self.spec)
        name: str | None = None
        with contextlib.suppress(StudyError):
            name = check_metric(metric)
        if name not in known:  # tables show a custom metric without its direction
            name = next((each for each in known if metric == metric_of(each).name), name)
        if not self.spec.metrics and name == self.spec.metric:
            return self
        if name is None or name not in self.spec.metrics:
            raise StudyError(f"the study {self.name!r} has no objective {metric!r}. {nearest(metric, known)}")
        return replace(self, spec=self.spec.model_copy(update={"metric": name, "metrics": ()}), objective=name)

    @property
    def vectorization(self) -> str:
        """Vectorization of its environments, with which its trials remain comparable.

        It is that of the spec, or EnvPool if the spec has ``"auto"`` and an earlier version ran its trials with
        EnvPool.
        """
        asked = self.spec.vectorization
        if asked != "auto":
            return asked
        recorded = (trial.user_attrs.get("configuration", {}) for trial in self.all_trials())
        return "envpool" if any(own.get("vectorization") == "envpool" for own in recorded) else asked

    def params(self, trial: FrozenTrial) -> dict[str, Json]:
        """Return the searched parameters of a trial as they were given (lists as lists)."""
        return decode_params(trial.params, self._spaces)

    @functools.cached_property
    def _spaces(self) -> dict[str, Space]:
        """Spaces of all searched parameters, kept because those of a long plan take time to infer."""
        return self.spec.search_space()

    def close(self) -> None:
        """Release all leases, and close the storage if this study opened it."""
        if self.leases is not None:
            self.leases.close()
        if self.owns_storage:
            self.storage.close()

    def __enter__(self) -> OpenStudy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def by_objective(trial: FrozenTrial, metric: str) -> FrozenTrial:
    """Return a trial of a study with several objectives with the values of one of them."""
    seeds = objective_seeds(trial.user_attrs).get(metric)
    if seeds is None:
        return trial
    own = copy.copy(trial)
    own.user_attrs = {**trial.user_attrs, "seed_values": {str(seed): value for seed, value in seeds.items()}}
    own.values = [float(mean_of_seeds(list(seeds.values())))] if trial.state == TrialState.COMPLETE else None
    return own


@study_name_first
def load_study(study_name: str, storage: AnyStorage) -> OpenStudy:
    """Open a study for reading.

    The argument order `(storage, name)` of earlier versions is accepted with a DeprecationWarning.

    Args:
        study_name: Name of the study.
        storage: An open storage, or the URL or path of an existing one.

    Raises:
        StudyError: If there is no such study (names the nearest), or it was not made by this package.
    """
    with opened_storage(storage, create=False) as opened:
        study_id = require_study(opened, study_name)
        spec = spec_of(opened, study_id, study_name)
        study = optuna.load_study(study_name=study_name, storage=opened.optuna)
        check_trials(study.get_trials(deepcopy=False), study_name)
        key = study.user_attrs.get(EPISODES_ATTR, study_name)
        return OpenStudy(spec, study, opened, key, owns_storage=storage is not opened)


def with_longer_plan(study: OpenStudy, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
    """Return the study with further trials in its explicit plan, and store the plan.

    Raises:
        StudyError: If it has no explicit plan, or a row does not fit.
    """
    if not study.spec.trials:
        raise StudyError(f"the study {study.name!r} has no plan of trials that could grow.")
    grown = replace(study, spec=study.spec.with_trials([*study.spec.trials, *(dict(row) for row in rows)]))
    store_spec(grown)
    return grown


def with_counts(study: OpenStudy, **counts: int) -> OpenStudy:
    """Return the study with other numbers of trials, of finalists, or of their further seeds or steps, and store it."""
    changed = replace(study, spec=study.spec.model_copy(update=counts))
    store_spec(changed)
    return changed


def reloaded(study: OpenStudy) -> OpenStudy:
    """Return the study with the spec that its storage holds now: another process may have extended the plan."""
    spec = spec_of(study.storage, study.study._study_id, study.name)
    return replace(study, spec=spec.model_copy(update={"storage": study.spec.storage}))


def store_spec(study: OpenStudy) -> None:
    """Store the spec of a study in its storage.

    Raises:
        StudyError: If the storage cannot hold a text of its length.
    """
    there = study.study.user_attrs
    for name, value in stored_attributes(study.spec, study.storage.label).items():
        if there.get(name) == value:
            continue
        try:
            study.study.set_user_attr(name, value)
        except TooLongError as error:
            raise StudyError(
                f"the settings of the study {study.name!r} have {len(json.dumps(value)):,} characters "
                f"(a plan of fewer trials shortens them): {error}"
            ) from error


def check_open(study: object) -> None:
    """Raise `StudyError` for something else than an open study, such as its name."""
    if not isinstance(study, OpenStudy):
        given = repr(study)
        given = f"this {type(study).__name__}" if "\n" in given else given  # a result is shown in several lines
        raise StudyError(
            f"{given} is not an open study: open it by studies.load_study(name, storage); the study of the result of a "
            "search is result.study."
        )


def storage_of(storage: AnyStorage, *, create: bool) -> AbstractContextManager[StudyStorage]:
    """Open a storage unless it is open; at the end it is closed if it was opened here."""
    if isinstance(storage, str | PathLike):
        return open_storage(storage, create=create)
    if not isinstance(storage, StudyStorage):
        raise StudyError(
            f"storage is {storage!r}: give the path of its file, its URL, or an open storage (studies.open_storage); "
            "that of an open study is study.storage."
        )
    return contextlib.nullcontext(storage)


@contextlib.contextmanager
def opened_storage(storage: AnyStorage, *, create: bool) -> Iterator[StudyStorage]:
    """Open a storage unless it is open; close it again only after an error, if it was opened here."""
    with contextlib.ExitStack() as on_error:
        yield on_error.enter_context(storage_of(storage, create=create))
        on_error.pop_all()


def study_id_of(storage: StudyStorage, name: str) -> int | None:
    """Return the id of a study, None if there is no such study."""
    try:
        return storage.optuna.get_study_id_from_name(name)
    except KeyError:
        return None


def require_study(storage: StudyStorage, name: str) -> int:
    """Return the id of a study.

    Raises:
        StudyError: If there is no such study (names the nearest), or the name is not text, but a study for example.
    """
    if not isinstance(name, str):
        raise StudyError(f"study_name is {name!r}: give the name of a study in {storage.label}, which is text.")
    study_id = study_id_of(storage, name)
    if study_id is None:
        names = optuna.get_all_study_names(storage.optuna)
        raise StudyError(f"there is no study {name!r} in {storage.label}. {nearest(name, names)}")
    return study_id


def spec_of(opened: StudyStorage, study_id: int, name: str) -> StudySpec:
    """Return the spec of a study, with its present name: it may have been renamed since the spec was stored.

    Raises:
        StudyError: If the study was not created by Finder, or its spec cannot be read.
    """
    attrs = opened.optuna.get_study_user_attrs(study_id)
    if not is_finder_study(attrs):
        raise StudyError(f"the study {name!r} was not made by Finder: look at it with optuna-dashboard.")
    return read_spec(attrs, name).model_copy(update={"name": name})
