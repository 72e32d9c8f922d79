"""Writes that are conditional on a lease: a process that was away and has lost it changes nothing any more.

A lease has an epoch, which grows each time that it is taken. A `Fence` names leases with their epochs. While a thread
is in `fenced`, every transaction that it begins reads those rows first and locks them until its end, so that no
takeover comes between that check and the commit.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa
from optuna.storages import BaseStorage

from studies.database.schema import leases
from studies.errors import StudyError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

_TRIAL_WRITES = (
    "set_trial_param",
    "set_trial_state_values",
    "set_trial_intermediate_value",
    "set_trial_user_attr",
    "set_trial_system_attr",
)
_STUDY_WRITES = ("create_new_trial", "set_study_user_attr", "set_study_system_attr")

_thread = threading.local()


class LostError(StudyError):
    """What was held was taken by another process, because this one was away for too long.

    Attributes:
        numbers: What is not held any more.
    """

    def __init__(self, message: str, numbers: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.numbers = numbers


class Fence(NamedTuple):
    """Leases that a write needs.

    Attributes:
        study: The study's key.
        owner: Their owner.
        epochs: Their numbers -> the epochs in which the owner took them.
    """

    study: str
    owner: str
    epochs: Mapping[int, int]

    def check(self, held: Mapping[int, int]) -> None:
        """Checks the leases against what the owner holds now, as numbers -> epochs.

        Raises:
            LostError: One of them is not held any more, or was held by another process meanwhile.
        """
        lost = frozenset(number for number, epoch in self.epochs.items() if held.get(number) != epoch)
        if lost:
            raise LostError(f"another process has taken {sorted(lost)} of {self.study!r} meanwhile.", lost)


@contextlib.contextmanager
def fenced(fence: Fence | None) -> Iterator[None]:
    """Makes every write of this thread conditional on leases, until the block ends; `None` leaves them as they are."""
    before = current()
    _thread.fence = fence or before
    try:
        yield
    finally:
        _thread.fence = before


def current() -> Fence | None:
    """Returns what the writes of this thread are conditional on at the moment."""
    found: Fence | None = getattr(_thread, "fence", None)
    return found


def check_transactions(engine: sa.Engine) -> None:
    """Checks the fence of the thread at the beginning of each transaction of a database that has the leases."""

    @sa.event.listens_for(engine, "begin")
    def check(connection: sa.Connection) -> None:
        fence = current()
        if fence is None:
            return
        own = sa.and_(
            leases.c.study_name == fence.study, leases.c.owner == fence.owner, leases.c.number.in_(list(fence.epochs))
        )
        if engine.dialect.name == "sqlite":  # which locks the file with the first write, and knows no other lock
            connection.execute(leases.update().where(own).values(epoch=leases.c.epoch))
        rows = connection.execute(sa.select(leases.c.number, leases.c.epoch).where(own).with_for_update(read=True))
        fence.check({row.number: row.epoch for row in rows})


class LockedStorage:
    """An Optuna storage that is no database: its fenced writes are made within a transaction of the one beside it.

    Args:
        storage: The storage.
        engine: The database that has the leases; see `check_transactions`.
    """

    def __init__(self, storage: BaseStorage, engine: sa.Engine) -> None:
        self._storage, self._engine = storage, engine

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if name not in (*_TRIAL_WRITES, *_STUDY_WRITES):
            return found

        def locked(*args: Any, **kwargs: Any) -> Any:
            if current() is None:
                return found(*args, **kwargs)
            with self._engine.begin():
                return found(*args, **kwargs)

        return locked


class FencedStorage:
    """An Optuna storage as one process sees it that runs a study: each write needs the lease of what it writes.

    Args:
        storage: The storage, whose transactions are checked.
        fence_of: Returns what a write needs, by the number of the trial that it changes (`None`: of the study).
    """

    def __init__(self, storage: BaseStorage, fence_of: Callable[[int | None], Fence | None]) -> None:
        self._storage, self._fence_of = storage, fence_of
        self._numbers: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._storage, name)
        if name in _TRIAL_WRITES:

            def write_trial(trial_id: int, *args: Any, **kwargs: Any) -> Any:
                with fenced(self._fence_of(self._number(trial_id))):
                    return found(trial_id, *args, **kwargs)

            return write_trial
        if name in _STUDY_WRITES:

            def write_study(*args: Any, **kwargs: Any) -> Any:
                with fenced(self._fence_of(None)):
                    return found(*args, **kwargs)

            return write_study
        return found

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """See `optuna.storages.BaseStorage`."""
        trial = self._storage.get_trial(trial_id)
        self._numbers[trial_id] = trial.number
        return trial

    def _number(self, trial_id: int) -> int:
        if trial_id not in self._numbers:
            self.get_trial(trial_id)
        return self._numbers[trial_id]


BaseStorage.register(LockedStorage)
BaseStorage.register(FencedStorage)
