"""The functions of batchq, one async function each: the only place with SQL.

Connection first, then the SQL function's own arguments by their own names; one that is None is not
sent, so its default is the database's. Nothing here commits, retries or opens a transaction: a call
is part of whatever the caller's connection is in. JSON goes in as Python values and comes out as
bytes; a time beyond Python's years comes out as the nearest datetime. Errors are those of
`pybatchq.errors`; whatever else the database says is left as it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import psycopg
import psycopg.rows
from psycopg.types.datetime import TimestamptzBinaryLoader

from pybatchq import jsontext
from pybatchq.errors import InvalidArgumentError, translate
from pybatchq.types import (
    EnqueuedJob,
    ErrorCode,
    ExtendedLease,
    InstalledVersion,
    JobId,
    JobRecord,
    JobSummary,
    LeasedJob,
    LostLease,
    Maintained,
    QueueStats,
    WorkItem,
)

Connection: TypeAlias = psycopg.AsyncConnection[Any]
Ids: TypeAlias = Sequence[int]
R = TypeVar("R")

# Where a value is sent as text and read by the server as this type.
_SENT_AS = {
    "backoff_base": "interval",
    "backoff_cap": "interval",
    "backoff_factor": "double precision",
    "created_after": "timestamptz",
    "created_before": "timestamptz",
    "dedupe_for": "interval",
    "delay": "interval",
    "delays": "interval[]",
    "dry_run": "boolean",
    "failed_after": "timestamptz",
    "failed_before": "timestamptz",
    "finished_before": "timestamptz",
    "headers": "jsonb",
    "jobs": "jsonb",
    "lease_for": "interval",
    "max_attempts": "integer",
    "n": "integer",
    "payload": "jsonb",
    "per_second": "double precision",
    "permanent": "boolean",
    "permanents": "boolean[]",
    "priority": "integer",
    "progress": "jsonb",
    "reset": "boolean",
    "result": "jsonb",
    "results": "text[]::jsonb[]",
    "retry_in": "interval",
    "retry_ins": "interval[]",
    "run_at": "timestamptz",
    "timeout": "interval",
}
_BIGINTS = ("job_id", "lease_id", "before_id")
_BIGINT_LISTS = (
    "job_ids", "lease_ids", "completed_ids", "completed_leases", "failed_ids", "failed_leases",
    "released_ids", "released_leases",
)  # fmt: skip
_TEXT_LISTS = ("errors", "queues")
_SENT_AS.update(dict.fromkeys(_BIGINTS, "bigint"), **dict.fromkeys(_BIGINT_LISTS, "bigint[]"))
# What these take; 1.5 would be rounded, 5 taken for a text, and neither be what was meant.
_TAKES: dict[str, tuple[type, ...]] = {
    "bigint": (int,),
    "boolean": (bool,),
    "double precision": (int, float),
    "integer": (int,),
    "interval": (timedelta, str),
    "text": (str,),
    "timestamptz": (datetime, str),
}
_WORK_ITEM = (
    "event, job_id, lease_id, extract(epoch from lease_until - clock_timestamp())::float8, "
    "queue, kind, payload, attempt, max_attempts, extract(epoch from timeout)::float8, headers"
)


async def enqueue(
    conn: Connection,
    kind: str,
    payload: Any = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    delay: timedelta | None = None,
    max_attempts: int | None = None,
    timeout: timedelta | None = None,  # noqa: ASYNC109  # the job's, not this call's
    dedupe_key: str | None = None,
    dedupe_scope: str | None = None,
    dedupe_for: timedelta | None = None,
    on_duplicate: str | None = None,
    backoff: str | None = None,
    backoff_base: timedelta | None = None,
    backoff_factor: float | None = None,
    backoff_cap: timedelta | None = None,
    backoff_jitter: str | None = None,
    headers: Mapping[str, Any] | None = None,
) -> JobId:
    """Add a job in the caller's transaction; the id of it, or of the one that holds its key."""
    row = await _one(
        conn,
        "enqueue",
        kind=kind,
        payload=None if payload is None else jsontext.encode(payload),
        queue=queue,
        priority=priority,
        run_at=run_at,
        delay=delay,
        max_attempts=max_attempts,
        timeout=timeout,
        dedupe_key=dedupe_key,
        dedupe_scope=dedupe_scope,
        dedupe_for=dedupe_for,
        on_duplicate=on_duplicate,
        backoff=backoff,
        backoff_base=backoff_base,
        backoff_factor=backoff_factor,
        backoff_cap=backoff_cap,
        backoff_jitter=backoff_jitter,
        headers=None if headers is None else jsontext.encode(headers),
    )
    return JobId(row[0])


async def enqueue_many(conn: Connection, *, jobs: Iterable[Mapping[str, Any]]) -> list[EnqueuedJob]:
    """Add many jobs, all or none. Each is a mapping of enqueue's arguments by name."""
    rows = await _rows(conn, "enqueue_many", jobs=jsontext.encode([_spec(job) for job in jobs]))
    return [EnqueuedJob(*row) for row in rows]


async def cancel(conn: Connection, *, job_id: int, reason: str | None = None) -> str:
    """`cancelled`, or `running` if it was asked to stop."""
    return str((await _one(conn, "cancel", job_id=job_id, reason=reason))[0])


async def lease(
    conn: Connection,
    *,
    queue: str | None = None,
    n: int | None = None,
    worker: str | None = None,
    lease_for: timedelta | None = None,
) -> list[LeasedJob]:
    """The best ready jobs of a queue, each with the right to run it."""
    rows = await _rows(conn, "lease", queue=queue, n=n, worker=worker, lease_for=lease_for)
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
    rows = await _rows(
        conn, "lease_from", queues=list(queues), n=n, worker=worker, lease_for=lease_for
    )
    return [LeasedJob(*row) for row in rows]


async def complete(conn: Connection, *, job_id: int, lease_id: int, result: Any = None) -> str:
    """LeaseLostError if the job is no longer the caller's."""
    text = None if result is None else jsontext.encode(result)
    return str((await _one(conn, "complete", job_id=job_id, lease_id=lease_id, result=text))[0])


async def complete_many(
    conn: Connection,
    *,
    job_ids: Ids,
    lease_ids: Ids,
    results: Sequence[Any] | None = None,
) -> list[LostLease]:
    """Those that were not settled."""
    rows = await _rows(
        conn, "complete_many", job_ids=job_ids, lease_ids=lease_ids, results=_texts(results)
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
    row = await _one(
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
    rows = await _rows(
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
    return str((await _one(conn, "release", job_id=job_id, lease_id=lease_id))[0])


async def release_many(conn: Connection, *, job_ids: Ids, lease_ids: Ids) -> list[LostLease]:
    """Those that were not settled."""
    rows = await _rows(conn, "release_many", job_ids=job_ids, lease_ids=lease_ids)
    return [LostLease(*row) for row in rows]


async def snooze(conn: Connection, *, job_id: int, lease_id: int, delay: timedelta) -> str:
    """The job's new state: `scheduled`, `ready` or `cancelled`."""
    return str((await _one(conn, "snooze", job_id=job_id, lease_id=lease_id, delay=delay))[0])


async def snooze_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, delays: Sequence[timedelta | None]
) -> list[LostLease]:
    """Those that were not settled."""
    rows = await _rows(
        conn, "snooze_many", job_ids=job_ids, lease_ids=lease_ids, delays=list(delays)
    )
    return [LostLease(*row) for row in rows]


async def extend(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, lease_for: timedelta | None = None
) -> list[ExtendedLease]:
    """The heartbeat: one answer for each lease, in no particular order."""
    rows = await _rows(conn, "extend", job_ids=job_ids, lease_ids=lease_ids, lease_for=lease_for)
    return [ExtendedLease(*row) for row in rows]


async def progress(conn: Connection, *, job_id: int, lease_id: int, progress: Any) -> None:
    """LeaseLostError if the job is no longer the caller's."""
    text = jsontext.encode(progress)
    await _one(conn, "progress", job_id=job_id, lease_id=lease_id, progress=text)


async def progress_many(
    conn: Connection, *, job_ids: Ids, lease_ids: Ids, progress: Sequence[Any]
) -> list[LostLease]:
    """Those that were not written."""
    rows = await _rows(
        conn,
        "progress_many",
        sent_as={"progress": "text[]::jsonb[]"},
        job_ids=job_ids,
        lease_ids=lease_ids,
        progress=_texts(progress),
    )
    return [LostLease(*row) for row in rows]


async def assert_lease(conn: Connection, *, job_id: int, lease_id: int) -> datetime:
    """Until when; holds the lease until the caller's transaction ends. LeaseLostError if lost."""
    lease_until: datetime = (await _one(conn, "assert_lease", job_id=job_id, lease_id=lease_id))[0]
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
    rows = await _rows(
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
    return bool((await _one(conn, "park", queues=list(queues)))[0])


async def unpark(conn: Connection, *, queues: Sequence[str]) -> None:
    """On the LISTEN connection, once awake."""
    await _one(conn, "unpark", queues=list(queues))


async def bell_pending(conn: Connection, *, queues: Sequence[str]) -> bool:
    """After park and a look: True if an enqueue is under way that may have missed the parking."""
    return bool((await _one(conn, "bell_pending", queues=list(queues)))[0])


async def next_due(conn: Connection, *, queues: Sequence[str]) -> timedelta | None:
    """The time until the earliest scheduled job is due."""
    wait: timedelta | None = (await _one(conn, "next_due", queues=list(queues)))[0]
    return wait


async def reap(conn: Connection, *, n: int | None = None) -> int:
    """How many expired leases were taken back."""
    return int((await _one(conn, "reap", n=n))[0])


async def maintain(conn: Connection) -> list[Maintained]:
    """One bounded step of everything periodic that is due."""
    return [Maintained(*row) for row in await _rows(conn, "maintain")]


async def set_queue(
    conn: Connection,
    *,
    queue: str,
    max_attempts: int | None = None,
    timeout: timedelta | None = None,  # noqa: ASYNC109  # the jobs', not this call's
    lease_for: timedelta | None = None,
    backoff: str | None = None,
    backoff_base: timedelta | None = None,
    backoff_factor: float | None = None,
    backoff_cap: timedelta | None = None,
    backoff_jitter: str | None = None,
    reset: bool | None = None,
) -> None:
    """Set defaults of a queue; None leaves one as it is."""
    await _one(
        conn,
        "set_queue",
        queue=queue,
        max_attempts=max_attempts,
        timeout=timeout,
        lease_for=lease_for,
        backoff=backoff,
        backoff_base=backoff_base,
        backoff_factor=backoff_factor,
        backoff_cap=backoff_cap,
        backoff_jitter=backoff_jitter,
        reset=reset,
    )


async def pause(conn: Connection, *, queue: str, reason: str | None = None) -> None:
    """Stop leasing from a queue."""
    await _one(conn, "pause", queue=queue, reason=reason)


async def resume(conn: Connection, *, queue: str) -> None:
    """Lease from a paused queue again. QueueNotFoundError if there is none of this name."""
    await _one(conn, "resume", queue=queue)


async def redrive(
    conn: Connection,
    *,
    job_ids: Ids | None = None,
    queue: str | None = None,
    kind: str | None = None,
    failed_after: datetime | None = None,
    failed_before: datetime | None = None,
    n: int | None = None,
    per_second: float | None = None,
    dry_run: bool | None = None,
) -> int:
    """How many dead letters were put back, or would be."""
    row = await _one(
        conn,
        "redrive",
        job_ids=job_ids,
        queue=queue,
        kind=kind,
        failed_after=failed_after,
        failed_before=failed_before,
        n=n,
        per_second=per_second,
        dry_run=dry_run,
    )
    return int(row[0])


async def purge(
    conn: Connection,
    *,
    job_ids: Ids | None = None,
    status: str | None = None,
    queue: str | None = None,
    kind: str | None = None,
    finished_before: datetime | None = None,
    n: int | None = None,
    dry_run: bool | None = None,
) -> int:
    """How many jobs were forgotten, or would be."""
    row = await _one(
        conn,
        "purge",
        job_ids=job_ids,
        status=status,
        queue=queue,
        kind=kind,
        finished_before=finished_before,
        n=n,
        dry_run=dry_run,
    )
    return int(row[0])


async def get_job(conn: Connection, *, job_id: int) -> JobRecord:
    """JobNotFoundError if there is none."""
    return JobRecord(*await _one(conn, "get_job", job_id=job_id))


async def list_jobs(
    conn: Connection,
    *,
    status: str | None = None,
    state: str | None = None,
    kind: str | None = None,
    queue: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    n: int | None = None,
    before_id: int | None = None,
) -> list[JobSummary]:
    """Newest first; the next page is the one before the lowest id of this one."""
    rows = await _rows(
        conn,
        "list_jobs",
        status=status,
        state=state,
        kind=kind,
        queue=queue,
        created_after=created_after,
        created_before=created_before,
        n=n,
        before_id=before_id,
    )
    return [JobSummary(*row) for row in rows]


async def stats(conn: Connection, *, queue: str | None = None) -> list[QueueStats]:
    """QueueNotFoundError if a queue is named that was never used."""
    return [QueueStats(*row) for row in await _rows(conn, "stats", queue=queue)]


async def version(conn: Connection) -> InstalledVersion:
    """VersionMismatchError where batchq is not installed."""
    return InstalledVersion(*await _one(conn, "version"))


async def errors(conn: Connection) -> list[ErrorCode]:
    """The catalogue of errors."""
    return [ErrorCode(*row) for row in await _rows(conn, "errors")]


async def job_uuid(conn: Connection, *, job_id: int) -> UUID:
    uuid: UUID = (await _one(conn, "job_uuid", job_id=job_id))[0]
    return uuid


async def job_id(conn: Connection, *, job: str) -> JobId:
    """The id of a job from its number or UUID as text."""
    return JobId((await _one(conn, "job_id", job=job))[0])


async def listen(conn: Connection) -> None:
    """Hear the doorbell on this connection from now on."""
    await conn.execute("listen batchq")


async def _one(conn: Connection, function: str, **arguments: Any) -> tuple[Any, ...]:
    return (await _rows(conn, function, **arguments))[0]


async def _rows(
    conn: Connection,
    function: str,
    *,
    select: str = "*",
    sent_as: Mapping[str, str] | None = None,
    **arguments: Any,
) -> list[tuple[Any, ...]]:
    required = _required(function)
    given = {k: v for k, v in arguments.items() if v is not None or k in required}
    for name, value in given.items():
        _check(name, value)
    query = _query(function, select, tuple(given), tuple((sent_as or {}).items()))
    values = [
        _array(value) if name in _BIGINT_LISTS and value is not None else value
        for name, value in given.items()
    ]
    cursor = psycopg.AsyncCursor(conn, row_factory=psycopg.rows.tuple_row)
    cursor.format = psycopg.pq.Format.BINARY
    cursor.adapters.register_loader("timestamptz", _FarTime)
    jsontext.raw_json(cursor.adapters)
    try:
        await cursor.execute(query, values)
        return await cursor.fetchall()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"a text is no Unicode text: {error}") from None
    except psycopg.Error as error:
        translated = translate(error)
        if translated is None:
            raise
        raise translated from error


@lru_cache(maxsize=1024)
def _query(
    function: str, select: str, names: tuple[str, ...], sent_as: tuple[tuple[str, str], ...]
) -> bytes:
    """The text of a call with these arguments. Every piece is a literal of this module."""
    types = {**_SENT_AS, **dict(sent_as)}
    arguments = ", ".join(
        f"{name} => %s::{types[name]}" if name in types else f"{name} => %s" for name in names
    )
    return f"select {select} from batchq.{function}({arguments})".encode()  # noqa: S608


@lru_cache
def _required(function: str) -> frozenset[str]:
    """Arguments that are sent even when they are None, so that the database refuses them."""
    parameters = inspect.signature(globals()[function]).parameters.values()
    return frozenset(p.name for p in parameters if p.default is p.empty)


def _check(name: str, value: Any) -> None:
    """InvalidArgumentError if a single value is of another type than its argument takes."""
    takes = _TAKES.get(_SENT_AS.get(name, "text"))
    if takes is None or value is None or name in _TEXT_LISTS:
        return
    if not isinstance(value, takes) or (isinstance(value, bool) and bool not in takes):
        wanted = " or ".join(kind.__name__ for kind in takes)
        raise InvalidArgumentError(f"{name} must be {wanted}, not {type(value).__name__}")
    _check_zone(name, value)


def _check_zone(name: str, value: Any) -> None:
    """A naive datetime would mean another instant in each session."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise InvalidArgumentError(
            f"{name} has no time zone", hint="datetime.now(UTC) has one; or give delay"
        )


class _FarTime(TimestamptzBinaryLoader):
    """Infinity and what is beyond Python's years 1 to 9999 come as the nearest datetime."""

    def load(self, data: bytes | bytearray | memoryview) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            is_past = bytes(data)[0] & 0x80
            return (datetime.min if is_past else datetime.max).replace(tzinfo=UTC)  # noqa: DTZ901


def _array(ids: Ids) -> str:
    """An array of integers as text: one parameter type whatever the numbers are."""
    return "{" + ",".join(map(str, ids)) + "}"


def _texts(values: Sequence[Any] | None) -> list[str | None] | None:
    if values is None:
        return None
    return [None if value is None else jsontext.encode(value) for value in values]


def _spec(job: Mapping[str, Any]) -> dict[str, Any]:
    """An object of enqueue_many: a timedelta is sent as seconds, None as not given."""
    for name, value in job.items():
        _check_zone(name, value)
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in job.items()
        if value is not None
    }
