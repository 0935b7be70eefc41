"""Leasing, settling, heartbeats and the doorbell: role batchq_worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pybatchq import jsontext
from pybatchq.calls import _call
from pybatchq.calls._call import Connection, Ids, texts
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
    rows = await _call.rows(conn, "lease", queue=queue, n=n, worker=worker, lease_for=lease_for)
    return [LeasedJob(*row) for row in rows]


async def lease_from(
    conn: Connection,
    *,
    queues: Sequence[str],
    n: int | None = None,
    worker: str | None = None,
    lease_for: timedelta | None = None,
) -> list[LeasedJob]:
    """As lease, from several queues in order of preference."""
    rows = await _call.rows(
        conn, "lease_from", queues=list(queues), n=n, worker=worker, lease_for=lease_for
    )
    return [LeasedJob(*row) for row in rows]


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
    rows = await _call.rows(
        conn, "complete_many", job_ids=job_ids, lease_ids=lease_ids, results=texts(results)
    )
    return [LostLease(*row) for row in rows]


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
    rows = await _call.rows(
        conn,
        "fail_many",
        job_ids=job_ids,
        lease_ids=lease_ids,
        errors=list(errors),
        permanents=permanents,
        retry_ins=retry_ins,
    )
    return [LostLease(*row) for row in rows]


async def release(conn: Connection, *, job_id: int, lease_id: int) -> str:
    """The job's new state: `ready` or `cancelled`."""
    return str((await _call.one(conn, "release", job_id=job_id, lease_id=lease_id))[0])


async def release_many(conn: Connection, *, job_ids: Ids, lease_ids: Ids) -> list[LostLease]:
    """Those that were not settled."""
    rows = await _call.rows(conn, "release_many", job_ids=job_ids, lease_ids=lease_ids)
    return [LostLease(*row) for row in rows]


async def snooze(conn: Connection, *, job_id: int, lease_id: int, delay: timedelta) -> str:
    """The job's new state: `scheduled`, `ready` or `cancelled`."""
    return str((await _call.one(conn, "snooze", job_id=job_id, lease_id=lease_id, delay=delay))[0])


async def snooze_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, delays: Sequence[timedelta | None]
) -> list[LostLease]:
    """Those that were not settled."""
    rows = await _call.rows(
        conn, "snooze_many", job_ids=job_ids, lease_ids=lease_ids, delays=list(delays)
    )
    return [LostLease(*row) for row in rows]


async def extend(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, lease_for: timedelta | None = None
) -> list[ExtendedLease]:
    """The heartbeat: one answer for each lease, in no particular order."""
    rows = await _call.rows(
        conn, "extend", job_ids=job_ids, lease_ids=lease_ids, lease_for=lease_for
    )
    return [ExtendedLease(*row) for row in rows]


async def progress(conn: Connection, *, job_id: int, lease_id: int, progress: Any) -> None:
    """LeaseLostError if the job is no longer the caller's."""
    text = jsontext.encode(progress)
    await _call.one(conn, "progress", job_id=job_id, lease_id=lease_id, progress=text)


async def progress_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, progress: Sequence[Any]
) -> list[LostLease]:
    """Those that were not written."""
    rows = await _call.rows(
        conn,
        "progress_many",
        sent_as={"progress": "text[]::jsonb[]"},
        job_ids=job_ids,
        lease_ids=lease_ids,
        progress=texts(progress),
    )
    return [LostLease(*row) for row in rows]


async def assert_lease(conn: Connection, *, job_id: int, lease_id: int) -> datetime:
    """Until when; holds the lease until the caller's transaction ends. LeaseLostError if lost."""
    lease_until: datetime = (
        await _call.one(conn, "assert_lease", job_id=job_id, lease_id=lease_id)
    )[0]
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


async def listen(conn: Connection) -> None:
    """Hear the doorbell on this connection from now on."""
    await conn.execute("listen batchq")
