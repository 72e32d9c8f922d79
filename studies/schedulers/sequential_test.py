"""Sequential test: trials stop that are distinguishable from the best by their seeds."""

from __future__ import annotations

from collections.abc import Sequence

from studies.schedulers.race import Race
from studies.statistics.racing import Racer
from studies.statistics.sequential_test import LEVEL, undecided


class SequentialTest(Race):
    """Stop trials that are distinguishable from the best by their seeds (`studies.statistics.sequential_test`).

    Args:
        rungs: As in `Race`.
        budget: As in `Race`.
        level: Confidence at which a trial must be distinguishable to be stopped, above 0 and below 1.
        per: As in `Race`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(self, rungs: Sequence[int], budget: int, level: float = LEVEL, per: str | None = None) -> None:
        super().__init__(rungs, budget, per)
        if not 0 < level < 1:
            raise ValueError(f"level is {level}: it must be above 0 and below 1.")
        self._level = level

    def _survivors(self, racers: Sequence[Racer], share: float) -> list[int]:
        return undecided(racers, share, level=self._level)
