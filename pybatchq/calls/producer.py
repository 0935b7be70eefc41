"""Adding and cancelling jobs: role batchq_producer."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import psycopg

from pybatchq import jsontext, tracing
from pybatchq.calls import _call
from pybatchq.calls._call import Connection, spec
from pybatchq.types import (
    EnqueuedJob,
    JobId,
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
    group_key: str | None = None,
) -> JobId:
    """Add a job in the caller's transaction; the id of it, or of the one that holds its key.

    The present OpenTelemetry span, if one records, travels in its headers.
    """
    headers = tracing.current_headers(headers)
    row = await _call.one(
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
        group_key=group_key,
    )
    return JobId(row[0])


async def enqueue_many(
    conn: Connection, *, jobs: Iterable[Mapping[str, Any]] | msgspec.Raw
) -> list[EnqueuedJob]:
    """Add many jobs, all or none. Each is a mapping of enqueue's arguments by name.

    A msgspec.Raw is the JSON text of them all, which keeps the digits of numbers as they are.
    """
    text = jsontext.encode(jobs if isinstance(jobs, msgspec.Raw) else _specs(jobs))
    return await _call.records(conn, EnqueuedJob, "enqueue_many", jobs=text)


def enqueue_sync(
    conn: psycopg.Connection[Any], kind: str, payload: Any = None, **options: Any
) -> JobId:
    """As enqueue, with its options by name, on a connection without an event loop."""
    unknown = set(options) - set(inspect.signature(enqueue).parameters)
    if unknown:
        raise TypeError(f"enqueue has no argument {', '.join(sorted(unknown))}")
    headers = tracing.current_headers(options.pop("headers", None))
    row = _call.rows_sync(
        conn,
        "enqueue",
        kind=kind,
        payload=None if payload is None else jsontext.encode(payload),
        headers=None if headers is None else jsontext.encode(headers),
        **options,
    )[0]
    return JobId(row[0])


def enqueue_many_sync(
    conn: psycopg.Connection[Any], *, jobs: Iterable[Mapping[str, Any]] | msgspec.Raw
) -> list[EnqueuedJob]:
    """As enqueue_many, on a connection without an event loop."""
    text = jsontext.encode(jobs if isinstance(jobs, msgspec.Raw) else _specs(jobs))
    return _call.records_sync(conn, EnqueuedJob, "enqueue_many", jobs=text)


def _specs(jobs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    specs = [spec(job) for job in jobs]
    trace = tracing.current_headers(None)
    if trace is not None:
        for one in specs:
            headers = one.get("headers", {})
            if isinstance(headers, Mapping) and tracing.PARENT not in headers:
                one["headers"] = {**headers, **trace}
    return specs


async def cancel(conn: Connection, *, job_id: int, reason: str | None = None) -> str:
    """`cancelled`, or `running` if it was asked to stop."""
    return str((await _call.one(conn, "cancel", job_id=job_id, reason=reason))[0])
