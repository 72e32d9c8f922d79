"""What one process holds of a study: the study, its trials, the right to begin trials. Kept while the process lives.

Everything that is held is renewed by a thread, however slow a trial is. Who is killed stops renewing. On its own
machine that is known at once; elsewhere what it held is free when the deadline has passed and it was watched for a
while: where the database itself was away, nobody could renew, and those who live do so first.
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
"""How long something is held without being renewed."""

RENEW_SECONDS = 15.0
"""How often it is renewed."""

WATCH_SECONDS = 20.0
"""How long somebody is watched whose deadline has passed, before what it held is taken over."""

STUDY = -1
"""What whoever leads a study holds: makes its plan, and grows it. Trials have numbers from 0."""

PLANNING = -2
"""What whoever begins a trial holds meanwhile."""

_OPEN: set[str] = set()
"""The tokens of this process's owners that are open. One that was not closed is none any more when the process ends."""

_LOOK_SECONDS = 0.5
"""How often somebody who is watched is looked at."""

_RETRY_SECONDS = (0.01, 0.1)
"""Between two tries to plan, at random between these."""


class LeaseManager:
    """What this process holds of a study. A context manager; see `close`. May be called from any thread.

    Args:
        table: Where it is written.
        study: The study's key in it.
        others: Whether anybody else could hold anything; without others, nothing needs to be renewed.
    """

    def __init__(self, table: LeaseTable, study: str, *, others: bool = True) -> None:
        self._table, self._study, self._others = table, study, others
        self._own = Owner.new()
        _OPEN.add(self._own.token)
        self._lock = threading.RLock()
        self._held: set[int] = set()
        self._epochs: dict[int, int] = {}  # of what is held, and of what was lost
        self._lost: set[int] = set()
        self._overdue: dict[tuple[int, str, float], float] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, number: int) -> Owner | None:
        """Takes something that nobody alive holds; returns who holds it, None where it is ours from now on."""
        with self._lock:
            if number in self._held:
                return None
            if epoch := self._table.take(self._study, number, str(self._own), LEASE_SECONDS):
                self._begin_to_hold(number, epoch)
                return None
            lease = self._table.held(self._study).get(number)
            if lease is None:
                return self.acquire(number)
            # What was opened in this process before, and never closed, does not keep it from opening it again.
            again = number == STUDY and Owner.read(lease.owner).is_this_process
            epoch = lease.epoch if lease.owner == str(self._own) else 0
            if not epoch and (again or self._is_over(number, lease)):
                epoch = self._table.take(self._study, number, str(self._own), LEASE_SECONDS, instead_of=lease)
            if not epoch:
                return Owner.read(lease.owner)
            self._begin_to_hold(number, epoch)
            return None

    def acquire_in_time(self, number: int) -> Owner | None:
        """Does the same; watches a holder whose deadline has passed for as long as it takes."""
        told = False
        while (holder := self.acquire(number)) is not None:
            lease = self._table.held(self._study).get(number)
            if lease is None:  # given back at this moment
                continue
            if lease.seconds_left > 0:
                return holder
            told = told or _say_watched(holder)
            time.sleep(_LOOK_SECONDS)
        return None

    def other_owner_in_time(self) -> Owner | None:
        """Returns a process, but for this one, that holds anything; watches those whose deadline has passed too."""
        told = False
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
            told = told or _say_watched(holders[newest])
            time.sleep(_LOOK_SECONDS)

    def _begin_to_hold(self, number: int, epoch: int) -> None:
        self._held.add(number)
        self._epochs[number] = epoch
        self._lost.discard(number)

    def start_renewing(self) -> None:
        """Renews what is held, now and until `close`."""
        if self._thread is None and self._others:
            self._thread = threading.Thread(target=self._renew_again_and_again, name="finder-leases", daemon=True)
            self._thread.start()

    def release(self, number: int) -> bool:
        """Gives something back; returns whether it was ours to the end."""
        with self._lock:
            if number not in self._held:
                return False
            self._held.discard(number)
            given = self._table.release(self._study, number, str(self._own))
            if given:  # writes of what was lost are refused from now on
                del self._epochs[number]
            return given

    def holds(self, number: int) -> bool:
        """Returns whether something is ours, as far as was heard."""
        return number in self._held

    def epoch(self, number: int) -> int:
        """Returns in which epoch something was taken that is held, or was until it was lost."""
        return self._epochs[number]

    def fence(self, numbers: Iterable[int]) -> Fence | None:
        """Returns the leases that a write of these trials needs; None where none was ever taken."""
        with self._lock:
            epochs = {number: self._epochs[number] for number in numbers if number in self._epochs}
            return Fence(self._study, str(self._own), epochs) if epochs else None

    def fence_of(self, number: int | None) -> Fence | None:
        """Returns the lease that a write of Optuna's needs: while planning that, else the trial's, else the study's.

        Args:
            number: The trial that is written; None for the study.
        """
        asked = (PLANNING, STUDY) if number is None else (PLANNING, number, STUDY)
        return next((fence for each in asked if (fence := self.fence((each,))) is not None), None)

    def pop_lost(self) -> set[int]:
        """Returns what others took since the last call: this process was away for longer than it may be (asleep)."""
        with self._lock:
            lost, self._lost = self._lost, set()
            return lost

    def held_by_others(self) -> dict[int, Owner]:
        """Returns what others hold who live, or may live."""
        with self._lock:
            leases = self._table.held(self._study)
            return {
                number: Owner.read(lease.owner)
                for number, lease in leases.items()
                if lease.owner != str(self._own) and not self._is_over(number, lease)
            }

    @contextlib.contextmanager
    def planning(self) -> Iterator[None]:
        """While in here, nobody else is: whoever decides what is tried next knows of everything that is tried already.

        May be entered again from inside.

        Raises:
            LeaseLostError: At its end, if this process was away for so long that another one has planned meanwhile.
        """
        if PLANNING in self._held:
            yield
            return
        while self.acquire(PLANNING) is not None:
            time.sleep(random.uniform(*_RETRY_SECONDS))
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # it has failed already, perhaps because the database is away
                self.release(PLANNING)
            raise
        else:
            if not self.release(PLANNING):
                raise LeaseLostError("another process planned trials of this study while this one was away.")
        finally:
            self._epochs.pop(PLANNING, None)

    def plan(self, call: Callable[[], _T]) -> _T:
        """Returns what a call returns that may be made twice: again, where another process has planned meanwhile."""
        while True:
            with contextlib.suppress(LeaseLostError), self.planning():
                return call()

    def _is_over(self, number: int, lease: Lease) -> bool:
        """Whether a lease of somebody else holds no more."""
        owner = Owner.read(lease.owner)
        if owner.is_dead or (owner.is_this_process and owner.token not in _OPEN):
            return True
        if lease.seconds_left > 0:
            return False
        since = self._overdue.setdefault((number, lease.owner, lease.deadline), time.monotonic())
        return time.monotonic() - since >= WATCH_SECONDS

    def _renew_again_and_again(self) -> None:
        wait = RENEW_SECONDS
        while not self._closed.wait(wait):
            try:
                self._renew()
                wait = RENEW_SECONDS
            except Exception as error:  # noqa: BLE001 - whatever a database says that is away for a while
                log.debug("what is held of %s could not be renewed: %s", self._study, error)
                wait = RENEW_SECONDS / 10

    def _renew(self) -> None:
        """Renews what is held. Where this is not answered, it keeps no other thread waiting."""
        with self._lock:
            before = {number: self._epochs[number] for number in self._held}
        ours = self._table.renew(self._study, str(self._own), LEASE_SECONDS)
        with self._lock:
            same = {number for number in self._held if self._epochs[number] == before.get(number)}
            self._lost |= same - ours
            self._held -= same - ours

    def abandon(self, seconds: float | None = None) -> None:
        """Renews nothing from now on, and gives nothing back: others wait until it is over.

        Args:
            seconds: How long to wait at most for a renewal that is under way. Defaults to `None`: for its end.
        """
        self._closed.set()
        if self._thread is not None:
            self._thread.join(seconds)
        _OPEN.discard(self._own.token)

    def close(self, *, cut_off: bool = False) -> None:
        """Gives everything back. May be called twice.

        Args:
            cut_off: Whether the storage has not answered for long: then nothing that is under way is waited for, and
                what is held becomes free by itself.
        """
        if self._closed.is_set():
            return
        self.abandon(_LOOK_SECONDS if cut_off else None)
        with self._lock:
            for number in list(self._held):
                try:
                    self.release(number)
                except StorageAwayError:  # and so it is for all the others, each of which would be waited for
                    break
                except Exception as error:  # noqa: BLE001 - it is free by itself, in a while
                    log.debug("what is held of %s could not be given back: %s", self._study, error)

    def __enter__(self) -> LeaseManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _say_watched(holder: Owner) -> bool:
    log.warning(
        "Nothing was heard of process %d on %s, which ran this study, for long: waiting %g s for a sign of life.",
        holder.pid, holder.host, WATCH_SECONDS,
    )  # fmt: skip
    return True
