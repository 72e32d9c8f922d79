"""Calls of members one after another. A failure leaves the other members as they were before the call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agents import seeding
from agents.contract.keras_agent import KerasAgent
from agents.errors import MembersFailedError, NotMappableError

State = dict[str, Any]


def one_by_one(
    actors: Sequence[KerasAgent],
    call: Callable[[int], Any],
    state_of: Callable[[KerasAgent], State],
    restore: Callable[[KerasAgent, State], None],
) -> list[Any]:
    """Return the result of a call for each member.

    If it fails for some members, the streams and states of all are restored: the others repeat the call without them.

    Args:
        actors: The members.
        call: The call, of a position.
        state_of: Return a copy of the state that the call changes, besides the random stream.
        restore: Restore such a state.

    Raises:
        MembersFailedError: The call raised an error for some members.
    """
    before = [state_of(actor) for actor in actors]
    results, errors = [], {}
    with seeding.restored_on_error(*(actor.rng for actor in actors)):
        for position in range(len(actors)):
            try:
                results.append(call(position))
            except NotMappableError:
                raise
            except Exception as error:  # noqa: BLE001 - any error of a user's agent is a failure of that member
                errors[position] = error
        if errors:
            for actor, state in zip(actors, before, strict=True):
                restore(actor, state)
            raise MembersFailedError(errors)
    return results
