"""Connections of a process: opened with patience, replaced when they are lost."""

from __future__ import annotations

import asyncio
import logging
import random
from time import monotonic

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pybatchq import calls
from pybatchq.errors import BatchqError, VersionMismatchError

CONNECT_TIMEOUT_S = 10
ANSWER_S = 5.0
FIRST_PAUSE_S = 0.1
SHORT_PAUSE_S = 2.0
LONG_PAUSE_S = 10.0
# Short pauses for about 20 s: whoever restarts a server wants its workers back at once. And never
# more than 20 attempts in a minute.
SHORT_PAUSES = 15
TELL_EVERY_S = 10.0
REFUSALS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "not permitted")
MIGRATION = 10
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
    """Opens connections to one server, with growing pauses while it cannot be reached.

    For one event loop. `beside`: the connector of another one in this process; while that one
    finds nobody there, this one does not knock as well.
    """

    def __init__(
        self,
        dsn: str,
        name: str,
        *,
        prepare: bool | None = None,
        beside: Connector | None = None,
        program: str = "batchq-worker",
    ) -> None:
        """prepare: use prepared statements; None: unless there is a pooler in between."""
        self._dsn = dsn
        self._name = name
        self._prepare = prepare
        self._beside = beside
        self._program = program
        self._opening = asyncio.Lock()
        self.is_away = False  # whether the last attempt found nobody there
        self.is_pooled = False  # whether something like PgBouncer stands in between
        given = conninfo_to_dict(dsn)
        self._options = {k: v for k, v in KEEPALIVE.items() if k not in given}
        if "," in str(given.get("host", "")):
            self._options.setdefault("target_session_attrs", "read-write")
        self._timeout_s = int(given.get("connect_timeout") or CONNECT_TIMEOUT_S)

    async def connect(self, purpose: str, *, refusable: bool = False) -> calls.Connection:
        """An autocommit connection, however long it takes. Ends by cancellation only.

        One at a time, so that a server that is away is asked once, not once a connection.
        refusable: raise OperationalError when the server answers that it will not have us.
        """
        pauses = Pauses()
        began, told_at = monotonic(), 0.0
        async with self._opening:
            while True:
                await self._let_other_go_first()
                try:
                    conn = await self._open(purpose)
                except psycopg.OperationalError as error:
                    if refusable and _is_refusal(error):
                        raise
                    self.is_away = True
                    if monotonic() > told_at + TELL_EVERY_S:
                        told_at = monotonic()
                        text = " ".join(str(error).split())
                        log.warning("database unreachable: trying again", extra={"error": text})
                    await asyncio.sleep(pauses.next_s())
                else:
                    self.is_away = False
                    if told_at:
                        away_s = round(monotonic() - began, 1)
                        log.info("database is back", extra={"for": purpose, "away_s": away_s})
                    return conn

    async def _let_other_go_first(self) -> None:
        """For a while, and by looking: the other one lives in another event loop."""
        wait_until = monotonic() + 2 * LONG_PAUSE_S
        while self._beside is not None and self._beside.is_away:
            if monotonic() > wait_until:
                return
            await asyncio.sleep(0.1)

    async def _open(self, purpose: str) -> calls.Connection:
        conn: calls.Connection = await psycopg.AsyncConnection.connect(
            self._dsn,
            autocommit=True,
            connect_timeout=self._timeout_s,
            **self._options,  # type: ignore[arg-type]  # libpq's own, all text
            application_name=f"{self._program} {purpose} {self._name}"[:63],
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                # a pooler gives its clients process ids of its own making
                self.is_pooled = await calls.backend_pid(conn) != conn.info.backend_pid
        except TimeoutError:
            await conn.close()
            raise psycopg.OperationalError("the server has fallen silent") from None
        except BaseException:
            await conn.close()
            raise
        if self._prepare is False or (self._prepare is None and self.is_pooled):
            conn.prepare_threshold = None
        return conn


def _is_refusal(error: psycopg.OperationalError) -> bool:
    """Whether a server answered, and waiting will not change its mind.

    libpq does not tell the SQLSTATE of a connection that failed; these are told by their words, and
    in another language one waits.
    """
    text = str(error)
    if "FATAL" not in text:
        return False
    return any(words in text for words in REFUSALS)


async def check_version(conn: calls.Connection) -> None:
    """VersionMismatchError unless the schema fits this client."""
    try:
        installed = await calls.version(conn)
    except (BatchqError, psycopg.OperationalError):
        raise
    except psycopg.Error as error:
        raise VersionMismatchError(
            # without its context, which is a line of SQL
            f"batchq cannot be used on this database: {error.diag.message_primary or error}",
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
