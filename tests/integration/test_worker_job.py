"""What a handler is given, end to end: typed payloads, its job, its lease guard, hooks, logs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from pybatchq import calls, testing
from pybatchq.errors import LeaseLostError
from pybatchq.handlers import Registry
from pybatchq.job import Job
from tests.conftest import Connect, Connection
from tests.support import typed_kinds
from tests.support.processes import ROOT, process, worker_process
from tests.support.typed_kinds import PLACES
from tests.support.working import ended, statuses, until, working


async def test_a35_a36_payloads_come_as_their_annotation_says_wherever_the_handler_runs(
    db: str, conn: Connection
) -> None:
    names = {"data": "Data", "struct": "Struct", "typed": "dict", "model": "Model"}
    good: dict[str, int] = {}
    bad: dict[str, int] = {}
    for sort in names:
        for place in PLACES:
            kind = f"{sort} {place}"
            good[kind] = await calls.enqueue(conn, kind, {"text": "ä", "number": 2})
            bad[kind] = await calls.enqueue(conn, kind, {"text": "ä", "number": "two"})
    async with working(db, typed_kinds.registry):
        for kind, job_id in good.items():
            result = msgspec.json.decode((await ended(conn, job_id)).result or b"")
            assert result == [names[kind.split()[0]], {"text": "ä", "number": 2}]
        for kind, job_id in bad.items():
            job = await ended(conn, job_id, "failed")
            assert job.attempts == 1  # for good, although three are allowed
            assert (job.last_error or "").startswith("decode payload: number: "), kind


@pytest.mark.parametrize("place", PLACES)
async def test_progress_is_seen_while_the_job_runs_wherever_it_runs(
    db: str, conn: Connection, place: str
) -> None:
    job_id = await calls.enqueue(conn, f"long {place}")

    async def is_seen() -> bool:
        return (await calls.get_job(conn, job_id=job_id)).progress == b'{"at": 2}'

    async with working(db, typed_kinds.registry):
        await until(is_seen, within_s=5)
        assert (await calls.get_job(conn, job_id=job_id)).status == "running"


async def test_b12_a_job_knows_its_uuid_its_deadline_and_its_fencing_token(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    seen: list[Job] = []
    deadlines: list[dt.datetime | None] = []

    @registry.handler("look")
    async def look(_payload: Any, job: Job) -> None:
        seen.append(job)
        deadlines.append(job.deadline)

    timed = await calls.enqueue(conn, "look", timeout=dt.timedelta(seconds=60))
    free = await calls.enqueue(conn, "look")
    async with working(db, registry, concurrency=1):
        first, second = await ended(conn, timed), await ended(conn, free)
    assert [job.uuid for job in seen] == [first.uuid, second.uuid]
    assert seen[0].lease_id < seen[1].lease_id
    assert deadlines[0] is not None
    left = deadlines[0] - dt.datetime.now(dt.UTC)
    assert dt.timedelta(seconds=50) < left <= dt.timedelta(seconds=60)
    assert deadlines[1] is None


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.parametrize("loses", [True, False], ids=["lost", "kept"])
async def test_b11_the_lease_guard_rolls_writes_back_when_the_lease_is_lost(
    db: str, connect: Connect, is_async: bool, loses: bool
) -> None:
    """Somebody takes the job over while its handler is inside the guard."""
    conn, own = await connect(), await connect()
    await conn.execute("create table effect (lease_id bigint)")
    registry = Registry()
    inside, go_on = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    insert = "insert into effect values (%s)"

    if is_async:

        @registry.handler("effect")
        async def effect(_payload: Any, job: Job) -> None:
            try:
                async with job.lease_guard(own):
                    await own.execute(insert, [job.lease_id])
                    inside.set()
                    await asyncio.to_thread(go_on.wait, 10)
            except LeaseLostError as error:
                errors.append(error)
                raise
    else:

        @registry.handler("effect")
        def effect_in_thread(_payload: Any, job: Job) -> None:
            with psycopg.connect(db, autocommit=True) as mine:
                try:
                    with job.lease_guard(mine):
                        mine.execute(insert, [job.lease_id])
                        inside.set()
                        go_on.wait(10)
                except LeaseLostError as error:
                    errors.append(error)
                    raise

    job_id = await calls.enqueue(conn, "effect", backoff="fixed", backoff_base=dt.timedelta(0))
    async with working(db, registry, lease_s=60):  # no heartbeat tells it before
        await asyncio.to_thread(inside.wait, 10)
        if loses:
            await conn.execute("update batchq.leased set lease_id = lease_id + 1000")
        go_on.set()
        if loses:
            await until(lambda: is_true(bool(errors)))
        else:
            await ended(conn, job_id)
    cursor = await conn.execute("select count(*) from effect")
    assert await cursor.fetchone() == (0 if loses else 1,)
    assert len(errors) == int(loses)


async def is_true(value: bool) -> bool:
    return value


async def test_the_lease_guard_lets_errors_of_its_block_pass_and_rolls_back(
    db: str, connect: Connect
) -> None:
    conn, own = await connect(), await connect()
    await conn.execute("create table effect (lease_id bigint)")
    registry = Registry()

    @registry.handler("effect")
    async def effect(_payload: Any, job: Job) -> None:
        async with job.lease_guard(own):
            await own.execute("insert into effect values (1)")
            raise ZeroDivisionError("inside")

    job_id = await calls.enqueue(conn, "effect", max_attempts=1)
    async with working(db, registry):
        job = await ended(conn, job_id, "failed")
    assert (job.last_error or "").startswith("ZeroDivisionError: inside")
    cursor = await conn.execute("select count(*) from effect")
    assert await cursor.fetchone() == (0,)
    assert own.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def test_b11_the_example_moves_money_once_though_its_worker_is_frozen_in_the_middle(
    db: str, connect: Connect, tmp_path: Path
) -> None:
    """The frozen one holds the rows of its transaction; it lets go when it finds its lease lost."""
    conn, holder = await connect(), await connect()
    await conn.execute((ROOT / "examples" / "effect_once.py").read_text().split('"""')[3].encode())
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    settings = {"BATCHQ_LEASE": "1s", "BATCHQ_REAP_EVERY": "200ms"}
    options = ("--handlers", "effect_once")
    examples = ROOT / "examples"
    payload = {"giver": "ada", "taker": "alan", "amount": 5}
    with process(db, tmp_path / "frozen", *options, cwd=examples, **settings) as frozen:
        await frozen.logged("worker started")
        async with holder.transaction():
            await holder.execute("select from account for update")
            job_id = await calls.enqueue(conn, "transfer", payload)
            await until(lambda: waits_for_a_lock(conn))
            frozen.signal(signal.SIGSTOP)
            with process(db, tmp_path / "other", *options, cwd=examples, **settings) as other:
                await until(lambda: has_attempts(conn, job_id, 2))
                await holder.execute("rollback")
                frozen.signal(signal.SIGCONT)
                job = await ended(conn, job_id)
                await frozen.logged("lost")  # it is told by its heartbeat, or refused
                assert "attempt failed" not in other.log
    assert (job.status, job.attempts) == ("completed", 2)
    cursor = await conn.execute("select owner, balance from account order by 1")
    assert await cursor.fetchall() == [("ada", 95), ("alan", 5)]
    cursor = await conn.execute("select job_id from transfer")
    assert await cursor.fetchall() == [(job_id,)]


async def waits_for_a_lock(conn: Connection) -> bool:
    cursor = await conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock' and query like 'update account%'"
    )
    return bool((await cursor.fetchall())[0][0])


async def has_attempts(conn: Connection, job_id: int, attempts: int) -> bool:
    return (await calls.get_job(conn, job_id=job_id)).attempts == attempts


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_hooks_run_around_every_attempt_where_its_handler_runs(
    db: str, conn: Connection, place: str
) -> None:
    registry = Registry()
    told: list[tuple[Any, ...]] = []
    threads: set[str] = set()

    def say(*words: Any) -> None:
        told.append(words)
        threads.add(threading.current_thread().name)

    registry.before.append(lambda job: say("all", job.attempt))
    registry.after.append(lambda job, error: say("all", job.attempt, type(error).__name__))

    def run(_payload: Any, job: Job) -> None:
        say("runs", job.attempt)
        if job.attempt == 1:
            raise ZeroDivisionError

    async def run_async(payload: Any, job: Job) -> None:
        run(payload, job)

    registry.handler(
        "hooked",
        before=lambda job: say("mine", job.attempt),
        after=lambda job, error: say("mine", job.attempt, type(error).__name__),
    )(run_async if place == "loop" else run)
    job_id = await calls.enqueue(conn, "hooked", backoff="fixed", backoff_base=dt.timedelta(0))
    async with working(db, registry):
        await ended(conn, job_id)
    assert told == [
        event
        for attempt, error in ((1, "ZeroDivisionError"), (2, "NoneType"))
        for event in [
            ("all", attempt),
            ("mine", attempt),
            ("runs", attempt),
            ("all", attempt, error),
            ("mine", attempt, error),
        ]
    ]
    assert all((name == "MainThread") == (place == "loop") for name in threads)


async def test_what_a_job_logs_carries_its_fields_and_a_line_is_json(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    settings = {"BATCHQ_LOG_FORMAT": "json"}
    kinds = "tests.support.worker_kinds"
    async with worker_process(db, tmp_path / "log", kinds=kinds, **settings) as worker:
        job_id = await calls.enqueue(conn, "says", {"word": "hello"}, queue="default")
        await ended(conn, job_id)
        await worker.logged("hello")
        lines = [json.loads(line) for line in worker.log.splitlines()]
    (line,) = [line for line in lines if line["message"] == "hello"]
    assert line.items() >= {
        "job_id": job_id, "kind": "says", "queue": "default", "attempt": 1, "own": [1, 2],
    }.items()  # fmt: skip


async def test_fields_of_a_jobs_log_are_there_for_any_handler_of_logging(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pybatchq.job")
    registry = Registry()

    @registry.handler("says")
    def says(_payload: Any, job: Job) -> None:
        job.log.info("plain")
        job.log.warning("mine", extra={"attempt": "mine", "more": 1})

    job_id = await calls.enqueue(conn, "says")
    await testing.drain(db, registry)
    plain, mine = [record for record in caplog.records if record.name == "pybatchq.job"]
    fields = {"job_id": job_id, "kind": "says", "queue": "default", "attempt": 1}
    assert vars(plain).items() >= fields.items()
    assert vars(mine).items() >= {**fields, "attempt": "mine", "more": 1}.items()


SECRET = "s3cr3t"


async def test_payloads_are_never_in_the_log(db: str, conn: Connection, tmp_path: Path) -> None:
    """Whatever becomes of the job, and although handlers quote them in their errors."""
    kinds = ("says", "quotes", "quotes in a thread", "quotes in a process", "typed", "nobody's")
    async with worker_process(
        db, tmp_path / "log", kinds="tests.support.worker_kinds", BATCHQ_LOG_LEVEL="debug"
    ) as worker:
        for kind in kinds:
            await calls.enqueue(conn, kind, {SECRET: SECRET, "word": "hello"}, max_attempts=1)

        async def are_over() -> bool:
            return await statuses(conn) == {"completed": 1, "failed": 4, "pending": 1}

        await until(are_over)
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
    cursor = await conn.execute("select count(*) from batchq.jobs where last_error like '%s3cr3t%'")
    assert await cursor.fetchone() == (3,)  # where they belong
    assert worker.log.count("attempt failed") == 4
    assert SECRET not in worker.log
