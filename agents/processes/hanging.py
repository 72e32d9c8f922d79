"""The environment call in progress, so that a call that does not return can be named and ended."""

from __future__ import annotations


class HungError(RuntimeError):
    """A step of the environments or an update did not return in time."""


class CallRecord:
    """The environment call that this process is in.

    Vector environments record each call here, per environment copy where copies are stepped one after another. A
    watchdog checks whether the record changes.

    Attributes:
        n_calls: Number of calls started so far.
        call: Name of the method in progress, empty between two steps.
        environment: Label of the environment.
        copy: Index of the environment copy being called, over all members; None where all are called at once.
        n_copies: Number of environment copies of all members.
        of_member: Number of environment copies per member.
    """

    def __init__(self) -> None:
        self.n_calls = 0
        self.call = self.environment = ""
        self.copy: int | None = None
        self.n_copies = self.of_member = 1

    def begin(self, call: str, copy: int | None = None) -> None:
        """Record that a call starts."""
        self.call, self.copy = call, copy
        self.n_calls += 1

    def end(self) -> None:
        """Record that the call has returned."""
        self.call, self.copy = "", None

    @property
    def position(self) -> int | None:
        """Position of the member whose copy is being called, among the running members; None if unknown."""
        return None if self.copy is None else self.copy // self.of_member

    @property
    def members_left(self) -> int:
        """Number of members whose copies are still to be called in this step."""
        position = self.position
        return 0 if position is None else self.n_copies // self.of_member - position - 1

    def message(self, seconds: float) -> str:
        """Return the message for a call that did not return for `seconds`."""
        advice = "If it is only slow, give it more time (--hang-seconds; in Python hang_seconds)."
        if not self.call:
            return f"Nothing came back for {seconds:g} s: the environment or the agent hangs. {advice}"
        which = "" if self.copy is None else f" (copy {self.copy % self.of_member})"
        return f"{self.call}() of {self.environment!r}{which} did not return for {seconds:g} s. {advice}"


under_way = CallRecord()
"""The record of this process. Environments are stepped in one thread at a time."""
