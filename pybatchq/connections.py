"""Connections of a worker: opened with patience, replaced when they are lost."""

from __future__ import annotations

import asyncio
import logging
import random

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pybatchq import calls
from pybatchq.errors import BatchqError, VersionMismatchError

CONNECT_TIMEOUT_S = 10
FIRST_PAUSE_S = 0.1
SHORT_PAUSE_S = 2.0
LONG_PAUSE_S = 10.0
# Short pauses for about 20 s: whoever restarts a server wants its workers back at once. And never
# more than 20 attempts in a minute.
SHORT_PAUSES = 15
MIGRATION = 1
# A peer that vanished without a word is noticed within 25 s, also by a socket nobody writes to.
KEEPALIVE: dict[str, str] = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}

log = logging.getLogger("pybatchq")


class Pauses:
    """How long to wait after one more failure: growing, capped, with jitter."""

    def __init__(self) -> None:
        self._failures = 0

    def next_s(self) -> float:
        if self._failures < SHORT_PAUSES:
            bound = min(SHORT_PAUSE_S, FIRST_PAUSE_S * 2.0**self._failures)
        else:
            bound = LONG_PAUSE_S
        self._failures += 1
        return bound * random.uniform(0.85, 1.0)

    def worked(self) -> None:
        """The next failure is a first one again."""
        self._failures = 0


class Connector:
    """Opens connections to one server, with growing pauses while it cannot be reached."""

    def __init__(self, dsn: str, name: str) -> None:
        self._dsn = dsn
        self._name = name
        self._opening = asyncio.Lock()
        given = conninfo_to_dict(dsn)
        self._options = {k: v for k, v in KEEPALIVE.items() if k not in given}
        if "," in str(given.get("host", "")):
            self._options.setdefault("target_session_attrs", "read-write")
        self._timeout_s = int(given.get("connect_timeout") or CONNECT_TIMEOUT_S)

    async def connect(self, purpose: str) -> calls.Connection:
        """An autocommit connection, however long it takes. Ends by cancellation only.

        One at a time, so that a server that is away is asked once, not once a connection.
        """
        pauses = Pauses()
        async with self._opening:
            while True:
                try:
                    return await psycopg.AsyncConnection.connect(
                        self._dsn,
                        autocommit=True,
                        connect_timeout=self._timeout_s,
                        **self._options,  # type: ignore[arg-type]  # libpq's own, all text
                        application_name=f"batchq-worker {purpose} {self._name}"[:63],
                    )
                except psycopg.OperationalError as error:
                    pause = pauses.next_s()
                    log.warning(
                        "database unreachable: trying again",
                        extra={"pause_s": round(pause, 2), "error": " ".join(str(error).split())},
                    )
                    await asyncio.sleep(pause)


async def check_version(conn: calls.Connection) -> None:
    """VersionMismatchError unless the schema fits this client."""
    try:
        installed = await calls.version(conn)
    except (BatchqError, psycopg.OperationalError):
        raise
    except psycopg.Error as error:
        raise VersionMismatchError(
            f"batchq cannot be used on this database: {error}",
            hint="run `batchq install`, and grant the role of this user",
        ) from error
    if installed.migration < MIGRATION:
        raise VersionMismatchError(
            f"the schema is at migration {installed.migration}, this client needs {MIGRATION}",
            hint="run `batchq install` on this database",
        )


def is_connection_loss(error: BaseException) -> bool:
    """Whether a new connection may help: it broke, or the server it leads to takes no writes.

    25006 is a server that was demoted (read-only), 0A000 a plan that no longer fits its tables.
    Class 54, a limit of the server, is refused by every connection alike.
    """
    state = (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | TimeoutError):
        return not state.startswith("54")
    return state in {"25006", "0A000"}
