"""Adding jobs from Python, in the caller's own transaction, on either kind of connection.

await pybatchq.enqueue(conn, "send_email", {...})    # psycopg.AsyncConnection
pybatchq.enqueue(conn, "send_email", {...})          # psycopg.Connection
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, overload

import psycopg

from pybatchq import calls
from pybatchq.types import EnqueuedJob, JobId

Jobs = Iterable[Mapping[str, Any]]


@overload
def enqueue(
    conn: psycopg.Connection[Any], kind: str, payload: Any = None, **options: Any
) -> JobId: ...
@overload
def enqueue(
    conn: psycopg.AsyncConnection[Any], kind: str, payload: Any = None, **options: Any
) -> Coroutine[Any, Any, JobId]: ...
def enqueue(
    conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
    kind: str,
    payload: Any = None,
    **options: Any,
) -> JobId | Coroutine[Any, Any, JobId]:
    """Add a job; the id of it, or of the one that holds its dedupe key.

    options: those of calls.enqueue: queue, priority, delay, run_at, max_attempts, timeout,
    dedupe_key and so on.
    """
    if isinstance(conn, psycopg.Connection):
        return calls.enqueue_sync(conn, kind, payload, **options)
    return calls.enqueue(conn, kind, payload, **options)


@overload
def enqueue_many(conn: psycopg.Connection[Any], *, jobs: Jobs) -> list[EnqueuedJob]: ...
@overload
def enqueue_many(
    conn: psycopg.AsyncConnection[Any], *, jobs: Jobs
) -> Coroutine[Any, Any, list[EnqueuedJob]]: ...
def enqueue_many(
    conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], *, jobs: Jobs
) -> list[EnqueuedJob] | Coroutine[Any, Any, list[EnqueuedJob]]:
    """Add many jobs, all or none. Each is a mapping of enqueue's arguments by name."""
    if isinstance(conn, psycopg.Connection):
        return calls.enqueue_many_sync(conn, jobs=jobs)
    return calls.enqueue_many(conn, jobs=jobs)
