"""Dry runs: the plan of a search in place of the search."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec

from agents.errors import ConfigurationError
from finder.budgets.search_plan import SearchPlan

P = ParamSpec("P")

_planning: ContextVar[bool] = ContextVar("planning", default=False)


class PlanMade(BaseException):
    """Ends a search that was only planned. It is not an `Exception`, so that no handler takes it for a failure.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: SearchPlan) -> None:
        super().__init__("a dry run ends with its plan")
        self.plan = plan


def is_dry_run() -> bool:
    """Return whether the present search is only planned (`dry_run`)."""
    return _planning.get()


def refuse_dry_run(name: str) -> None:
    """Raise `ConfigurationError` in a dry run of a call that has no plan, before it writes anything."""
    if is_dry_run():
        raise ConfigurationError(
            f"{name} has no plan: give a call that searches, such as LRFinder.grid, OptFinder.find, "
            "AgentFinder.find, tune or run_file."
        )


def dry_run(search: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> SearchPlan:
    """Return the plan of a search with its estimated time and memory, and write nothing.

    The agents are built as the search would build them, and trained for a few seconds to measure their speed.

    Args:
        search: The call that would search, such as ``LRFinder("ppo", "CartPole-v1").grid`` or `finder.tune`.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Raises:
        ConfigurationError: The call does not search, a name is unknown, or a run failed while it was measured.
        StudyError: The search could not be started, for example because its budget is too small.
    """
    if not callable(search):
        raise ConfigurationError(
            f"dry_run plans a function, but got the type {type(search).__name__}: give the function and its arguments, "
            "such as dry_run(finder.tune, 'ppo', 'CartPole-v1'), not dry_run(finder.tune(...)), which searches."
        )
    token = _planning.set(True)
    try:
        search(*args, **kwargs)
    except PlanMade as made:
        return made.plan
    finally:
        _planning.reset(token)
    name = getattr(search, "__qualname__", repr(search))
    raise ConfigurationError(f"{name} ended without a search, so that there is no plan.")
