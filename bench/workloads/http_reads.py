"""Reading over HTTP at a million jobs: one job, a page of them, and the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from bench.support import fill, http
from bench.support.context import Bench, run_sql
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.query import number
from bench.workloads.backlog import CHUNK, FINISH

METRICS = "GET /metrics"
PATHS = {
    "GET /jobs/{id}": "/jobs/{n}",
    "GET /jobs": "/jobs",
    "GET /jobs?state=ready": "/jobs?state=ready",
    "GET /jobs?kind=none": "/jobs?kind=none",
}


def cases(bench: Bench) -> Iterator[Case]:
    """So many jobs are finished, a few wait. One client: what counts is the time of an answer."""
    jobs = bench.scale.backlog_jobs
    bench.note(f"filling a database with {jobs:,} finished jobs")
    with bench.database("batchq", fill.install_batchq) as dsn:
        _fill(dsn, jobs, bench.scale.backlog_base)
        ids = _ids(dsn)
        with http.Served(dsn, http.API) as server:
            yield Case(
                title=f"reading at {jobs:,} finished jobs, one client",
                unit="ms, p99",
                contestants=[
                    *(
                        Contestant(name, _read(bench, server.port, path, ids))
                        for name, path in PATHS.items()
                    ),
                    Contestant(METRICS, _read(bench, server.port, "/metrics", ids)),
                ],
                targets=[
                    *(Target(name, "<=", 20) for name in PATHS),
                    Target(METRICS, "<=", 100, figure="max"),
                ],
                rounds=3,
            )


def _fill(dsn: str, finished: int, waiting: int) -> None:
    fill.fill_batchq(dsn, finished)
    with psycopg.connect(dsn, autocommit=True) as conn:
        for first in range(0, finished, CHUNK):
            conn.execute(FINISH.encode(), (min(CHUNK, finished - first),))
    fill.fill_batchq(dsn, waiting)
    run_sql(dsn, "vacuum analyze")


def _ids(dsn: str) -> tuple[int, int]:
    """The least and the greatest; there are no gaps."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        least = number(conn, "select min(id) from batchq.jobs")
        return least, number(conn, "select max(id) from batchq.jobs")


def _read(bench: Bench, port: int, path: str, ids: tuple[int, int]) -> Callable[[], Sample]:
    options: dict[str, Any] = {"method": "GET", "path": path, "numbers": ids}

    def run() -> Sample:
        answer = http.run(port, connections=1, seconds=bench.scale.seconds, **options)
        details = {
            "p50": answer["p50"],
            "max": answer["max"],
            "answers/s": answer["answers"] / answer["seconds"],
        }
        return Sample(answer["p99"], details)

    return run
