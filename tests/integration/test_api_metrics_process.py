"""GET /metrics: what a process tells of itself, how it asks the database, and when it cannot."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import pybatchq
from pybatchq.api import metrics, observed, pool
from pybatchq.api.middleware import Seen
from pybatchq.api.observed import Observed
from pybatchq.api.services import SERVICES
from tests.conftest import Connection
from tests.support.api import client, running, serving, url_of
from tests.support.proxy import Proxy
from tests.support.scrape import scraped
from tests.support.working import Calls, until

NOWHERE = "host=127.0.0.1 port=1 user=u dbname=d"
# An address that swallows packets, by RFC 5737.
BLACK_HOLE = "host=192.0.2.1 user=u dbname=d"
POOLED = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'batchq-api pool%' and state = 'idle'
"""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape looks anew."""
    monkeypatch.setattr(metrics, "KEEP_S", 0.0)
    monkeypatch.setattr(metrics, "KEEP_TIMES", 0.0)


async def test_f093_many_scrapers_cost_one_query(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "KEEP_S", 30.0)
    async with serving(db) as api:
        asked = Calls(monkeypatch)
        pages = await asyncio.gather(*[api.get("/metrics") for _ in range(50)])
        pages += await asyncio.gather(*[api.get("/metrics") for _ in range(50)])
    assert {page.status for page in pages} == {200}
    assert len({page.text for page in pages}) == 1
    assert asked.since(0)["stats"] == 1


async def test_after_a_second_it_looks_again(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics.KEEP_S == 1
    async with serving(db) as api:
        await scraped(api)
        await api.enqueue()

        async def seen() -> bool:
            return "batchq_queue_depth" in (await scraped(api)).samples

        await until(seen, 10)


async def test_what_is_dear_to_see_is_kept_longer(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "KEEP_S", 0.0)
    monkeypatch.setattr(metrics, "KEEP_TIMES", 1e9)
    async with serving(db) as api:
        asked = Calls(monkeypatch)
        for _ in range(5):
            await scraped(api)
    assert asked.since(0)["stats"] == 1


async def test_a_scraper_that_leaves_takes_the_look_from_nobody(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(db) as api:
        asked, go_on = Calls(monkeypatch), asyncio.Event()

        async def hold(_arguments: dict[str, Any]) -> None:
            await go_on.wait()

        asked.before["stats"] = hold
        leaving = asyncio.ensure_future(api.get("/metrics"))

        async def looking() -> bool:
            return asked.since(0)["stats"] == 1

        await until(looking)
        staying = asyncio.ensure_future(api.get("/metrics"))
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        go_on.set()
        assert (await staying).status == 200
    assert asked.since(0)["stats"] == 1


@pytest.mark.parametrize("dsn", [NOWHERE, BLACK_HOLE])
async def test_with_no_database_it_is_503_in_time(dsn: str) -> None:
    async with serving(dsn) as api:
        for _ in range(3):
            started = time.monotonic()
            answers = await asyncio.gather(*[api.get("/metrics") for _ in range(20)])
            assert time.monotonic() - started < 8
            for answer in answers:
                assert answer.error[:2] == (503, "HTTP503")
                assert int(answer.headers["Retry-After"]) >= 1


async def test_a_silent_database_is_503_in_time_and_then_served_again(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "KEEP_S", 0.1)
    monkeypatch.setattr(metrics, "KEEP_TIMES", 0.0)
    async with Proxy(db).running() as proxy, serving(proxy.dsn) as api:

        async def settled() -> bool:
            cursor = await conn.execute(POOLED)
            return bool((await cursor.fetchall())[0][0] == pool.KEPT_OPEN)

        await until(settled)  # so that none is being opened just when it goes silent
        await scraped(api)
        proxy.silence()
        await asyncio.sleep(0.15)  # what was seen is old by now
        started = time.monotonic()
        answers = await asyncio.gather(*[api.get("/metrics") for _ in range(20)])
        assert time.monotonic() - started < 9  # Prometheus gives up after 10
        assert {answer.error[:2] for answer in answers} == {(503, "HTTP503")}
        assert "POST" not in answers[0].text

        async def served() -> bool:
            return (await api.get("/metrics")).status == 200

        await until(served, 30)


async def test_a_role_that_may_not_look_is_told_so(db: str, server: Any, conn: Connection) -> None:
    role = f"stranger_{uuid4().hex[:8]}"
    await conn.execute(f"create role {role} login".encode())
    try:
        dsn = psycopg.conninfo.make_conninfo(db, user=role)
        async with serving(dsn) as api:
            assert (await api.get("/metrics")).error[0] in {500, 503}
            assert (await api.get("/health")).status == 200
    finally:
        await conn.execute(f"drop role {role}".encode())


async def test_b35_requests_are_counted_by_route_and_status(db: str, fresh: None) -> None:
    async with serving(db) as api:
        ids = [await api.enqueue() for _ in range(3)]
        for job in ids:
            assert (await api.get(f"/jobs/{job}")).status == 200
        assert (await api.get("/jobs/999999")).status == 404
        assert (await api.post("/jobs", {})).status == 400
        page = await scraped(api)
    seen = "batchq_http_requests_total"
    assert page.value(seen, method="POST", route="/jobs", status="201") == 3
    assert page.value(seen, method="POST", route="/jobs", status="400") == 1
    assert page.value(seen, method="GET", route="/jobs/{id}", status="200") == 3
    assert page.value(seen, method="GET", route="/jobs/{id}", status="404") == 1


async def test_b35_latencies_are_histograms(db: str, fresh: None) -> None:
    async with serving(db) as api:
        await api.enqueue()
        job = await api.enqueue(delay=30)
        await api.get(f"/jobs/{job}?wait=300ms")
        page = await scraped(api)
    took = "batchq_http_request_seconds"
    key = {"method": "GET", "route": "/jobs/{id}", "status": "200"}
    assert page.value(f"{took}_count", **key) == 1
    assert 0.25 < page.value(f"{took}_sum", **key) < 20
    assert page.value(f"{took}_bucket", le="0.25", **key) == 0
    assert page.value(f"{took}_bucket", le="+Inf", **key) == 1
    for name in ("batchq_http_requests_total", f"{took}_count"):
        key = {"method": "POST", "route": "/jobs", "status": "201"}
        assert page.value(name, **key) == 2


async def test_b35_what_clients_make_up_is_no_series(db: str, fresh: None) -> None:
    async with serving(db) as api:
        before = await scraped(api)
        for number in range(50):
            await api.get(f"/no/such/{number}")
            await api.get(f"/jobs/{number + 100}")
            await api.ask(f"FROB{number}", "/jobs")
        page = await scraped(api)
    seen = "batchq_http_requests_total"
    assert page.labels(seen, "method") <= {"GET", "POST", "other"}
    assert page.labels(seen, "route") <= {"/jobs", "/jobs/{id}", "/metrics", "none"}
    assert page.value(seen, method="GET", route="none", status="404") == 50
    grown = len(page.text.splitlines()) - len(before.text.splitlines())
    assert grown < 5 * (len(observed.SECONDS) + 6)


async def test_b35_the_sizes_of_gathered_batches_are_told(db: str, fresh: None) -> None:
    async with serving(db) as api:
        await asyncio.gather(*[api.enqueue() for _ in range(200)])
        page = await scraped(api)
    assert page.value("batchq_gathered_jobs_sum") == 200
    assert 1 <= page.value("batchq_gathered_jobs_count") < 200
    assert page.value("batchq_gather_held_jobs") == 0


async def test_b35_the_pool_and_the_process_are_told(db: str) -> None:
    async with serving(db, BATCHQ_POOL_MAX="7") as api:
        page = await scraped(api)
    assert page.value("batchq_pool_max_connections") == 7
    assert 0 <= page.value("batchq_pool_used_connections") <= 7
    assert page.value("process_resident_memory_bytes") > 1_000_000
    assert page.value("batchq_info", version=pybatchq.__version__) == 1


async def test_processes_on_one_port_have_series_of_their_own(db: str, fresh: None) -> None:
    async with running(db) as (app, server), client(url_of(server)) as api:
        app[SERVICES].shares_port = True
        await api.enqueue()
        page = await scraped(api)
    own = ("batchq_http_requests_total", "batchq_gathered_jobs_bucket", "process_cpu_seconds_total")
    for name in own:
        assert page.labels(name, "process") == {str(os.getpid())}, name
    assert page.value("batchq_queue_depth", queue="default", state="ready") == 1


def test_counting_costs_next_to_nothing() -> None:
    counted, seen = Observed(), Seen("POST", "/jobs", 201, 0.01)
    started = time.perf_counter()
    for _ in range(20_000):
        counted.request(seen)
    assert (time.perf_counter() - started) / 20_000 < 5e-6  # alone on a machine it is 0.2
