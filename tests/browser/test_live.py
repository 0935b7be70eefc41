"""What is live: cheap for the database however many watch, and honest when it is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from pybatchq import calls
from pybatchq.dashboard import stream
from pybatchq.embedded import Server
from pybatchq.install import install_dsn
from tests.browser.dashboard import Dashboard, shown
from tests.browser.scenery import WORKERS
from tests.support import servers
from tests.support.working import Calls, until

pytestmark = pytest.mark.asyncio(loop_scope="session")
WATCHED = ("/", "/", "/ui/queues/mail", "/ui/workers", "/ui/jobs/1", "/ui/jobs/2", "/")


async def test_a82_many_browsers_cost_the_database_one_statement_a_second(
    shop: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUIET_S", 0.5)  # so soon it is noticed who left
    seen = Calls(monkeypatch)
    await calls.redrive(shop.conn, job_ids=[1, 2])  # a job that is over is not watched
    pages = [await shop.open(path) for path in WATCHED]
    for page in pages:
        await expect(page.locator("#live-state")).to_have_text("live")
    await until(lambda: watching(shop, len(pages)))
    started, before = time.monotonic(), shop.hub.statements

    async def three_more() -> bool:
        return shop.hub.statements >= before + 3

    await until(three_more)
    took_s = time.monotonic() - started
    asked = seen.since(started)
    assert set(asked) == {"live"}, "watching asks for nothing else"
    assert asked["live"] <= took_s + 1
    for page in pages:
        await page.close()
    await until(lambda: watching(shop, 0))
    last = shop.hub.statements
    await calls.now(shop.conn)
    assert shop.hub.statements <= last + 1, "nobody watches"


async def watching(shop: Dashboard, n: int) -> bool:
    return shop.hub.watchers == n


async def test_a82_new_queues_and_workers_appear_without_loading_the_page_anew(
    shop: Dashboard,
) -> None:
    page = await shop.open()
    await page.evaluate("window.loaded = 'once'")
    await expect(page.locator("#live-state")).to_have_text("live")
    await calls.enqueue(shop.conn, "echo", queue="quite new")
    row = page.locator("tr").filter(has=page.get_by_role("link", name="quite new"))
    await expect(row.locator("[data-label=ready]")).to_have_text("1")
    assert await page.evaluate("window.loaded") == "once"


async def test_a82_a_worker_that_is_gone_goes_from_the_page(shop: Dashboard) -> None:
    page = await shop.open("/ui/workers")
    await expect(page.locator("#live-state")).to_have_text("live")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(len(WORKERS))
    await calls.drop_worker(shop.conn, worker_id=WORKERS[0][1])
    await expect(rows).to_have_count(len(WORKERS) - 1)
    await expect(page.locator("main")).to_contain_text("2 workers alive")


async def test_a82_times_go_on_and_progress_moves(shop: Dashboard) -> None:
    (running, *_) = await calls.list_jobs(shop.conn, queue="images", state="leased", n=1)
    page = await shop.open(f"/ui/jobs/{running.id}")
    bar = page.locator("progress")
    await expect(bar).to_have_count(1)
    first = await page.locator("time .rel").first.inner_text()
    await expect(page.locator("time .rel").first).not_to_have_text(first)
    await shop.conn.execute(
        "select batchq.progress(l.job_id, l.lease_id, '0.91') from batchq.leased l"
        " where l.job_id = %s",
        (running.id,),
    )
    await expect(bar).to_have_attribute("value", "0.91")


async def test_a82_what_was_done_stays_told_and_what_is_typed_stays_typed(
    shop: Dashboard,
) -> None:
    (job, *_) = await calls.list_jobs(shop.conn, queue="mail", state="scheduled", n=1)
    page = await shop.open(f"/ui/jobs/{job.id}")
    await page.get_by_label("Priority").fill("9")
    await page.get_by_role("button", name="Change").click()
    await page.get_by_label("Reason").fill("half a rea")
    await calls.set_job(shop.conn, job_id=job.id, priority=10)
    await expect(page.get_by_label("Priority")).to_have_value("10")
    await expect(page.get_by_label("Reason")).to_have_value("half a rea")
    await expect(page.locator(".said")).to_contain_text("has priority 9 now")


@pytest_asyncio.fixture(loop_scope="session")
async def own_server() -> AsyncIterator[Server]:
    with servers.running(None, max_connections=50) as own:
        own.create_database("batchq")
        await install_dsn(own.dsn("batchq"))
        yield own


async def test_a82_a_database_that_is_away_is_told_and_the_page_recovers(
    chromium: Browser, own_server: Server
) -> None:
    dsn = own_server.dsn("batchq")
    async with shown(chromium, dsn) as dashboard:
        await calls.enqueue(dashboard.conn, "echo", queue="mail")
        page = await dashboard.open()
        await page.evaluate("window.loaded = 'once'")
        ready = page.locator("[data-live='queue:mail'] [data-label=ready]")
        await expect(ready).to_have_text("1")
        await dashboard.conn.close()
        await asyncio.to_thread(own_server.stop)
        trouble = page.get_by_role("alert")
        await expect(trouble).to_contain_text("the database cannot be reached")
        other = await dashboard.open("/ui/jobs")
        await expect(other.locator("main")).to_contain_text("database")
        dashboard.forgive("503")
        await asyncio.to_thread(own_server.start)
        await expect(trouble).to_be_hidden()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            await calls.enqueue(conn, "echo", queue="mail")
        await expect(ready).to_have_text("2")
        assert await page.evaluate("window.loaded") == "once"
        await other.reload()
        await expect(other.locator("tbody tr")).to_have_count(2)
        assert not dashboard.troubles
