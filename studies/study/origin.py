"""Origin of a study: the latest command, file or Python call that ran all of it. Advice is given in terms of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from studies.study.study import OpenStudy

ORIGIN_ATTR = "finder_begun"
"""Study attribute: origin as JSON; stored when a study is opened to run, so that a killed study has it too."""


Interface = Literal["command", "file", "python"]
"""Interface with which a study was run."""


@dataclass(frozen=True, slots=True)
class StudyOrigin:
    """Origin of a study.

    Attributes:
        by: Interface: ``"command"``, ``"file"`` or ``"python"``.
        words: Words of the command that searches or runs the file, without the storage, whose URL may contain a
            password. Empty for Python.
    """

    by: Interface
    words: tuple[str, ...] = ()


_current: ContextVar[StudyOrigin | None] = ContextVar("origin", default=None)


@contextmanager
def started_by(origin: StudyOrigin) -> Iterator[None]:
    """Set the origin of studies that are run within the block; the outermost block counts."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def store_origin(study: OpenStudy, *, is_whole: bool = True) -> None:
    """Store the present origin in a study that this process is about to run.

    Args:
        study: The study.
        is_whole: Whether the present call has all trials that are planned. Where it only adds some, an earlier origin
            remains. Defaults to True.
    """
    origin, earlier = _current.get() or StudyOrigin("python"), read_origin(study)
    if origin != earlier and (is_whole or earlier is None):
        study.study.set_user_attr(ORIGIN_ATTR, asdict(origin))


def read_origin(study: OpenStudy) -> StudyOrigin | None:
    """Return the origin of a study; None if an earlier version ran it, or for one that names another interface."""
    kept: Any = study.study.user_attrs.get(ORIGIN_ATTR)
    if not isinstance(kept, Mapping) or kept.get("by") not in get_args(Interface):
        return None
    words = kept.get("words")
    return StudyOrigin(kept["by"], tuple(map(str, words)) if isinstance(words, list) else ())
