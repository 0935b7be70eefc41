"""A thousand jobs that run for long: the statements that keep their leases, and whether they do.

In the second contestant the event loop is blocked, by a job that computes, for several times the
length of the leases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.drivers.processes import Driver
from bench.support import fill
from bench.support.context import Bench
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.query import scalar
from bench.support.statements import Statements

JOBS = 1_000
LOST = "leases lost"
# rows that another lease of the same job left behind
EXPIRED = "select count(*) from batchq.error e where e.expired"


def cases(bench: Bench) -> Iterator[Case]:
    """Every statement of the worker counts: heartbeats, upkeep, registry, polling."""
    scale = bench.scale
    free = "default lease of 60 s"
    blocked = f"lease of {scale.blocked_lease_s:g} s, loop blocked for {scale.blocked_s:g} s"
    yield Case(
        title=f"{JOBS:,} jobs that run for {scale.beats_s:g} s",
        unit="statements/s",
        contestants=[
            Contestant(free, lambda: _hold(bench, scale.beats_s)),
            Contestant(
                blocked,
                lambda: _hold(
                    bench, scale.blocked_s, blocked_s=scale.blocked_s,
                    lease_s=scale.blocked_lease_s,
                ),
            ),
        ],
        targets=[
            Target(free, "<=", 1),
            Target(free, "<=", 0, figure=LOST),
            Target(blocked, "<=", 0, figure=LOST),
        ],
        rounds=1,
    )  # fmt: skip


def _hold(bench: Bench, seconds: float, **options: float) -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        statements = Statements(bench, dsn)
        fill.fill_batchq(dsn, JOBS, kind="hold")
        with Driver.batchq("hold", dsn, jobs=JOBS, **options) as driver:
            driver.read()
            statements.begin()
            time.sleep(seconds)
            counted = statements.count()
            answer = driver.finish()
            driver.close()
        fill.expect_completed(dsn, JOBS)
        lost = max(answer["lost"] + answer["refused"], scalar(dsn, EXPIRED))
        beats = {"statements": counted, "heartbeats": answer["heartbeats"]}
        return Sample(counted / seconds, {**beats, LOST: lost})
