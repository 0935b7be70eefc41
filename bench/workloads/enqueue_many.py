"""enqueue_many, 1,000 jobs a call: the server's part alone, and through real clients."""

from __future__ import annotations

from collections.abc import Iterator

from bench.drivers.processes import Driver
from bench.peers import products, scripts
from bench.support import fill
from bench.support.context import Bench, Builder
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.pgbench import Load

BATCH = 1_000
CLIENTS = 2


def cases(bench: Bench) -> Iterator[Case]:
    """By pgbench the array travels as text and is parsed at every call (`-M simple`)."""
    yield Case(
        title=f"enqueue_many, {BATCH:,} a call, {CLIENTS} connections, by pgbench",
        unit="jobs/s",
        contestants=[
            _by_pgbench(bench, "batchq", "batchq", fill.install_batchq),
            _by_pgbench(bench, "one-table queue", "one_table", fill.install_one_table),
        ],
        targets=[Target("batchq", ">=", 80_000)],
    )
    yield Case(
        title=f"enqueue_many, {BATCH:,} a call, {CLIENTS} connections, one client process",
        unit="jobs/s",
        contestants=[
            _by_client(bench, "batchq (Python)", "batchq", fill.install_batchq),
            *(
                _by_client(bench, f"{product.name} (Node.js)", product.name, fill.install_nothing)
                for product in (products.GRAPHILE, products.PGBOSS)
            ),
        ],
        targets=[
            Target("batchq (Python)", ">=", None, rival=f"{product.name} (Node.js)")
            for product in (products.GRAPHILE, products.PGBOSS)
        ],
    )


def _by_pgbench(bench: Bench, name: str, template: str, build: Builder) -> Contestant:
    ours = template == "batchq"
    script = scripts.batchq_enqueue_many(BATCH) if ours else scripts.one_table_insert_many(BATCH)
    each = max(1, bench.scale.bulk_jobs // (BATCH * CLIENTS))

    def run() -> Sample:
        load = Load(scripts=[script], clients=CLIENTS, each=each, mode="simple")
        with bench.database(template, build) as dsn:
            with bench.meter(dsn) as meter:
                result = bench.pgbench(dsn, load)
            jobs = result.transactions * BATCH
            return Sample(result.tps * BATCH, cost=meter.cost(jobs))

    return Contestant(name, run)


def _by_client(bench: Bench, name: str, template: str, build: Builder) -> Contestant:
    jobs = bench.scale.bulk_jobs

    def run() -> Sample:
        with bench.database(template, build) as dsn:
            options = {"jobs": jobs, "batch": BATCH, "connections": CLIENTS}
            if template == "batchq":
                driver = Driver.batchq("bulk", dsn, **options)
            else:
                driver = products.BY_NAME[template].driver(bench, "bulk", dsn, **options)
            with driver:
                driver.read()
                with bench.meter(dsn) as meter:
                    answer = driver.finish()
                    driver.close()
            return Sample(jobs / answer["seconds"], cost=meter.cost(jobs))

    return Contestant(name, run)
