"""lease and complete as two round trips each, 4 connections, against the one-table queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.peers import scripts
from bench.support import fill
from bench.support.context import Bench
from bench.support.model import BenchError, Case, Contestant, Sample, Target
from bench.support.pgbench import Load
from bench.support.query import scalar

CLIENTS = 4
# Just under and just over the size (about 2,000 bytes a row) at which PostgreSQL moves a
# payload out of the row: an UPDATE copies the one and leaves the other where it is.
IN_ROW = 1_850
OUT_OF_ROW = 2_048


@dataclass(frozen=True, slots=True)
class Shape:
    title: str
    batch: int
    size: int
    share: float


SHAPES = (
    Shape("single jobs", 1, 0, 1.0),
    Shape("batches of 10", 10, 0, 1.5),
    Shape("batches of 10, 2 KB payloads (2,048 bytes, out of the row)", 10, OUT_OF_ROW, 1.2),
    Shape("batches of 10, 2 KB payloads (1,850 bytes, in the row)", 10, IN_ROW, 1.2),
)


def cases(bench: Bench) -> Iterator[Case]:
    """Two statements and two commits a batch; the payloads travel to the client."""
    for shape in SHAPES:
        yield Case(
            title=f"lease, then complete: {shape.title}, {CLIENTS} connections",
            unit="jobs/s",
            contestants=[
                _batchq(bench, shape),
                _one_table(bench, shape),
            ],
            targets=[Target("batchq", ">=", shape.share, rival="one-table queue")],
        )


def _jobs(bench: Bench, shape: Shape) -> int:
    return bench.scale.single_jobs if shape.batch == 1 else bench.scale.batch_jobs


def _load(bench: Bench, shape: Shape, script: str) -> Load:
    each = max(1, _jobs(bench, shape) // (shape.batch * CLIENTS))
    return Load(scripts=[script], clients=CLIENTS, each=each)


def _spare(shape: Shape) -> int:
    return shape.batch * CLIENTS * 10


def _batchq(bench: Bench, shape: Shape) -> Contestant:
    one = shape.batch == 1
    script = scripts.BATCHQ_LEASE_ONE if one else scripts.batchq_lease_batch(shape.batch)

    def run() -> Sample:
        with bench.database("batchq", fill.install_batchq) as dsn:
            fill.fill_batchq(dsn, _jobs(bench, shape) + _spare(shape), shape.size)
            with bench.meter(dsn) as meter:
                result = bench.pgbench(dsn, _load(bench, shape, script))
            jobs = result.transactions * shape.batch
            fill.expect_completed(dsn, jobs)
            return Sample(result.tps * shape.batch, cost=meter.cost(jobs))

    return Contestant("batchq", run)


def _one_table(bench: Bench, shape: Shape) -> Contestant:
    one = shape.batch == 1
    script = scripts.ONE_TABLE_LEASE_ONE if one else scripts.one_table_lease_batch(shape.batch)

    def run() -> Sample:
        with bench.database("one_table", fill.install_one_table) as dsn:
            fill.fill_one_table(dsn, _jobs(bench, shape) + _spare(shape), shape.size)
            with bench.meter(dsn) as meter:
                result = bench.pgbench(dsn, _load(bench, shape, script))
            jobs = result.transactions * shape.batch
            found = scalar(dsn, "select count(*) from one_table.job where state = 'completed'")
            if found != jobs:
                raise BenchError(f"{found} jobs were completed, not {jobs}")
            return Sample(result.tps * shape.batch, cost=meter.cost(jobs))

    return Contestant("one-table queue", run)
