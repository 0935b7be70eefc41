"""From enqueue to the handler's first line: an idle worker in another process.

The producer takes the time just before it sends the statement and puts it into the payload;
the handler compares it with its own reading of the same machine's monotonic clock.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import psycopg

from bench.drivers.processes import Driver
from bench.peers import products
from bench.support import fill
from bench.support.context import Bench, Builder
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.stats import percentile

SETTLE_S = 1.0
IDLE_S = (0.060, 0.080)
BATCHQ = "select batchq.enqueue('noop', %s::jsonb)"
ROUND_TRIP = "select 1, a bare round trip"
GRAPHILE = "select graphile_worker.add_job('noop', %s::json)"


def cases(bench: Bench) -> Iterator[Case]:
    """The worker has been idle for at least 50 ms before each job."""
    yield Case(
        title="enqueue → start, idle worker, two processes",
        unit="ms, p50",
        contestants=[
            _contestant(bench, "batchq", BATCHQ, fill.install_batchq),
            _contestant(bench, products.GRAPHILE.name, GRAPHILE, fill.install_nothing),
            Contestant(ROUND_TRIP, lambda: _round_trip(bench)),
        ],
        targets=[
            Target("batchq", "<=", 3),
            Target("batchq", "<=", 7, figure="p99"),
            Target("batchq", "<=", None, rival=products.GRAPHILE.name),
            Target("batchq", "<=", None, rival=ROUND_TRIP),
        ],
    )


def _contestant(bench: Bench, name: str, query: str, build: Builder) -> Contestant:
    samples = bench.scale.latency_samples

    def run() -> Sample:
        with bench.database(name, build) as dsn:
            if name == "batchq":
                driver = Driver.batchq("latency", dsn, samples=samples)
            else:
                driver = products.BY_NAME[name].driver(bench, "latency", dsn, samples=samples)
            with driver:
                driver.read()
                time.sleep(SETTLE_S)
                with bench.meter(dsn) as meter:
                    _produce(dsn, query, samples)
                    answer = driver.finish()
                    driver.close()
            details = {"p99": answer["p99"], "max": answer["max"]}
            return Sample(answer["p50"], details, meter.cost(samples))

    return Contestant(name, run)


def _round_trip(bench: Bench) -> Sample:
    """What this machine takes to wake one server process and back, after the same pauses."""
    with bench.database(ROUND_TRIP, fill.install_nothing) as dsn:
        delays = []
        with psycopg.connect(dsn, autocommit=True) as conn:
            for _ in range(bench.scale.latency_samples):
                time.sleep(random.uniform(*IDLE_S))
                began = time.monotonic_ns()
                conn.execute("select 1")
                delays.append((time.monotonic_ns() - began) / 1e6)
    details = {"p99": percentile(delays, 0.99), "max": max(delays)}
    return Sample(percentile(delays, 0.50), details)


def _produce(dsn: str, query: str, samples: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for _ in range(samples):
            time.sleep(random.uniform(*IDLE_S))
            conn.execute(query.encode(), (json.dumps({"t": time.monotonic_ns() // 1000}),))
