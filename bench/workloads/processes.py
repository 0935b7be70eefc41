"""Several worker processes under one supervisor against one, as `batchq worker` starts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg

from bench.drivers.command import Command
from bench.support import fill
from bench.support.context import Bench, run_sql
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.query import number

CONCURRENCY = 500
NUMBERS = {"1 process": 1, "2 processes": 2}
LOOK_EVERY_S = 0.005
PAUSE = "select batchq.pause('default')"
RESUME = "select batchq.resume('default')"
# leases are numbered: asking for the newest costs nothing, whatever the tables hold
LEASES = "select last_value from batchq.lease_number"


def cases(bench: Bench) -> Iterator[Case]:
    """Workers and server share the machine's cores, so nothing is promised."""
    jobs = bench.scale.drain_jobs
    yield Case(
        title=f"drain, {jobs:,} no-op jobs, `batchq worker --processes`",
        unit="jobs/s",
        contestants=[
            Contestant(name, _drain(bench, jobs, processes)) for name, processes in NUMBERS.items()
        ],
        targets=[Target("2 processes", ">=", None, rival="1 process")],
    )


def _drain(bench: Bench, jobs: int, processes: int) -> Callable[[], Sample]:
    """The queue is paused until all processes are there."""

    def run() -> Sample:
        with bench.database("batchq", fill.install_batchq) as dsn:
            fill.fill_batchq(dsn, jobs)
            run_sql(dsn, PAUSE)
            run_sql(dsn, "vacuum analyze")
            with Command(dsn, processes=processes, concurrency=CONCURRENCY) as command:
                command.await_registered(processes)
                before_s = command.cpu_s()
                with bench.meter(dsn) as meter:
                    seconds = _until_dry(dsn, jobs)
                    spent_s = command.cpu_s() - before_s
                    command.stop(0)
            fill.expect_completed(dsn, jobs)
        details = {"workers' cpu µs/job": spent_s * 1e6 / jobs}
        return Sample(jobs / seconds, details, meter.cost(jobs))

    return run


def _until_dry(dsn: str, jobs: int) -> float:
    """Resume the queue; the seconds until nothing is left in it."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        end = number(conn, LEASES) + jobs - 1  # 1 is said before the first is taken
        began = time.monotonic()
        conn.execute(RESUME)
        while number(conn, LEASES) < end:
            time.sleep(LOOK_EVERY_S)
        while number(conn, fill.LEFT):
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - began
