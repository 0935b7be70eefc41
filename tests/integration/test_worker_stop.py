"""How attempts are cut short: cancellation, timeouts, lost leases, and stopping the worker."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
import time
from typing import Any

import pytest

from pybatchq import attempts, calls, testing, worker
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.testing import Ledger
from pybatchq.worker import Worker
from tests.conftest import Connection
from tests.support.working import Calls, all_completed, ended, statuses, until, working

UNKEPT = "select count(*) from batchq.leased"


async def leased(conn: Connection) -> int:
    cursor = await conn.execute(UNKEPT)
    return int((await cursor.fetchall())[0][0])


class Gate:
    """A kind of job that says when it runs, waits until it may end, and how it was stopped."""

    def __init__(self, registry: Registry, kind: str = "gate") -> None:
        self.started: asyncio.Queue[Job] = asyncio.Queue()
        self.open = asyncio.Event()
        self.cancelled: list[int] = []
        self.ended: list[int] = []

        @registry.handler(kind)
        async def wait(_payload: Any, job: Job) -> None:
            await self.started.put(job)
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                assert job.cancelled
                self.cancelled.append(job.id)
                raise
            self.ended.append(job.id)

    async def next(self) -> Job:
        async with asyncio.timeout(10):
            return await self.started.get()


async def test_f004_a_long_job_runs_once_and_its_lease_is_never_near_its_end(
    db: str, conn: Connection
) -> None:
    lease = dt.timedelta(seconds=1.2)
    await calls.set_queue(conn, queue="short", lease_for=lease)
    await calls.set_queue(conn, queue="long", lease_for=dt.timedelta(minutes=10))
    await calls.enqueue(conn, "ledger", {"ms": 3000}, queue="short")
    await calls.enqueue(conn, "ledger", {"ms": 3000}, queue="long")
    left: list[tuple[str, float]] = []
    ends: dict[str, set[dt.datetime]] = {"short": set(), "long": set()}

    async def watch() -> bool:
        cursor = await conn.execute(
            "select queue, lease_until, extract(epoch from lease_until - clock_timestamp())::float8"
            " from batchq.leased"
        )
        for queue, until_, seconds in await cursor.fetchall():
            left.append((queue, seconds))
            ends[queue].add(until_)
        return await statuses(conn) == {"completed": 2}

    queues = ["short", "long"]
    async with Ledger(db) as ledger:
        registry = testing.registry(ledger)
        async with (
            working(db, registry, queues=queues, name="a"),
            working(db, registry, queues=queues, name="b"),
        ):
            await until(watch)
        assert len(await ledger.runs()) == 2
    assert min(seconds for queue, seconds in left if queue == "short") > lease.total_seconds() / 2
    assert len(ends["short"]) >= 6  # at least every third of the lease
    assert len(ends["long"]) == 1  # each job renews at its own beat


async def test_f005_b27_a_namesake_does_not_keep_a_dead_workers_job(
    db: str, conn: Connection
) -> None:
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    registry = Registry()
    gate = Gate(registry)
    orphan = await calls.enqueue(conn, "gate")
    (held,) = await calls.lease(conn, worker="same", lease_for=dt.timedelta(seconds=0.4))
    await calls.enqueue(conn, "gate")
    async with working(db, registry, name="same", lease_s=0.4):
        await gate.next()
        again = await gate.next()
        assert (again.id, again.attempt) == (orphan, 2)
        assert again.lease_id > held.lease_id
        gate.open.set()
        await all_completed(conn, 2)


async def test_b10_f008_each_lease_is_taken_back_in_its_own_time(db: str, conn: Connection) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    await calls.set_queue(conn, queue="set", lease_for=dt.timedelta(seconds=1.6))
    for queue in ("default", "set", "other"):
        await calls.enqueue(conn, "gate", queue=queue)
    await calls.set_queue(conn, queue="set", backoff="fixed", backoff_base=dt.timedelta(0))
    at = time.monotonic()
    (by_call,) = await calls.lease(conn, lease_for=dt.timedelta(seconds=0.2))
    (by_queue,) = await calls.lease(conn, queue="set")
    (by_default,) = await calls.lease(conn, queue="other")
    assert (by_default.lease_until - by_queue.lease_until).total_seconds() > 50
    async with working(db, registry, queues=["default", "set", "other"]):
        assert (await gate.next()).id == by_call.job_id
        assert 0.2 <= time.monotonic() - at < 1.6  # upkeep comes round every second
        assert (await gate.next()).id == by_queue.job_id
        assert 1.6 <= time.monotonic() - at < 3.2
        assert gate.started.empty()
        assert await leased(conn) == 3


@pytest.mark.parametrize("swallows", [False, True])
async def test_f080_a83_a_cancelled_job_gives_its_slot_back(
    db: str,
    conn: Connection,
    swallows: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(attempts, "STOP_WITHIN_S", 0.3)
    registry = testing.registry()
    started, let_go = asyncio.Event(), asyncio.Event()

    @registry.handler("forever")
    async def forever(_payload: Any) -> None:
        started.set()
        while True:
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                if not swallows:
                    raise
            else:
                return

    job_id = await calls.enqueue(conn, "forever")
    async with working(db, registry, concurrency=1, lease_s=0.6) as the_worker:
        await started.wait()
        assert await calls.cancel(conn, job_id=job_id, reason="enough") == "running"
        other = await calls.enqueue(conn, "noop")
        await ended(conn, other, within_s=2)
        job = await ended(conn, job_id, "cancelled", within_s=4)
        assert job.attempts == 1
        assert the_worker.running == int(swallows)
        let_go.set()
    given_up = [r for r in caplog.records if "does not stop" in r.message]
    assert len(given_up) == int(swallows)
    assert await statuses(conn) == {"cancelled": 1, "completed": 1}


async def test_a83_a_thread_is_told_that_its_job_was_cancelled(db: str, conn: Connection) -> None:
    registry = Registry()
    started = threading.Event()

    @registry.handler("thread")
    def look(_payload: Any, job: Job) -> str:
        started.set()
        while not job.cancelled:
            time.sleep(0.005)
        return "saw it"

    job_id = await calls.enqueue(conn, "thread")
    async with working(db, registry, lease_s=0.6):
        await asyncio.to_thread(started.wait)
        await calls.cancel(conn, job_id=job_id)
        await until(lambda: leased_is_zero(conn), within_s=2)
    job = await calls.get_job(conn, job_id=job_id)
    assert job.status in {"cancelled", "completed"}  # what it did may count


async def leased_is_zero(conn: Connection) -> bool:
    return await leased(conn) == 0


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b06_a_job_that_takes_too_long_is_stopped_at_its_timeout(
    db: str, conn: Connection, is_async: bool
) -> None:
    registry = Registry()
    ran: list[float] = []

    if is_async:

        @registry.handler("long")
        async def long(_payload: Any) -> None:
            begun = time.monotonic()
            try:
                await asyncio.sleep(10)
            finally:
                ran.append(time.monotonic() - begun)
    else:

        @registry.handler("long")
        def long_in_thread(_payload: Any, job: Job) -> None:
            begun = time.monotonic()
            while not job.cancelled and time.monotonic() < begun + 10:
                time.sleep(0.005)
            ran.append(time.monotonic() - begun)

    job_id = await calls.enqueue(conn, "long", timeout=dt.timedelta(seconds=0.5), max_attempts=1)
    async with working(db, registry):
        job = await ended(conn, job_id, "failed", within_s=2)
    (seconds,) = ran
    assert seconds < 0.8
    assert job.finished_at is not None
    # not sooner, by the database's clock: a thread begins a moment after its attempt did
    assert dt.timedelta(seconds=0.5) <= job.finished_at - job.created_at
    assert job.last_error == "timed out after 0.5 s"


async def test_b06_the_timeout_can_be_the_queues(db: str, conn: Connection) -> None:
    await calls.set_queue(conn, queue="default", timeout=dt.timedelta(seconds=0.1))
    registry = Registry()
    gate = Gate(registry)
    job_id = await calls.enqueue(conn, "gate", max_attempts=1)
    async with working(db, registry):
        job = await ended(conn, job_id, "failed", within_s=2)
    assert job.last_error == "timed out after 0.1 s"
    assert gate.cancelled == [job_id]


@pytest.mark.parametrize("blocks", ["thread", "loop"])
async def test_f083_a_blocking_handler_keeps_its_lease(
    db: str, conn: Connection, blocks: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the blocked loop the heartbeat thread says where it stands. It also reaps, meanwhile."""
    registry = Registry()
    ran: list[int] = []

    if blocks == "thread":

        @registry.handler("sleep")
        def in_a_thread(_payload: Any, job: Job) -> str:
            ran.append(job.attempt)
            time.sleep(1.5)
            return f"attempt {job.attempt}"
    else:

        @registry.handler("sleep")
        async def in_the_loop(_payload: Any, job: Job) -> str:
            ran.append(job.attempt)
            time.sleep(4)  # noqa: ASYNC251  # the fault under test
            return f"attempt {job.attempt}"

    job_id = await calls.enqueue(conn, "sleep")
    async with working(db, registry, lease_s=0.5, reap_every_s=0.1) as worker:
        job = await ended(conn, job_id)
    assert (ran, job.attempts, worker.metrics.refused) == ([1], 1, 0)
    blocked = [r for r in caplog.records if "blocks the event loop" in r.message]
    assert bool(blocked) == (blocks == "loop")
    assert all("in_the_loop" in r.__dict__["where"] for r in blocked)


async def test_b11_a_job_that_was_taken_back_is_told_and_its_late_result_refused(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    job_id = await calls.enqueue(conn, "gate")
    async with working(db, registry, lease_s=0.6):
        job = await gate.next()
        # somebody reaped it and has it now
        await conn.execute("update batchq.leased set lease_id = lease_id + 1000")
        await until(lambda: is_true(gate.cancelled == [job_id]), within_s=2)
        assert await calls.complete(conn, job_id=job_id, lease_id=job.lease_id + 1000)
    assert await statuses(conn) == {"completed": 1}


async def is_true(value: bool) -> bool:
    return value


async def run_until_started(the_worker: Worker, gate: Gate, count: int) -> asyncio.Task[None]:
    task = asyncio.create_task(the_worker.run())
    for _ in range(count):
        await gate.next()
    return task


async def test_f013_a_stop_in_the_middle_hands_in_all_that_was_done(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    returned: set[int] = set()
    halfway = asyncio.Event()

    @registry.handler("quick")
    async def quick(_payload: Any, job: Job) -> None:
        await asyncio.sleep(0.001)
        returned.add(job.id)
        if len(returned) == 100:
            halfway.set()

    await calls.enqueue_many(conn, jobs=[{"kind": "quick"}] * 200)
    the_worker = Worker(db, registry=registry)
    task = asyncio.create_task(the_worker.run())
    await halfway.wait()
    the_worker.stop()
    async with asyncio.timeout(5):
        await task
    assert 100 <= len(returned) < 200
    completed = {job.id for job in await calls.list_jobs(conn, status="completed", n=500)}
    assert completed == returned
    rest = await calls.list_jobs(conn, status="pending", n=500)
    assert {(job.state, job.attempts) for job in rest} == {("ready", 0)}
    assert len(rest) + len(returned) == 200


async def test_f085_a37_the_end_of_the_grace_releases_what_runs_and_charges_nothing(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 10)
    the_worker = Worker(db, registry=registry, concurrency=2, grace_s=0.3)
    task = await run_until_started(the_worker, gate, 2)
    at = time.monotonic()
    the_worker.stop()
    async with asyncio.timeout(5):
        await task
    assert 0.3 <= time.monotonic() - at < 1.5
    assert len(gate.cancelled) == 2
    jobs = await calls.list_jobs(conn)
    assert {(job.state, job.attempts, job.locked_by) for job in jobs} == {("ready", 0, None)}


async def test_f085_a37_jobs_that_end_within_the_grace_are_completed(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 5)
    the_worker = Worker(db, registry=registry, concurrency=2)
    task = await run_until_started(the_worker, gate, 2)
    the_worker.stop()
    gate.open.set()
    async with asyncio.timeout(5):
        await task
    assert gate.cancelled == []
    assert await statuses(conn) == {"completed": 2, "pending": 3}
    assert await leased(conn) == 0


async def test_f085_jobs_that_arrive_after_the_stop_are_given_back_unstarted(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 10)
    the_worker = Worker(db, registry=registry)
    spy = Calls(monkeypatch)

    async def stop(_rows: Any) -> None:
        the_worker.stop(now=True)

    spy.after["settle_and_lease"] = stop
    at = time.monotonic()
    async with asyncio.timeout(8):
        await the_worker.run()
    assert time.monotonic() - at < 3
    assert gate.started.empty()
    jobs = await calls.list_jobs(conn)
    assert {(job.state, job.attempts) for job in jobs} == {("ready", 0)}


async def test_f082_a_job_can_be_cancelled_while_its_worker_stops(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    job_id = await calls.enqueue(conn, "gate")
    the_worker = Worker(db, registry=registry, lease_s=0.6, grace_s=60)
    task = await run_until_started(the_worker, gate, 1)
    the_worker.stop()
    await calls.cancel(conn, job_id=job_id)
    async with asyncio.timeout(3):
        await task
    assert (await calls.get_job(conn, job_id=job_id)).status == "cancelled"


async def test_f084_a_thread_that_does_not_end_is_left_behind_and_its_lease_kept(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "GIVE_UP_S", 0.3)
    registry = Registry()
    started, let_go = threading.Event(), threading.Event()

    @registry.handler("thread")
    def stubborn(_payload: Any, job: Job) -> None:
        started.set()
        let_go.wait(20)

    await calls.enqueue(conn, "thread")
    the_worker = Worker(db, registry=registry, grace_s=0.1, lease_s=30)
    task = asyncio.create_task(the_worker.run())
    await asyncio.to_thread(started.wait)
    the_worker.stop()
    async with asyncio.timeout(5):
        await task
    assert the_worker.running == 1
    assert "leases will run out" in caplog.text
    assert await leased(conn) == 1  # not offered to others while the thread may still work
    let_go.set()
    await until(lambda: is_true(the_worker.running == 0))


async def test_f042_a_worker_whose_run_is_cancelled_hands_its_jobs_back_and_leaves_nothing(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 5)
    the_worker = Worker(db, registry=registry, concurrency=2)
    task = await run_until_started(the_worker, gate, 2)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task
    jobs = await calls.list_jobs(conn)
    assert {(job.state, job.attempts) for job in jobs} == {("ready", 0)}

    async def nobody_is_left() -> bool:
        cursor = await conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like 'batchq-worker%'"
        )
        return bool((await cursor.fetchall())[0][0] == 0)

    await until(nobody_is_left)


async def test_f042_cancelling_at_any_moment_ends_and_leaves_nothing_leased(
    db: str, conn: Connection
) -> None:
    registry = testing.registry()
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 3000)
    for pause in (0, 0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05):
        task = asyncio.create_task(Worker(db, registry=registry, concurrency=4).run())
        await asyncio.sleep(pause)
        task.cancel()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await leased(conn) == 0
    cursor = await conn.execute("select count(*) from batchq.jobs where attempts > 1")
    assert await cursor.fetchone() == (0,)


async def test_b08_a_worker_lives_inside_a_program_of_the_users(db: str, conn: Connection) -> None:
    registry = Registry()
    done = asyncio.Event()

    @registry.handler("here")
    async def here(_payload: Any) -> None:
        done.set()

    the_worker = Worker(db, registry=registry)
    async with asyncio.TaskGroup() as group:
        group.create_task(the_worker.run())
        await calls.enqueue(conn, "here")
        async with asyncio.timeout(5):
            await done.wait()
        the_worker.stop()
    assert await statuses(conn) == {"completed": 1}
