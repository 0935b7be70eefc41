"""Single enqueues: against a bare INSERT, and what the doorbell costs.

The doorbell is compared with two variants of our own enqueue: one that never notifies and one
that always does. It rings for whoever is there: nobody; a real worker, parked at first, that
takes the jobs as they come; and a sleeper that takes none and, woken, parks again 5 ms later,
which no worker would do with jobs waiting: the worst case, shown without a promise. Where enqueue
never notifies, the worker is nudged every 20 ms from outside, as if it polled, so that it works as
hard as in the other variants.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.drivers.processes import Driver
from bench.peers import doorbell, scripts
from bench.support import fill
from bench.support.context import Bench, Builder
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.pgbench import Load

WRITERS = 32
BUSY_MS = 5
NUDGE_MS = 20
CONCURRENCY = 500
SETTLE_S = 1.0


def cases(bench: Bench) -> Iterator[Case]:
    """8 and 32 connections, one job a transaction, prepared statements."""
    for clients, share in ((8, 0.6), (WRITERS, 0.5)):
        yield Case(
            title=f"enqueue, single calls, {clients} connections",
            unit="jobs/s",
            contestants=[
                _writer(bench, "batchq", clients, "batchq", fill.install_batchq),
                _writer(bench, "bare INSERT", clients, "bare", fill.install_bare),
            ],
            targets=[Target("batchq", ">=", share, rival="bare INSERT")],
        )
    variants: list[tuple[str, str, Builder]] = [
        ("doorbell", "batchq", fill.install_batchq),
        ("no NOTIFY", "silent", doorbell.install_silent),
        ("NOTIFY always", "always", doorbell.install_always),
    ]
    for present, what in (
        (None, "nobody parked"),
        ("worker", "a worker, parked at first"),
        ("sleeper", "a sleeper that parks 5 ms after each ring"),
    ):
        promised = present != "sleeper"
        yield Case(
            title=f"doorbell, {WRITERS} writers, {what}",
            unit="jobs/s",
            contestants=[
                _writer(bench, name, WRITERS, template, build, present=present)
                for name, template, build in variants
            ],
            targets=[
                Target("doorbell", ">=", 0.85 if promised else None, rival="no NOTIFY"),
                Target("doorbell", ">=", 3 if promised else None, rival="NOTIFY always"),
            ],
        )


def _writer(
    bench: Bench,
    name: str,
    clients: int,
    template: str,
    build: Builder,
    *,
    present: str | None = None,
) -> Contestant:
    script = scripts.BARE_INSERT if template == "bare" else scripts.BATCHQ_ENQUEUE
    load = Load(scripts=[script], clients=clients, seconds=bench.scale.seconds)

    def run() -> Sample:
        with bench.database(template, build) as dsn:
            if present is None:
                with bench.meter(dsn) as meter:
                    result = bench.pgbench(dsn, load)
                return Sample(result.tps, cost=meter.cost(result.transactions))
            nudge_ms = NUDGE_MS if template == "silent" else 0
            options = {"concurrency": CONCURRENCY, "busy_ms": BUSY_MS, "nudge_ms": nudge_ms}
            with Driver.batchq(present, dsn, **options) as driver:
                driver.read()
                time.sleep(SETTLE_S)
                with bench.meter(dsn) as meter:
                    result = bench.pgbench(dsn, load)
                    answer = driver.finish()
                    driver.close()
            details = {f"{key}/s": count / meter.elapsed_s for key, count in answer.items()}
            return Sample(result.tps, details, meter.cost(result.transactions))

    return Contestant(name, run)
