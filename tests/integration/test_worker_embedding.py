"""Workers inside other programs: asyncio, aiohttp, several at once, and programs without a loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from aiohttp import web

from pybatchq import calls, testing
from pybatchq.errors import VersionMismatchError
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.worker import Worker
from tests.conftest import Connection
from tests.support.processes import ROOT, environment
from tests.support.working import all_completed, ended, statuses, until

NO_SERVER = "host=/nowhere dbname=none user=nobody"


async def sessions(conn: Connection) -> int:
    cursor = await conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name like 'batchq-worker%'"
    )
    return int((await cursor.fetchall())[0][0])


async def no_sessions(conn: Connection) -> bool:
    return await sessions(conn) == 0


async def test_b08_a_worker_works_while_a_block_runs_and_leaves_nothing_behind(
    db: str, conn: Connection
) -> None:
    before = set(threading.enumerate())
    async with Worker(db, registry=testing.registry()) as worker:
        assert worker.is_connected
        await ended(conn, await calls.enqueue(conn, "noop"))
    assert worker.end == "drained"
    await until(lambda: no_sessions(conn))
    assert len(asyncio.all_tasks()) == 1
    assert {t for t in threading.enumerate() if t.name.startswith("batchq")} <= before


async def test_b08_the_end_of_the_block_lets_running_jobs_finish(db: str, conn: Connection) -> None:
    registry = Registry()
    started = asyncio.Event()

    @registry.handler("nap")
    async def nap(_payload: Any) -> str:
        started.set()
        await asyncio.sleep(0.3)
        return "done"

    async with Worker(db, registry=registry):
        job_id = await calls.enqueue(conn, "nap")
        await started.wait()
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.status, job.result, job.attempts) == ("completed", b'"done"', 1)


async def test_b08_an_error_of_the_block_stops_the_worker_and_comes_out(
    db: str, conn: Connection
) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Worker(db, registry=testing.registry()):
            raise ZeroDivisionError
    await until(lambda: no_sessions(conn))


async def test_b08_a_worker_that_cannot_work_says_why_where_it_is_entered(empty_db: str) -> None:
    with pytest.raises(VersionMismatchError):
        async with Worker(empty_db, registry=testing.registry()):
            raise AssertionError("entered")
    with (
        pytest.raises(VersionMismatchError),
        Worker(empty_db, registry=testing.registry()).in_thread(),
    ):
        raise AssertionError("entered")


async def test_b08_giving_up_on_a_database_that_is_away_leaves_no_worker_behind() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3), Worker(NO_SERVER, registry=testing.registry()):
            raise AssertionError("entered")
    await until(lambda: is_true(len(asyncio.all_tasks()) == 1), within_s=3)


async def is_true(value: bool) -> bool:
    return value


async def test_b08_several_workers_of_one_process_keep_apart(db: str, conn: Connection) -> None:
    """Each has its own handlers, queues and limits, also where names are the same."""
    ran: list[tuple[str, str]] = []

    def registry_of(worker: str) -> Registry:
        registry = Registry()

        @registry.handler("same")
        async def same(_payload: Any, job: Job) -> str:
            ran.append((worker, job.queue))
            return worker

        return registry

    async with contextlib.AsyncExitStack() as stack:
        for name in ("a", "b", "c"):
            one = Worker(db, registry=registry_of(name), queues=[name], name="one name")
            await stack.enter_async_context(one)
        jobs = [{"kind": "same", "queue": queue} for queue in ("a", "b", "c") * 20]
        await calls.enqueue_many(conn, jobs=jobs)
        await all_completed(conn, 60)
    assert sorted(ran) == [(name, name) for name in ("a", "b", "c") for _ in range(20)]


QUEUE = web.AppKey("QUEUE", psycopg.AsyncConnection[tuple[Any, ...]])


def application(db: str, registry: Registry) -> web.Application:
    """A user's program: it answers requests with the results of jobs that it runs itself."""

    async def worker(_app: web.Application) -> AsyncIterator[None]:
        async with Worker(db, registry=registry, grace_s=5):
            yield

    async def connection(app: web.Application) -> AsyncIterator[None]:
        async with await psycopg.AsyncConnection.connect(db, autocommit=True) as conn:
            app[QUEUE] = conn
            yield

    async def post(request: web.Request) -> web.Response:
        conn = request.app[QUEUE]
        job_id = await calls.enqueue(conn, "greet", await request.json())
        job = await ended(conn, job_id)
        return web.Response(body=job.result, content_type="application/json")

    app = web.Application()
    app.cleanup_ctx.extend([connection, worker])
    app.router.add_post("/", post)
    return app


async def test_b08_a_worker_lives_in_an_aiohttp_program(db: str, conn: Connection) -> None:
    registry = Registry()

    @registry.handler("greet")
    async def greet(payload: dict[str, str]) -> dict[str, str]:
        return {"text": f"hello {payload['name']}"}

    runner = web.AppRunner(application(db, registry))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session:
        for name in ("ada", "alan"):
            async with session.post(f"http://127.0.0.1:{port}/", json={"name": name}) as answer:
                assert await answer.json() == {"text": f"hello {name}"}
    await runner.cleanup()
    assert await statuses(conn) == {"completed": 2}
    await until(lambda: no_sessions(conn))


def test_b08_a_program_without_a_loop_has_its_worker_in_a_thread(db: str) -> None:
    registry = Registry()
    threads: set[str] = set()

    @registry.handler("double")
    def double(payload: int) -> int:
        threads.add(threading.current_thread().name)
        return 2 * payload

    @registry.handler("triple")
    async def triple(payload: int) -> int:
        threads.add(threading.current_thread().name)
        return 3 * payload

    with (
        psycopg.connect(db, autocommit=True) as conn,
        Worker(db, registry=registry).in_thread() as worker,
    ):
        assert worker.is_connected
        for kind in ("double", "triple"):
            conn.execute("select batchq.enqueue(%s, '7')", (kind,))
        results: list[Any] = []
        deadline = time.monotonic() + 10
        while len(results) < 2 and time.monotonic() < deadline:
            rows = conn.execute("select result from batchq.jobs where status = 'completed'")
            results = [result for (result,) in rows]
            time.sleep(0.01)
    assert sorted(results) == [14, 21]
    assert threading.main_thread().name not in threads
    assert [t for t in threading.enumerate() if t.name.startswith("batchq")] == []


def test_b08_two_threads_have_a_worker_each(db: str) -> None:
    with (
        Worker(db, registry=testing.registry(), name="a").in_thread(),
        Worker(db, registry=testing.registry(), name="b").in_thread(),
        psycopg.connect(db, autocommit=True) as conn,
    ):
        names = conn.execute("select array_agg(worker order by worker) from batchq.worker")
        deadline = time.monotonic() + 5
        while names.fetchone() != (["a", "b"],) and time.monotonic() < deadline:
            time.sleep(0.01)
            names = conn.execute("select array_agg(worker order by worker) from batchq.worker")
        assert time.monotonic() < deadline
    assert [t for t in threading.enumerate() if t.name.startswith("batchq")] == []


def test_b08_an_error_of_a_program_with_a_worker_in_a_thread_comes_out(db: str) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Worker(db, registry=testing.registry()).in_thread(),
    ):
        raise ZeroDivisionError
    assert [t for t in threading.enumerate() if t.name.startswith("batchq")] == []


PROGRAM = """
import signal, sys, time
from pybatchq import Worker

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
with Worker(sys.argv[1]).in_thread():
    print("entered", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("is_there", [True, False], ids=["working", "no database"])
def test_b08_ctrl_c_ends_a_program_with_a_worker_in_a_thread(
    db: str, tmp_path: Path, is_there: bool
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, db if is_there else NO_SERVER],
        cwd=ROOT,
        env=environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            if is_there:
                assert program.stdout is not None
                assert program.stdout.readline() == "entered\n"
            else:
                assert program.stderr is not None
                while "unreachable" not in program.stderr.readline():
                    pass
            program.send_signal(signal.SIGINT)
            _, said = program.communicate(timeout=10)
        finally:
            program.kill()
    assert program.returncode != 0
    assert "KeyboardInterrupt" in said
