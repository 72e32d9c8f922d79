"""Hands out the trials of a study and of its confirmation, to one of the processes that may be running it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from optuna.trial import Trial, TrialState

from studies.attributes import REASON_ATTR
from studies.beginning import put_back_abandoned
from studies.claims import STUDY, Claims
from studies.confirming import Confirmations
from studies.fencing import LostError
from studies.study import OpenStudy, planned_further, refreshed
from studies.trial_source import TrialSource

if TYPE_CHECKING:
    from studies.spaces import Json

_T = TypeVar("_T")


class Taken(NamedTuple):
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
        claims: What this process holds of it.
        retry_failed: Whether a plan's trials that failed in an earlier run are run again.
    """

    def __init__(self, study: OpenStudy, claims: Claims, *, retry_failed: bool) -> None:
        self._study, self._claims = study, claims
        self._confirmations = Confirmations(study)

        def looked() -> TrialSource:
            if not study.spec.confirm:
                self._confirmations.give_up()
            return TrialSource(study, retry_failed=retry_failed)

        self._source = self._planned(looked)

    @contextlib.contextmanager
    def _planning(self) -> Iterator[None]:
        """Nobody else plans in here, and what dead processes ran waits to go on."""
        with self._claims.planning():
            put_back_abandoned(self._study.study, self._claims)
            yield

    def _planned(self, call: Callable[[], _T]) -> _T:
        """Returns what a call returns in there; it may be made again."""

        def planned() -> _T:
            with self._planning():
                return call()

        return self._claims.plan(planned)

    @property
    def n_left(self) -> int:
        """Trials of the search that are still to be handed out."""
        return self._source.n_left

    @property
    def is_led_elsewhere(self) -> bool:
        """Whether another process leads the study."""
        return STUDY in self._claims.held_by_others()

    @property
    def share(self) -> int | None:
        """Most trials that a worker should take at a time; None for whoever leads the study.

        Half of its share of what is left: so workers that come later, or are faster, find something to do too.
        """
        if self._claims.holds(STUDY):
            return None
        n_workers = 1 + len(set(self._claims.held_by_others().values()))
        return max(1, math.ceil(self.n_left / (2 * n_workers)))

    def is_confirmation(self, number: int) -> bool:
        """Returns whether a trial that was handed out confirms another one."""
        return number in self._confirmations

    def params(self, trial: Trial) -> dict[str, Json]:
        """What a trial sets."""
        return self._source.params(trial)

    def take(self, busy: Container[int] = ()) -> Taken | None:
        """Returns the next trial of the search; None if nothing is left.

        Args:
            busy: Numbers of trials that this process may not begin.
        """

        def take() -> Taken | None:
            found = self._source.take(busy)
            return None if found is None else Taken(found.trial, self._study.spec.seeds, None, found.again)

        return self._take(take)

    def take_confirmation(self) -> Taken | None:
        """Returns the next confirmation; None if nothing is left to confirm."""

        def take() -> Taken | None:
            found = self._confirmations.begin()
            return None if found is None else Taken(found.trial, found.seeds, found.finalist, found.again)

        return self._take(take)

    def _take(self, take: Callable[[], Taken | None]) -> Taken | None:
        while True:
            taken = None
            try:
                with self._planning():
                    taken = take()
                    if taken is None or self._claims.take(taken.trial.number) is None:
                        return taken
            except LostError as error:
                if taken is not None and self._is_ours(taken, error):
                    return taken
            if taken is not None:
                self.waits(taken.trial.number)

    def _is_ours(self, taken: Taken, error: LostError) -> bool:
        """Whether this process runs a trial that it has begun while another one planned."""
        if not self._claims.holds(taken.trial.number):
            return False
        if not taken.again:  # the other one may have begun the same
            self._give_up(taken.trial, f"given up as it began: {error}")
            return False
        if taken.trial.storage.get_trial(taken.trial._trial_id).state == TrialState.RUNNING:
            return True
        self._claims.give_back(taken.trial.number)  # the other one has put it back before it was held
        return False

    def _give_up(self, trial: Trial, reason: str) -> None:
        trial.set_user_attr(REASON_ATTR, reason)
        trial.storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
        self._claims.give_back(trial.number)

    def waits(self, number: int) -> None:
        """A trial that was handed out waits again."""
        self._confirmations.put_back(number)

    def n_to_confirm(self) -> int:
        """Returns how many confirmations are still to be begun."""
        return len(self._planned(self._confirmations.look))

    def plan_further(self, rows: Sequence[Mapping[str, Json]]) -> OpenStudy:
        """Adds trials to the plan, and returns the study as it goes on; what failed is not tried again."""
        grown: OpenStudy | None = None

        def planned() -> OpenStudy:
            nonlocal grown
            found = refreshed(self._study)
            if grown is None or found.spec.trials != grown.spec.trials:  # where it is called again, it may be done
                grown = planned_further(found, rows)
            return grown

        self._go_on(self._claims.plan(planned))
        return self._study

    def look_again(self) -> OpenStudy:
        """Returns the study as it is now, and knows from then on what others have added to its plan."""
        found = self._planned(lambda: refreshed(self._study))
        if found.spec.plan() != self._study.spec.plan():
            self._go_on(found)
        return self._study

    def _go_on(self, study: OpenStudy) -> None:
        self._study = study
        self._source = TrialSource(study, retry_failed=False)
