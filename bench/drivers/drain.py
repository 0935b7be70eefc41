"""The task `drain`: a worker runs a queue dry, and what that took."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from typing import Any
from urllib.request import urlopen

import psycopg

import bench.drivers.kinds  # noqa: F401  # registers them
from bench.drivers.processes import Options, Work, number
from bench.support.fill import LEFT
from bench.support.metrics import descendants_cpu_s
from pybatchq import Worker
from pybatchq.metrics import EVENTS

LOOK_EVERY_S = 0.01
POLL_S = 0.002
HOST = "127.0.0.1"
COMPLETED = EVENTS.index("completed")
REGISTERED = "select count(*) from batchq.worker"


class Spent:
    """Seconds since it was made: of time, and of processors.

    `client_cpu_s` is of this process with all its threads, `system_cpu_s` what the kernel took of
    it, `children_cpu_s` of the processes that it started.
    """

    def __init__(self) -> None:
        self._began = self._now()

    def so_far(self) -> dict[str, float]:
        now = self._now()
        return {name: now[name] - began for name, began in self._began.items()}

    def _now(self) -> dict[str, float]:
        own = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "seconds": time.monotonic(),
            "client_cpu_s": own.ru_utime + own.ru_stime,
            "system_cpu_s": own.ru_stime,
            "children_cpu_s": descendants_cpu_s(os.getpid()),
        }


async def drain(dsn: str, options: Options) -> Work:
    """Time from the worker's start until the last job's completion is committed.

    The health port's libraries are imported before, as is all else.
    """
    import pybatchq.health  # noqa: F401

    port = _free_port() if options.get("health") else None
    observer = await psycopg.AsyncConnection.connect(dsn, autocommit=True)

    async def work() -> dict[str, float]:
        worker = Worker(
            dsn, concurrency=options["concurrency"], process_slots=options.get("process_slots"),
            health_port=port,
        )  # fmt: skip
        spent = Spent()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run())
            while completed(worker) < options["jobs"]:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(LOOK_EVERY_S)
            while await number(observer, LEFT):  # noqa: ASYNC110 - PostgreSQL is asked
                await asyncio.sleep(POLL_S)
            answer = spent.so_far()
            if port is not None:
                await _check_features(observer, port, options["jobs"])
            worker.stop()
        return answer

    return work


def completed(worker: Worker) -> float:
    """How many jobs a worker has completed, by its own count."""
    return sum(row[COMPLETED] for row in worker.metrics.rows().values())


async def _check_features(conn: psycopg.AsyncConnection[Any], port: int, jobs: int) -> None:
    """What is said to be on has to be."""
    lines = (await asyncio.to_thread(_page, port)).splitlines()
    counts = [line for line in lines if line.startswith("batchq_worker_jobs_total")]
    if not any('"completed"' in line and line.endswith(f" {jobs}.0") for line in counts):
        raise RuntimeError(f"the metrics do not tell of {jobs} jobs: {counts}")
    if await number(conn, REGISTERED) != 1:
        raise RuntimeError("the worker is not in the registry")


def _page(port: int) -> str:
    with urlopen(f"http://{HOST}:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])
