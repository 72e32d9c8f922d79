"""How a study was begun: by a command, by a file or from Python. Advice is given in the words of that interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

ORIGIN_ATTR = "finder_begun"
"""Study attribute: how it was begun, as JSON; kept before its first trial, so that a killed study has it too."""


@dataclass(frozen=True, slots=True)
class StudyOrigin:
    """How a study was begun.

    Attributes:
        by: The interface: ``"command"``, ``"file"`` or ``"python"``.
        words: The words of the command that searches or that runs the file, without where the study is kept: a URL may
            have a password in it. Empty for Python.
    """

    by: Literal["command", "file", "python"]
    words: tuple[str, ...] = ()


_current: ContextVar[StudyOrigin | None] = ContextVar("begun", default=None)


@contextmanager
def started_by(begun: StudyOrigin) -> Iterator[None]:
    """For as long as the block lasts, studies that are created are kept as begun so; an outer block decides."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(begun)
    try:
        yield
    finally:
        _current.reset(token)


def store_origin(study: OpenStudy) -> None:
    """Keeps in a study without trials how it was begun, where it is not known: later calls may only add to it."""
    if ORIGIN_ATTR in study.study.user_attrs or study.all_trials():
        return
    study.study.set_user_attr(ORIGIN_ATTR, asdict(_current.get() or StudyOrigin("python")))


def read_origin(study: OpenStudy) -> StudyOrigin | None:
    """Returns how a study was begun; None for one of an earlier version."""
    kept: Mapping[str, Any] | None = study.study.user_attrs.get(ORIGIN_ATTR)
    return None if kept is None else StudyOrigin(kept["by"], tuple(kept["words"]))
