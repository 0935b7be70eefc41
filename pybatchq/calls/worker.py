"""Leasing, settling, heartbeats and the doorbell: role batchq_worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import psycopg.rows
from psycopg import sql

from pybatchq import jsontext
from pybatchq.calls import _call
from pybatchq.calls._call import Connection, Ids, texts
from pybatchq.errors import translate
from pybatchq.types import (
    ExtendedLease,
    LeasedJob,
    LostLease,
    WorkItem,
)

_WORK_ITEM = (
    "event, job_id, lease_id, extract(epoch from lease_until - clock_timestamp())::float8, "
    "queue, kind, payload, attempt, max_attempts, extract(epoch from timeout)::float8, headers"
)


async def lease(
    conn: Connection,
    *,
    queue: str | None = None,
    n: int | None = None,
    worker: str | None = None,
    lease_for: timedelta | None = None,
) -> list[LeasedJob]:
    """The best ready jobs of a queue, each with the right to run it."""
    return await _call.records(
        conn, LeasedJob, "lease", queue=queue, n=n, worker=worker, lease_for=lease_for
    )


async def lease_from(
    conn: Connection,
    *,
    queues: Sequence[str],
    n: int | None = None,
    worker: str | None = None,
    lease_for: timedelta | None = None,
) -> list[LeasedJob]:
    """As lease, from several queues in order of preference."""
    return await _call.records(
        conn, LeasedJob, "lease_from", queues=list(queues), n=n, worker=worker, lease_for=lease_for
    )


async def complete(conn: Connection, *, job_id: int, lease_id: int, result: Any = None) -> str:
    """LeaseLostError if the job is no longer the caller's."""
    text = None if result is None else jsontext.encode(result)
    return str(
        (await _call.one(conn, "complete", job_id=job_id, lease_id=lease_id, result=text))[0]
    )


async def complete_many(
    conn: Connection,
    *,
    job_ids: Ids,
    lease_ids: Ids,
    results: Sequence[Any] | None = None,
) -> list[LostLease]:
    """Those that were not settled."""
    return await _call.records(
        conn,
        LostLease,
        "complete_many",
        job_ids=job_ids,
        lease_ids=lease_ids,
        results=texts(results),
    )


async def fail(
    conn: Connection,
    *,
    job_id: int,
    lease_id: int,
    error: str,
    permanent: bool | None = None,
    retry_in: timedelta | None = None,
) -> str:
    """The job's new state: `scheduled`, `failed` or `cancelled`."""
    row = await _call.one(
        conn,
        "fail",
        job_id=job_id,
        lease_id=lease_id,
        error=error,
        permanent=permanent,
        retry_in=retry_in,
    )
    return str(row[0])


async def fail_many(
    conn: Connection,
    *,
    job_ids: Ids,
    lease_ids: Ids,
    errors: Sequence[str],
    permanents: Sequence[bool | None] | None = None,
    retry_ins: Sequence[timedelta | None] | None = None,
) -> list[LostLease]:
    """Those that were not settled."""
    return await _call.records(
        conn,
        LostLease,
        "fail_many",
        job_ids=job_ids,
        lease_ids=lease_ids,
        errors=list(errors),
        permanents=permanents,
        retry_ins=retry_ins,
    )


async def release(conn: Connection, *, job_id: int, lease_id: int) -> str:
    """The job's new state: `ready` or `cancelled`."""
    return str((await _call.one(conn, "release", job_id=job_id, lease_id=lease_id))[0])


async def release_many(conn: Connection, *, job_ids: Ids, lease_ids: Ids) -> list[LostLease]:
    """Those that were not settled."""
    return await _call.records(
        conn, LostLease, "release_many", job_ids=job_ids, lease_ids=lease_ids
    )


async def snooze(conn: Connection, *, job_id: int, lease_id: int, delay: timedelta) -> str:
    """The job's new state: `scheduled`, `ready` or `cancelled`."""
    return str((await _call.one(conn, "snooze", job_id=job_id, lease_id=lease_id, delay=delay))[0])


async def snooze_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, delays: Sequence[timedelta | None]
) -> list[LostLease]:
    """Those that were not settled."""
    return await _call.records(
        conn, LostLease, "snooze_many", job_ids=job_ids, lease_ids=lease_ids, delays=list(delays)
    )


async def extend(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, lease_for: timedelta | None = None
) -> list[ExtendedLease]:
    """The heartbeat: one answer for each lease, in no particular order."""
    return await _call.records(
        conn, ExtendedLease, "extend", job_ids=job_ids, lease_ids=lease_ids, lease_for=lease_for
    )


async def progress(conn: Connection, *, job_id: int, lease_id: int, progress: Any) -> None:
    """LeaseLostError if the job is no longer the caller's."""
    text = jsontext.encode(progress)
    await _call.one(conn, "progress", job_id=job_id, lease_id=lease_id, progress=text)


async def progress_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, progress: Sequence[Any]
) -> list[LostLease]:
    """Those that were not written."""
    return await _call.records(
        conn,
        LostLease,
        "progress_many",
        sent_as={"progress": "text[]::jsonb[]"},
        job_ids=job_ids,
        lease_ids=lease_ids,
        progress=texts(progress),
    )


async def assert_lease(conn: Connection, *, job_id: int, lease_id: int) -> datetime:
    """Until when; holds the lease until the caller's transaction ends. LeaseLostError if lost."""
    lease_until: datetime = (
        await _call.one(conn, "assert_lease", job_id=job_id, lease_id=lease_id)
    )[0]
    return lease_until


def assert_lease_sync(conn: psycopg.Connection[Any], *, job_id: int, lease_id: int) -> datetime:
    """As assert_lease, for handlers that run in a thread with a connection of their own."""
    query = "select batchq.assert_lease(%s::bigint, %s::bigint)"
    try:
        with psycopg.Cursor(conn, row_factory=psycopg.rows.tuple_row) as cursor:
            lease_until: datetime = cursor.execute(query, (job_id, lease_id)).fetchall()[0][0]
    except psycopg.Error as error:
        translated = translate(error)
        if translated is None:
            raise
        raise translated from error
    return lease_until


async def settle_and_lease(
    conn: Connection,
    *,
    queues: Sequence[str] | None = None,
    n: int | None = None,
    worker: str | None = None,
    lease_for: timedelta | None = None,
    completed_ids: Ids | None = None,
    completed_leases: Ids | None = None,
    results: Sequence[str | None] | None = None,
    failed_ids: Ids | None = None,
    failed_leases: Ids | None = None,
    errors: Sequence[str] | None = None,
    permanents: Sequence[bool | None] | None = None,
    retry_ins: Sequence[timedelta | None] | None = None,
    released_ids: Ids | None = None,
    released_leases: Ids | None = None,
    delays: Sequence[timedelta | None] | None = None,
) -> list[WorkItem]:
    """A worker's loop in one round trip. `results` are JSON texts already."""
    rows = await _call.rows(
        conn,
        "settle_and_lease",
        select=_WORK_ITEM,
        queues=None if queues is None else list(queues),
        n=n,
        worker=worker,
        lease_for=lease_for,
        completed_ids=completed_ids,
        completed_leases=completed_leases,
        results=results,
        failed_ids=failed_ids,
        failed_leases=failed_leases,
        errors=errors,
        permanents=permanents,
        retry_ins=retry_ins,
        released_ids=released_ids,
        released_leases=released_leases,
        delays=delays,
    )
    return [WorkItem(*row) for row in rows]


async def park(conn: Connection, *, queues: Sequence[str]) -> bool:
    """On the LISTEN connection, before sleeping. False: a lock was busy, poll instead."""
    return bool((await _call.one(conn, "park", queues=list(queues)))[0])


async def unpark(conn: Connection, *, queues: Sequence[str]) -> None:
    """On the LISTEN connection, once awake."""
    await _call.one(conn, "unpark", queues=list(queues))


async def bell_pending(conn: Connection, *, queues: Sequence[str]) -> bool:
    """After park and a look: True if an enqueue is under way that may have missed the parking."""
    return bool((await _call.one(conn, "bell_pending", queues=list(queues)))[0])


async def next_due(conn: Connection, *, queues: Sequence[str]) -> timedelta | None:
    """The time until the earliest scheduled job is due."""
    wait: timedelta | None = (await _call.one(conn, "next_due", queues=list(queues)))[0]
    return wait


async def listen(conn: Connection, *, channel: str = "batchq") -> None:
    """Hear the doorbell on this connection from now on."""
    await conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))


async def unlisten(conn: Connection, *, channel: str) -> None:
    """Hear it no more."""
    await conn.execute(sql.SQL("unlisten {}").format(sql.Identifier(channel)))


async def notify(conn: Connection, *, channel: str) -> None:
    """Ring: to try whether a connection hears."""
    await conn.execute("select pg_notify(%s, '')", (channel,))


async def backend_pid(conn: Connection) -> int:
    """The process that serves this connection, as it says itself."""
    return int((await (await conn.execute("select pg_backend_pid()")).fetchall())[0][0])


async def beat_worker(
    conn: Connection,
    *,
    worker_id: UUID,
    worker: str,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    kinds: Sequence[str],
    concurrency: int,
    running: int,
    memory_bytes: int | None = None,
    stopping: bool | None = None,
) -> bool:
    """Every 30 s or so, to be on the list of workers. `worker_id` is one process's own.

    True if it was asked to take no more jobs and to end.
    """
    row = await _call.one(
        conn,
        "beat_worker",
        worker_id=worker_id,
        worker=worker,
        host=host,
        pid=pid,
        version=version,
        queues=list(queues),
        kinds=list(kinds),
        concurrency=concurrency,
        running=running,
        memory_bytes=memory_bytes,
        stopping=stopping,
    )
    return bool(row[0])


async def drop_worker(conn: Connection, *, worker_id: UUID) -> bool:
    """Off the list, at a clean end. False if it was not there."""
    return bool((await _call.one(conn, "drop_worker", worker_id=worker_id))[0])
