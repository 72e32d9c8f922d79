"""Hands out the trials of a study and of its confirmation, to one of the processes that may be running it."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from optuna.trial import FrozenTrial, Trial, TrialState

from studies.coordination.lease_manager import STUDY, LeaseManager
from studies.database.fencing import LeaseLostError
from studies.recording.confirmation_queue import ConfirmationQueue
from studies.recording.trial_source import TrialSource
from studies.recording.trial_states import requeue_abandoned, with_parameters
from studies.spec.attributes import REASON_ATTR, why_not_ours
from studies.study.study import OpenStudy, reloaded, with_longer_plan

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from studies.spec.spaces import Json

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class _StartedTrial(NamedTuple):
    """A trial that runs from now on, before all of its parameters are set; as `TakenTrial` otherwise."""

    trial: FrozenTrial
    seeds: tuple[int, ...]
    confirms: int | None
    again: bool
    wanted: Mapping[str, BaseDistribution]


class TakenTrial(NamedTuple):
    """A trial that this process runs from now on.

    Attributes:
        trial: The trial.
        seeds: On which seeds.
        confirms: The trial that it runs again, None for a trial of the search.
        again: Whether it had begun before, and goes on.
    """

    trial: Trial
    seeds: tuple[int, ...]
    confirms: int | None
    again: bool


class TrialQueue:
    """What is left of a study. Every trial that it hands out is held by this process and by no other.

    Args:
        study: The study.
        leases: What this process holds of it.
        retry_failed: Whether a plan's trials that failed in an earlier run are run again.
    """

    def __init__(self, study: OpenStudy, leases: LeaseManager, *, retry_failed: bool) -> None:
        self._study, self._leases = study, leases
        self._left_alone: set[int] = set()
        self._confirmations = ConfirmationQueue(study)

        def looked() -> TrialSource:
            if not study.spec.confirm:
                self._confirmations.give_up()
            return TrialSource(study, retry_failed=retry_failed)

        self._source = self._planned(looked)

    @contextlib.contextmanager
    def _planning(self) -> Iterator[None]:
        """Nobody else plans in here, and what dead processes ran waits to go on."""
        with self._leases.planning():
            self._say_left_alone()
            requeue_abandoned(self._study.study, self._leases)
            yield

    def _say_left_alone(self) -> None:
        for trial in self._study.trials_of_others():
            if trial.number not in self._left_alone:
                self._left_alone.add(trial.number)
                log.warning(
                    "Trial %d is left alone: %s.", trial.number, why_not_ours(trial, self._study.spec.parameter_names)
                )

    def _planned(self, call: Callable[[], _T]) -> _T:
        """Returns what a call returns in there; it may be made again."""

        def planned() -> _T:
            with self._planning():
                return call()

        return self._leases.plan(planned)

    @property
    def n_left(self) -> int:
        """Trials of the search that are still to be handed out."""
        return self._source.n_left

    @property
    def n_to_resume(self) -> int:
        """Trials that wait to continue."""
        return self._source.n_to_resume

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether another process leads the study."""
        return STUDY in self._leases.held_by_others()

    @property
    def share(self) -> int | None:
        """Most trials that a worker should take at a time; None for whoever leads the study.

        Half of its share of what is left: so workers that come later, or are faster, find something to do too.
        """
        if self._leases.holds(STUDY):
            return None
        n_workers = 1 + len(set(self._leases.held_by_others().values()))
        return max(1, math.ceil(self.n_left / (2 * n_workers)))

    def is_confirmation(self, number: int) -> bool:
        """Returns whether a trial that was handed out confirms another one."""
        return number in self._confirmations

    def params(self, trial: Trial) -> dict[str, Json]:
        """What a trial sets."""
        return self._source.params(trial)

    def take(self, busy: Container[int] = ()) -> TakenTrial | None:
        """Returns the next trial of the search; None if nothing is left.

        Args:
            busy: Numbers of trials that this process may not begin.
        """

        def begin() -> _StartedTrial | None:
            found = self._source.take(busy)
            return None if found is None else _StartedTrial(found.trial, self._study.spec.seeds, None, *found[1:])

        return self._take(begin)

    def take_confirmation(self) -> TakenTrial | None:
        """Returns the next confirmation; None if nothing is left to confirm."""

        def begin() -> _StartedTrial | None:
            found = self._confirmations.begin()
            if found is None:
                return None
            return _StartedTrial(found.trial, found.seeds, found.finalist, found.again, found.wanted)

        return self._take(begin)

    def _take(self, begin: Callable[[], _StartedTrial | None]) -> TakenTrial | None:
        while True:
            begun = self._begin(begin)
            if begun is None:
                return None
            # Nobody waits for a sampler: it is asked when others may plan again.
            with contextlib.suppress(LeaseLostError):
                trial = with_parameters(self._study.study, begun.trial, begun.wanted)
                return TakenTrial(trial, begun.seeds, begun.confirms, begun.again)
            self._leases.release(begun.trial.number)
            self.waits(begun.trial.number)

    def _begin(self, begin: Callable[[], _StartedTrial | None]) -> _StartedTrial | None:
        while True:
            begun = None
            try:
                with self._planning():
                    begun = begin()
                    if begun is None or self._leases.acquire(begun.trial.number) is None:
                        return begun
            except LeaseLostError as error:
                if begun is not None and self._is_ours(begun, error):
                    return begun
            if begun is not None:
                self.waits(begun.trial.number)

    def _is_ours(self, begun: _StartedTrial, error: LeaseLostError) -> bool:
        """Whether this process runs a trial that it has begun while another one planned."""
        number, storage = begun.trial.number, self._study.study._storage
        if not self._leases.holds(number):
            return False
        if begun.again and storage.get_trial(begun.trial._trial_id).state == TrialState.RUNNING:
            return True
        if not begun.again:  # the other one may have begun the same
            with contextlib.suppress(LeaseLostError):
                storage.set_trial_user_attr(begun.trial._trial_id, REASON_ATTR, f"given up as it began: {error}")
                storage.set_trial_state_values(begun.trial._trial_id, TrialState.FAIL)
        self._leases.release(number)  # where it is to go on, the other one has put it back before it was held
        return False

    def waits(self, number: int) -> None:
        """A trial that was handed out waits again."""
        self._confirmations.requeue(number)

    def n_to_confirm(self) -> int:
        """Returns how many confirmations are still to be begun."""
        return len(self._planned(self._confirmations.look))

    def extend_plan(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Adds trials to the plan, and returns the study as it goes on; what failed is not tried again."""
        grown: OpenStudy | None = None

        def planned() -> OpenStudy:
            nonlocal grown
            found = reloaded(self._study)
            if grown is None or found.spec.trials != grown.spec.trials:  # where it is called again, it may be done
                grown = with_longer_plan(found, rows)
            return grown

        self._go_on(self._leases.plan(planned))
        return self._study

    def refresh(self) -> OpenStudy:
        """Returns the study as it is now, and knows from then on what others have added to its plan."""
        found = self._planned(lambda: reloaded(self._study))
        if found.spec.plan() != self._study.spec.plan():
            self._go_on(found)
        return self._study

    def _go_on(self, study: OpenStudy) -> None:
        self._study = study
        self._source = TrialSource(study, retry_failed=False)
