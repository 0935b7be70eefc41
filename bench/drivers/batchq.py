"""The tasks of batchq that need a process of their own; see processes.py for the protocol.

Started with (task, dsn, options as JSON).
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg

from bench.drivers.drain import LOOK_EVERY_S, completed, drain
from bench.drivers.processes import Options, Work, number
from bench.support.fill import LEFT
from bench.support.stats import percentile
from pybatchq import Registry, Worker

QUEUE = "default"
BLOCK_AFTER_S = 0.2


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


async def hold(dsn: str, options: Options) -> Work:
    """So many jobs at once, which end when they are told to. Ready once all of them run.

    With `blocked_s` the event loop then stands still for so long, and computes all the while.
    """
    watch = Stopwatch(options["jobs"])
    end = asyncio.Event()
    registry = Registry()

    @registry.handler("hold")
    async def hold(_payload: object) -> None:
        watch.hit()
        await end.wait()

    worker = Worker(
        dsn, concurrency=options["jobs"], registry=registry, lease_s=options.get("lease_s")
    )
    running = asyncio.create_task(worker.run())
    await _either(watch.done.wait(), running)
    if options.get("blocked_s"):
        # a moment later: first the word that all is ready gets out
        asyncio.get_running_loop().call_later(BLOCK_AFTER_S, _compute, options["blocked_s"])

    async def work() -> dict[str, float]:
        heartbeats = worker.metrics.heartbeats
        end.set()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            while await number(conn, LEFT):  # noqa: ASYNC110 - PostgreSQL is asked
                await asyncio.sleep(LOOK_EVERY_S)
        worker.stop()
        await running
        counted = worker.metrics
        return {"heartbeats": heartbeats, "lost": counted.lost, "refused": counted.refused}

    return work


def _compute(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def latency(dsn: str, options: Options) -> Work:
    """Delays from the time in the payload (this machine's monotonic clock) to the handler."""
    watch = Stopwatch(options["samples"])
    delays: list[float] = []
    registry = Registry()

    @registry.handler("noop")
    async def noop(payload: dict[str, float]) -> None:
        delays.append(time.monotonic_ns() / 1e3 - payload["t"])
        watch.hit()

    worker = Worker(dsn, concurrency=10, registry=registry)
    running = asyncio.create_task(worker.run())

    async def work() -> dict[str, float]:
        await _either(watch.done.wait(), running)
        worker.stop()
        await running
        shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        return {name: percentile(delays, share) / 1e3 for name, share in shares.items()}

    return work


async def worker(dsn: str, options: Options) -> Work:
    """A worker until told to stop; the answer is how many jobs it ran.

    With `nudge_ms` it is rung that often by a session of its own, whoever else rings or does not.
    """
    nudge_s = options.get("nudge_ms", 0) / 1e3
    worker = Worker(dsn, concurrency=options["concurrency"])
    running = asyncio.create_task(worker.run())
    nudging = asyncio.create_task(_nudge(dsn, nudge_s)) if nudge_s else None

    async def work() -> dict[str, float]:
        if nudging is not None:
            nudging.cancel()
        worker.stop()
        await running
        return {"handled": completed(worker)}

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


async def _either(awaited: Coroutine[Any, Any, object], running: asyncio.Task[None]) -> None:
    """Wait for something in a worker, or for what the worker raises instead."""
    wanted = asyncio.create_task(awaited)
    await asyncio.wait((running, wanted), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        wanted.cancel()
        await running


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


TASKS = {"drain": drain, "hold": hold, "latency": latency, "worker": worker, "bulk": bulk}

if __name__ == "__main__":
    chosen, database, settings = sys.argv[1:4]
    if chosen == "sleeper":
        sleeper(database, json.loads(settings))
    else:
        asyncio.run(_main(TASKS[chosen], database, settings))
