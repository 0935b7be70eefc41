"""When a worker looks for jobs: the doorbell, its gaps and its loss, polling, and idleness."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pybatchq import calls, lookout, testing
from pybatchq.handlers import Registry
from pybatchq.job import Job
from tests.conftest import Connect, Connection
from tests.support.working import (
    Calls,
    all_completed,
    ended,
    kill_sessions,
    statuses,
    until,
    working,
)

AT_ONCE_S = 1.0
NEVER_POLLS: dict[str, Any] = {"poll_s": 60.0, "reap_every_s": 60.0}
LISTENING = """
select pid from pg_stat_activity
where datname = current_database() and application_name like 'batchq-worker listen%'
"""
PARKED = """
select count(*) from pg_locks l
where l.locktype = 'advisory' and l.classid = 1651572528
  and l.database = (select oid from pg_database where datname = current_database())
"""


async def listeners(conn: Connection) -> list[int]:
    cursor = await conn.execute(LISTENING.encode())
    return [pid for (pid,) in await cursor.fetchall()]


async def is_parked(conn: Connection) -> bool:
    cursor = await conn.execute(PARKED.encode())
    return bool((await cursor.fetchall())[0][0])


async def parked(conn: Connection, spy: Calls) -> None:
    """Wait until the worker sleeps: parked, and it has asked for nothing for a while."""
    await until(lambda: is_parked(conn))
    await until(lambda: is_true(spy.seen[-1][0] < time.monotonic() - 0.08))


async def is_true(value: bool) -> bool:
    return value


async def starts_at_once(conn: Connection, **options: Any) -> None:
    await ended(conn, await calls.enqueue(conn, "noop", **options), within_s=AT_ONCE_S)


async def test_f036_a_parked_worker_starts_a_job_at_once(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), **NEVER_POLLS):
        for _ in range(5):
            await parked(conn, spy)
            await starts_at_once(conn)


GAPS = {
    "first look": ("after", "settle_and_lease", "settle_and_lease"),
    "listening, before parking": ("before", "park", "park"),
    "parked, before asking": ("after", "park", "park"),
    "asking": ("before", "bell_pending", "bell_pending"),
    "asked, before looking": ("after", "bell_pending", "bell_pending"),
    "looking": ("before", "settle_and_lease", "bell_pending"),
    "looked, before sleeping": ("after", "settle_and_lease", "bell_pending"),
}


@pytest.mark.parametrize(("side", "function", "once"), GAPS.values(), ids=GAPS)
async def test_f036_a_job_enqueued_in_any_gap_starts_at_once(  # noqa: PLR0917
    db: str,
    conn: Connection,
    monkeypatch: pytest.MonkeyPatch,
    side: str,
    function: str,
    once: str,
) -> None:
    spy = Calls(monkeypatch)
    enqueued: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def enqueue(_: Any) -> None:
        if not enqueued.done() and once in [name for _, name in spy.seen]:
            query = "select batchq.enqueue('noop')"
            enqueued.set_result((await (await conn.execute(query)).fetchall())[0][0])

    getattr(spy, side)[function] = enqueue
    async with working(db, testing.registry(), **NEVER_POLLS):
        async with asyncio.timeout(5):
            job_id = await enqueued
        await ended(conn, job_id, within_s=AT_ONCE_S)


async def test_f036_a_job_enqueued_while_the_worker_opens_its_doorbell_starts_at_once(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = calls.listen
    enqueued: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def listen(listening: calls.Connection) -> None:
        query = "select batchq.enqueue('noop')"
        enqueued.set_result((await (await conn.execute(query)).fetchall())[0][0])
        await real(listening)

    monkeypatch.setattr(calls, "listen", listen)
    async with working(db, testing.registry(), **NEVER_POLLS):
        await ended(conn, await enqueued, within_s=AT_ONCE_S)


async def test_f030_f036_a_job_committed_late_by_a_transaction_older_than_the_parking_is_found(
    db: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, producer = await connect(), await connect()
    spy = Calls(monkeypatch)
    for ending in ("rollback", "commit"):
        await producer.execute("begin")
        cursor = await producer.execute("select batchq.enqueue('noop')")
        ((job_id,),) = await cursor.fetchall()
        at = time.monotonic()
        async with working(db, testing.registry(), **NEVER_POLLS):
            await until(functools.partial(has_asked_again, spy, at), within_s=5)
            await producer.execute(ending.encode())
            if ending == "commit":
                await ended(conn, job_id, within_s=AT_ONCE_S)
    assert await statuses(conn) == {"completed": 1}


async def has_asked_again(spy: Calls, since: float) -> bool:
    return spy.since(since)["bell_pending"] >= 3


async def make_it_ready(  # noqa: PLR0911
    conn: Connection, how: str
) -> Callable[[], Awaitable[Any]]:
    """Set everything up but the last step, and give that."""
    now = dt.timedelta(0)
    soon = dt.timedelta(milliseconds=100)
    match how:
        case "enqueue":
            return functools.partial(calls.enqueue, conn, "noop")
        case "enqueue_many":
            return functools.partial(calls.enqueue_many, conn, jobs=[{"kind": "noop"}])
        case "due":
            return functools.partial(calls.enqueue, conn, "noop", delay=soon)
        case "resume":
            await calls.pause(conn, queue="default")
            await calls.enqueue(conn, "noop")
            return functools.partial(calls.resume, conn, queue="default")
    job_id = await calls.enqueue(conn, "noop", backoff="fixed", backoff_base=now)
    (held,) = await calls.lease(conn, lease_for=soon if how == "reap" else None)
    fail = functools.partial(calls.fail, conn, job_id=job_id, lease_id=held.lease_id, error="e")
    match how:
        case "release":
            return functools.partial(calls.release, conn, job_id=job_id, lease_id=held.lease_id)
        case "retry":
            return fail
        case "reap":
            return functools.partial(until, functools.partial(calls.reap, conn))
        case _:
            await fail(permanent=True)
            return functools.partial(calls.redrive, conn, job_ids=[job_id])


@pytest.mark.parametrize(
    "how",
    ["enqueue", "enqueue_many", "due", "resume", "release", "retry", "reap", "redrive"],
)
async def test_f036_whatever_makes_a_job_ready_wakes_a_parked_worker(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    act = await make_it_ready(conn, how)
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), **NEVER_POLLS):
        await parked(conn, spy)
        await act()
        await all_completed(conn, 1, within_s=AT_ONCE_S)


async def test_a80_a_delayed_job_starts_in_its_time(db: str, conn: Connection) -> None:
    registry = Registry()
    started: dict[int, dt.datetime] = {}

    @registry.handler("note")
    async def note(_payload: Any, job: Job) -> None:
        cursor = await conn.execute("select clock_timestamp()")
        started[job.id] = (await cursor.fetchall())[0][0]

    async with working(db, registry, **NEVER_POLLS):
        delays = [dt.timedelta(seconds=seconds) for seconds in (1.2, 0.8, 0.4)]
        ids = [await calls.enqueue(conn, "note", delay=delay) for delay in delays]
        await all_completed(conn, 3, within_s=5)
    for job_id, delay in zip(ids, delays, strict=True):
        late = started[job_id] - (await calls.get_job(conn, job_id=job_id)).created_at - delay
        assert dt.timedelta(0) <= late < dt.timedelta(seconds=0.2)


async def test_f031_a_lost_listener_is_replaced_and_nothing_is_missed(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), **NEVER_POLLS):
        for _ in range(4):
            await parked(conn, spy)
            (lost,) = await listeners(conn)
            assert await kill_sessions(conn, "batchq-worker listen%") == 1
            await starts_at_once(conn)  # enqueued while nobody listens
            await until(functools.partial(is_another, conn, lost), within_s=2)
            await parked(conn, spy)
            await starts_at_once(conn)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["doorbell lost: polling until the connection is back"] * 4


async def test_a_handler_that_blocked_the_loop_makes_no_connection_lost(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both connections wait for an answer while the loop stands still: it is ours, not theirs."""
    monkeypatch.setattr("pybatchq.listen.CALL_TIMEOUT_S", 0.3)
    spy = Calls(monkeypatch)
    registry = testing.registry()

    @registry.handler("blocks")
    async def blocks(payload: float) -> None:
        for _ in range(20):  # so that it meets every call of the worker
            time.sleep(payload)  # noqa: ASYNC251  # as handlers should not
            await asyncio.sleep(0)

    async with working(db, registry, lease_timeout_s=0.3, **NEVER_POLLS) as worker:
        await parked(conn, spy)
        before = await listeners(conn)
        await ended(conn, await calls.enqueue(conn, "blocks", 0.5), within_s=30)
        await starts_at_once(conn)
        assert await listeners(conn) == before
        assert worker.metrics.reconnects == 0
    said = [record.message for record in caplog.records]
    assert not [text for text in said if "lost" in text or "failed" in text]


async def is_another(conn: Connection, lost: int) -> bool:
    pids = await listeners(conn)
    return len(pids) == 1 and pids != [lost]


async def test_f031_a_listener_lost_while_the_worker_is_busy_is_replaced(
    db: str, conn: Connection
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 3000)
    async with working(db, testing.registry(), **NEVER_POLLS):
        for _ in range(5):
            await until(lambda: listeners(conn))
            await kill_sessions(conn, "batchq-worker listen%")
        await all_completed(conn, 3000)
        await until(lambda: is_parked(conn))
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=AT_ONCE_S)


async def test_f032_f081_a_listener_that_does_not_answer_stops_nothing_and_is_replaced(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "SAFETY_LOOK_S", 0.3)
    monkeypatch.setattr("pybatchq.listen.CALL_TIMEOUT_S", 0.3)
    registry = testing.registry()
    started = asyncio.Event()

    @registry.handler("forever")
    async def forever(_payload: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    spy = Calls(monkeypatch)
    async with working(db, registry, lease_s=0.6, **NEVER_POLLS):
        job_id = await calls.enqueue(conn, "forever")
        await started.wait()
        await parked(conn, spy)
        (stuck,) = await listeners(conn)
        os.kill(stuck, signal.SIGSTOP)
        try:
            await calls.cancel(conn, job_id=job_id)  # told by heartbeat, not by the doorbell
            await ended(conn, job_id, "cancelled", within_s=8)
            # nobody hears this ring; the safety look finds the job
            await ended(conn, await calls.enqueue(conn, "noop"), within_s=8)
            await until(lambda: has_others(conn, stuck), within_s=8)
        finally:
            os.kill(stuck, signal.SIGCONT)
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=AT_ONCE_S)


async def has_others(conn: Connection, stuck: int) -> bool:
    return any(pid != stuck for pid in await listeners(conn))


async def test_f039_a40_without_a_doorbell_jobs_are_found_by_polling(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), doorbell=False, poll_s=0.3, reap_every_s=60):
        await starts_at_once(conn)
        at = time.monotonic()
        await asyncio.sleep(1.2)  # idle for four polls
        looks = spy.since(at)
        assert 2 <= looks["settle_and_lease"] <= 5
        assert set(looks) == {"settle_and_lease"}
        at = time.monotonic()
        await starts_at_once(conn)
        assert time.monotonic() - at < 0.3 + 0.2
        assert await listeners(conn) == []


async def test_a40_an_idle_worker_leaves_the_database_alone(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), poll_s=0.1, reap_every_s=5):
        await starts_at_once(conn)
        await parked(conn, spy)
        at = time.monotonic()
        await asyncio.sleep(2.5)  # half of the five seconds in which it may look after things once
        assert sum(spy.since(at).values()) <= 1
        assert set(spy.since(at)) <= {"maintain"}


async def test_f051_jobs_that_may_not_run_make_no_worker_restless(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 10_000)
    await calls.enqueue_many(conn, jobs=[{"kind": "noop", "delay": "1 h"}] * 1000)
    await calls.pause(conn, queue="default")
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), poll_s=0.5, reap_every_s=60):
        await parked(conn, spy)
        at = time.monotonic()
        await asyncio.sleep(1.2)
        assert sum(spy.since(at).values()) <= 3
    assert await statuses(conn) == {"pending": 11_000}


async def test_f051_a_due_job_that_others_hold_makes_no_worker_spin(
    db: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, holder = await connect(), await connect()
    job_id = await calls.enqueue(conn, "noop", delay=dt.timedelta(milliseconds=50))
    await holder.execute("begin")
    await holder.execute("select from batchq.scheduled where job_id = %s for update", (job_id,))
    spy = Calls(monkeypatch)
    async with working(db, testing.registry(), poll_s=0.5, reap_every_s=60):
        await asyncio.sleep(1.5)
        assert spy.since(0)["settle_and_lease"] <= 20
        await holder.execute("rollback")
        await ended(conn, job_id, within_s=AT_ONCE_S)


async def test_f037_a_stream_of_rings_starves_nobody(db: str, connect: Connect) -> None:
    conn, ringer = await connect(), await connect()
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 1000)
    async with working(db, testing.registry(), **NEVER_POLLS):
        ringing = asyncio.create_task(ring_for(ringer, 1.0))
        await all_completed(conn, 1000, within_s=10)
        await ringing


async def ring_for(conn: Connection, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await conn.execute("notify batchq, '1'")


async def test_f034_the_listening_session_is_idle_and_never_in_a_transaction(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    query = (
        "select state, xact_start from pg_stat_activity where datname = current_database()"
        " and application_name like 'batchq-worker listen%'"
    )
    async with working(db, testing.registry(), **NEVER_POLLS):
        await parked(conn, spy)
        for _ in range(20):
            await starts_at_once(conn)
            cursor = await conn.execute(query)
            assert all(state != "idle in transaction" for state, _ in await cursor.fetchall())
        await parked(conn, spy)
        cursor = await conn.execute(query)
        assert await cursor.fetchall() == [("idle", None)]


async def test_a79_parked_workers_ask_once_each_for_one_job(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Calls(monkeypatch)
    ran: list[int] = []
    registry = Registry()

    @registry.handler("once")
    async def once(_payload: Any, job: Job) -> None:
        ran.append(job.attempt)

    async with contextlib.AsyncExitStack() as stack:
        for number in range(8):
            await stack.enter_async_context(working(db, registry, name=f"w{number}", **NEVER_POLLS))

        async def all_parked() -> bool:
            cursor = await conn.execute(PARKED.encode())
            return bool((await cursor.fetchall())[0][0] == 8)

        await until(all_parked)
        await parked(conn, spy)
        at = time.monotonic()
        await ended(conn, await calls.enqueue(conn, "once"), within_s=AT_ONCE_S)
        await asyncio.sleep(0.2)  # whoever was woken has asked by then
        # each at most once, and the one that got it once more to hand it in
        assert spy.since(at)["settle_and_lease"] <= 8 + 2
    assert ran == [1]


async def test_f035_a_busy_worker_is_not_rung_for(
    db: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, heard = await connect(), await connect()
    await heard.execute("listen batchq")
    registry = testing.registry()
    let_go = asyncio.Event()
    started = asyncio.Event()

    @registry.handler("hold")
    async def hold(_payload: Any) -> None:
        started.set()
        await let_go.wait()

    async with working(db, registry, concurrency=1, **NEVER_POLLS):
        await calls.enqueue(conn, "hold")
        await started.wait()
        await until(lambda: is_not_parked(conn))
        async for _ in heard.notifies(timeout=0.05):
            pass
        await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 50)
        rings = [ring async for ring in heard.notifies(timeout=0.1)]
        assert rings == []
        let_go.set()
        await all_completed(conn, 51)


async def is_not_parked(conn: Connection) -> bool:
    return not await is_parked(conn)
