"""Plans cached while the tables were empty, then 400,000 rows: the time of a lease of 5.

One session calls everything ten times on empty, analysed tables, so that its plans are cached;
another fills the tables; then the first session leases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import psycopg

from bench.support import fill
from bench.support.context import Bench, Builder
from bench.support.model import Case, Contestant, Sample, Target

WARM_UPS = 10
LEASES = 50
TIMEOUT = "60 s"
SIZE = 5
BATCHQ = "select * from batchq.lease('default', %s)"
ONE_TABLE = """
    with head as materialized (
        select r.id from one_table.job r where r.queue = 'default' and r.state = 'ready'
        order by r.priority desc, r.id limit %s for update skip locked
    )
    update one_table.job j set state = 'leased', attempt = j.attempt + 1, leased_at = now()
    from head where j.id = head.id
    returning j.id, j.payload
"""


def cases(bench: Bench) -> Iterator[Case]:
    """The one-table queue beside it keeps a plan as a prepared statement of a pool does."""
    yield Case(
        title=f"plans cached on empty tables, then {bench.scale.cold_jobs:,} rows: lease of {SIZE}",
        unit="ms",
        contestants=[
            _contestant(bench, "batchq", BATCHQ, "batchq", fill.install_batchq),
            _contestant(bench, "one-table queue", ONE_TABLE, "one_table", fill.install_one_table),
        ],
        targets=[Target("batchq", "<=", 2)],
    )


def _contestant(bench: Bench, name: str, query: str, template: str, build: Builder) -> Contestant:
    def run() -> Sample:
        with (
            bench.database(template, build) as dsn,
            psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as conn,
        ):
            conn.execute(f"set statement_timeout = '{TIMEOUT}'".encode())
            conn.execute("analyze")
            for _ in range(WARM_UPS):
                conn.execute(query.encode(), (SIZE,))
            _fill(dsn, template, bench.scale.cold_jobs)
            with bench.meter(dsn) as meter:
                times = [_timed(conn, query) for _ in range(LEASES)]
                conn.execute("select pg_stat_force_next_flush()")
            details = {"first": times[0], "max": max(times)}
            return Sample(median(times), details, meter.cost(LEASES * SIZE))

    return Contestant(name, run)


def _fill(dsn: str, template: str, jobs: int) -> None:
    """Without a word to the planner."""
    if template == "batchq":
        fill.fill_batchq(dsn, jobs)
    else:
        fill.fill_one_table(dsn, jobs, analyse=False)


def _timed(conn: psycopg.Connection, query: str) -> float:
    began = time.perf_counter()
    conn.execute(query.encode(), (SIZE,)).fetchall()
    return (time.perf_counter() - began) * 1e3
