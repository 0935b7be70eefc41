"""How fast jobs are leased when the database is full of others.

Databases with 10,000 ready jobs, and with 1,000,000 more that are ready, due in the future with a
higher priority, finished, or dead. The load is a closed circle (half of the transactions enqueue
10, half lease 10 and complete them), so the backlog stays as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from bench.peers import scripts
from bench.support import fill
from bench.support.context import Bench, run_sql
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.pgbench import Load

BATCH = 10
CLIENTS = 2
CLAIM = 1
CHUNK = 10_000

FINISH = """
    select count(*) from (
        select array_agg(l.job_id) as job_ids, array_agg(l.lease_id) as lease_ids
        from batchq.lease('default', %s) l
    ) s, lateral batchq.complete_many(s.job_ids, s.lease_ids) lost
"""
KILL = """
    select count(*) from (
        select array_agg(l.job_id) as job_ids, array_agg(l.lease_id) as lease_ids,
            array_agg('no use'::text) as errors, array_agg(true) as permanents
        from batchq.lease('default', %s) l
    ) s, lateral batchq.fail_many(s.job_ids, s.lease_ids, s.errors, s.permanents) lost
"""


def cases(bench: Bench) -> Iterator[Case]:
    """The rate is that of lease + complete alone: batch and clients over its mean time."""
    base, more = bench.scale.backlog_base, bench.scale.backlog_jobs
    bench.note(f"filling five databases with {more:,} jobs each")
    with contextlib.ExitStack() as stack:
        few = stack.enter_context(_few(bench, 0))
        ready = stack.enter_context(_few(bench, more))
        future = stack.enter_context(_few(bench, 0))
        fill.fill_batchq(future, more, fields="'priority', 10, 'delay', '30 days'")
        finished = stack.enter_context(_few(bench, more))
        _settle(finished, FINISH, more)
        dead = stack.enter_context(_few(bench, more))
        _settle(dead, KILL, more)
        databases = {
            f"{base:,} ready": few,
            f"+ {more:,} ready": ready,
            f"+ {more:,} due later, higher priority": future,
            f"+ {more:,} finished": finished,
            f"+ {more:,} dead": dead,
        }
        for dsn in databases.values():
            run_sql(dsn, "vacuum analyze")
        rival = f"{base:,} ready"
        yield Case(
            title=f"lease + complete on a backlog, batches of {BATCH}, {CLIENTS} clients",
            unit="jobs/s",
            contestants=[
                Contestant(name, lambda dsn=dsn: _measure(bench, dsn))  # type: ignore[misc]
                for name, dsn in databases.items()
            ],
            targets=[Target(name, ">=", 0.9, rival=rival) for name in databases if name != rival],
        )


@contextlib.contextmanager
def _few(bench: Bench, more: int) -> Iterator[str]:
    with bench.database("batchq", fill.install_batchq) as dsn:
        fill.fill_batchq(dsn, bench.scale.backlog_base + more)
        yield dsn


def _settle(dsn: str, query: str, jobs: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for first in range(0, jobs, CHUNK):
            conn.execute(query.encode(), (min(CHUNK, jobs - first),))


def _measure(bench: Bench, dsn: str) -> Sample:
    load = Load(
        scripts=[scripts.batchq_enqueue_many(BATCH), scripts.batchq_lease_batch(BATCH)],
        clients=CLIENTS,
        seconds=bench.scale.seconds,
        logged=True,
    )
    with bench.meter(dsn) as meter:
        result = bench.pgbench(dsn, load)
    claims = [entry.seconds for entry in result.log if entry.script == CLAIM]
    mean_s = sum(claims) / len(claims)
    return Sample(CLIENTS * BATCH / mean_s, cost=meter.cost(len(claims) * BATCH))
