"""The list of workers in the database: who is on it, for how long, and what it is not for."""

from __future__ import annotations

import asyncio
import datetime as dt
import signal
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pybatchq
from pybatchq import calls, heartbeat, testing
from pybatchq.handlers import Registry
from pybatchq.testing import Ledger
from pybatchq.types import WorkerInfo
from tests.conftest import Connection
from tests.support.processes import worker_process
from tests.support.working import Calls, all_completed, ended, kill_sessions, until, working


async def listed(conn: Connection, count: int) -> list[WorkerInfo]:
    """The workers, once there are so many."""

    async def look() -> list[WorkerInfo] | None:
        found = await calls.list_workers(conn)
        return found if len(found) == count else None

    found: list[WorkerInfo] = await until(look)
    return found


async def nobody(conn: Connection) -> bool:
    return await calls.list_workers(conn) == []


async def test_a_worker_is_listed_with_what_it_is_and_goes_at_a_clean_end(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    options = ("--name", "w", "--queues", "high,low", "--concurrency", "7")
    async with worker_process(db, tmp_path / "log", *options) as worker:
        (info,) = await listed(conn, 1)
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
    assert (info.worker, info.host, info.pid) == ("w", socket.gethostname(), worker.pid)
    assert (info.version, info.queues) == (pybatchq.__version__, ["high", "low"])
    assert {"ledger", "stubborn", "http_get"} <= set(info.kinds)
    assert info.kinds == sorted(info.kinds)
    assert (info.concurrency, info.running, info.stopping, info.is_alive) == (7, 0, False, True)
    assert info.memory_bytes is not None
    assert 10_000_000 < info.memory_bytes < 1_000_000_000
    assert await nobody(conn)


async def test_a_beat_says_what_runs_and_whether_the_worker_stops(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REGISTER_EVERY_S", 0.1)
    registry = Registry()
    go_on = asyncio.Event()

    @registry.handler("gate")
    async def gate(_payload: Any) -> None:
        await go_on.wait()

    async def says(running: int, stopping: bool) -> bool:
        (info,) = await calls.list_workers(conn)
        return (info.running, info.stopping) == (running, stopping)

    async with working(db, registry) as worker:
        (first,) = await listed(conn, 1)
        await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 3)
        await until(lambda: says(3, False))
        worker.stop()
        await until(lambda: says(3, True))
        (last,) = await calls.list_workers(conn)
        assert last.worker_id == first.worker_id
        assert last.started_at == first.started_at
        assert last.beat_at > first.beat_at
        go_on.set()
    await until(lambda: nobody(conn))


async def test_it_is_written_rarely_and_by_nothing_else(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 500)
    async with working(db, testing.registry(), concurrency=2):
        await listed(conn, 1)
        before = await version_of_row(conn)
        await all_completed(conn, 500)
        assert await version_of_row(conn) == before
    assert spy.since(0)["beat_worker"] == 1
    assert spy.since(0)["drop_worker"] == 1


async def version_of_row(conn: Connection) -> Any:
    return await (await conn.execute("select ctid, xmin::text from batchq.worker")).fetchall()


async def test_a_killed_worker_stays_listed_and_is_not_alive_after_three_beats(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with worker_process(db, tmp_path / "log") as worker:
        await listed(conn, 1)
        worker.kill()
    (info,) = await calls.list_workers(conn)
    assert info.is_alive  # nobody can know yet
    for seconds, is_alive in ((85, True), (91, False)):
        await conn.execute(
            "update batchq.worker set beat_at = batchq._now() - make_interval(secs => %s)",
            (seconds,),
        )
        assert [info.is_alive for info in await calls.list_workers(conn)] == [is_alive]
    await calls.maintain(conn)
    assert len(await calls.list_workers(conn)) == 1
    await conn.execute("update batchq.worker set beat_at = batchq._now() - interval '25 h'")
    await conn.execute("update batchq.upkeep set next_at = '-infinity'")
    await calls.maintain(conn)
    assert await nobody(conn)


async def test_f005_two_processes_of_one_name_are_two_rows(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with (
        worker_process(db, tmp_path / "a", "--name", "same") as first,
        worker_process(db, tmp_path / "b", "--name", "same") as second,
    ):
        both = await listed(conn, 2)
        assert {info.worker for info in both} == {"same"}
        assert {info.pid for info in both} == {first.pid, second.pid}
        assert len({info.worker_id for info in both}) == 2
        first.signal(signal.SIGTERM)
        await first.ended()
        (left,) = await calls.list_workers(conn)
        assert left.pid == second.pid  # the other's row is not its own


async def test_f006_f011_a_forgotten_worker_keeps_its_jobs_and_its_dead_jobs_come_back(
    db: str, conn: Connection
) -> None:
    """Neither leases nor their recovery ask the list."""
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    orphan = await calls.enqueue(conn, "ledger")
    await calls.lease(conn, worker="dead", lease_for=dt.timedelta(seconds=0.1))
    async with Ledger(db) as ledger, working(db, testing.registry(ledger), lease_s=0.6):
        await listed(conn, 1)
        await conn.execute("delete from batchq.worker")
        long = await calls.enqueue(conn, "ledger", {"ms": 800})
        assert (await ended(conn, orphan)).attempts == 2
        assert (await ended(conn, long)).attempts == 1


async def test_f044_a_worker_that_lost_its_session_is_listed_on_and_signs_off(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REGISTER_EVERY_S", 0.1)
    async with working(db, testing.registry()):
        (before,) = await listed(conn, 1)
        await kill_sessions(conn, "batchq-worker control%")
        await conn.execute("delete from batchq.worker")

        async def is_back() -> bool:
            found = await calls.list_workers(conn)
            return [info.worker_id for info in found] == [before.worker_id]

        await until(is_back)
    await until(lambda: nobody(conn))


async def test_a_worker_that_is_asked_to_drain_finishes_its_job_and_ends_well(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with (
        Ledger(db),
        worker_process(db, tmp_path / "a", "--name", "a", "--concurrency", "1") as drained,
        worker_process(db, tmp_path / "b", "--name", "b", "--queues", "other") as other,
    ):
        both = {info.worker: info for info in await listed(conn, 2)}
        running = await calls.enqueue(conn, "ledger", {"ms": 1500})
        await ended(conn, running, "running")
        waiting = await calls.enqueue(conn, "ledger", {"ms": 0})
        assert await calls.drain_worker(conn, worker_id=both["a"].worker_id)
        await drained.logged("asked to drain", within_s=5)  # long before its next beat
        assert await drained.ended() == 0
        assert (await calls.get_job(conn, job_id=running)).status == "completed"
        assert (await calls.get_job(conn, job_id=waiting)).status == "pending"
        leased = await (await conn.execute("select count(*) from batchq.leased")).fetchone()
        assert leased == (0,)
        assert drained.log.count("asked to drain") == 1
        (left,) = await calls.list_workers(conn)
        assert left == msgspec.structs.replace(both["b"], beat_at=left.beat_at)
        assert other.popen.poll() is None


async def test_a_worker_without_a_doorbell_drains_by_its_next_beat(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "REGISTER_EVERY_S", 0.1)
    async with working(db, testing.registry(), doorbell=False) as worker:
        (info,) = await listed(conn, 1)
        await calls.drain_worker(conn, worker_id=info.worker_id)
        await until(lambda: nobody(conn))
        assert (worker.is_stopping, worker.end) == (True, "drained")


async def test_only_the_worker_that_is_meant_beats_at_once(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    async with working(db, testing.registry()), working(db, testing.registry(), queues=["b"]):
        both = await listed(conn, 2)
        await until(lambda: parked(conn, 2))
        before = spy.since(0)["beat_worker"]
        await calls.drain_worker(conn, worker_id=both[0].worker_id)
        (left,) = await listed(conn, 1)
        assert spy.since(0)["beat_worker"] == before + 1
        assert left.worker_id == both[1].worker_id


async def parked(conn: Connection, count: int) -> bool:
    """Whether so many sessions hear the doorbell."""
    query = """
        select count(distinct pid) from pg_locks
        where locktype = 'advisory' and pid in (
            select pid from pg_stat_activity where application_name like 'batchq-worker listen%')"""
    row = await (await conn.execute(query.encode())).fetchone()
    return row is not None and row[0] >= count
