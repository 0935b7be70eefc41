"""How many jobs a real worker runs and holds: limits of kinds, weights of queues, prefetch."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from pybatchq import calls, testing
from pybatchq.capacity import HOLD_S
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.testing import Ledger
from pybatchq.worker import Worker
from tests.conftest import Connect, Connection
from tests.support.working import all_completed, statuses, until, working

NEVER_POLLS: dict[str, Any] = {"poll_s": 60.0, "reap_every_s": 60.0}


class Crowd:
    """Kinds that say how many of them run at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.started: list[tuple[float, str, int]] = []

    def kind(self, kind: str, *, ms: float, concurrency: int | None = None) -> None:
        """An async handler that takes so long."""

        @self._registry.handler(kind, concurrency=concurrency)
        async def run(_payload: Any, job: Job) -> None:
            self._enter(kind, job)
            await asyncio.sleep(ms / 1000)
            self._now[kind] -= 1

    def thread_kind(self, kind: str, *, ms: float, concurrency: int | None = None) -> None:
        @self._registry.handler(kind, concurrency=concurrency)
        def run(_payload: Any, job: Job) -> None:
            self._enter(kind, job)
            time.sleep(ms / 1000)
            with self._lock:
                self._now[kind] -= 1

    def _enter(self, kind: str, job: Job) -> None:
        with self._lock:
            self._now[kind] += 1
            self.most[kind] = max(self.most[kind], self._now[kind])
            self.most["all"] = max(self.most["all"], self._now.total())
            self.started.append((time.monotonic(), kind, job.id))

    def first(self, kind: str) -> float:
        return min(at for at, one, _ in self.started if one == kind)


async def test_b02_limits_of_kinds_hold_and_the_others_have_the_rest(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("two", ms=60, concurrency=2)
    crowd.thread_kind("three", ms=60, concurrency=3)
    crowd.kind("free", ms=15)
    jobs = [{"kind": kind} for kind in ("two", "three", "free", "free") * 25]
    await calls.enqueue_many(conn, jobs=jobs)
    async with working(db, registry, concurrency=8):
        await all_completed(conn, 100)
    assert (crowd.most["two"], crowd.most["three"], crowd.most["all"]) == (2, 3, 8)
    assert {job.attempts for job in await calls.list_jobs(conn, n=200)} == {1}


async def test_a_full_kind_at_the_head_of_the_queue_starves_neither_others_nor_itself(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("one", ms=50, concurrency=1)
    crowd.kind("quick", ms=1)
    await calls.enqueue_many(conn, jobs=[{"kind": "one"}] * 20)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 40)

    async def quick_are_done() -> bool:
        quick = await calls.list_jobs(conn, kind="quick", status="completed", n=100)
        return len(quick) == 40

    async with working(db, registry, concurrency=4):
        await until(quick_are_done, within_s=1.5)  # what the others take, one by one
        await all_completed(conn, 60, within_s=5)
    assert crowd.most["one"] == 1
    assert {job.attempts for job in await calls.list_jobs(conn, n=200)} == {1}


async def test_many_of_a_full_kind_in_front_hold_others_up_only_shortly_and_cost_little(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("one", ms=60_000, concurrency=1)
    crowd.kind("quick", ms=1)
    await calls.enqueue_many(conn, jobs=[{"kind": "one"}] * 1000)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 40)

    async def quick_are_done() -> bool:
        return (await statuses(conn)).get("completed") == 40

    async with working(db, registry, concurrency=4) as worker:
        await until(quick_are_done, within_s=5)
        leases, at = worker.metrics.leases, time.monotonic()
        await asyncio.sleep(1)
        # it does not spin on what it cannot run
        assert worker.metrics.leases - leases <= 30 * (time.monotonic() - at)


@pytest.mark.parametrize(("concurrency", "most_leases"), [(2, 3000), (20, 4500)])
async def test_jobs_of_a_kind_with_a_limit_are_hardly_ever_put_back(
    db: str, conn: Connection, concurrency: int, most_leases: int
) -> None:
    """With as many slots as the kind has: never. With more it has to look behind them, at times."""
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("two", ms=0.1, concurrency=2)
    await calls.enqueue_many(conn, jobs=[{"kind": "two"}] * 3000)
    async with working(db, registry, concurrency=concurrency, **NEVER_POLLS) as worker:
        await all_completed(conn, 3000, within_s=30)
        assert worker.metrics.leased <= most_leases


async def test_others_overtake_a_long_line_of_a_kind_that_is_never_without_work(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("two", ms=5, concurrency=2)
    crowd.kind("quick", ms=1)
    await calls.enqueue_many(conn, jobs=[{"kind": "two"}] * 2000)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 40)
    async with working(db, registry, concurrency=10):
        await until(lambda: has_completed(conn, "quick", 40), within_s=15)
        assert len([kind for _, kind, _ in crowd.started if kind == "two"]) < 1600


async def has_completed(conn: Connection, kind: str, count: int) -> bool:
    return len(await calls.list_jobs(conn, kind=kind, status="completed", n=count)) == count


async def test_queues_are_served_by_their_weights(db: str, conn: Connection) -> None:
    for queue in ("a", "b", "c"):
        await calls.enqueue_many(conn, jobs=[{"kind": "ledger", "queue": queue}] * 300)
    weights = {"a": 6.0, "b": 3.0, "c": 1.0}
    async with Ledger(db) as ledger:
        registry = testing.registry(ledger)
        async with working(db, registry, queues=weights, concurrency=1, prefetch_s=0):
            await until(lambda: has_run(ledger, 300))
        runs = (await ledger.runs())[:300]
        assert await statuses(conn) != {"completed": 900}
    queue_of: dict[int, str] = {}
    for queue in weights:
        queue_of |= {job.id: queue for job in await calls.list_jobs(conn, queue=queue, n=500)}
    served = Counter(queue_of[run.job_id] for run in runs)
    for queue, weight in weights.items():
        # 4 standard deviations
        assert served[queue] / 300 == pytest.approx(weight / 10, abs=0.12)


async def has_run(ledger: Ledger, count: int) -> bool:
    return len(await ledger.runs()) >= count


async def test_an_empty_queue_of_great_weight_holds_up_nothing(db: str, conn: Connection) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "noop", "queue": "light"}] * 50)
    weights = {"heavy": 1000.0, "light": 0.001}
    async with working(db, testing.registry(), queues=weights):
        await all_completed(conn, 50, within_s=3)


async def test_a13_one_slot_runs_in_order_though_it_leases_ahead(db: str, conn: Connection) -> None:
    jobs = await calls.enqueue_many(conn, jobs=[{"kind": "ledger"}] * 400)
    async with Ledger(db) as ledger:
        async with working(db, testing.registry(ledger), concurrency=1, prefetch_s=0.3) as worker:
            await all_completed(conn, 400)
            assert worker.metrics.leases < 300  # it did lease ahead
        assert [run.job_id for run in await ledger.runs()] == [job.job_id for job in jobs]


class Watch:
    """Reads the leases all the time: how many there are, and how long each is kept unstarted."""

    def __init__(self, conn: Connection, crowd: Crowd) -> None:
        self._conn = conn
        self._crowd = crowd
        self._seen: dict[int, tuple[float, int]] = {}
        self.most = 0
        self.waited: dict[int, float] = {}

    async def run(self) -> None:
        while True:
            cursor = await self._conn.execute("select lease_id, job_id from batchq.leased")
            now = time.monotonic()
            leases = await cursor.fetchall()
            self.most = max(self.most, len(leases))
            running = {job_id for _, _, job_id in self._crowd.started}
            for lease_id, job_id in leases:
                if job_id in running:
                    self._seen.pop(lease_id, None)
                else:
                    since, _ = self._seen.setdefault(lease_id, (now, job_id))
                    self.waited[lease_id] = now - since
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def beside(endless: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run this until the block ends."""
    task = asyncio.create_task(endless)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@contextlib.asynccontextmanager
async def watching(conn: Connection, crowd: Crowd) -> AsyncIterator[Watch]:
    watch = Watch(conn, crowd)
    async with beside(watch.run()):
        yield watch


async def test_what_waits_here_for_a_second_is_handed_back_untouched(
    db: str, connect: Connect
) -> None:
    """Quick jobs made the worker lease ahead; then all its slots are taken by long ones."""
    conn = await connect()
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("quick", ms=0)
    crowd.kind("long", ms=3500)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 300 + [{"kind": "long"}] * 30)
    async with (
        watching(await connect(), crowd) as watch,
        working(db, registry, concurrency=2, prefetch_s=0.5) as worker,
    ):
        await until(lambda: is_true(crowd.most["long"] == 2))
        await until(lambda: has_leased(conn, 2))
        assert max(watch.waited.values()) < HOLD_S + 0.7
        assert max(watch.waited.values()) > HOLD_S / 2  # it did wait
        worker.stop(now=True)
    rest = await calls.list_jobs(conn, status="pending", n=100)
    assert {(job.state, job.attempts, job.locked_by) for job in rest} == {("ready", 0, None)}


async def is_true(value: bool) -> bool:
    return value


async def has_leased(conn: Connection, count: int) -> bool:
    cursor = await conn.execute("select count(*) from batchq.leased")
    return bool((await cursor.fetchall())[0][0] == count)


async def test_what_waits_for_a_full_kind_is_handed_back_though_others_keep_the_worker_busy(
    db: str, connect: Connect
) -> None:
    conn, producer = await connect(), await connect()
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("one", ms=60_000, concurrency=1)
    crowd.kind("quick", ms=0)

    async def flood() -> None:
        while True:
            await calls.enqueue_many(producer, jobs=[{"kind": "quick"}] * 500)

    _, waits = await calls.enqueue_many(conn, jobs=[{"kind": "one"}] * 2)
    async with working(db, registry, concurrency=10):
        await until(lambda: has_leased(conn, 2))
        async with beside(flood()):
            await until(lambda: is_pending(conn, waits.job_id), within_s=HOLD_S + 1.5)
    assert (await calls.get_job(conn, job_id=waits.job_id)).attempts == 0


async def is_pending(conn: Connection, job_id: int) -> bool:
    return (await calls.get_job(conn, job_id=job_id)).status == "pending"


async def test_without_prefetch_a_worker_leases_only_what_it_starts(
    db: str, connect: Connect
) -> None:
    conn = await connect()
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("quick", ms=1)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 600)
    async with (
        watching(await connect(), crowd) as watch,
        working(db, registry, concurrency=4, prefetch_s=0),
    ):
        await all_completed(conn, 600)
    assert watch.most <= 2 * 4  # those that run, and those that ended and are not handed in


async def test_f085_a_stop_hands_waiting_jobs_back_at_once(db: str, conn: Connection) -> None:
    registry = Registry()
    crowd = Crowd(registry)
    crowd.kind("quick", ms=0)
    crowd.kind("long", ms=1500)
    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 300 + [{"kind": "long"}] * 30)
    worker = Worker(db, registry=registry, concurrency=2, prefetch_s=0.5)
    task = asyncio.create_task(worker.run())
    await until(lambda: is_true(crowd.most["long"] == 2))
    await until(lambda: has_more_leased(conn, 2))
    worker.stop()
    at = time.monotonic()
    await until(lambda: has_leased(conn, 2), within_s=2)
    assert time.monotonic() - at < 0.5  # long before those that run have ended
    async with asyncio.timeout(5):
        await task
    jobs = await calls.list_jobs(conn, kind="long", n=50)
    assert Counter((job.state, job.attempts) for job in jobs) == {
        ("completed", 1): 2,
        ("ready", 0): 28,
    }


async def has_more_leased(conn: Connection, count: int) -> bool:
    cursor = await conn.execute("select count(*) from batchq.leased")
    return bool((await cursor.fetchall())[0][0] > count)
