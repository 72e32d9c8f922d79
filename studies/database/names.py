"""Names of studies, changed in place: Optuna has no renaming, and copying a study would duplicate its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optuna.storages._rdb.models import StudyModel
from sqlalchemy.exc import IntegrityError

from studies.errors import StudyError

LONGEST_NAME = 400
"""Maximum length of a name in characters."""

if TYPE_CHECKING:
    import sqlalchemy as sa


def check_name(name: str) -> None:
    """Check a new name of a study.

    Raises:
        StudyError: If it is empty, longer than storages can hold, or has control characters, which terminals interpret.
    """
    if not name.strip():
        raise StudyError(f"the name of a study is {name!r}: give a text.")
    if len(name) > LONGEST_NAME:
        shown = f"{name[:40]}..."
        raise StudyError(f"the name {shown!r} has {len(name)} characters: give one of {LONGEST_NAME} at most.")
    if not name.isprintable():
        raise StudyError(f"the name {name!r} has a control character: give a text of one line.")


class StudyNames:
    """Names of the studies of a storage, in a database.

    Args:
        engine: Database.
        cached: Optuna storage in front of it, which caches names.
    """

    def __init__(self, engine: sa.Engine, cached: Any) -> None:
        self._engine, self._cached = engine, cached

    def rename(self, study_id: int, name: str) -> None:
        """Rename a study; processes that run it continue.

        Raises:
            StudyError: If there is no such study, or another one has the name.
        """
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
