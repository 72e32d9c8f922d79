"""JSON messages between a server of `studies.servers.proxy` and its clients, for Finder's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from studies.database.leases import Lease
from studies.database.records import EpisodeRecord
from studies.statistics.bounds import ReturnExtremes

PATH = "/finder.Tables/Call"
"""gRPC method of all calls."""

CALLS = {
    "episodes": ("add", "curve", "curves", "return_extremes", "delete"),
    "names": ("rename",),
    "leases": ("take", "renew", "release", "held", "epochs", "delete"),
}
"""Table -> methods that clients may call."""

_TUPLES: Mapping[str, type[Any]] = {"lease": Lease, "return_extremes": ReturnExtremes}
"""Tag -> named tuple that it marks."""

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""Options of servers and channels that remove the limit on message sizes."""


def encoded(value: Any) -> Any:
    """Return a value as JSON, with tags for types that JSON lacks."""
    if isinstance(value, EpisodeRecord):
        return {"episode": list(asdict(value).values())}
    for tag, kind in _TUPLES.items():
        if isinstance(value, kind):
            return {tag: list(value)}
    if isinstance(value, Mapping):
        return {"mapping": [[encoded(key), encoded(each)] for key, each in value.items()]}
    if isinstance(value, set | frozenset):
        return {"set": [encoded(each) for each in value]}
    if isinstance(value, list | tuple):
        return [encoded(each) for each in value]
    return value


def decoded(value: Any) -> Any:
    """Return the value that `encoded` serialized."""
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    [(mark, content)] = value.items()
    if mark == "episode":
        return EpisodeRecord(**dict(zip(EpisodeRecord.__dataclass_fields__, content, strict=True)))
    if mark in _TUPLES:
        return _TUPLES[mark](*content)
    if mark == "set":
        return {decoded(each) for each in content}
    return {decoded(key): decoded(each) for key, each in content}
