"""Calls of environments that are under way, so that one that does not return can be named, and ended."""

from __future__ import annotations


class HungError(TimeoutError):
    """A step of the environments, or an update, did not come back."""


class UnderWay:
    """The call that the environments of this process are in.

    Environments note here what they are asked, copy by copy where they are stepped one after another; a watchdog looks
    whether that changes.

    Attributes:
        n_calls: Calls that have begun so far.
        call: The method that is under way, empty between two steps.
        environment: Label of the environment.
        copy: The copy that is asked, counted over all members; None where all are asked at once.
        n_copies: Copies that there are, of all members.
        of_member: Copies of each member.
    """

    def __init__(self) -> None:
        self.n_calls = 0
        self.call = self.environment = ""
        self.copy: int | None = None
        self.n_copies = self.of_member = 1

    def begin(self, call: str, copy: int | None = None) -> None:
        """Note that a call begins."""
        self.call, self.copy = call, copy
        self.n_calls += 1

    def end(self) -> None:
        """Note that the call has returned."""
        self.call, self.copy = "", None

    @property
    def position(self) -> int | None:
        """Position of the member whose copy is asked, among those that are there; None where that is not known."""
        return None if self.copy is None else self.copy // self.of_member

    @property
    def members_left(self) -> int:
        """Members whose copies are still to be asked in this step."""
        position = self.position
        return 0 if position is None else self.n_copies // self.of_member - position - 1

    def why(self, seconds: float) -> str:
        """Returns what to tell of a call that did not come back for so long."""
        advice = "If it is only slow, give it more time (--hang-seconds)."
        if not self.call:
            return f"Nothing came back for {seconds:g} s: the environment or the agent hangs. {advice}"
        which = "" if self.copy is None else f" (copy {self.copy % self.of_member})"
        return f"{self.call}() of {self.environment!r}{which} did not return for {seconds:g} s. {advice}"


under_way = UnderWay()
"""That of this process. Environments are stepped in one thread at a time."""
