"""What the database does to a worker: limits, locks, lost sessions, outages, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pybatchq import calls, testing
from pybatchq.connections import Connector
from pybatchq.errors import RetryIn
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.testing import Ledger
from pybatchq.worker import Worker
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


class Hold:
    """A kind of job that counts its runs and waits until it may end."""

    def __init__(self, registry: Registry) -> None:
        self.runs: list[int] = []
        self.open = asyncio.Event()

        @registry.handler("hold")
        async def hold(_payload: Any, job: Job) -> int:
            self.runs.append(job.id)
            await self.open.wait()
            return job.attempt

    async def running(self, count: int) -> None:
        async def look() -> bool:
            return len(self.runs) == count

        await until(look)


class Outage:
    """Takes one database away and gives it back, without touching its server."""

    def __init__(self, dsn: str) -> None:
        self._admin = make_conninfo(dsn, dbname="postgres")
        self._database = str(conninfo_to_dict(dsn)["dbname"])

    @contextlib.asynccontextmanager
    async def __call__(self) -> AsyncIterator[None]:
        await self._run(f"alter database {self._database} with allow_connections false")
        await self._run(
            f"select pg_terminate_backend(pid) from pg_stat_activity"
            f" where datname = '{self._database}' and application_name like 'batchq-worker%'"
        )
        try:
            yield
        finally:
            await self._run(f"alter database {self._database} with allow_connections true")

    async def _run(self, statement: str) -> None:
        async with await psycopg.AsyncConnection.connect(self._admin, autocommit=True) as conn:
            await conn.execute(statement.encode())


def messages(caplog: pytest.LogCaptureFixture, level: str = "WARNING") -> list[str]:
    return [record.message for record in caplog.records if record.levelname == level]


async def test_a09_f046_no_transaction_is_open_while_a_handler_runs_or_the_worker_sleeps(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    name = conninfo_to_dict(db)["dbname"]
    for setting in ("idle_in_transaction_session_timeout = 200", "statement_timeout = 400"):
        await conn.execute(f"alter database {name} set {setting}".encode())
    in_transaction: list[Any] = []

    async def look(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            cursor = await conn.execute(
                "select application_name, state, query from pg_stat_activity"
                " where datname = current_database() and application_name like 'batchq-worker%%'"
                " and xact_start < clock_timestamp() - interval '50 ms'"
            )
            in_transaction.extend(await cursor.fetchall())
            await asyncio.sleep(0.02)

    registry = Registry()
    hold = Hold(registry)
    job_id = await calls.enqueue(conn, "hold")
    async with working(db, registry, lease_s=0.6):
        await hold.running(1)
        await look(0.9)  # over both limits
        hold.open.set()
        job = await ended(conn, job_id)
        await look(0.7)
        await ended(conn, await calls.enqueue(conn, "hold"), within_s=AT_ONCE_S)
    assert job.attempts == 1
    assert in_transaction == []
    assert messages(caplog) == []


async def test_a10_a_lease_call_is_given_up_in_time_and_works_after_the_lock(
    db: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    conn, locker = await connect(), await connect()
    job_id = await calls.enqueue(conn, "noop")
    async with locker.transaction():
        await locker.execute("lock table batchq.ready in access exclusive mode")
        at = time.monotonic()
        async with working(db, testing.registry(), lease_timeout_s=0.5, reap_every_s=60) as worker:

            async def has_warned() -> bool:
                return "database call failed: opening a new connection" in messages(caplog)

            await until(has_warned)
            assert 0.5 <= time.monotonic() - at < 1.0
            await locker.execute("rollback")
            await ended(conn, job_id, within_s=3)
            assert worker.running == 0
    cursor = await conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock'"
    )
    assert await cursor.fetchone() == (0,)  # the call that was given up does not wait on


async def test_f044_sessions_lost_while_handlers_run_lose_no_result_and_run_nothing_twice(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry()
    hold = Hold(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "hold"}] * 10)
    async with working(db, registry, concurrency=10, lease_s=30):
        await hold.running(10)
        async with Outage(db)():
            hold.open.set()  # all end while the database is away
            await asyncio.sleep(0.5)
        await all_completed(conn, 10)
        assert len(hold.runs) == 10
        hold.open.clear()
        again = await calls.enqueue(conn, "hold")
        await hold.running(11)  # leases, listens and beats as before
        assert await kill_sessions(conn, "batchq-worker%") >= 2
        hold.open.set()
        job = await ended(conn, again)
    assert job.attempts == 1
    assert len(hold.runs) == 11


async def test_f044_what_lost_its_lease_in_an_outage_is_dropped_with_a_line_in_the_log(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry()
    hold = Hold(registry)
    job_id = await calls.enqueue(conn, "hold")
    async with working(db, registry, lease_s=30):
        await hold.running(1)
        async with Outage(db)():
            await conn.execute(
                "update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now())"
            )
            await until(lambda: calls.reap(conn))
            hold.open.set()
        await until(lambda: has_logged(caplog, "outcome refused: the lease was lost"))
        job = await calls.get_job(conn, job_id=job_id)
        assert (job.state, job.attempts) == ("scheduled", 1)


async def has_logged(caplog: pytest.LogCaptureFixture, message: str) -> bool:
    return any(record.message == message for record in caplog.records)


async def test_f045_a_database_that_is_away_is_asked_seldom_and_used_again_soon(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Connector._open
    attempts: list[str] = []

    async def counted(connector: Connector, purpose: str) -> calls.Connection:
        attempts.append(purpose)
        return await opening(connector, purpose)

    async with working(db, testing.registry(), reap_every_s=0.2) as worker:
        await ended(conn, await calls.enqueue(conn, "noop"))
        monkeypatch.setattr(Connector, "_open", counted)
        async with Outage(db)():
            await asyncio.sleep(3)  # pauses of 0.1, 0.2, 0.4, 0.8, 1.6, 2 s, shortened by jitter
            assert 3 <= len(attempts) <= 9
        told = [m for m in messages(caplog) if m == "database unreachable: trying again"]
        assert 1 <= len(told) <= 2  # one an event loop
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=2.5)  # F031
        caplog.clear()
        await asyncio.sleep(0.7)  # stable afterwards
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=AT_ONCE_S)
        assert messages(caplog) == []
        assert worker.running == 0


async def test_f043_a_server_that_takes_no_writes_is_left_and_used_again_when_it_does(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    name = conninfo_to_dict(db)["dbname"]
    await conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    job_id = await calls.enqueue(conn, "noop")  # by a session that was there before
    async with working(db, testing.registry(), reap_every_s=60):
        await asyncio.sleep(2.5)
        calls_failed = [m for m in messages(caplog) if m.startswith("database call failed")]
        assert 2 <= len(calls_failed) <= 8
        await conn.execute("set transaction_read_only = off")
        await conn.execute(f"alter database {name} reset default_transaction_read_only".encode())
        job = await ended(conn, job_id, within_s=5)
    assert job.attempts == 1


@pytest.mark.parametrize("when", ["before it connected", "with a result to hand in"])
async def test_a38_a_worker_can_be_stopped_while_the_database_is_away(
    db: str, conn: Connection, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybatchq.worker.GIVE_UP_S", 0.3)
    registry = Registry()
    hold = Hold(registry)
    worker = Worker(db, registry=registry, grace_s=0.3)
    async with contextlib.AsyncExitStack() as stack:
        if when == "before it connected":
            await stack.enter_async_context(Outage(db)())
            task = asyncio.create_task(worker.run())
            await asyncio.sleep(0.1)
        else:
            await calls.enqueue(conn, "hold")
            task = asyncio.create_task(worker.run())
            await hold.running(1)
            await stack.enter_async_context(Outage(db)())
            hold.open.set()
            await asyncio.sleep(0.1)
        at = time.monotonic()
        worker.stop()
        async with asyncio.timeout(5):
            await task
        assert time.monotonic() - at < 2


TRIGGER = """
create function public.refuse() returns trigger language plpgsql as $$
begin
    if new.job_id = %s then raise 'not this one' using errcode = '%s'; end if;
    return new;
end $$;
create trigger refuse before insert on batchq.outcome for each row execute function public.refuse()
"""


@pytest.mark.parametrize("code", ["P0001", "54001", "23505"])
async def test_f047_an_outcome_that_is_refused_fails_by_itself_and_the_others_are_kept(
    db: str, conn: Connection, code: str
) -> None:
    registry = Registry()
    hold = Hold(registry)
    jobs = await calls.enqueue_many(conn, jobs=[{"kind": "hold"}] * 10)
    bad = jobs[4].job_id
    await conn.execute((TRIGGER % (bad, code)).encode())
    async with working(db, registry, concurrency=10):
        await hold.running(10)
        hold.open.set()
        job = await ended(conn, bad, "failed", within_s=5)
        await ended(conn, await calls.enqueue(conn, "hold"), within_s=AT_ONCE_S)
    assert (job.attempts, job.last_error) == (1, "outcome refused: not this one")
    assert await statuses(conn) == {"failed": 1, "completed": 10}
    assert len(hold.runs) == 11


async def test_f047_a_row_that_is_locked_meanwhile_is_handed_in_again(
    db: str, connect: Connect
) -> None:
    conn, locker = await connect(), await connect()
    registry = Registry()
    hold = Hold(registry)
    jobs = await calls.enqueue_many(conn, jobs=[{"kind": "hold"}] * 3)
    bad, locked, _good = (job.job_id for job in jobs)
    await conn.execute((TRIGGER % (bad, "P0001")).encode())
    async with working(db, registry, concurrency=3, lease_s=30):
        await hold.running(3)
        async with locker.transaction():
            await locker.execute(
                "select from batchq.leased where job_id = %s for update", (locked,)
            )
            hold.open.set()
            await ended(conn, bad, "failed", within_s=5)
            assert (await calls.get_job(conn, job_id=locked)).status == "running"
        job = await ended(conn, locked, within_s=3)
    assert job.attempts == 1
    assert sorted(hold.runs) == sorted(job.job_id for job in jobs)


async def test_f047_refusals_one_after_another_do_not_slow_the_worker_down(
    db: str, conn: Connection
) -> None:
    registry = Registry()
    bad = "select batchq.enqueue('long', max_attempts => 1) from generate_series(1, 25) g"

    @registry.handler("long")
    async def long(_payload: Any) -> None:
        raise RetryIn(1e12)

    await conn.execute(bad.encode())
    at = time.monotonic()
    async with working(db, registry, concurrency=1):

        async def look() -> bool:
            return await statuses(conn) == {"failed": 25}

        await until(look)
    assert time.monotonic() - at < 10


async def test_f029_a_locked_lease_holds_up_neither_heartbeats_nor_results_of_others(
    db: str, connect: Connect
) -> None:
    conn, locker = await connect(), await connect()
    registry = Registry()
    hold = Hold(registry)
    await calls.enqueue_many(conn, jobs=[{"kind": "hold"}] * 10)
    async with working(db, registry, concurrency=10, lease_s=1.0):
        await hold.running(10)
        async with locker.transaction():
            await locker.execute(
                "select from batchq.leased where job_id = %s for update", (hold.runs[0],)
            )
            cursor = await conn.execute("select max(lease_until) from batchq.leased")
            ((before,),) = await cursor.fetchall()

            async def nine_are_renewed() -> bool:
                cursor = await conn.execute(
                    "select count(*) from batchq.leased where lease_until > %s", (before,)
                )
                return bool((await cursor.fetchall())[0][0] == 9)

            await until(nine_are_renewed, within_s=2)
            hold.open.set()

            async def nine_are_done() -> bool:
                return await statuses(conn) == {"completed": 9, "running": 1}

            await until(nine_are_done, within_s=2)
        await all_completed(conn, 10)
    assert len(hold.runs) == 10


async def test_f073_a_changed_result_type_is_survived(db: str, conn: Connection) -> None:
    """The plan of a statement that is prepared no longer fits: 0A000, or a plan made anew."""
    async with working(db, testing.registry()):
        for _ in range(12):  # psycopg prepares what it has seen five times
            await ended(conn, await calls.enqueue(conn, "noop"), within_s=3)
        async with conn.transaction():
            await conn.execute("alter type batchq.work_item add attribute extra text cascade")
            cursor = await conn.execute(
                "select pg_get_functiondef('batchq.settle_and_lease'::regproc)"
            )
            ((source,),) = await cursor.fetchall()
            source = source.replace(
                "null::interval, null::jsonb", "null::interval, null::jsonb, null"
            )
            source = source.replace("'leased', l.*", "'leased', l.*, null")
            source = source.replace(
                "batchq.next_due(queues), null)", "batchq.next_due(queues), null, null)"
            )
            await conn.execute(source.encode())
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=5)


async def test_f042_cancelled_handlers_leak_no_connection(db: str, conn: Connection) -> None:
    registry = testing.registry()

    @registry.handler("progress")
    async def progress(_payload: Any, job: Job) -> None:
        while True:
            job.progress({"at": time.monotonic()})
            await asyncio.sleep(0.001)

    await calls.enqueue_many(
        conn, jobs=[{"kind": "progress", "timeout": "30 ms", "max_attempts": 1}] * 60
    )
    async with working(db, registry, concurrency=20):

        async def all_failed() -> bool:
            return await statuses(conn) == {"failed": 60}

        await until(all_failed)
        await ended(conn, await calls.enqueue(conn, "noop"), within_s=AT_ONCE_S)
        cursor = await conn.execute(
            "select application_name from pg_stat_activity where datname = current_database()"
            " and application_name like 'batchq-worker%'"
        )
        purposes = sorted(name.split()[1] for (name,) in await cursor.fetchall())
    assert purposes == ["control", "listen", "work"]
    jobs = await calls.list_jobs(conn, status="failed", n=100)
    assert {job.last_error for job in jobs} == {"timed out after 0.03 s"}


async def has_nothing(worker: Worker) -> bool:
    return worker.running == 0


async def test_a14_f018_jobs_are_shared_by_workers_that_come_and_go(
    db: str, conn: Connection
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "ledger", "payload": {"ms": 2}}] * 800)
    async with Ledger(db) as ledger:
        registry = testing.registry(ledger)
        async with working(db, registry, concurrency=4):
            for _ in range(4):
                async with working(db, registry, concurrency=4) as guest:
                    await asyncio.sleep(0.1)
                    guest.stop()
                    await until(functools.partial(has_nothing, guest))
            await all_completed(conn, 800)
        runs = await ledger.runs()
    assert len({run.job_id for run in runs}) == 800
    finished = [run.job_id for run in runs if run.ended_at is not None]
    assert len(finished) == len(set(finished)) == 800


async def test_every_statement_is_known_to_the_spy(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What counts statements elsewhere in these tests counts what libpq sends."""
    spy = Calls(monkeypatch)
    connect = Connector.connect
    with contextlib.ExitStack() as traces:

        async def traced(connector: Connector, purpose: str, **options: bool) -> calls.Connection:
            session = await connect(connector, purpose, **options)
            trace = traces.enter_context((tmp_path / purpose).open("wb"))
            session.pgconn.trace(trace.fileno())
            return session

        monkeypatch.setattr(Connector, "connect", traced)
        async with working(db, testing.registry(), concurrency=4):
            for _ in range(20):
                await ended(conn, await calls.enqueue(conn, "noop"))
    seen = Counter(function for _, function in spy.seen)
    seen -= Counter({"enqueue": 20, "get_job": seen["get_job"]})  # this test's own
    sent = re.findall(rb"\tF\t\d+\t(?:Query|Execute)\t", b"".join(
        (tmp_path / purpose).read_bytes() for purpose in ("work", "control", "listen")
    ))  # fmt: skip
    assert len(sent) == seen.total() + 1  # LISTEN
