"""Calls of a database server end in time, also where it is stopped and keeps its connections open.

Whatever the operating system and the server itself can notice, they are asked to notice by the driver's options. A
server that is stopped answers the former and does neither: then the client has to look at its clock.
"""

from __future__ import annotations

import math
import time
import types
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa

from studies.database.retries import CALL_SECONDS, RetryPolicy, call_limit, retry_seconds

CONNECT_SECONDS = 10
"""How long it may take to connect."""

IDLE_SECONDS = 30.0
"""How long a server keeps the locks of a process that is stopped or cut off in the middle of a transaction.

Others wait for them, and its leases are over after a minute: those who take these over need the locks.
"""

_POSTGRESQL: dict[str, Any] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def options_of_server(url: str, retry_policy: RetryPolicy) -> dict[str, Any]:
    """Returns the arguments of `sqlalchemy.create_engine` with which a server's calls end in time.

    Args:
        url: The SQLAlchemy URL. What it says of timeouts is kept.
        retry_policy: How long calls may take at the moment.
    """
    parsed = sa.make_url(url)
    arguments: dict[str, Any] = {}
    module: dict[str, Any] = {}
    if parsed.drivername == "postgresql+psycopg":
        arguments = _POSTGRESQL
        module = {"module": _limited_psycopg(retry_policy, "connect_timeout" in parsed.query)}
    elif parsed.drivername == "mysql+pymysql":
        limit = math.ceil(call_limit())
        arguments = {"connect_timeout": min(CONNECT_SECONDS, limit), "read_timeout": limit, "write_timeout": limit}
    own = {name: value for name, value in arguments.items() if name not in parsed.query}
    return {"pool_pre_ping": True, "connect_args": own, **module}


def session_timeouts(engine: sa.Engine) -> list[str]:
    """Returns the statements that begin a session, so that a server ends by itself what nobody waits for any more.

    They are no options of the connection, which poolers refuse.
    """
    if engine.dialect.name == "postgresql":
        seconds = {"statement_timeout": _statement_seconds(), "idle_in_transaction_session_timeout": IDLE_SECONDS}
        told = str(engine.url.query.get("options", ""))
        return [f"SET {name} TO {math.ceil(1_000 * own)}" for name, own in seconds.items() if own and name not in told]
    if engine.dialect.name in ("mysql", "mariadb"):
        # MySQL itself knows no transactions that are idle, only sessions: those are opened again when they are needed.
        name = "idle_transaction_timeout" if getattr(engine.dialect, "is_mariadb", False) else "wait_timeout"
        return [f"SET SESSION {name} = {math.ceil(IDLE_SECONDS)}"]
    return []


def _statement_seconds() -> float:
    """How long PostgreSQL may work on one statement; 0 where nobody waits for a storage, and so for ever."""
    seconds = retry_seconds()
    return max(seconds, CALL_SECONDS) if seconds else 0.0


def _limited_psycopg(retry_policy: RetryPolicy, has_own_limit: bool) -> types.ModuleType:
    """psycopg with connections that are closed when nothing has come for as long as a call may take."""
    import psycopg

    class Limited(psycopg.Connection[Any]):
        def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
            return super().wait(_within(gen, self, retry_policy), *args, **kwargs)

    def connect(*args: Any, **kwargs: Any) -> Limited:
        limit = (
            {} if has_own_limit else {"connect_timeout": min(CONNECT_SECONDS, math.ceil(retry_policy.silence_seconds))}
        )
        return Limited.connect(*args, **{**kwargs, **limit})

    module = types.ModuleType(psycopg.__name__)
    module.__dict__.update(psycopg.__dict__)
    module.__dict__["connect"] = connect
    return module


def _within(gen: Any, connection: Any, retry_policy: RetryPolicy) -> Generator[Any, Any, Any]:
    """Does what one of psycopg's generators does, and gives up when nothing has come for too long."""
    import psycopg

    heard = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                heard = now
            elif now - heard >= (limit := retry_policy.silence_seconds):
                connection.close()  # the answer may still come, to nobody
                raise psycopg.OperationalError(f"the server has not answered for {limit:.3g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value
