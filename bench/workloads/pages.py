"""The dashboard's pages at a million jobs: how long one takes until its last byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg

from bench.support import fill, http
from bench.support.context import Bench, run_sql
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.query import number
from bench.workloads.backlog import CHUNK, FINISH

MOST_MS = 100
MOST_DEAD = 4_312
QUEUES = 20
MAINTAIN = "select count(*) from batchq.maintain()"
# As many texts as there are jobs, and one bug behind them.
KILL = """
    select count(*) from (
        select array_agg(l.job_id) as job_ids, array_agg(l.lease_id) as lease_ids,
            array_agg('no route to host ' || l.job_id) as errors,
            array_agg(true) as permanents
        from batchq.lease('default', %s) l
    ) s, lateral batchq.fail_many(s.job_ids, s.lease_ids, s.errors, s.permanents) lost
"""
WAITING = f"'queue', 'q' || mod(n, {QUEUES})"
PAGES = {
    "overview": "/",
    "queue": "/ui/queues/default",
    "jobs": "/ui/jobs",
    "jobs, failed": "/ui/jobs?state=failed",
    "jobs, of no such kind": "/ui/jobs?kind=none",
    "job": "/ui/jobs/{n}",
    "dead letters": "/ui/dead",
    "throughput, a week": "/ui/throughput?range=7d",
    "workers": "/ui/workers",
    "audit": "/ui/audit",
}


def cases(bench: Bench) -> Iterator[Case]:
    """So many jobs are finished, a few wait in many queues, thousands are dead. One client."""
    jobs = bench.scale.backlog_jobs
    dead = min(MOST_DEAD, bench.scale.backlog_base // 2)
    bench.note(f"filling a database with {jobs:,} finished jobs")
    with bench.database("batchq", fill.install_batchq) as dsn:
        _fill(dsn, jobs, bench.scale.backlog_base, dead)
        with http.Served(dsn, http.API) as server:
            ids = _ids(dsn)
            yield Case(
                title=f"pages at {jobs:,} finished jobs, one client",
                unit="ms, p99",
                contestants=[
                    Contestant(name, _load(bench, server.port, path, ids))
                    for name, path in PAGES.items()
                ],
                targets=[Target(name, "<=", MOST_MS) for name in PAGES],
                rounds=3,
            )


def _fill(dsn: str, finished: int, waiting: int, dead: int) -> None:
    fill.fill_batchq(dsn, finished + dead)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for first in range(0, finished, CHUNK):
            conn.execute(FINISH.encode(), (min(CHUNK, finished - first),))
        for first in range(0, dead, CHUNK):
            conn.execute(KILL.encode(), (min(CHUNK, dead - first),))
    fill.fill_batchq(dsn, waiting, fields=WAITING)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(MAINTAIN)
    run_sql(dsn, "vacuum analyze")


def _ids(dsn: str) -> tuple[int, int]:
    """The least and the greatest; there are no gaps."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        least = number(conn, "select min(id) from batchq.jobs")
        return least, number(conn, "select max(id) from batchq.jobs")


def _load(bench: Bench, port: int, path: str, ids: tuple[int, int]) -> Callable[[], Sample]:
    def run() -> Sample:
        answer = http.run(
            port, connections=1, seconds=bench.scale.seconds, method="GET", path=path, numbers=ids
        )
        details = {
            "p50": answer["p50"],
            "max": answer["max"],
            "answers/s": answer["answers"] / answer["seconds"],
        }
        return Sample(answer["p99"], details)

    return run
