"""Heartbeats of real workers: what they cost, how soon they tell, and what the health port says."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pybatchq import calls
from pybatchq.handlers import Registry
from pybatchq.testing import Ledger
from tests.conftest import Connection
from tests.support import typed_kinds
from tests.support.processes import Process, worker_process
from tests.support.typed_kinds import PLACES
from tests.support.working import Calls, ended, statuses, until, working


async def all_run(conn: Connection, count: int) -> bool:
    return await statuses(conn) == {"running": count}


@pytest.mark.parametrize("place", PLACES)
async def test_a83_with_a_doorbell_a_running_job_is_told_within_a_second(
    db: str, conn: Connection, place: str
) -> None:
    """Its lease is a minute, so its next heartbeat is far off."""
    job_id = await calls.enqueue(conn, f"long {place}")

    async def works() -> bool:
        return (await calls.get_job(conn, job_id=job_id)).progress is not None

    async with working(db, typed_kinds.registry, lease_s=60):
        await until(works)  # so that a process does not only just start
        assert await calls.cancel(conn, job_id=job_id) == "running"
        at = time.monotonic()
        job = await ended(conn, job_id, "cancelled", within_s=5)
        assert time.monotonic() - at < 1.2
    assert job.attempts == 1


async def test_a83_many_that_are_cancelled_at_once_are_told_with_few_statements(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 200
    await calls.enqueue_many(conn, jobs=[{"kind": "long loop"}] * count)
    async with working(db, typed_kinds.registry, concurrency=count, lease_s=60):
        await until(lambda: all_run(conn, count))
        spy = Calls(monkeypatch)
        at = time.monotonic()
        for job in await calls.list_jobs(conn, n=count):  # each rings
            await calls.cancel(conn, job_id=job.id)
        await until(lambda: all_cancelled(conn, count), within_s=5)
        seconds = time.monotonic() - at
        assert spy.since(at)["extend"] <= 2 + seconds / 0.2


async def all_cancelled(conn: Connection, count: int) -> bool:
    return await statuses(conn) == {"cancelled": count}


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a83_f081_without_a_doorbell_it_is_told_within_a_heartbeat(
    db: str, conn: Connection, place: str
) -> None:
    lease_s = 3.0
    job_id = await calls.enqueue(conn, f"long {place}")
    async with working(db, typed_kinds.registry, lease_s=lease_s, doorbell=False):
        await until(lambda: all_run(conn, 1))
        await calls.cancel(conn, job_id=job_id)
        await ended(conn, job_id, "cancelled", within_s=lease_s / 3 + 0.7)


async def test_1000_running_jobs_cost_less_than_a_heartbeat_a_second(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They started at all times, and the lease is a fifth of what it usually is."""
    lease_s, count, seconds = 12.0, 1000, 3.5
    registry = Registry()

    @registry.handler("long")
    async def long(_payload: Any) -> None:
        await asyncio.sleep(60)

    spy = Calls(monkeypatch)
    async with working(db, registry, concurrency=count, lease_s=lease_s) as worker:
        for _ in range(10):
            await calls.enqueue_many(conn, jobs=[{"kind": "long"}] * (count // 10))
            await asyncio.sleep(0.1)
        await until(lambda: all_run(conn, count))
        beats, at = worker.metrics.heartbeats, time.monotonic()
        await asyncio.sleep(seconds)
        beats = worker.metrics.heartbeats - beats
        assert spy.since(at)["extend"] == beats
        assert 1 <= beats <= seconds + 1
        cursor = await conn.execute(
            "select count(*), extract(epoch from min(lease_until) - clock_timestamp())::float8"
            " from batchq.leased"
        )
        ((held, left_s),) = await cursor.fetchall()
    assert held == count
    assert left_s > lease_s / 2  # every one of them was extended in time


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Health:
    """The health port of a worker process."""

    def __init__(self, worker: Process, session: aiohttp.ClientSession) -> None:
        self.worker = worker
        self._session = session

    async def status(self, path: str) -> int:
        async with self._session.get(path) as answer:
            return answer.status

    async def problems(self) -> list[str]:
        async with self._session.get("/ready") as answer:
            body = await answer.json()
            return list(body.get("problems", []))

    async def metrics(self) -> dict[str, float]:
        async with self._session.get("/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
            return {sample.name: sample.value for family in families for sample in family.samples}

    async def becomes(self, path: str, status: int, within_s: float = 10) -> None:
        async def look() -> bool:
            return await self.status(path) == status

        await until(look, within_s)


@contextlib.asynccontextmanager
async def watched(db: str, log: Path, *options: str) -> AsyncIterator[Health]:
    port = free_port()
    async with (
        worker_process(db, log, *options, BATCHQ_HEALTH_PORT=str(port)) as worker,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield Health(worker, session)


async def test_b20_a_worker_is_ready_until_it_is_stopped_and_counts_what_it_does(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with Ledger(db), watched(db, tmp_path / "log") as health:
        assert (await health.status("/health"), await health.status("/ready")) == (200, 200)
        for _ in range(3):
            await ended(conn, await calls.enqueue(conn, "ledger"))
        await calls.enqueue(conn, "ledger", {"ms": 1500})
        await until(lambda: runs_one(conn))
        metrics = await health.metrics()
        assert metrics["batchq_worker_leased_total"] == 4
        assert metrics["batchq_worker_running"] == 1
        assert metrics["batchq_worker_connected"] == 1
        assert metrics["batchq_worker_idle_processes"] == 0
        await until(lambda: is_parked(health))  # there is nothing else to do
        health.worker.signal(signal.SIGTERM)
        await health.becomes("/ready", 503)
        assert await health.problems() == ["the worker is stopping"]
        assert await health.status("/health") == 200
        assert await health.worker.ended() == 0


async def is_parked(health: Health) -> bool:
    return (await health.metrics())["batchq_worker_parked"] == 1


async def runs_one(conn: Connection) -> bool:
    return "running" in await statuses(conn)


# waits for /ready to know of it though nothing is to be done
@pytest.mark.parametrize("is_busy", [True, False], ids=["busy", "idle"])
async def test_b20_f043_f097_ready_is_503_while_the_database_is_away_and_200_again_after(
    db: str, conn: Connection, tmp_path: Path, is_busy: bool
) -> None:
    async with Ledger(db), watched(db, tmp_path / "log", "--lease", "3s") as health:
        if is_busy:
            await calls.enqueue(conn, "ledger", {"ms": 60_000})
            await until(lambda: runs_one(conn))
        async with outage(db):
            await health.becomes("/ready", 503)
            assert await health.problems() == ["there is no connection to the database"]
            assert await health.status("/health") == 200
        await health.becomes("/ready", 200)


@contextlib.asynccontextmanager
async def outage(db: str) -> AsyncIterator[None]:
    """Workers lose the database and cannot come back to it until the end of the block."""
    name = conninfo_to_dict(db)["dbname"]
    admin = make_conninfo(db, dbname="postgres")
    async with await psycopg.AsyncConnection.connect(admin, autocommit=True) as conn:
        await conn.execute(f"alter database {name} with allow_connections false".encode())
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and application_name like 'batchq-worker%%'",
            (name,),
        )
        try:
            yield
        finally:
            await conn.execute(f"alter database {name} with allow_connections true".encode())


async def test_f097_metrics_and_health_answer_while_a_handler_blocks_the_loop(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    port = free_port()
    async with (
        Ledger(db),
        worker_process(
            db, tmp_path / "log", kinds="tests.support.worker_kinds", BATCHQ_HEALTH_PORT=str(port)
        ) as worker,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        health = Health(worker, session)
        await calls.enqueue(conn, "blocks the loop", {"s": 4})
        await worker.logged("a handler blocks the event loop")
        assert (await health.metrics())["batchq_worker_loop_blocked_seconds"] > 0
        assert await health.status("/health") == 200  # 503 only after a minute
