"""Timeouts of calls to database servers, also for servers that are stopped with open connections.

Failures that the operating system and the server can detect are configured by options of the driver. The host of a
stopped server still acknowledges packets, so that the client has to measure time itself.
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
"""Timeout of a connection attempt in seconds."""

IDLE_SECONDS = 30.0
"""Seconds for which a server keeps the locks of a client that stopped within a transaction.

Other processes wait for these locks. The leases of such a client expire after a minute, and processes that take them
over need the locks.
"""

_POSTGRESQL: dict[str, Any] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def options_of_server(url: str, retry_policy: RetryPolicy) -> dict[str, Any]:
    """Return the arguments of `sqlalchemy.create_engine` that set the timeouts of a server.

    Args:
        url: SQLAlchemy URL. Its own timeouts take precedence.
        retry_policy: Policy with the current timeout of calls.
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
    return {"pool_pre_ping": True, "connect_args": own, **module, **_isolation(parsed)}


def _isolation(url: sa.URL) -> dict[str, str]:
    """Return the isolation level of MySQL: READ COMMITTED, the default of PostgreSQL.

    Under its own default, REPEATABLE READ, a write locks all rows that it reads and the gaps between them: a process
    that renews its leases would wait for all others.
    """
    return {"isolation_level": "READ COMMITTED"} if url.get_backend_name() in ("mysql", "mariadb") else {}


def session_timeouts(engine: sa.Engine) -> list[str]:
    """Return statements that start a session, with which a server cancels abandoned work by itself.

    They are not connection options, because connection poolers reject these.
    """
    if engine.dialect.name == "postgresql":
        seconds = {"statement_timeout": _statement_seconds(), "idle_in_transaction_session_timeout": IDLE_SECONDS}
        own_options = str(engine.url.query.get("options", ""))
        return [
            f"SET {name} TO {math.ceil(1_000 * own)}"
            for name, own in seconds.items()
            if own and name not in own_options
        ]
    if engine.dialect.name in ("mysql", "mariadb"):
        # MySQL has no timeout of idle transactions, only of sessions, which are reopened when needed.
        name = "idle_transaction_timeout" if getattr(engine.dialect, "is_mariadb", False) else "wait_timeout"
        return [f"SET SESSION {name} = {math.ceil(IDLE_SECONDS)}"]
    return []


def _statement_seconds() -> float:
    """Return the statement timeout of PostgreSQL; 0 for none, if calls are not retried."""
    seconds = retry_seconds()
    return max(seconds, CALL_SECONDS) if seconds else 0.0


def _limited_psycopg(retry_policy: RetryPolicy, has_own_limit: bool) -> types.ModuleType:
    """Return psycopg with connections that are closed when a server has been silent for the timeout of a call."""
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
    """Run a generator of psycopg, and give up when the server has been silent for too long."""
    import psycopg

    received_at = time.monotonic()
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            now = time.monotonic()
            if ready:
                received_at = now
            elif now - received_at >= (limit := retry_policy.silence_seconds):
                connection.close()  # the answer may still arrive, and is discarded
                raise psycopg.OperationalError(f"the server has not answered for {limit:.3g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value
