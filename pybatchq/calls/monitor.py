"""Looking: every role of batchq."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args
from uuid import UUID

import msgspec
import psycopg
import psycopg.rows

from pybatchq.calls import _call
from pybatchq.calls._call import Connection, Ids
from pybatchq.live import Alert, Live
from pybatchq.rates import QueueRate, QueueTrend, ThroughputPoint
from pybatchq.types import (
    BreakerInfo,
    DeadError,
    DeadErrors,
    ErrorCode,
    Gate,
    GroupInfo,
    InstalledVersion,
    JobCounters,
    JobId,
    JobPage,
    JobRecord,
    JobState,
    JobSummary,
    KindCounters,
    PeekedJob,
    QueueSettings,
    QueueStats,
    SessionInfo,
    State,
    TokenInfo,
    WorkerInfo,
)

_LIVE = msgspec.json.Decoder(Live)


async def get_job(conn: Connection, *, job_id: int) -> JobRecord:
    """JobNotFoundError if there is none."""
    return (await _call.records(conn, JobRecord, "get_job", job_id=job_id))[0]


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
    dedupe_key: str | None = None,
) -> JobPage:
    """Newest first; the next page is the one below `next_id` of this one."""
    found = await _call.records(
        conn,
        JobSummary,
        "list_jobs",
        status=status,
        state=state,
        kind=kind,
        queue=queue,
        created_after=created_after,
        created_before=created_before,
        n=n,
        before_id=before_id,
        dedupe_key=dedupe_key,
    )
    # a page that is cut short ends with a row that has only an id
    is_cut = bool(found) and found[-1].state not in get_args(State)
    is_full = len(found) == (50 if n is None else n)
    next_id = found[-1].id if is_cut or is_full else None
    return JobPage(found[:-1] if is_cut else found, next_id)


async def counters(conn: Connection) -> JobCounters:
    """What has happened so far, for rates."""
    return (await _call.records(conn, JobCounters, "counters"))[0]


async def kind_counters(conn: Connection, *, queue: str | None = None) -> list[KindCounters]:
    """The same of each queue and kind."""
    return await _call.records(conn, KindCounters, "kind_counters", queue=queue)


async def job_states(conn: Connection, *, job_ids: Ids) -> list[JobState]:
    """Of those that exist, in order of id; at most 10,000."""
    return await _call.records(conn, JobState, "job_states", job_ids=job_ids)


async def list_alerts(conn: Connection) -> list[Alert]:
    """What an operator should know of all queues, the worst first, at most 100."""
    found = await _call.rows(conn, "list_alerts")
    return [
        Alert(alert, severity, queue, since, says, msgspec.json.decode(data))
        for alert, severity, queue, since, says, data in found
    ]


async def live(
    conn: Connection,
    *,
    job_ids: Ids | None = None,
    secret_hashes: Sequence[bytes] | None = None,
) -> Live:
    """What a live view shows, with at most 100 jobs that are watched, and who still may watch."""
    ((found,),) = await _call.rows(
        conn,
        "live",
        job_ids=job_ids,
        secret_hashes=None if secret_hashes is None else list(secret_hashes),
    )
    return _LIVE.decode(found)


async def list_breakers(conn: Connection, *, queue: str | None = None) -> list[BreakerInfo]:
    """Kinds of job that are held back as too many failed, at most 1,000."""
    return await _call.records(conn, BreakerInfo, "list_breakers", queue=queue)


async def list_errors(
    conn: Connection,
    *,
    queue: str | None = None,
    kind: str | None = None,
    n: int | None = None,
) -> DeadErrors:
    """Dead letters by the error they have in common, the most frequent first."""
    found = await _call.records(conn, DeadError, "list_errors", queue=queue, kind=kind, n=n)
    # those that were not looked at are a last row without an error and ids
    others = found.pop().jobs if found and not found[-1].job_ids else 0
    return DeadErrors(found, others)


async def get_queue(conn: Connection, *, queue: str) -> QueueSettings:
    """QueueNotFoundError if it was never used or set up."""
    return (await _call.records(conn, QueueSettings, "get_queue", queue=queue))[0]


async def list_queues(conn: Connection) -> list[QueueSettings]:
    """Every queue that was ever used or set up, in order of name."""
    return await _call.records(conn, QueueSettings, "list_queues")


async def list_groups(conn: Connection, *, queue: str, n: int | None = None) -> list[GroupInfo]:
    """Those with the most blocked jobs first; QueueNotFoundError if there is no such queue."""
    return await _call.records(conn, GroupInfo, "list_groups", queue=queue, n=n)


async def find_token(conn: Connection, *, secret_hash: bytes) -> TokenInfo | None:
    """The token whose secret has this SHA-256; None if there is none, or it is no longer good."""
    found = await _call.records(conn, TokenInfo, "find_token", secret_hash=secret_hash)
    return found[0] if found else None


async def has_tokens(conn: Connection) -> bool:
    """Whether there is a token that is not revoked."""
    return bool((await _call.one(conn, "has_tokens"))[0])


async def open_session(
    conn: Connection,
    *,
    token_hash: bytes,
    session_hash: bytes,
    lasts: timedelta | None = None,
) -> datetime | None:
    """When the new session of a token ends; None if the token is not good."""
    ends_at: datetime | None = (
        await _call.one(
            conn, "open_session", token_hash=token_hash, session_hash=session_hash, lasts=lasts
        )
    )[0]
    return ends_at


async def find_session(conn: Connection, *, secret_hash: bytes) -> SessionInfo | None:
    """The token of the session whose secret has this SHA-256; None unless both are good."""
    found = await _call.records(conn, SessionInfo, "find_session", secret_hash=secret_hash)
    return found[0] if found else None


async def close_session(conn: Connection, *, secret_hash: bytes) -> None:
    """End a session; none is no error."""
    await _call.one(conn, "close_session", secret_hash=secret_hash)


async def act_as(conn: Connection, *, actor: str | None) -> None:
    """Name whoever acts, for the rest of the transaction: list_audit tells it."""
    await _call.one(conn, "act_as", actor=actor)


async def list_workers(conn: Connection, *, n: int | None = None) -> list[WorkerInfo]:
    """Those that are alive first, newest beat first."""
    return await _call.records(conn, WorkerInfo, "list_workers", n=n)


async def explain_job(conn: Connection, *, job_id: int) -> list[Gate]:
    """Why it is not running: the first gate is the answer. JobNotFoundError if there is none."""
    return await _call.records(conn, Gate, "explain_job", job_id=job_id)


async def explain_queue(conn: Connection, *, queue: str) -> list[Gate]:
    """Why its jobs are not running. QueueNotFoundError if it was never used or set up."""
    return await _call.records(conn, Gate, "explain_queue", queue=queue)


async def peek_lease(
    conn: Connection, *, queue: str | None = None, n: int | None = None
) -> list[PeekedJob]:
    """What a lease would give now, best first; nothing is leased."""
    return await _call.records(conn, PeekedJob, "peek_lease", queue=queue, n=n)


async def stats(conn: Connection, *, queue: str | None = None) -> list[QueueStats]:
    """QueueNotFoundError if a queue is named that was never used."""
    return await _call.records(conn, QueueStats, "stats", queue=queue)


async def queue_rates(conn: Connection, *, over: timedelta | None = None) -> list[QueueRate]:
    """None of a queue whose rates are not known."""
    return await _call.records(conn, QueueRate, "queue_rates", over=over)


async def queue_trends(conn: Connection, *, queues: Sequence[str]) -> list[QueueTrend]:
    """What happened in these queues in each minute of the last hour."""
    return await _call.records(conn, QueueTrend, "queue_trends", queues=list(queues))


async def throughput(
    conn: Connection,
    *,
    queue: str | None = None,
    kind: str | None = None,
    since: timedelta | None = None,
    step: timedelta | None = None,
) -> list[ThroughputPoint]:
    """Oldest first; QueueNotFoundError if a queue is named that was never used."""
    return await _call.records(
        conn, ThroughputPoint, "throughput", queue=queue, kind=kind, since=since, step=step
    )


async def version(conn: Connection) -> InstalledVersion:
    """VersionMismatchError where batchq is not installed."""
    return (await _call.records(conn, InstalledVersion, "version"))[0]


async def errors(conn: Connection) -> list[ErrorCode]:
    """The catalogue of errors."""
    return await _call.records(conn, ErrorCode, "errors")


async def now(conn: Connection) -> datetime:
    """The database's time, by which all times of jobs are meant."""
    async with psycopg.AsyncCursor(conn, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute("select clock_timestamp()")
        at: datetime = (await cursor.fetchall())[0][0]
    return at


async def is_writable(conn: Connection) -> bool:
    """False on a standby, and where transactions are read-only by default."""
    async with psycopg.AsyncCursor(conn, row_factory=psycopg.rows.tuple_row) as cursor:
        await cursor.execute("show transaction_read_only")
        setting: str = (await cursor.fetchall())[0][0]
    return setting == "off"


async def job_uuid(conn: Connection, *, job_id: int) -> UUID:
    uuid: UUID = (await _call.one(conn, "job_uuid", job_id=job_id))[0]
    return uuid


async def job_id(conn: Connection, *, job: str) -> JobId:
    """The id of a job from its number or UUID as text."""
    return JobId((await _call.one(conn, "job_id", job=job))[0])
