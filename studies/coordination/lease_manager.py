"""Leases of one process on a study, on its trials, and on the right to plan trials.

A thread renews all leases, however slow a trial is. A killed process stops renewing. On the same machine this is
detected at once; elsewhere its leases can be taken over after they have expired and their owner was watched for a
while: during an outage of the database no process could renew, and live processes renew first when it is back.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from studies.coordination.owner import Owner
from studies.database.fencing import Fence, LeaseLostError
from studies.database.leases import Lease, LeaseTable
from studies.database.retries import StorageAwayError

log = logging.getLogger(__name__)

_T = TypeVar("_T")

LEASE_SECONDS = 60.0
"""Seconds after which a lease expires unless it is renewed."""

RENEW_SECONDS = 15.0
"""Seconds between renewals."""

WATCH_SECONDS = 20.0
"""Seconds for which the owner of an expired lease is watched before the lease is taken over."""

STUDY = -1
"""Lease of the process that leads a study: it makes the plan. Leases of trials have their numbers, from 0."""

PLANNING = -2
"""Lease of a process while it starts a trial."""

_OPEN: set[str] = set()
"""Tokens of the open lease managers of this process. One that was never closed disappears with the process."""

_LOOK_SECONDS = 0.5
"""Seconds between checks of a watched owner."""

_RETRY_SECONDS = (0.02, 0.5)
"""First and longest wait, in seconds, between attempts to acquire the planning lease.

Waits double, and are shortened at random by up to a half.
"""


class LeaseManager:
    """Leases of this process on one study. A context manager; see `close`. All methods are thread-safe.

    Args:
        table: Table of the leases.
        study: Key of the study in the table.
        others: Whether other processes could hold leases; otherwise nothing needs to be renewed.
    """

    def __init__(self, table: LeaseTable, study: str, *, others: bool = True) -> None:
        self._table, self._study, self._others = table, study, others
        self._own = Owner.new()
        _OPEN.add(self._own.token)
        self._lock = threading.RLock()
        self._held: set[int] = set()
        self._epochs: dict[int, int] = {}  # of leases that are held, or were lost
        self._lost: set[int] = set()
        self._overdue: dict[tuple[int, str, float], float] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, number: int) -> Owner | None:
        """Acquire a lease that no live process holds; return None, or its owner if another process holds it."""
        with self._lock:
            if number in self._held:
                return None
            if epoch := self._table.take(self._study, number, str(self._own), LEASE_SECONDS):
                self._register(number, epoch)
                return None
            lease = self._table.held(self._study).get(number)
            if lease is None:
                return self.acquire(number)
            # A study that was opened in this process before, and never closed, can be opened again.
            again = number == STUDY and Owner.read(lease.owner).is_this_process
            epoch = lease.epoch if lease.owner == str(self._own) else 0
            if not epoch and (again or self._is_over(number, lease)):
                epoch = self._table.take(self._study, number, str(self._own), LEASE_SECONDS, instead_of=lease)
            if not epoch:
                return Owner.read(lease.owner)
            self._register(number, epoch)
            return None

    def acquire_with_watch(self, number: int) -> Owner | None:
        """Acquire a lease, watching the owner of an expired one for as long as necessary; return as `acquire`."""
        warned = False
        while (holder := self.acquire(number)) is not None:
            lease = self._table.held(self._study).get(number)
            if lease is None:  # released at this moment
                continue
            if lease.seconds_left > 0:
                return holder
            warned = warned or _warn_of_watched(holder)
            time.sleep(_LOOK_SECONDS)
        return None

    def other_owner_with_watch(self) -> Owner | None:
        """Return another process that holds a lease, after watching owners of expired ones; None without one."""
        warned = False
        while True:
            with self._lock:
                leases = self._table.held(self._study)
                holders = {number: Owner.read(lease.owner) for number, lease in leases.items()}
                theirs = [
                    number
                    for number, lease in leases.items()
                    if not holders[number].is_this_process and not self._is_over(number, lease)
                ]
            if not theirs:
                return None
            newest = max(theirs, key=lambda number: leases[number].seconds_left)
            if leases[newest].seconds_left > 0:
                return holders[newest]
            warned = warned or _warn_of_watched(holders[newest])
            time.sleep(_LOOK_SECONDS)

    def _register(self, number: int, epoch: int) -> None:
        self._held.add(number)
        self._epochs[number] = epoch
        self._lost.discard(number)

    def start_renewing(self) -> None:
        """Renew all leases every `RENEW_SECONDS`, from now until `close`, in a thread."""
        if self._thread is None and self._others:
            self._thread = threading.Thread(target=self._renewal_loop, name="finder-leases", daemon=True)
            self._thread.start()

    def release(self, number: int) -> bool:
        """Release a lease; return whether this process held it until now."""
        with self._lock:
            if number not in self._held:
                return False
            self._held.discard(number)
            given = self._table.release(self._study, number, str(self._own))
            if given:  # later writes of a lost lease are rejected
                del self._epochs[number]
            return given

    def holds(self, number: int) -> bool:
        """Return whether this process holds a lease, as of the last renewal."""
        return number in self._held

    def epoch(self, number: int) -> int:
        """Return the epoch of a lease that is held, or was held until it was lost."""
        return self._epochs[number]

    def fence(self, numbers: Iterable[int]) -> Fence | None:
        """Return the leases that a write of these trials requires; None if none was ever acquired."""
        with self._lock:
            epochs = {number: self._epochs[number] for number in numbers if number in self._epochs}
            return Fence(self._study, str(self._own), epochs) if epochs else None

    def fence_of(self, number: int | None) -> Fence | None:
        """Return the lease that a write of Optuna requires.

        It is the planning lease if it is held, else that of the trial or the study.

        Args:
            number: Number of the trial that is written; None for the study.
        """
        asked = (PLANNING, STUDY) if number is None else (PLANNING, number, STUDY)
        return next((fence for each in asked if (fence := self.fence((each,))) is not None), None)

    def pop_lost(self) -> set[int]:
        """Return the leases lost since the last call.

        Leases are lost when this process does not renew them in time, such as after sleep.
        """
        with self._lock:
            lost, self._lost = self._lost, set()
            return lost

    def leases_of_others(self) -> dict[int, Owner]:
        """Return the owners of leases of other processes that are, or may be, alive, by number."""
        with self._lock:
            leases = self._table.held(self._study)
            return {
                number: Owner.read(lease.owner)
                for number, lease in leases.items()
                if lease.owner != str(self._own) and not self._is_over(number, lease)
            }

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """Hold the planning lease for the block, so that decisions on the next trial see all previous ones. Reentrant.

        Raises:
            LeaseLostError: At the end, if the lease expired and another process has planned in between.
        """
        if PLANNING in self._held:
            yield
            return
        wait, longest = _RETRY_SECONDS
        while self.acquire(PLANNING) is not None:
            time.sleep(random.uniform(wait / 2, wait))
            wait = min(2 * wait, longest)
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # the block has failed already, perhaps because of an outage
                self.release(PLANNING)
            raise
        else:
            if not self.release(PLANNING):
                raise LeaseLostError("another process planned trials of this study while this one was away.")
        finally:
            self._epochs.pop(PLANNING, None)

    def plan(self, call: Callable[[], _T]) -> _T:
        """Return the result of an idempotent call made with the planning lease; repeat it if the lease was lost."""
        while True:
            with contextlib.suppress(LeaseLostError), self.planning():
                return call()

    def _is_over(self, number: int, lease: Lease) -> bool:
        """Return whether the lease of another owner has ended."""
        owner = Owner.read(lease.owner)
        if owner.is_dead or (owner.is_this_process and owner.token not in _OPEN):
            return True
        if lease.seconds_left > 0:
            return False
        since = self._overdue.setdefault((number, lease.owner, lease.deadline), time.monotonic())
        return time.monotonic() - since >= WATCH_SECONDS

    def _renewal_loop(self) -> None:
        wait = RENEW_SECONDS
        while not self._closed.wait(wait):
            try:
                self._renew()
                wait = RENEW_SECONDS
            except Exception as error:  # noqa: BLE001 - whatever a database says that is away for a while
                log.debug("the leases of %s could not be renewed: %s", self._study, error)
                wait = RENEW_SECONDS / 10

    def _renew(self) -> None:
        """Renew all leases. An unanswered call does not block other threads."""
        with self._lock:
            before = {number: self._epochs[number] for number in self._held}
        ours = self._table.renew(self._study, str(self._own), LEASE_SECONDS)
        with self._lock:
            same = {number for number in self._held if self._epochs[number] == before.get(number)}
            self._lost |= same - ours
            self._held -= same - ours

    def abandon(self, seconds: float | None = None) -> None:
        """Stop renewing without releasing any lease: other processes wait until they expire.

        Args:
            seconds: Longest wait for a renewal in progress. Defaults to `None`: no limit.
        """
        self._closed.set()
        if self._thread is not None:
            self._thread.join(seconds)
        _OPEN.discard(self._own.token)

    def close(self, *, cut_off: bool = False) -> None:
        """Release all leases. Idempotent.

        Args:
            cut_off: Whether the storage is out of reach: then no call in progress is waited for, and the leases expire.
        """
        if self._closed.is_set():
            return
        self.abandon(_LOOK_SECONDS if cut_off else None)
        with self._lock:
            for number in list(self._held):
                try:
                    self.release(number)
                except StorageAwayError:  # all further calls would wait as well
                    break
                except Exception as error:  # noqa: BLE001 - it is free by itself, in a while
                    log.debug("the leases of %s could not be released: %s", self._study, error)

    def __enter__(self) -> LeaseManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _warn_of_watched(holder: Owner) -> bool:
    log.warning(
        "Process %d on %s, which runs this study, has not renewed its lease: waiting %g s for a renewal.",
        holder.pid, holder.host, WATCH_SECONDS,
    )  # fmt: skip
    return True
