"""Optuna's database storage with faster reads: ten thousand trials in seconds, by a few plain queries.

Optuna creates an object for every parameter, attribute and intermediate value before it creates the trial.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Container
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState

from studies.database.damage import damaged
from studies.errors import StudyError
from studies.spec.attributes import TOKEN_ATTR

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_MOST_NAMED = 500
"""Maximum number of ids in a query; databases have a limit, and beyond it reading all rows is faster."""

_STUDY = sa.select(models.StudyModel.__table__.c.study_id).where(
    models.StudyModel.__table__.c.study_id == sa.bindparam("study_id")
)

_Rows = dict[int, list[Any]]

for _model in (models.StudyModel, models.TrialModel):
    # For new files: otherwise SQLite reuses the ids of deleted rows, and caches by id (such as Optuna's, in every
    # process) confuse the trials of a deleted study with those of the next.
    _model.__table__.dialect_options["sqlite"]["autoincrement"] = True


class _Condition(NamedTuple):
    """Condition on the trials to read: values of the parameters of a query, `None` for those that it does not have.

    Attributes:
        trial_id: Id of the only trial.
        study_id: Id of the study.
        states: States of the trials.
        newer: Only trials with greater ids, and those that are named.
        named: Ids of further trials.
    """

    trial_id: int | None = None
    study_id: int | None = None
    states: tuple[TrialState, ...] | None = None
    newer: int | None = None
    named: tuple[int, ...] | None = None

    def parameters(self) -> dict[str, Any]:
        """Return the values of the parameters that the query has."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class QuickStorage(RDBStorage):
    """`RDBStorage` with faster reads; its caller repeats the creation of a trial, if that has a token."""

    def _create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> FrozenTrial:
        # Optuna repeats it up to five times. After an attempt whose answer was lost there would be two trials, which
        # only the owner of the token can tell (`studies.database.retrying`).
        if template_trial is None or TOKEN_ATTR not in template_trial.system_attrs:
            return super()._create_new_trial(study_id, template_trial)
        with _create_scoped_session(self.scoped_session) as session:
            models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
            stored: Any = self._get_prepared_new_trial(study_id, template_trial, session)
            trial = copy.deepcopy(template_trial)
            trial.number, trial.datetime_start, trial._trial_id = stored.number, stored.datetime_start, stored.trial_id
            return trial

    def get_trial(self, trial_id: int) -> FrozenTrial:
        with self.scoped_session() as session:
            found = _read(session, _Condition(trial_id=trial_id))
        if not found:
            raise KeyError(f"there is no trial of the id {trial_id}")
        return found[0]

    def _get_trials(
        self,
        study_id: int,
        states: Container[TrialState] | None,
        included_trial_ids: set[int],
        trial_id_greater_than: int,
    ) -> list[FrozenTrial]:
        wanted = _Condition(study_id=study_id)
        if states is not None:
            wanted = wanted._replace(states=tuple(state for state in TrialState if state in states))
        named = {trial_id for trial_id in included_trial_ids if trial_id <= trial_id_greater_than}
        if trial_id_greater_than > -1 and len(named) <= _MOST_NAMED:
            wanted = wanted._replace(newer=trial_id_greater_than, named=tuple(named) or None)
        with self.scoped_session() as session:
            if session.connection().execute(_STUDY, {"study_id": study_id}).first() is None:
                raise KeyError(f"there is no study of the id {study_id}")
            trials = _read(session, wanted)
        if len(named) > _MOST_NAMED:
            return [each for each in trials if each._trial_id in named or each._trial_id > trial_id_greater_than]
        return trials


class _Queries(NamedTuple):
    """Queries of the trials, and of what belongs to them."""

    trials: sa.Select[Any]
    params: sa.Select[Any]
    values: sa.Select[Any]
    user_attrs: sa.Select[Any]
    system_attrs: sa.Select[Any]
    curves: sa.Select[Any]


@lru_cache
def _queries(names: frozenset[str]) -> _Queries:
    """Return the queries with these parameters of `_Condition`. Building them takes as long as running them."""
    table = models.TrialModel.__table__
    wanted: list[sa.ColumnElement[bool]] = []
    if "trial_id" in names:
        wanted.append(table.c.trial_id == sa.bindparam("trial_id"))
    if "study_id" in names:
        wanted.append(table.c.study_id == sa.bindparam("study_id"))
    if "states" in names:
        wanted.append(table.c.state.in_(sa.bindparam("states", expanding=True)))
    if "newer" in names:
        newer = table.c.trial_id > sa.bindparam("newer")
        named = table.c.trial_id.in_(sa.bindparam("named", expanding=True))
        wanted.append(sa.or_(named, newer) if "named" in names else newer)

    def of_trials(model: Any, *columns: str) -> sa.Select[Any]:
        child = model.__table__
        query = sa.select(child.c.trial_id, *(child.c[name] for name in columns))
        query = query.join(table, table.c.trial_id == child.c.trial_id).where(*wanted)
        return query.order_by(*child.primary_key.columns)

    return _Queries(
        trials=sa.select(table).where(*wanted).order_by(table.c.trial_id),
        params=of_trials(models.TrialParamModel, "param_name", "param_value", "distribution_json"),
        values=of_trials(models.TrialValueModel, "objective", "value", "value_type"),
        user_attrs=of_trials(models.TrialUserAttributeModel, "key", "value_json"),
        system_attrs=of_trials(models.TrialSystemAttributeModel, "key", "value_json"),
        curves=of_trials(models.TrialIntermediateValueModel, "step", "intermediate_value", "intermediate_value_type"),
    )


def _read(session: Session, wanted: _Condition) -> list[FrozenTrial]:
    """Return trials; raise `DamagedError` for inconsistent rows."""
    try:
        return _read_all(session, wanted)
    except (ValueError, TypeError, LookupError) as error:  # invalid dates, states, ...
        if isinstance(error, StudyError):
            raise
        message = " ".join(str(error).split())
        raise damaged("a trial of the storage", f"{type(error).__name__}: {message}") from error


def _read_all(session: Session, wanted: _Condition) -> list[FrozenTrial]:
    parameters = wanted.parameters()
    queries = _queries(frozenset(parameters))
    connection = session.connection()
    rows = connection.execute(queries.trials, parameters).all()
    if not rows:
        return []

    def of_trials(query: sa.Select[Any]) -> _Rows:
        found: _Rows = defaultdict(list)
        for row in connection.execute(query, parameters):
            found[row[0]].append(row)
        return found

    params, values, curves = map(of_trials, (queries.params, queries.values, queries.curves))
    user_attrs, system_attrs = map(of_trials, (queries.user_attrs, queries.system_attrs))
    value_of = models.TrialValueModel.stored_repr_to_value
    point_of = models.TrialIntermediateValueModel.stored_repr_to_intermediate_value

    def trial_of(row: Any) -> FrozenTrial:
        own = row.trial_id
        distributions = {name: _distribution(text) for _, name, _, text in params.get(own, ())}
        return FrozenTrial(
            number=_whole(row.number),
            state=row.state,
            value=None,
            values=[value_of(*row[2:]) for row in sorted(values.get(own, ()), key=lambda row: row[1])] or None,
            datetime_start=_local(row.datetime_start),
            datetime_complete=_local(row.datetime_complete),
            params={
                name: distributions[name].to_external_repr(_number(value)) for _, name, value, _ in params.get(own, ())
            },
            distributions=distributions,
            user_attrs={key: json.loads(text) for _, key, text in user_attrs.get(own, ())},
            system_attrs={key: json.loads(text) for _, key, text in system_attrs.get(own, ())},
            intermediate_values={_whole(step): point_of(value, kind) for _, step, value, kind in curves.get(own, ())},
            trial_id=own,
        )

    trials = []
    for row in rows:
        try:
            trials.append(trial_of(row))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            message = " ".join(str(error).split())
            raise damaged(f"trial {row.number}", f"{type(error).__name__}: {message}") from error
    return trials


def _number(value: Any) -> float:
    """Return the number in a column, which may have any numeric type."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def _whole(number: Any) -> int:
    """Return the integer in a column, whose type SQLite does not enforce."""
    if not isinstance(number, int):
        raise TypeError(f"{number!r} is not an integer")
    return number


@lru_cache(maxsize=10_000)
def _distribution(text: str) -> BaseDistribution:
    """Return a distribution, cached: the trials of a study share them, and they are immutable."""
    return json_to_distribution(text)


def _local(moment: datetime | None) -> datetime | None:
    """Convert a naive UTC time, as stored, to a naive local time, as in Optuna's trials."""
    return None if moment is None else moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
