"""Design of a simulated search: how its trials are trained, pruned and confirmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from studies.errors import StudyError, nearest
from studies.schedulers.scheduler import Scheduler
from studies.schedulers.schedulers import SCHEDULERS, make_scheduler
from studies.spec.scheduler_names import canonical_pruner_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from studies.spaces.spaces import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchDesign:
    """Design of a search.

    Attributes:
        scheduler: Decides which trials continue; None: all.
        n_seeds: Seeds with which every trial is trained, at least 1.
        n_finalists: Best trials that are run again on further seeds; 0 for none.
        n_further: Further seeds, at most. There are fewer where the table has fewer, or the budget.
        at_once: Trials that run in step; None: all that are known.
        baseline: Parameters of the configuration with which the pick is compared: its trial is not pruned, and is
            confirmed beside the best ones. None for none.
        horizon: Environment steps of the long run; None: as many as those of the runs.

    Raises:
        StudyError: If a number is out of range.
    """

    scheduler: Scheduler | None
    n_seeds: int
    n_finalists: int = 3
    n_further: int = 5
    at_once: int | None = None
    baseline: Mapping[str, Json] | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        least = {"n_seeds": 1, "n_finalists": 0, "n_further": 1, "at_once": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise StudyError(f"{name} is {value}: give at least {lowest}.")


def scheduler_of(
    name: str, kwargs: Mapping[str, Json], marks: Sequence[int], parameters: Collection[str]
) -> Scheduler | None:
    """Return a scheduler by its name; None for `none`.

    Args:
        name: Its name.
        kwargs: Its arguments.
        marks: Environment steps at which trials report, ascending, the budget last.
        parameters: Names of the searched parameters.

    Raises:
        StudyError: If it cannot be simulated, or an argument is wrong.
    """
    canonical = canonical_pruner_name(name)
    if canonical == "none":
        return None
    if canonical not in SCHEDULERS:
        raise StudyError(f"the scheduler {name!r} cannot be simulated. {nearest(name, ('none', *SCHEDULERS))}")
    return make_scheduler(canonical, kwargs, marks, parameters, f"the scheduler {name!r}")
