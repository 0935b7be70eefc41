"""The tasks of batchq that need a process of their own; see processes.py for the protocol.

Started with (task, dsn, options as JSON).
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from bench.support.stats import percentile
from pybatchq import Worker, handler

QUEUE = "default"
LEFT = "select (select count(*) from batchq.ready) + (select count(*) from batchq.leased)"
POLL_S = 0.002
Options = dict[str, Any]
Work = Callable[[], Awaitable[dict[str, float]]]


def print_answer(answer: dict[str, float]) -> None:
    print(json.dumps(answer), flush=True)


class Stopwatch:
    """Counts jobs down and tells when the last one has been handled."""

    def __init__(self, jobs: int) -> None:
        self.left = jobs
        self.done = asyncio.Event()

    def hit(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


async def drain(dsn: str, options: Options) -> Work:
    """Time from the worker's start until the last job's completion is committed."""
    watch = Stopwatch(options["jobs"])
    observer = await psycopg.AsyncConnection.connect(dsn, autocommit=True)

    @handler("noop")
    async def noop(_payload: object) -> None:
        watch.hit()

    async def work() -> dict[str, float]:
        worker = Worker(dsn, queues=[QUEUE], concurrency=options["concurrency"])
        began, began_cpu = time.monotonic(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            await watch.done.wait()
            while await _number(observer, LEFT):  # noqa: ASYNC110 - PostgreSQL is asked
                await asyncio.sleep(POLL_S)
            seconds = time.monotonic() - began
            cpu = time.process_time() - began_cpu
            worker.stop()
        return {"seconds": seconds, "client_cpu_s": cpu}

    return work


async def latency(dsn: str, options: Options) -> Work:
    """Delays from the time in the payload (this machine's monotonic clock) to the handler."""
    watch = Stopwatch(options["samples"])
    delays: list[float] = []

    @handler("noop")
    async def noop(payload: dict[str, float]) -> None:
        delays.append(time.monotonic_ns() / 1e3 - payload["t"])
        watch.hit()

    worker = Worker(dsn, queues=[QUEUE], concurrency=10)
    running = asyncio.create_task(worker.run())

    async def work() -> dict[str, float]:
        finished = asyncio.create_task(watch.done.wait())
        await asyncio.wait((running, finished), return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        await running
        shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        return {name: percentile(delays, share) / 1e3 for name, share in shares.items()}

    return work


async def worker(dsn: str, options: Options) -> Work:
    """A worker until told to stop; the answer is how many jobs it ran.

    With `nudge_ms` it is rung that often by a session of its own, whoever else rings or does not.
    """
    handled = 0
    nudge_s = options.get("nudge_ms", 0) / 1e3

    @handler("noop")
    async def noop(_payload: object) -> None:
        nonlocal handled
        handled += 1

    worker = Worker(dsn, queues=[QUEUE], concurrency=options["concurrency"])
    running = asyncio.create_task(worker.run())
    nudging = asyncio.create_task(_nudge(dsn, nudge_s)) if nudge_s else None

    async def work() -> dict[str, float]:
        if nudging is not None:
            nudging.cancel()
        worker.stop()
        await running
        return {"handled": handled}

    return work


async def bulk(dsn: str, options: Options) -> Work:
    """Enqueue jobs in batches over several connections of one process."""
    connections = [
        await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        for _ in range(options["connections"])
    ]
    left: int = options["jobs"]
    batch: int = options["batch"]
    query = "select job_id from batchq.enqueue_many(%s::jsonb)"

    async def send(conn: psycopg.AsyncConnection[Any]) -> None:
        nonlocal left
        while left > 0:
            left -= batch
            jobs = [{"kind": "noop", "payload": {"m": number}} for number in range(batch)]
            cursor = await conn.execute(query, (json.dumps(jobs),))
            await cursor.fetchall()

    async def work() -> dict[str, float]:
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for conn in connections:
                tasks.create_task(send(conn))
        return {"seconds": time.monotonic() - began}

    return work


async def _nudge(dsn: str, every_s: float) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        while True:
            await asyncio.sleep(every_s)
            await conn.execute("select pg_notify('batchq', batchq._bell(%s)::text)", (QUEUE,))


async def _number(conn: psycopg.AsyncConnection[Any], query: str) -> int:
    row = await (await conn.execute(query.encode())).fetchone()
    return int(row[0]) if row else 0


def sleeper(dsn: str, options: Options) -> None:
    """Parks, and when rung is busy for a moment and parks again, until told to stop."""
    told = threading.Event()
    wakes = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("listen batchq")
        conn.execute("select batchq.park(%s::text[])", ([QUEUE],))
        print_answer({"ready": 1})
        threading.Thread(target=_await_word, args=(told,), daemon=True).start()
        while not told.is_set():
            if not list(conn.notifies(timeout=0.1, stop_after=1)):
                continue
            wakes += 1
            conn.execute("select batchq.unpark(%s::text[])", ([QUEUE],))
            time.sleep(options["busy_ms"] / 1e3)
            list(conn.notifies(timeout=0))
            conn.execute("select batchq.park(%s::text[])", ([QUEUE],))
    print_answer({"wakes": wakes})


def _await_word(told: threading.Event) -> None:
    sys.stdin.readline()
    told.set()


async def _main(task: Callable[[str, Options], Awaitable[Work]], dsn: str, text: str) -> None:
    work = await task(dsn, json.loads(text))
    print_answer({"ready": 1})
    await asyncio.to_thread(sys.stdin.readline)
    print_answer(await work())


TASKS = {"drain": drain, "latency": latency, "worker": worker, "bulk": bulk}

if __name__ == "__main__":
    chosen, database, settings = sys.argv[1:4]
    if chosen == "sleeper":
        sleeper(database, json.loads(settings))
    else:
        asyncio.run(_main(TASKS[chosen], database, settings))
