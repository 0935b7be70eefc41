"""No-op async handlers, one worker process: batchq's Worker and real products.

From the worker's start to the moment the database holds no unfinished job. Each driver fills
its own queue first; then the whole database is vacuumed and analysed, for everyone.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.drivers.processes import Answer, Driver
from bench.peers import products
from bench.support import fill
from bench.support.context import Bench, run_sql
from bench.support.model import Case, Contestant, Sample, Target

CONCURRENCY = 500


def cases(bench: Bench) -> Iterator[Case]:
    """Outcomes kept by batchq; the rivals as their own manuals make them fastest."""
    yield Case(
        title=f"drain, {bench.scale.drain_jobs:,} no-op jobs, one worker process",
        unit="jobs/s",
        contestants=[
            Contestant("batchq", lambda: _batchq(bench)),
            *(_product(bench, product) for product in products.ALL),
        ],
        targets=[
            Target("batchq", ">=", 35_000),
            *(Target("batchq", ">=", None, rival=product.name) for product in products.ALL),
        ],
    )


def _batchq(bench: Bench) -> Sample:
    jobs = bench.scale.drain_jobs
    with bench.database("batchq", fill.install_batchq) as dsn:
        fill.fill_batchq(dsn, jobs)
        with Driver.batchq("drain", dsn, jobs=jobs, concurrency=CONCURRENCY) as driver:
            sample = _timed(bench, dsn, driver, jobs)
        fill.expect_completed(dsn, jobs)
        return sample


def _product(bench: Bench, product: products.Product) -> Contestant:
    jobs = bench.scale.drain_jobs_slow if product.slow else bench.scale.drain_jobs

    def run() -> Sample:
        with (
            bench.database(product.name, fill.install_nothing) as dsn,
            product.driver(bench, "drain", dsn, jobs=jobs) as driver,
        ):
            return _timed(bench, dsn, driver, jobs)

    return Contestant(product.name, run, once=product.slow)


def _timed(bench: Bench, dsn: str, driver: Driver, jobs: int) -> Sample:
    driver.read()
    run_sql(dsn, "vacuum analyze")
    with bench.meter(dsn) as meter:
        answer = driver.finish()
        driver.close()
    return Sample(jobs / answer["seconds"], _details(answer, jobs), meter.cost(jobs))


def _details(answer: Answer, jobs: int) -> dict[str, float]:
    if "client_cpu_s" not in answer:
        return {}
    return {"worker cpu µs/job": answer["client_cpu_s"] * 1e6 / jobs}
