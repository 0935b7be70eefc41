"""What an idle worker asks of the server: its statements, counted in the server's own log."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.drivers.processes import Driver
from bench.support import fill
from bench.support.context import Bench
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.statements import Statements

SETTLE_S = 5.0


def cases(bench: Bench) -> Iterator[Case]:
    """Every statement counts, heartbeats and the search for due jobs included."""
    yield Case(
        title=f"idle worker, {bench.scale.idle_s:g} s",
        unit="statements in 5 s",
        contestants=[Contestant("batchq", lambda: _count(bench))],
        targets=[Target("batchq", "<=", 1)],
        rounds=1,
    )


def _count(bench: Bench) -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        statements = Statements(bench, dsn)
        with Driver.batchq("worker", dsn, concurrency=10) as driver:
            driver.read()
            time.sleep(SETTLE_S)
            statements.begin()
            time.sleep(bench.scale.idle_s)
            counted = statements.count()
            driver.finish()
            driver.close()
        return Sample(counted * 5 / bench.scale.idle_s, {"statements": counted})
