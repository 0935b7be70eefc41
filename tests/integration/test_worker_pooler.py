"""Workers behind a real PgBouncer, in both of its modes that matter, and behind a silent proxy."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pybatchq import calls, testing
from pybatchq.connections import Connector
from pybatchq.handlers import Registry
from pybatchq.install import install_dsn
from pybatchq.job import Job
from pybatchq.testing import Ledger
from tests.conftest import Connection
from tests.support.pgbouncer import Mode, Pooler, pooler
from tests.support.processes import worker_process
from tests.support.proxy import Proxy
from tests.support.working import Calls, all_completed, ended, kill_sessions, until, working

BAD_KINDS = "tests.support.worker_kinds"
NEVER_POLLS: dict[str, Any] = {"poll_s": 60.0, "reap_every_s": 60.0}
AT_ONCE_S = 1.0
DEAF = "the doorbell does not ring through this pooler: polling instead"
SHARED_LOCKS = """
select a.application_name from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and a.datname = current_database()
"""


@pytest.fixture
def sharing(db: str) -> Iterator[Pooler]:
    """Three sessions for everybody, each for one transaction."""
    with pooler(db, "transaction", pool_size=3) as running:
        yield running


@contextlib.asynccontextmanager
async def client(through: Pooler) -> AsyncIterator[Connection]:
    """A producer that prepares nothing."""
    conn: Connection = await psycopg.AsyncConnection.connect(
        through.dsn, autocommit=True, prepare_threshold=None
    )
    async with conn:
        yield conn


def warnings(log: str) -> list[str]:
    return [line for line in log.splitlines() if " WARNING " in line or " ERROR " in line]


async def test_a74_f039_f040_f041_200_jobs_run_through_transaction_pooling(
    db: str, conn: Connection, sharing: Pooler, tmp_path: Path
) -> None:
    """No prepared statement is missed, no lock is left behind, and the deaf doorbell is told."""
    locks: list[Any] = []
    async with (
        Ledger(db) as ledger,
        client(sharing) as producer,
        worker_process(
            sharing.dsn, tmp_path / "log", "--poll", "100ms",
            kinds=BAD_KINDS, BATCHQ_REAP_EVERY="100ms", TEST_LEDGER_URL=db,
        ) as worker,
    ):  # fmt: skip
        await worker.logged(DEAF)
        for _ in range(100):  # one by one, so that there are many calls
            await calls.enqueue(producer, "thread", {"s": 0})
            await calls.enqueue_many(producer, jobs=[{"kind": "thread", "payload": {"s": 0.005}}])
            locks += await shared_locks(conn)
        await all_completed(conn, 200)
        await until(lambda: nothing(shared_locks(conn)))
        runs = await ledger.runs()
        assert len({run.job_id for run in runs}) == len(runs) == 200
        assert [line.partition(DEAF)[1] for line in warnings(worker.log)] == [DEAF]
        assert "BATCHQ_LISTEN_URL" in worker.log
        assert "prepared statement" not in worker.log
        log = sharing.log.read_text()
    assert [name for (name,) in locks if name.startswith("batchq-worker")] == []
    assert "prepared statement" not in log


async def shared_locks(conn: Connection) -> list[Any]:
    return await (await conn.execute(SHARED_LOCKS.encode())).fetchall()


async def nothing(found: Any) -> bool:
    return not await found


# fails now and then until more tries (or a clean-up) tell a busy pool from a session of one's own
async def test_f041_no_listening_session_is_left_in_the_pool(
    sharing: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    """One that listens would ring for whoever uses it next. Others keep the pool busy meanwhile."""

    async def use() -> None:
        async with client(sharing) as conn:
            while True:
                await conn.execute("select 1")

    async with asyncio.TaskGroup() as others:
        busy = [others.create_task(use()) for _ in range(4)]
        for number in range(3):
            async with working(sharing.dsn, testing.registry()):
                await until(lambda: has_logged(caplog, DEAF, number + 1))  # noqa: B023
        for task in busy:
            task.cancel()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):  # one transaction each, so that these are all of the pool's sessions
            conn = await stack.enter_async_context(client(sharing))
            await conn.execute("begin")
            cursor = await conn.execute("select pg_listening_channels()")
            assert await cursor.fetchall() == []


async def has_logged(caplog: pytest.LogCaptureFixture, message: str, times: int) -> bool:
    return [record.message for record in caplog.records].count(message) == times


async def test_f039_a_direct_address_for_listening_gives_the_doorbell_back(
    db: str, conn: Connection, sharing: Pooler, tmp_path: Path
) -> None:
    async with (
        worker_process(
            sharing.dsn, tmp_path / "log", "--poll", "60s", kinds=BAD_KINDS, BATCHQ_LISTEN_URL=db
        ) as worker,
    ):
        for _ in range(3):
            await until(lambda: is_parked(conn))
            await ended(conn, await calls.enqueue(conn, "nap", {"s": 0}), within_s=AT_ONCE_S)
        locks = {name for (name,) in await until(lambda: shared_locks(conn))}
        assert warnings(worker.log) == []
    assert {name.split()[1] for name in locks} == {"listen"}


async def is_parked(conn: Connection) -> bool:
    return bool(await shared_locks(conn))


async def test_a83_through_a_pooler_a_cancelled_job_is_told_by_its_heartbeat(
    db: str, conn: Connection, sharing: Pooler
) -> None:
    """Nobody hears the bell, so it takes up to a third of the lease."""
    registry = Registry()
    started = asyncio.Event()

    @registry.handler("forever")
    async def forever(_payload: Any) -> None:
        started.set()
        await asyncio.Event().wait()

    job_id = await calls.enqueue(conn, "forever")
    async with working(sharing.dsn, registry, lease_s=1.5):
        await started.wait()
        await calls.cancel(conn, job_id=job_id)
        await ended(conn, job_id, "cancelled", within_s=1.5)


async def test_f044_pooled_sessions_that_are_ended_lose_no_result(
    db: str, conn: Connection, sharing: Pooler
) -> None:
    registry = Registry()
    runs: list[int] = []

    @registry.handler("nap")
    async def nap(_payload: Any, job: Job) -> None:
        runs.append(job.id)
        await asyncio.sleep(0.05)

    async with working(sharing.dsn, registry, poll_s=0.1):
        jobs = await calls.enqueue_many(conn, jobs=[{"kind": "nap"}] * 100)
        for _ in range(5):
            await until(lambda: kill_sessions(conn, "batchq-worker%"))
            await asyncio.sleep(0.1)
        await all_completed(conn, 100)
    assert sorted(runs) == [job.job_id for job in jobs]


async def test_f039_through_session_pooling_the_doorbell_rings(
    db: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with pooler(db, "session", pool_size=20) as keeping:
        async with working(keeping.dsn, testing.registry(), **NEVER_POLLS):
            for _ in range(3):
                await until(lambda: is_parked(conn))
                at = time.monotonic()
                await ended(conn, await calls.enqueue(conn, "noop"), within_s=AT_ONCE_S)
                assert time.monotonic() - at < AT_ONCE_S
    assert [r.message for r in caplog.records if r.levelname in {"WARNING", "ERROR"}] == []


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_f040_statements_are_prepared_only_where_that_works(db: str, mode: Mode) -> None:
    with pooler(db, mode) as between:
        for dsn, prepare, prepares in [
            (between.dsn, None, False),
            (between.dsn, True, True),
            (db, None, True),
            (db, False, False),
        ]:
            conn = await Connector(dsn, "w", prepare=prepare).connect("work")
            assert (conn.prepare_threshold is not None) == prepares
            await conn.close()


async def test_f041_a74_it_is_installed_and_kept_up_through_transaction_pooling(
    empty_db: str,
) -> None:
    with pooler(empty_db, "transaction", pool_size=2) as between:
        for _ in range(2):
            await install_dsn(between.dsn)
        async with (
            client(between) as one,
            client(between) as other,
            await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as direct,
        ):
            for _ in range(20):
                job_id = await calls.enqueue(one, "noop", delay=dt.timedelta(0))
                (held,) = await calls.lease(other)
                await calls.extend(one, job_ids=[job_id], lease_ids=[held.lease_id])
                assert await calls.complete(other, job_id=job_id, lease_id=held.lease_id)
                await calls.maintain(one)
                await calls.reap(other)
                assert await shared_locks(direct) == []


async def test_f032_connections_that_fall_silent_are_found_out_and_replaced(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing closes them and the kernel finds nothing wrong: only an answer tells.

    What takes half a second here takes ten at most in production, and psycopg then waits five more
    for its cancellation to be confirmed: one connection after another, that is 35 s.
    """
    real = psycopg.waiting.wait_async

    async def impatient(*arguments: Any, **options: Any) -> Any:
        if options.get("timeout") is not None:
            options["timeout"] = min(options["timeout"], 0.2)
        return await real(*arguments, **options)

    async def sleeps() -> bool:
        looks = {"settle_and_lease", "park", "bell_pending"}
        last = max(at for at, function in spy.seen if function in looks)
        return last < time.monotonic() - 0.15 and await is_parked(conn)

    spy = Calls(monkeypatch)
    monkeypatch.setattr("psycopg.waiting.wait_async", impatient)
    monkeypatch.setattr("pybatchq.heartbeat.CALL_TIMEOUT_S", 0.5)
    monkeypatch.setattr("pybatchq.listen.CALL_TIMEOUT_S", 0.5)
    registry = testing.registry()
    started, go_on = asyncio.Event(), asyncio.Event()

    @registry.handler("gate")
    async def gate(_payload: Any) -> None:
        started.set()
        await go_on.wait()

    async with (
        Proxy(db).running() as proxy,
        working(proxy.dsn, registry, lease_timeout_s=0.5, poll_s=60, lease_s=30),
    ):
        running = await calls.enqueue(conn, "gate")
        await started.wait()
        await until(sleeps)
        assert proxy.silence() >= 3
        waiting = await calls.enqueue(conn, "noop")  # this ring is not heard
        await ended(conn, waiting, within_s=8)
        assert proxy.silence() > 0  # once more, with a result to hand in
        go_on.set()
        assert (await ended(conn, running, within_s=8)).attempts == 1
        await until(lambda: is_parked(conn))
