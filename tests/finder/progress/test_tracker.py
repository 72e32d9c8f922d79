"""Tests of the state of a running search as numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from finder.progress.tracker import Tracker
from finder.trials.trial import Outcome
from studies.database.retries import StorageAwayError


@pytest.mark.parametrize("is_over", [False, True])
def test_outage_of_the_storage_does_not_end_the_count_of_trials(is_over: bool) -> None:
    """It would look like an error of the display, in a search that ends because of the outage."""
    calls: list[int] = []

    def trials() -> Any:
        calls.append(1)
        raise StorageAwayError("the storage has not answered for 300 s")

    tracker: Any = Tracker()
    storage = SimpleNamespace(shared=True, retry_policy=SimpleNamespace(is_over=is_over))
    tracker.study = SimpleNamespace(storage=storage, spec=None, trials=trials)
    tracker.trial_ended(0, Outcome(state="interrupted"))
    tracker.others_run(2)
    assert (tracker.n_done, tracker.n_elsewhere) == (0, 2)
    assert bool(calls) != is_over
