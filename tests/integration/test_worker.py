"""A real worker at its work: what it runs, in which order, how often, and what comes of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pybatchq import calls, testing
from pybatchq.errors import InvalidArgumentError, PermanentError, RetryIn, Snooze
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.testing import Ledger
from pybatchq.worker import Worker
from tests.conftest import Connect, Connection
from tests.support.working import all_completed, ended, statuses, until, working

SOON = dt.timedelta(seconds=0.02)


async def enqueue_ledger(conn: Connection, count: int, **options: Any) -> list[int]:
    jobs = [{"kind": "ledger", **options} for _ in range(count)]
    return [job.job_id for job in await calls.enqueue_many(conn, jobs=jobs)]


async def test_a07_a13_every_job_runs_once_and_one_worker_takes_them_in_order(
    db: str, conn: Connection
) -> None:
    ids = await enqueue_ledger(conn, 200)
    async with Ledger(db) as ledger:
        await testing.drain(db, testing.registry(ledger), concurrency=1)
        assert [run.job_id for run in await ledger.runs()] == ids
    assert await statuses(conn) == {"completed": 200}


async def test_a07_f015_workers_side_by_side_share_the_jobs_and_run_none_twice(
    db: str, conn: Connection
) -> None:
    ids = await enqueue_ledger(conn, 600, payload={"ms": 1})
    async with Ledger(db) as ledger:
        registry = testing.registry(ledger)
        async with working(db, registry, name="a"), working(db, registry, name="b"):
            await all_completed(conn, 600)
        runs = await ledger.runs()
    assert sorted(run.job_id for run in runs) == ids
    assert {run.attempt for run in runs} == {1}
    cursor = await conn.execute("select count(*) from batchq.outcome group by job_id")
    assert {count for (count,) in await cursor.fetchall()} == {1}


async def test_a13_scheduled_jobs_of_one_time_start_in_the_order_of_their_ids(
    db: str, conn: Connection
) -> None:
    run_at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.3)
    ids = await enqueue_ledger(conn, 50, run_at=run_at)
    async with Ledger(db) as ledger:
        async with working(db, testing.registry(ledger), concurrency=1):
            await all_completed(conn, 50)
        runs = await ledger.runs()
    assert [run.job_id for run in runs] == ids
    assert runs[0].started_at >= run_at


async def test_a17_a23_a_job_that_fails_twice_succeeds_and_keeps_its_newest_error(
    db: str, conn: Connection
) -> None:
    payload = {"times": 2, "text": "e{attempt}"}
    job_id = await calls.enqueue(
        conn, "fail", payload, max_attempts=3, backoff="fixed", backoff_base=SOON
    )
    async with working(db, testing.registry()):
        job = await ended(conn, job_id)
    assert (job.attempts, job.result) == (3, b'"succeeded"')
    errors = msgspec.json.decode(job.errors)
    assert [error["error"].splitlines()[0] for error in errors] == [
        "RuntimeError: e2",
        "RuntimeError: e1",
    ]
    assert job.last_error == errors[0]["error"]


async def test_a18_backoff_grows_and_is_seen_beforehand_as_available_at(
    db: str, conn: Connection
) -> None:
    base = dt.timedelta(seconds=0.1)
    job_id = await calls.enqueue(
        conn, "fail", max_attempts=4, backoff="exponential", backoff_base=base,
        backoff_jitter="none",
    )  # fmt: skip
    seen: dict[int, dt.timedelta] = {}

    async def watch() -> bool:
        cursor = await conn.execute(
            "select status, attempts, available_at - updated_at from batchq.jobs where id = %s",
            (job_id,),
        )
        ((status, attempts, wait),) = await cursor.fetchall()
        if status == "pending" and attempts:
            seen[attempts] = wait
        return bool(status == "failed")

    async with working(db, testing.registry()):
        await until(watch)
    assert seen == {1: base, 2: 2 * base, 3: 4 * base}
    job = await calls.get_job(conn, job_id=job_id)
    times = [
        dt.datetime.fromisoformat(error["failed_at"]) for error in msgspec.json.decode(job.errors)
    ]
    gaps = [later - sooner for later, sooner in itertools.pairwise(times)]
    for gap, wait in zip(reversed(gaps), seen.values(), strict=True):
        assert wait <= gap <= wait + dt.timedelta(seconds=0.2)


async def test_a19_the_wait_between_attempts_can_be_the_queues(db: str, conn: Connection) -> None:
    wait = dt.timedelta(seconds=10)
    await calls.set_queue(conn, queue="slow", backoff="fixed", backoff_base=wait)
    ids = [
        await calls.enqueue(conn, "fail", queue="slow"),
        await calls.enqueue(conn, "fail", queue="slow", backoff="fixed", backoff_base=2 * wait),
    ]
    await testing.drain(db, testing.registry(), queues=["slow"])
    jobs = [await calls.get_job(conn, job_id=job_id) for job_id in ids]
    assert [job.run_at - job.updated_at for job in jobs] == [wait, 2 * wait]
    assert [job.state for job in jobs] == ["scheduled", "scheduled"]


async def test_a20_a22_a_job_that_always_fails_runs_three_times_and_then_stays_failed(
    db: str, conn: Connection
) -> None:
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=SOON)
    ran: list[int] = []
    registry = Registry()

    @registry.handler("always")
    async def always(_payload: Any, job: Job) -> None:
        ran.append(job.attempt)
        raise ValueError("no")

    job_id = await calls.enqueue(conn, "always")
    async with working(db, registry):
        job = await ended(conn, job_id, "failed")
        assert (job.max_attempts, job.attempts) == (3, 3)
        await asyncio.sleep(5 * SOON.total_seconds())  # several times its longest backoff
        (depth,) = await calls.stats(conn)
    assert ran == [1, 2, 3]
    assert (depth.dead, depth.ready, depth.scheduled, depth.leased) == (1, 0, 0, 0)


async def test_b36_a_permanent_error_is_final_at_once(db: str, conn: Connection) -> None:
    payload = {"permanent": True, "text": "never"}
    job_id = await calls.enqueue(conn, "fail", payload)
    await testing.drain(db, testing.registry())
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.status, job.attempts) == ("failed", 1)
    assert job.last_error == "never"


async def test_retry_in_is_the_wait_instead_of_the_backoff(db: str, conn: Connection) -> None:
    registry = Registry()

    @registry.handler("later")
    async def later(payload: float) -> None:
        raise RetryIn(payload, "busy")

    ids = [await calls.enqueue(conn, "later", seconds) for seconds in (60, 2.5)]
    await testing.drain(db, registry)
    jobs = [await calls.get_job(conn, job_id=job_id) for job_id in ids]
    assert [(job.run_at - job.updated_at).total_seconds() for job in jobs] == [60, 2.5]
    assert [job.attempts for job in jobs] == [1, 1]


async def test_f067_waits_of_a_handler_that_are_none_spoil_no_other_job(
    db: str, conn: Connection
) -> None:
    registry = testing.registry()
    waits = {"past": -5.0, "huge": 1e300, "inf": math.inf, "nan": math.nan}

    @registry.handler("retry")
    async def retry(payload: str, job: Job) -> None:
        if job.attempt == 1:
            raise RetryIn(waits[payload])

    @registry.handler("snooze")
    async def snooze(payload: str) -> None:
        raise Snooze(waits[payload])

    retried = {name: await calls.enqueue(conn, "retry", name) for name in waits}
    snoozed = {n: await calls.enqueue(conn, "snooze", n) for n in waits if n != "past"}
    good = [await calls.enqueue(conn, "noop") for _ in range(10)]
    async with working(db, registry):
        for job_id in [*good, retried["past"]]:
            await ended(conn, job_id)
        for name in ("huge", "inf"):
            for job_id in (retried[name], snoozed[name]):
                job = await ended(conn, job_id, "failed")
                assert "wait" in (job.last_error or "")
        for job_id in (retried["nan"], snoozed["nan"]):
            job = await calls.get_job(conn, job_id=job_id)
            assert (job.state, job.attempts) == ("scheduled", 1)


async def test_f014_snoozing_gives_the_attempt_back_and_keeps_the_failures(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    plans = {"first": "sssssfF", "second": "fsfsf"}
    steps = {name: iter(plan) for name, plan in plans.items()}
    endings = {"s": Snooze(0.01), "f": RetryIn(0.01), "F": RetryIn(60)}

    @registry.handler("plan")
    async def plan(payload: str) -> None:
        raise endings[next(steps[payload])]

    first, second = [await calls.enqueue(conn, "plan", name, max_attempts=3) for name in plans]

    async def has_failed_twice() -> bool:
        job = await calls.get_job(conn, job_id=first)
        return len(msgspec.json.decode(job.errors)) == 2

    async with working(db, registry, concurrency=2):
        await until(has_failed_twice)
        assert (await ended(conn, second, "failed")).attempts == 3
    job = await calls.get_job(conn, job_id=first)
    assert (job.state, job.attempts) == ("scheduled", 2)  # and may be tried once more


async def test_a45_a_worker_leaves_other_queues_alone(db: str, conn: Connection) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "noop", "queue": "b"}] * 1000)
    await calls.enqueue_many(conn, jobs=[{"kind": "noop", "queue": "a"}] * 50)
    await testing.drain(db, testing.registry(), queues=["a"])
    (depth,) = await calls.stats(conn, queue="b")
    assert (depth.ready, depth.leased) == (1000, 0)
    assert await statuses(conn) == {"completed": 50, "pending": 1000}


async def test_a46_queues_are_levels_of_preference(db: str, conn: Connection) -> None:
    for queue in ("low", "high"):
        await enqueue_ledger(conn, 40, queue=queue)
    async with Ledger(db) as ledger:
        await testing.drain(db, testing.registry(ledger), queues=["high", "low"], concurrency=4)
        order = [run.job_id for run in await ledger.runs()]
    high = {job.id for job in await calls.list_jobs(conn, queue="high", n=50)}
    assert len(high) == 40
    # a turn fills two slots, so the last of high may start together with the first of low
    assert set(order[:40]) - high == set()


async def test_a47_a_queue_that_is_not_named_is_default(db: str, conn: Connection) -> None:
    job_id = await calls.enqueue(conn, "noop")
    await testing.drain(db, testing.registry())
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.queue, job.status) == ("default", "completed")


class Gate:
    """A kind of job that says when it runs, and waits until it may end."""

    def __init__(self, registry: Registry, kind: str = "gate") -> None:
        self.started: asyncio.Queue[Job] = asyncio.Queue()
        self.open = asyncio.Event()

        @registry.handler(kind)
        async def wait(_payload: Any, job: Job) -> str:
            await self.started.put(job)
            await self.open.wait()
            return "through"

    async def next(self) -> Job:
        async with asyncio.timeout(10):
            return await self.started.get()


async def test_a81_b24_a_job_of_higher_priority_is_the_next_to_start(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    gate = Gate(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "gate"}] * 10_000)
    async with working(db, registry, concurrency=1):
        await gate.next()
        urgent = await calls.enqueue(conn, "gate", priority=10)
        gate.open.set()
        assert (await gate.next()).id == urgent


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_b02_so_many_jobs_run_at_once_and_no_more(
    db: str, conn: Connection, is_async: bool
) -> None:
    registry = Registry()
    now: set[int] = set()
    most = 0
    lock = threading.Lock()

    def enter(job: Job) -> None:
        nonlocal most
        with lock:
            now.add(job.id)
            most = max(most, len(now))

    if is_async:

        @registry.handler("busy")
        async def busy(_payload: Any, job: Job) -> None:
            enter(job)
            await asyncio.sleep(0.03)
            now.discard(job.id)
    else:

        @registry.handler("busy")
        def busy_in_thread(_payload: Any, job: Job) -> None:
            enter(job)
            time.sleep(0.03)
            with lock:
                now.discard(job.id)

    await calls.enqueue_many(conn, jobs=[{"kind": "busy"}] * 80)
    async with working(db, registry, concurrency=8) as worker:
        await all_completed(conn, 80)
        assert worker.running == 0
    assert most == 8


async def test_b12_b16_a_handler_knows_its_job_and_its_result_is_kept(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    told: list[Any] = []

    @registry.handler("know")
    async def know(payload: Any, job: Job) -> dict[str, Any]:
        told.extend([payload, job.id, job.queue, job.kind, job.attempt, job.max_attempts])
        told.append(job.headers)
        until_when = await calls.assert_lease(conn, job_id=job.id, lease_id=job.lease_id)
        assert until_when > dt.datetime.now(dt.UTC)
        return {"n": 5, "big": 2**60}

    job_id = await calls.enqueue(
        conn, "know", [1, {"a": None}], headers={"trace": "ä"}, max_attempts=7
    )
    await testing.drain(db, registry)
    assert told == [[1, {"a": None}], job_id, "default", "know", 1, 7, {"trace": "ä"}]
    job = await calls.get_job(conn, job_id=job_id)
    assert job.result is not None
    assert msgspec.json.decode(job.result) == {"n": 5, "big": 2**60}


async def test_the_newest_progress_is_seen_while_the_job_runs(db: str, conn: Connection) -> None:
    registry = Registry()
    gate = Gate(registry)
    job_id = await calls.enqueue(conn, "gate")
    async with working(db, registry):
        job = await gate.next()
        job.progress({"done": 10})
        job.progress({"done": 40})

        async def is_saved() -> bool:
            record = await calls.get_job(conn, job_id=job_id)
            return record.progress == b'{"done": 40}'

        await until(is_saved, within_s=3)
        with pytest.raises(InvalidArgumentError):
            job.progress(math.nan)
        with pytest.raises(InvalidArgumentError):
            job.progress("x" * 100_000)
        await calls.complete(conn, job_id=job_id, lease_id=job.lease_id, result="mine")
        job.progress(1)  # nobody's any more: dropped
        gate.open.set()
    assert (await calls.get_job(conn, job_id=job_id)).result == b'"mine"'


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


HOSTILE: dict[str, Callable[[], Any]] = {
    "object": object,
    "set": lambda: {1},
    "bytes": lambda: b"x",
    "nan": lambda: math.nan,
    "nul": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "50_mb": lambda: "x" * 50_000_000,
    "itself": circle,
}


async def test_a39_f059_f062_f086_hostile_handlers_cost_their_own_job_and_nothing_else(
    db: str, conn: Connection
) -> None:
    registry = testing.registry()

    class MuteError(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    raises: dict[str, BaseException] = {
        "mute": MuteError(),
        "exit": SystemExit(1),
        "interrupt": KeyboardInterrupt(),
        "group": BaseExceptionGroup("g", [ValueError("\udce5")]),
        "long": ValueError("x" * 5_000_000),
        "cancelled": asyncio.CancelledError(),
        "stop": StopIteration(),
    }

    @registry.handler("returns")
    async def returns(payload: str) -> Any:
        return HOSTILE[payload]()

    @registry.handler("raises")
    async def raising(payload: str) -> None:
        raise raises[payload]

    @registry.handler("raises in a thread")
    def raising_in_a_thread(payload: str) -> None:
        raise raises[payload]

    hostile = [{"kind": "returns", "payload": name} for name in HOSTILE]
    hostile += [{"kind": "raises", "payload": name} for name in raises]
    hostile += [{"kind": "raises in a thread", "payload": name} for name in raises]
    jobs = [{**job, "max_attempts": 1} for job in hostile] + [{"kind": "noop"}] * 20
    await calls.enqueue_many(conn, jobs=jobs)
    await testing.drain(db, registry, concurrency=4)
    assert await statuses(conn) == {"failed": len(hostile), "completed": 20}
    failed = await calls.list_jobs(conn, status="failed", n=100)
    assert all(job.last_error for job in failed)
    assert all(len(job.last_error or "") <= 2048 for job in failed)
    refused = [job for job in failed if job.kind == "returns"]
    assert all("result cannot be stored: " in (job.last_error or "") for job in refused)


async def test_f061_a_payload_too_deep_for_python_fails_alone(db: str, conn: Connection) -> None:
    deep = "select batchq.enqueue('noop', (repeat('[', 6000) || repeat(']', 6000))::jsonb)"
    cursor = await conn.execute(deep)
    ((job_id,),) = await cursor.fetchall()
    await calls.enqueue_many(conn, jobs=[{"kind": "noop"}] * 20)
    await testing.drain(db, testing.registry())
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.status, job.attempts) == ("failed", 1)
    assert job.last_error == "decode payload: payload: nested too deeply"
    assert await statuses(conn) == {"failed": 1, "completed": 20}


async def test_f079_d2_jobs_of_an_unknown_kind_are_put_back_and_not_charged(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [{"kind": kind} for kind in ("new", "noop") * 5]
    await calls.enqueue_many(conn, jobs=jobs)
    await testing.drain(db, testing.registry())
    assert await statuses(conn) == {"completed": 5, "pending": 5}
    waiting = await calls.list_jobs(conn, kind="new")
    assert {(job.state, job.attempts) for job in waiting} == {("scheduled", 0)}
    assert len({job.run_at for job in waiting}) == 5
    (depth,) = await calls.stats(conn)
    assert depth.scheduled == 5
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "no handler for this kind: its jobs are put back"
    ]


async def test_f079_a_worker_without_any_handler_lives_and_takes_nothing_away(
    db: str, conn: Connection
) -> None:
    await calls.enqueue(conn, "noop")
    await testing.drain(db, Registry())
    await until(lambda: calls.next_due(conn, queues=["default"]))
    job = (await calls.list_jobs(conn))[0]
    assert (job.state, job.attempts, job.last_error) == ("scheduled", 0, None)
    async with working(db, testing.registry()):
        await all_completed(conn, 1)


async def test_a21_handlers_may_finish_their_job_in_their_own_transaction(
    db: str, connect: Connect
) -> None:
    conn, own = await connect(), await connect()
    registry = Registry()

    @registry.handler("own")
    async def complete_it(_payload: Any, job: Job) -> dict[str, int]:
        async with own.transaction():
            await calls.assert_lease(own, job_id=job.id, lease_id=job.lease_id)
            await calls.complete(own, job_id=job.id, lease_id=job.lease_id, result={"by": 1})
        return {"by": 2}

    job_id = await calls.enqueue(conn, "own")
    await testing.drain(db, registry)
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.status, job.result) == ("completed", b'{"by": 1}')


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": -1},
        {"queues": []},
        {"queues": "default"},
        {"poll_s": 0},
        {"poll_s": -1},
        {"lease_s": 0},
        {"lease_s": -5},
        {"lease_s": 1e9},
        {"reap_every_s": 0},
        {"lease_timeout_s": 0},
        {"grace_s": -1},
    ],
    ids=str,
)
def test_f065_a_worker_with_silly_settings_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Worker("", **options)


@pytest.mark.parametrize("queues", [[""], ["x" * 256], ["q"] * 101, ["a\0b"]], ids=len)
async def test_f064_a_worker_of_a_queue_that_cannot_be_ends_at_once(
    db: str, queues: list[str]
) -> None:
    async with asyncio.timeout(10):
        with pytest.raises(InvalidArgumentError):
            await Worker(db, queues=queues, registry=Registry()).run()


async def test_f072_a_database_without_batchq_ends_the_worker_with_the_reason(
    empty_db: str,
) -> None:
    from pybatchq.errors import VersionMismatchError

    async with asyncio.timeout(10):
        with pytest.raises(VersionMismatchError, match="batchq") as caught:
            await Worker(empty_db, registry=Registry()).run()
    assert "LINE 1" not in str(caught.value)  # what failed is no business of a user's
    assert "\n" not in str(caught.value)


async def test_permanent_errors_of_threads_and_results_of_threads(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    threads: set[str] = set()

    @registry.handler("threaded")
    def threaded(payload: int, job: Job) -> dict[str, int]:
        threads.add(threading.current_thread().name)
        if payload < 0:
            raise PermanentError("negative")
        return {"twice": 2 * payload, "attempt": job.attempt}

    ids = [await calls.enqueue(conn, "threaded", number) for number in (21, -1)]
    await testing.drain(db, registry)
    good, bad = [await calls.get_job(conn, job_id=job_id) for job_id in ids]
    assert (good.status, good.result) == ("completed", b'{"twice": 42, "attempt": 1}')
    assert (bad.status, bad.attempts) == ("failed", 1)
    assert all(name.startswith("batchq") for name in threads)
