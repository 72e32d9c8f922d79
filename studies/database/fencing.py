"""Writes that are conditional on a lease: a process whose lease has expired can no longer write.

A lease has an epoch, which is incremented each time that the lease is acquired. A `Fence` names leases with their
epochs. While a thread is in `fenced`, every transaction that it starts first reads and locks these rows until its end,
so that no takeover can happen between that check and the commit.
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

_OWN = sa.and_(
    leases.c.study_name == sa.bindparam("of_study"),
    leases.c.owner == sa.bindparam("of_owner"),
    leases.c.number.in_(sa.bindparam("of_numbers", expanding=True)),
)
_LOCK = leases.update().where(_OWN).values(epoch=leases.c.epoch)
_HELD = sa.select(leases.c.number, leases.c.epoch).where(_OWN).with_for_update(read=True)

_thread = threading.local()


class LeaseLostError(StudyError):
    """Error for leases that another process took over because this process did not renew them in time.

    Attributes:
        numbers: Numbers of the lost leases.
    """

    def __init__(self, message: str, numbers: frozenset[int] = frozenset()) -> None:
        super().__init__(message)
        self.numbers = numbers


class Fence(NamedTuple):
    """Leases that a write requires.

    Attributes:
        study: Key of the study.
        owner: Owner of the leases.
        epochs: Number of a lease -> epoch in which the owner acquired it.
    """

    study: str
    owner: str
    epochs: Mapping[int, int]

    def check(self, held: Mapping[int, int]) -> None:
        """Check the leases against those that the owner holds now.

        Raises:
            LeaseLostError: If one of them expired, or was held by another process in between.
        """
        lost = frozenset(number for number, epoch in self.epochs.items() if held.get(number) != epoch)
        if lost:
            raise LeaseLostError(f"another process has taken {sorted(lost)} of {self.study!r} meanwhile.", lost)


@contextlib.contextmanager
def fenced(fence: Fence | None) -> Iterator[None]:
    """Make every write of this thread conditional on leases until the block ends; `None` changes nothing."""
    before = current()
    _thread.fence = fence or before
    try:
        yield
    finally:
        _thread.fence = before


def current() -> Fence | None:
    """Return the fence of the current thread."""
    found: Fence | None = getattr(_thread, "fence", None)
    return found


def check_transactions(engine: sa.Engine) -> None:
    """Check the fence of the thread at the start of each transaction of a database that holds the leases."""

    @sa.event.listens_for(engine, "begin")
    def check(connection: sa.Connection) -> None:
        fence = current()
        if fence is None:
            return
        own = {"of_study": fence.study, "of_owner": fence.owner, "of_numbers": list(fence.epochs)}
        if engine.dialect.name == "sqlite":  # locks the file at the first write; SQLite has no other lock
            connection.execute(_LOCK, own)
        rows = connection.execute(_HELD, own)
        fence.check({row.number: row.epoch for row in rows})


class LockedStorage:
    """Optuna storage without transactions: fenced writes happen within a transaction of the database beside it.

    Args:
        storage: Storage.
        engine: Database that holds the leases; see `check_transactions`.
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
    """Optuna storage of a process that runs a study: each write requires the lease of what it changes.

    Args:
        storage: Storage, whose transactions are checked.
        fence_of: Returns the required fence, given the number of the changed trial (`None`: the study).
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
        trial = self._storage.get_trial(trial_id)
        self._numbers[trial_id] = trial.number
        return trial

    def _number(self, trial_id: int) -> int:
        if trial_id not in self._numbers:
            self.get_trial(trial_id)
        return self._numbers[trial_id]


BaseStorage.register(LockedStorage)
BaseStorage.register(FencedStorage)
