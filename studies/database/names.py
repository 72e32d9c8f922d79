"""The names of a storage's studies, which Optuna gives once: changed in place, so that nothing of a study is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from optuna.storages._rdb.models import StudyModel
from sqlalchemy.exc import IntegrityError

from studies.errors import StudyError

LONGEST_NAME = 400
"""Characters of the longest name."""

if TYPE_CHECKING:
    import sqlalchemy as sa


def check_name(name: str) -> None:
    """Checks the name that a study is to have.

    Raises:
        StudyError: It is empty, longer than storages keep, or has control characters, which terminals obey.
    """
    if not name.strip():
        raise StudyError(f"the name of a study is {name!r}: give a text.")
    if len(name) > LONGEST_NAME:
        shown = f"{name[:40]}..."
        raise StudyError(f"the name {shown!r} has {len(name)} characters: give one of {LONGEST_NAME} at most.")
    if not name.isprintable():
        raise StudyError(f"the name {name!r} has a control character: give a text of one line.")


class StudyNames(Protocol):
    """The names of the studies of a storage."""

    def rename(self, study_id: int, name: str) -> None:
        """Gives a study another name; processes that run it go on.

        Raises:
            StudyError: There is no such study, or another one has the name.
        """


class SqlNames:
    """`StudyNames` of a database.

    Args:
        engine: The database.
        cached: Optuna's storage in front of it, which remembers names.
    """

    def __init__(self, engine: sa.Engine, cached: Any) -> None:
        self._engine, self._cached = engine, cached

    def rename(self, study_id: int, name: str) -> None:
        """See `StudyNames`."""
        table = StudyModel.__table__
        change = table.update().where(table.c.study_id == study_id).values(study_name=name)
        try:
            with self._engine.begin() as connection:
                found = connection.execute(change).rowcount
        except IntegrityError:
            raise StudyError(f"there is a study {name!r} already: choose another name.") from None
        if not found:
            raise StudyError(f"there is no study of the id {study_id}: it was deleted.")
        with self._cached._lock:
            if study_id in self._cached._studies:
                self._cached._studies[study_id].name = name
