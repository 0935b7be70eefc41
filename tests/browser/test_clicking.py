"""What an operator does with the dashboard, clicked through in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from pybatchq import calls
from tests.browser.dashboard import Dashboard
from tests.browser.scenery import BIG, REASON
from tests.support.processes import worker_process
from tests.support.working import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
KINDS = "tests.browser.kinds"


async def reads(page: Page, text: str) -> None:
    """Wait until the main part of the page says this."""
    await expect(page.locator("main")).to_contain_text(text)


async def test_a82_a_bug_is_found_its_jobs_redriven_and_seen_to_complete_live(
    shop: Dashboard, tmp_path: Path
) -> None:
    page = await shop.open()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="billing", exact=True))
    await row.get_by_role("link", name="73", exact=True).click()
    await expect(page).to_have_url(re.compile(r"/ui/dead\?queue=billing"))
    bug = page.locator("article").filter(has_text="KeyError: '…'")
    await bug.locator("p a[href^='/ui/jobs/']").first.click()
    await expect(page.locator("pre.error").first).to_contain_text('account = customer["iban"]')
    job = page.url
    await page.go_back()
    await bug.get_by_role("button", name=f"Retry {BIG}").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"Retry {BIG} jobs?")
    (before,) = await calls.stats(shop.conn, queue="billing")
    assert before.dead == 73, "it was only counted"
    await page.get_by_role("button", name=f"Retry {BIG} jobs").click()
    await expect(page.get_by_role("status").filter(has_text="put back")).to_have_text(
        f"{BIG} jobs put back."
    )
    await expect(bug).to_have_count(0)
    await page.goto(job)
    await expect(page.locator("h1 .status")).to_have_text("ready")
    overview = await shop.open()
    watched = overview.locator("[data-live='queue:billing']")
    await expect(watched.locator("[data-label=ready]")).to_have_text(str(BIG + 1))
    await page.evaluate("window.loaded = 'once'")
    async with worker_process(
        shop.dsn, tmp_path / "worker.log", "--queues", "billing", kinds=KINDS
    ):
        await expect(page.locator("h1 .status")).to_have_text("completed")
        await reads(page, "charged")
        await expect(watched.locator("[data-label=ready]")).to_have_text("0")
        await expect(watched.locator("[data-label=dead]")).to_have_text("9")
    assert await page.evaluate("window.loaded") == "once"


async def test_a82_a_queue_is_paused_with_a_reason_told_on_the_overview_and_resumed(
    shop: Dashboard,
) -> None:
    overview = await shop.open()
    await expect(overview.locator(".alerts .warning")).to_contain_text(REASON)
    page = await shop.open("/ui/queues/mail")
    await page.get_by_label("Reason").fill("too many bounces")
    await page.get_by_role("button", name="Pause").click()
    await reads(page, "Queue mail is paused: nothing starts in it.")
    await expect(page.locator("h1 .tag")).to_have_text("paused")
    paused = overview.locator(".alerts li").filter(has_text="too many bounces")
    await expect(paused).to_have_count(1)
    await expect(overview.locator("[data-live='queue:mail'] .tag")).to_have_text("paused")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator("h1 .tag")).to_have_count(0)
    await expect(paused).to_have_count(0)
    actions = [(e.action, e.target) for e in await calls.list_audit(shop.conn, n=2)]
    assert actions == [("resume", "queue mail"), ("pause", "queue mail")]


async def test_a82_settings_are_checked_beside_what_was_typed_and_saved(shop: Dashboard) -> None:
    page = await shop.open("/ui/queues/images")
    await page.get_by_role("link", name="Change").click()
    cap = page.get_by_label("max running")
    await expect(cap).to_have_value("2")
    await cap.fill("many")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert").filter(has_text="max_running")).to_have_count(1)
    await expect(cap).to_have_value("many")
    shop.forgive("400")
    await cap.fill("5")
    await page.get_by_role("button", name="Save").click()
    await reads(page, "The settings of queue images were changed.")
    settings = await calls.get_queue(shop.conn, queue="images")
    assert settings.max_running == 5


async def test_a82_ticked_jobs_are_cancelled_after_they_were_counted(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs?queue=mail&state=ready")
    boxes = page.get_by_role("checkbox", name=re.compile("^Choose job"))
    ticked = [await boxes.nth(i).get_attribute("value") for i in range(3)]
    for i in range(3):
        await boxes.nth(i).check()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 3 jobs?")
    await page.get_by_label("Reason").fill("sent twice")
    await page.get_by_role("button", name="Cancel 3 jobs").click()
    await reads(page, "3 jobs cancelled.")
    for job_id in ticked:
        job = await calls.get_job(shop.conn, job_id=int(str(job_id)))
        assert job.status == "cancelled"
    assert (await calls.stats(shop.conn, queue="mail"))[0].ready == 127


async def test_a82_all_jobs_of_a_filter_are_cancelled_on_every_page(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs?queue=mail&kind=send_email&status=pending")
    await page.get_by_role("button", name="Cancel all that wait or run…").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Cancel 130 jobs?")
    await page.get_by_role("link", name="Do nothing").click()
    await expect(page).to_have_url(re.compile("kind=send_email"))
    assert (await calls.stats(shop.conn, queue="mail"))[0].ready == 130
    await page.get_by_role("button", name="Cancel all that wait or run…").click()
    await page.get_by_role("button", name=re.compile("^Cancel 130")).click()
    await reads(page, "130 jobs cancelled.")
    mail = (await calls.stats(shop.conn, queue="mail"))[0]
    assert (mail.ready, mail.scheduled, mail.leased) == (0, 5, 3), "no others"


async def test_a82_a_scheduled_job_is_given_a_priority_and_run_now(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs?queue=mail&state=scheduled")
    await page.locator("table tbody th a").first.click()
    await expect(page.locator("h1 .status")).to_have_text("scheduled")
    job_id = int(page.url.rpartition("/")[2])
    await page.get_by_label("Priority").fill("77")
    await page.get_by_role("button", name="Change").click()
    await reads(page, f"Job {job_id} has priority 77 now.")
    await page.get_by_role("button", name="Run now").click()
    await reads(page, f"Job {job_id} is due now.")
    (leased,) = await calls.lease(shop.conn, queue="mail", n=1)
    assert leased.job_id == job_id, "it was before all the others"
    await expect(page.locator("h1 .status")).to_have_text("leased")


async def test_a82_a_worker_is_asked_to_drain_and_ends(shop: Dashboard, tmp_path: Path) -> None:
    async with worker_process(
        shop.dsn, tmp_path / "worker.log", "--queues", "idle", "--name", "idler", kinds=KINDS,
        BATCHQ_BEAT="1s",
    ) as worker:  # fmt: skip
        page = await shop.open("/ui/workers")
        row = page.get_by_role("row").filter(has_text="idler")
        await row.get_by_role("button", name="Drain").click()
        await reads(page, "takes no more jobs, and ends when its own are done")
        assert await worker.ended(within_s=40) == 0
    await page.reload()
    await expect(row).to_have_count(0)


async def test_a82_a_job_of_a_dead_letter_is_retried_alone(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs?state=failed&queue=webhooks")
    await page.locator("table tbody th a").first.click()
    await expect(page.locator("h1 .status")).to_have_text("failed")
    await page.get_by_role("button", name="Retry").click()
    job_id = int(page.url.rpartition("/")[2])
    await reads(page, f"Job {job_id} is pending again.")

    async def three() -> bool:
        return (await calls.stats(shop.conn, queue="webhooks"))[0].dead == 3

    await until(three)
