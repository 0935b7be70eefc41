"""Real workers in a test's own event loop, and ways to wait for what they do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from pybatchq import calls
from pybatchq.calls import _call
from pybatchq.handlers import Registry
from pybatchq.types import JobRecord
from pybatchq.worker import Worker

PATIENCE_S = 15.0
LOOK_EVERY_S = 0.01


@contextlib.asynccontextmanager
async def working(dsn: str, registry: Registry, **options: Any) -> AsyncIterator[Worker]:
    """A worker that runs inside the block. It must end by itself, well and soon, after it."""
    worker = Worker(dsn, registry=registry, **{"reap_every_s": 0.3, "poll_s": 0.2, **options})
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        worker.stop(now=True)
        async with asyncio.timeout(PATIENCE_S):
            await task


async def until(condition: Callable[[], Awaitable[Any]], within_s: float = PATIENCE_S) -> Any:
    """The condition's first true value. TimeoutError if there is none in time."""
    async with asyncio.timeout(within_s):
        while not (value := await condition()):  # noqa: ASYNC110  # a row rings nobody
            await asyncio.sleep(LOOK_EVERY_S)
    return value


async def ended(
    conn: calls.Connection, job_id: int, status: str = "completed", within_s: float = PATIENCE_S
) -> JobRecord:
    """The job, once it has this status."""

    async def look() -> JobRecord | None:
        job = await calls.get_job(conn, job_id=job_id)
        return job if job.status == status else None

    job: JobRecord = await until(look, within_s)
    return job


async def statuses(conn: calls.Connection) -> dict[str, int]:
    cursor = await conn.execute("select status, count(*) from batchq.jobs group by 1")
    return dict(await cursor.fetchall())


async def all_completed(conn: calls.Connection, count: int, within_s: float = PATIENCE_S) -> None:
    """Wait until there are so many completed jobs and no others."""

    async def look() -> bool:
        return await statuses(conn) == {"completed": count}

    await until(look, within_s)


async def kill_sessions(conn: calls.Connection, which: str) -> int:
    """Terminate the sessions of workers whose names are like this; how many there were."""
    query = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name like %s"
    )
    cursor = await conn.execute(query, (which,))
    return int((await cursor.fetchall())[0][0])


class Calls:
    """What this process asks of the database, by function, while it is asked for real."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[float, str]] = []
        self.before: dict[str, Callable[[dict[str, Any]], Awaitable[None]]] = {}
        self.after: dict[str, Callable[[Any], Awaitable[None]]] = {}
        real = _call.rows

        async def rows(conn: calls.Connection, function: str, **arguments: Any) -> Any:
            self.seen.append((time.monotonic(), function))
            if function in self.before:
                await self.before[function](arguments)
            answer = await real(conn, function, **arguments)
            if function in self.after:
                await self.after[function](answer)
            return answer

        monkeypatch.setattr(_call, "rows", rows)

    def since(self, moment: float) -> Counter[str]:
        return Counter(function for at, function in self.seen if at >= moment)
