"""Settings, dead letters, tokens and upkeep: role batchq_operator."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from pybatchq.calls import _call
from pybatchq.calls._call import Connection, Ids
from pybatchq.types import (
    AuditEntry,
    CancelledJobs,
    Maintained,
    PurgedJobs,
    RedrivenJobs,
    Scope,
    State,
    TokenInfo,
)


async def reap(conn: Connection, *, n: int | None = None) -> int:
    """How many expired leases were taken back."""
    return int((await _call.one(conn, "reap", n=n))[0])


async def maintain(conn: Connection) -> list[Maintained]:
    """One bounded step of everything periodic that is due."""
    return await _call.records(conn, Maintained, "maintain")


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
    max_running: int | None = None,
    rate: int | None = None,
    rate_period: timedelta | None = None,
    group_limit: int | None = None,
    group_rate: int | None = None,
    group_period: timedelta | None = None,
    group_retry: str | None = None,
    fair: bool | None = None,
    age_every: timedelta | None = None,
    max_depth: int | None = None,
    on_full: str | None = None,
    breaker_share: float | None = None,
    breaker_min: int | None = None,
    breaker_window: timedelta | None = None,
    breaker_pause: timedelta | None = None,
    clear: Sequence[str] | None = None,
) -> None:
    """Set defaults and limits of a queue; None leaves one as it is. `clear`: those to unset."""
    await _call.one(
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
        max_running=max_running,
        rate=rate,
        rate_period=rate_period,
        group_limit=group_limit,
        group_rate=group_rate,
        group_period=group_period,
        group_retry=group_retry,
        fair=fair,
        age_every=age_every,
        max_depth=max_depth,
        on_full=on_full,
        breaker_share=breaker_share,
        breaker_min=breaker_min,
        breaker_window=breaker_window,
        breaker_pause=breaker_pause,
        clear=None if clear is None else list(clear),
    )


async def set_job(
    conn: Connection,
    *,
    job_id: int,
    priority: int | None = None,
    run_at: datetime | None = None,
) -> State:
    """Change a pending job; None leaves it as it is. Its state afterwards."""
    row = await _call.one(conn, "set_job", job_id=job_id, priority=priority, run_at=run_at)
    state: State = row[0]
    return state


async def set_group(
    conn: Connection,
    *,
    queue: str,
    group_key: str,
    group_limit: int | None = None,
    weight: int | None = None,
    reset: bool | None = None,
) -> None:
    """Set what is different for one group of a queue; None leaves it as it is."""
    await _call.one(
        conn,
        "set_group",
        queue=queue,
        group_key=group_key,
        group_limit=group_limit,
        weight=weight,
        reset=reset,
    )


async def reset_breaker(conn: Connection, *, queue: str, kind: str) -> None:
    """Let jobs of a kind run again that are held back; none is no error."""
    await _call.one(conn, "reset_breaker", queue=queue, kind=kind)


async def pause(conn: Connection, *, queue: str, reason: str | None = None) -> None:
    """Stop leasing from a queue."""
    await _call.one(conn, "pause", queue=queue, reason=reason)


async def resume(conn: Connection, *, queue: str) -> None:
    """Lease from a paused queue again. QueueNotFoundError if there is none of this name."""
    await _call.one(conn, "resume", queue=queue)


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
    error: str | None = None,
    after_id: int | None = None,
    delay: timedelta | None = None,
) -> RedrivenJobs:
    """How many dead letters were put back, or would be; go on after `last_id` until it is None."""
    counts = await _call.records(
        conn,
        RedrivenJobs,
        "redrive",
        job_ids=job_ids,
        queue=queue,
        kind=kind,
        failed_after=failed_after,
        failed_before=failed_before,
        n=n,
        per_second=per_second,
        dry_run=dry_run,
        error=error,
        after_id=after_id,
        delay=delay,
    )
    return counts[0]


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
    error: str | None = None,
    after_id: int | None = None,
) -> PurgedJobs:
    """How many jobs were forgotten, or would be; go on after `last_id` until it is None."""
    counts = await _call.records(
        conn,
        PurgedJobs,
        "purge",
        job_ids=job_ids,
        status=status,
        queue=queue,
        kind=kind,
        finished_before=finished_before,
        n=n,
        dry_run=dry_run,
        error=error,
        after_id=after_id,
    )
    return counts[0]


async def cancel_many(
    conn: Connection,
    *,
    job_ids: Ids | None = None,
    queue: str | None = None,
    kind: str | None = None,
    state: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    reason: str | None = None,
    n: int | None = None,
    dry_run: bool | None = None,
    after_id: int | None = None,
) -> CancelledJobs:
    """How many were cancelled or asked to stop, or would be; go on after `last_id`, if any."""
    counts = await _call.records(
        conn,
        CancelledJobs,
        "cancel_many",
        job_ids=job_ids,
        queue=queue,
        kind=kind,
        state=state,
        created_after=created_after,
        created_before=created_before,
        reason=reason,
        n=n,
        dry_run=dry_run,
        after_id=after_id,
    )
    return counts[0]


async def create_token(
    conn: Connection,
    *,
    name: str,
    secret_hash: bytes,
    scopes: Sequence[Scope],
    queues: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> int:
    """The id of a new token of the HTTP API, known by the SHA-256 of its secret."""
    row = await _call.one(
        conn,
        "create_token",
        name=name,
        secret_hash=secret_hash,
        scopes=list(scopes),
        queues=None if queues is None else list(queues),
        expires_at=expires_at,
    )
    return int(row[0])


async def revoke_token(conn: Connection, *, name: str) -> bool:
    """False if there is none of this name that is not revoked yet."""
    return bool((await _call.one(conn, "revoke_token", name=name))[0])


async def drain_worker(conn: Connection, *, worker_id: UUID) -> bool:
    """Ask a worker process to end, its jobs finished. False if there is none that is alive."""
    return bool((await _call.one(conn, "drain_worker", worker_id=worker_id))[0])


async def list_audit(
    conn: Connection,
    *,
    n: int | None = None,
    before_id: int | None = None,
    target: str | None = None,
) -> list[AuditEntry]:
    """Also for role batchq_monitor. What operators did, newest first."""
    return await _call.records(
        conn, AuditEntry, "list_audit", n=n, before_id=before_id, target=target
    )


async def list_tokens(conn: Connection) -> list[TokenInfo]:
    """Also for role batchq_monitor. Those that are not revoked first, by name."""
    return await _call.records(conn, TokenInfo, "list_tokens")
