"""Without a mouse, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from pybatchq import calls
from tests.browser.dashboard import Dashboard
from tests.browser.scenery import BIG

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a82_keys_lead_to_pages_rows_and_filters(shop: Dashboard) -> None:
    page = await shop.open()
    for key, where in (("j", "/ui/jobs"), ("d", "/ui/dead"), ("w", "/ui/workers"), ("o", "/")):
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await expect(page).to_have_url(shop.url + where)
    await page.keyboard.press("/")
    await expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    await page.keyboard.type("gj?")
    await expect(page.get_by_role("textbox", name="Name")).to_have_value("gj?")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("textbox", name="Name")).not_to_be_focused()
    here = page.locator("tr.here")
    for key, at in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        await page.keyboard.press(key)
        await expect(here).to_have_count(1)
        await expect(page.locator("tbody tr").nth(at)).to_have_class(re.compile("here"))
    name = await here.locator("th a").inner_text()
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{shop.url}/ui/queues/{name}")


async def test_a82_the_keys_are_told_in_a_dialog_that_escape_closes(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs")
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    await expect(dialog).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.locator("tr.here")).to_have_count(0)
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await page.get_by_role("button", name="Keys").click()
    await page.get_by_role("button", name="Close").click()
    await expect(dialog).to_be_hidden()


async def test_a82_the_first_tab_skips_to_the_content(shop: Dashboard) -> None:
    page = await shop.open("/ui/jobs")
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    box = await skip.bounding_box()
    assert box is not None
    assert box["width"] > 50, "it shows once it has the focus"
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.querySelector('main').contains(document.activeElement)")


async def test_a82_a_row_keeps_the_focus_while_its_cells_change(shop: Dashboard) -> None:
    page = await shop.open()
    link = page.locator("[data-live='queue:mail'] th a")
    await link.focus()
    await calls.enqueue(shop.conn, "send_email", queue="mail")
    ready = page.locator("[data-live='queue:mail'] [data-label=ready]")
    await expect(ready).to_have_text("131")
    await expect(link).to_be_focused()


async def test_a82_everything_works_without_scripts(shop: Dashboard) -> None:
    page = await shop.open(java_script_enabled=False)
    await page.locator("tr").get_by_role("link", name="billing", exact=True).click()
    await expect(page.locator("h1")).to_contain_text("Queue billing")
    await shop.goto(page, "/ui/jobs?state=failed")
    await page.locator("tbody th a").first.click()
    await expect(page.locator("pre.error").first).to_be_visible()
    await shop.goto(page, "/ui/dead?queue=billing")
    await page.get_by_role("button", name=f"Retry {BIG}").click()
    await page.get_by_role("button", name=f"Retry {BIG} jobs").click()
    await expect(page.locator(".said")).to_have_text(f"{BIG} jobs put back.")
    (billing,) = await calls.stats(shop.conn, queue="billing")
    assert billing.dead == 9
    await shop.goto(page, "/ui/queues/mail")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator("h1 .tag")).to_have_text("paused")
