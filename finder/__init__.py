"""How to search: which learning rate, which optimizer, which agent, which hyperparameters.

Names are imported when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finder.finders.lr import LRFinder as LRFinder
    from finder.finders.optimizer import OptFinder as OptFinder
    from finder.finders.parallel import AgentFinder as AgentFinder
    from finder.finders.parallel import ParallelFinder as ParallelFinder
    from finder.finders.tuning import run_file as run_file
    from finder.finders.tuning import submit_file as submit_file
    from finder.finders.tuning import tune as tune
    from finder.finders.worker import work as work
    from finder.long_run.histories import histories_data as histories_data
    from finder.long_run.histories import plot_losses as plot_losses
    from finder.long_run.histories import plot_returns as plot_returns
    from finder.long_run.recommendation import picked_agent as picked_agent
    from finder.range_test.range_test import RangeTestResult as RangeTestResult
    from finder.search.results import SearchResult as SearchResult
    from finder.search.search import run_search as run_search

_HOME = {
    "finder.long_run.histories": ("histories_data", "plot_losses", "plot_returns"),
    "finder.finders.lr": ("LRFinder",),
    "finder.finders.optimizer": ("OptFinder",),
    "finder.finders.parallel": ("AgentFinder", "ParallelFinder"),
    "finder.long_run.recommendation": ("picked_agent",),
    "finder.range_test.range_test": ("RangeTestResult",),
    "finder.search.results": ("SearchResult",),
    "finder.search.search": ("run_search",),
    "finder.finders.tuning": ("run_file", "submit_file", "tune"),
    "finder.finders.worker": ("work",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
__all__ = [
    "AgentFinder",
    "LRFinder",
    "OptFinder",
    "ParallelFinder",
    "RangeTestResult",
    "SearchResult",
    "histories_data",
    "picked_agent",
    "plot_losses",
    "plot_returns",
    "run_file",
    "run_search",
    "submit_file",
    "tune",
    "work",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'finder' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
