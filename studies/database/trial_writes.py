"""Writes to running trials, several values in one transaction.

Optuna's storages write one value at a time; in a database, each of them reads the trial and commits.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa
from optuna.exceptions import UpdateFinishedTrialError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from studies.spaces.spaces import Json


class TrialWrites(ABC):
    """Writes to the running trials of a storage. Repeating a call is harmless."""

    @abstractmethod
    def report(self, step: int, values: Mapping[int, float]) -> None:
        """Set the intermediate values of trials at one step.

        Args:
            step: Step.
            values: Id of a trial -> value, finite.

        Raises:
            UpdateFinishedTrialError: If one of the trials has ended; a database then sets no value.
        """

    @abstractmethod
    def set_user_attrs(self, trial_id: int, attrs: Mapping[str, Json]) -> None:
        """Set attributes of a trial.

        Raises:
            UpdateFinishedTrialError: If the trial has ended.
        """


class SqlTrialWrites(TrialWrites):
    """`TrialWrites` to Optuna's tables in a database.

    Args:
        engine: Database.
    """

    def __init__(self, engine: sa.Engine) -> None:
        from optuna.storages._rdb import models

        self._engine = engine
        self._trials: sa.Table = models.TrialModel.__table__
        self._values: sa.Table = models.TrialIntermediateValueModel.__table__
        self._attrs: sa.Table = models.TrialUserAttributeModel.__table__
        self._stored = models.TrialIntermediateValueModel.intermediate_value_to_stored_repr

    def report(self, step: int, values: Mapping[int, float]) -> None:
        rows = []
        for trial_id, value in values.items():
            stored, kind = self._stored(value)
            row = {"trial_id": trial_id, "step": step, "intermediate_value": stored, "intermediate_value_type": kind}
            rows.append(row)
        table = self._values
        with self._engine.begin() as connection:
            self._check_running(connection, values)
            connection.execute(table.delete().where(table.c.trial_id.in_(list(values)), table.c.step == step))
            connection.execute(table.insert(), rows)

    def set_user_attrs(self, trial_id: int, attrs: Mapping[str, Json]) -> None:
        if not attrs:
            return
        rows = [{"trial_id": trial_id, "key": key, "value_json": json.dumps(value)} for key, value in attrs.items()]
        table = self._attrs
        with self._engine.begin() as connection:
            self._check_running(connection, [trial_id])
            connection.execute(table.delete().where(table.c.trial_id == trial_id, table.c.key.in_(list(attrs))))
            connection.execute(table.insert(), rows)

    def _check_running(self, connection: sa.Connection, trial_ids: Iterable[int]) -> None:
        own = self._trials.c
        found = connection.execute(sa.select(own.trial_id, own.state).where(own.trial_id.in_(list(trial_ids)))).all()
        missing = set(trial_ids) - {row.trial_id for row in found}
        if missing:
            raise KeyError(f"there is no trial of the id {min(missing)}")
        ended = [row.trial_id for row in found if row.state.is_finished()]
        if ended:
            raise UpdateFinishedTrialError(f"the trials of the ids {sorted(ended)} have ended: they cannot be changed.")


class OptunaTrialWrites(TrialWrites):
    """`TrialWrites` through any of Optuna's storages, one value at a time.

    Args:
        storage: Storage.
    """

    def __init__(self, storage: BaseStorage) -> None:
        self._storage = storage

    def report(self, step: int, values: Mapping[int, float]) -> None:
        for trial_id, value in values.items():
            self._storage.set_trial_intermediate_value(trial_id, step, value)

    def set_user_attrs(self, trial_id: int, attrs: Mapping[str, Json]) -> None:
        for key, value in attrs.items():
            self._storage.set_trial_user_attr(trial_id, key, value)
