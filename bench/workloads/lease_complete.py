"""lease + complete in SQL, batches of 100, two clients, against a bare move of the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from bench.peers import scripts
from bench.support import fill
from bench.support.context import Bench
from bench.support.model import BenchError, Case, Contestant, Sample, Target
from bench.support.pgbench import Load
from bench.support.query import scalar

BATCH = 100
CLIENTS = 2


def cases(bench: Bench) -> Iterator[Case]:
    """Each transaction is one statement and one commit, for all three."""
    yield Case(
        title=f"lease + complete in SQL, batches of {BATCH}, {CLIENTS} clients",
        unit="jobs/s",
        contestants=[
            Contestant("batchq", lambda: _batchq(bench, scripts.batchq_move(BATCH), held=0)),
            Contestant(
                "batchq, settle_and_lease",
                lambda: _batchq(bench, scripts.batchq_settle(BATCH), held=BATCH * CLIENTS),
            ),
            Contestant("bare DELETE … INSERT", lambda: _bare(bench)),
        ],
        targets=[Target("batchq", ">=", 0.5, rival="bare DELETE … INSERT")],
    )


def _load(bench: Bench, script: str) -> Load:
    each = max(1, bench.scale.move_jobs // (BATCH * CLIENTS))
    empty = {"job_ids": "{}", "lease_ids": "{}"}
    return Load(scripts=[script], clients=CLIENTS, each=each, variables=empty)


def _batchq(bench: Bench, script: str, held: int) -> Sample:
    """`held`: jobs that the last transaction of each client leaves leased."""
    with bench.database("batchq", fill.install_batchq) as dsn:
        fill.fill_batchq(dsn, bench.scale.move_jobs + BATCH * CLIENTS)
        with bench.meter(dsn) as meter:
            result = bench.pgbench(dsn, _load(bench, script))
        jobs = result.transactions * BATCH
        fill.expect_completed(dsn, jobs - held)
        return Sample(result.tps * BATCH, cost=meter.cost(jobs))


def _bare(bench: Bench) -> Sample:
    with bench.database("bare", fill.install_bare) as dsn:
        fill.fill_bare(dsn, bench.scale.move_jobs + BATCH * CLIENTS)
        with bench.meter(dsn) as meter:
            result = bench.pgbench(dsn, _load(bench, scripts.bare_move(BATCH)))
        jobs = result.transactions * BATCH
        if (found := scalar(dsn, "select count(*) from bare.done")) != jobs:
            raise BenchError(f"{found} rows were moved, not {jobs}")
        return Sample(result.tps * BATCH, cost=meter.cost(jobs))
