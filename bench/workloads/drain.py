"""No-op async handlers, one worker process: batchq's Worker and real products.

From the worker's start to the moment the database holds no unfinished job. Each driver fills
its own queue first; then the whole database is vacuumed and analysed, for everyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.drivers.processes import Driver
from bench.peers import products
from bench.support import fill
from bench.support.context import Bench, run_sql
from bench.support.model import BEST, Case, Contestant, Sample, Target

CONCURRENCY = 500
CONCURRENCIES = (10, 100, 1_000)
CPU = "worker cpu µs/job"
Figures = Mapping[str, str]
# figures beside a rate, in microseconds a job, and what a driver calls them
FIGURES = {CPU: "client_cpu_s"}
SPLIT = {**FIGURES, "of it in the kernel": "system_cpu_s"}


def cases(bench: Bench) -> Iterator[Case]:
    """Outcomes kept by batchq; the rivals as their own manuals make them fastest."""
    jobs = bench.scale.drain_jobs
    yield Case(
        title=f"drain, {jobs:,} no-op jobs, one worker process",
        unit="jobs/s",
        contestants=[
            Contestant("batchq", lambda: drain(bench, jobs, concurrency=CONCURRENCY)),
            *(_product(bench, product) for product in products.ALL),
        ],
        targets=[
            Target("batchq", ">=", 35_000),
            *(Target("batchq", ">=", None, rival=product.name) for product in products.ALL),
        ],
    )
    names = [f"concurrency {concurrency:,}" for concurrency in CONCURRENCIES]
    yield Case(
        title=f"drain, {jobs:,} no-op jobs, one worker process with its health port open",
        unit="jobs/s",
        contestants=[
            Contestant(name, _at(bench, concurrency))
            for name, concurrency in zip(names, CONCURRENCIES, strict=True)
        ],
        targets=[
            Target(BEST, ">=", 35_000),
            *(Target(name, "<=", 15, figure=CPU) for name in names),
        ],
    )


def drain(
    bench: Bench, jobs: int, kind: str = "noop", figures: Figures = FIGURES, **options: float
) -> Sample:
    """One worker process of batchq. The options are those of the driver's task."""
    with bench.database("batchq", fill.install_batchq) as dsn:
        fill.fill_batchq(dsn, jobs, kind=kind)
        with Driver.batchq("drain", dsn, jobs=jobs, **options) as driver:
            sample = _timed(bench, dsn, driver, jobs, figures)
        fill.expect_completed(dsn, jobs)
        return sample


def _at(bench: Bench, concurrency: int) -> Callable[[], Sample]:
    jobs = bench.scale.drain_jobs
    return lambda: drain(bench, jobs, figures=SPLIT, concurrency=concurrency, health=1)


def _product(bench: Bench, product: products.Product) -> Contestant:
    jobs = bench.scale.drain_jobs_slow if product.slow else bench.scale.drain_jobs

    def run() -> Sample:
        with (
            bench.database(product.name, fill.install_nothing) as dsn,
            product.driver(bench, "drain", dsn, jobs=jobs) as driver,
        ):
            return _timed(bench, dsn, driver, jobs)

    return Contestant(product.name, run, once=product.slow)


def _timed(bench: Bench, dsn: str, driver: Driver, jobs: int, figures: Figures = FIGURES) -> Sample:
    driver.read()
    run_sql(dsn, "vacuum analyze")
    with bench.meter(dsn) as meter:
        answer = driver.finish()
        driver.close()
    details = {name: answer[key] * 1e6 / jobs for name, key in figures.items() if key in answer}
    return Sample(jobs / answer["seconds"], details, meter.cost(jobs))
