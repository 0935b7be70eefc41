"""Help for tests, yours and batchq's own: kinds of jobs made for them, and running a queue dry.

    async with testing.Ledger(dsn) as ledger:
        await pybatchq.enqueue(conn, "ledger", {"ms": 5})
        await testing.drain(dsn, testing.registry(ledger))
        assert [run.attempt for run in await ledger.runs()] == [1]

Nothing here is registered by importing it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

import psycopg

from pybatchq import calls
from pybatchq.errors import PermanentError
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.worker import Worker

LOOK_EVERY_S = 0.01
SCHEMA = """
create table if not exists ledger_event (
    at timestamptz not null default clock_timestamp(),
    event text not null,
    job_id bigint not null,
    lease_id bigint not null,
    attempt integer not null,
    worker text not null
);
create or replace view ledger as
select s.job_id, s.attempt, s.worker, s.at as started_at, e.at as ended_at
from ledger_event s
left join ledger_event e
    on e.event = 'end' and e.job_id = s.job_id and e.lease_id = s.lease_id
where s.event = 'start'
"""


class Run(NamedTuple):
    """One run of a handler. `ended_at` is None if it never came to its end."""

    job_id: int
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime | None


class Ledger:
    """A witness that owes nothing to batchq: an append-only table, on a connection of its own.

    The view `ledger` has one row a run of the kind `ledger`.
    """

    def __init__(self, dsn: str, worker: str = "worker") -> None:
        self._dsn = dsn
        self._worker = worker
        self._conn: psycopg.AsyncConnection[tuple[Any, ...]] | None = None

    async def __aenter__(self) -> Self:
        self._conn = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        await self._conn.execute("select pg_advisory_lock(1)")  # workers may start together
        await self._conn.execute(SCHEMA)
        await self._conn.execute("select pg_advisory_unlock(1)")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._conn is not None:
            await self._conn.close()

    async def note(self, event: str, job: Job) -> None:
        """Append one row: `start` or `end` of a run."""
        query = (
            "insert into ledger_event (event, job_id, lease_id, attempt, worker)"
            " values (%s, %s, %s, %s, %s)"
        )
        await self._opened().execute(
            query, (event, job.id, job.lease_id, job.attempt, self._worker)
        )

    async def runs(self) -> list[Run]:
        """Every run, in the order in which they started."""
        cursor = await self._opened().execute("select * from ledger order by started_at, job_id")
        return [Run(*row) for row in await cursor.fetchall()]

    def _opened(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        if self._conn is None:
            raise RuntimeError("use the ledger in `async with`")
        return self._conn


def registry(ledger: Ledger | None = None) -> Registry:
    """A new registry with these kinds; handlers of your own can be added.

    noop: nothing. fail: {"times": how many attempts fail (all), "text": the error, {attempt} in it
    is the attempt's number, "permanent": false}. ledger, if there is one: {"ms": 0} notes its
    start, takes so long, notes its end.
    """
    made = Registry()

    @made.handler("noop")
    async def noop(_payload: Any) -> None:
        pass

    @made.handler("fail")
    async def fail(payload: dict[str, Any], job: Job) -> str:
        if job.attempt > payload.get("times", job.attempt):
            return "succeeded"
        text = str(payload.get("text", "told to fail")).replace("{attempt}", str(job.attempt))
        raise PermanentError(text) if payload.get("permanent") else RuntimeError(text)

    if ledger is not None:

        @made.handler("ledger")
        async def keep(payload: dict[str, Any], job: Job) -> None:
            await ledger.note("start", job)
            await asyncio.sleep(payload.get("ms", 0) / 1000)
            await ledger.note("end", job)

    return made


async def drain(
    dsn: str,
    registry: Registry,
    *,
    queues: Sequence[str] = ("default",),
    timeout_s: float = 30.0,
    **options: Any,
) -> None:
    """Run a Worker (with these options) until no job of its queues is ready, due or running.

    Jobs that are scheduled for later stay where they are. TimeoutError if it takes too long.
    """
    worker = Worker(dsn, queues=queues, registry=registry, **options)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        try:
            async with (
                asyncio.timeout(timeout_s),
                await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn,
            ):
                await conn.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
                while not await _is_dry(conn, queues):  # noqa: ASYNC110  # nothing to wait for
                    await asyncio.sleep(LOOK_EVERY_S)
        finally:
            worker.stop(now=True)


async def _is_dry(conn: calls.Connection, queues: Sequence[str]) -> bool:
    """Nothing ready, running or due, in one snapshot: a job must not slip from one to the other."""
    async with conn.transaction():
        depths = [depth for depth in await calls.stats(conn) if depth.queue in queues]
        if any(depth.ready or depth.leased for depth in depths):
            return False
        due = await calls.next_due(conn, queues=queues)
    return due is None or due.total_seconds() > 0
