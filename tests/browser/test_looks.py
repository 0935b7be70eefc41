"""How pages look: on a phone, dark and light, and to those who see or use them in other ways."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest
from playwright.async_api import Page, expect

from pybatchq import calls
from tests.browser.addresses import addresses
from tests.browser.dashboard import Dashboard

pytestmark = pytest.mark.asyncio(loop_scope="session")
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
WIDTHS = (320, 390, 768, 1024)
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
ASK = """
    async (options) => (await axe.run(document, options)).violations.map((v) => v.id + ": "
        + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + " " + n.failureSummary).join(" | "))
"""
WIDER = """
    () => [...document.querySelectorAll("body *")]
        .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1
            && getComputedStyle(e).position !== "absolute")
        .slice(0, 4).map((e) => e.outerHTML.slice(0, 100))
"""
SCROLLS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


async def bulk_page(page: Page) -> None:
    """From the dead letters to the question whether it is meant."""
    await page.get_by_role("button", name=re.compile("^Retry")).first.click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Retry")


async def violations(page: Page, **options: Any) -> list[str]:
    quick = {"resultTypes": ["violations"], "preload": False}
    found: list[str] = await page.evaluate(ASK, {**quick, **options})
    return found


@pytest.mark.timeout(120)
async def test_a82_no_page_has_a_violation_of_wcag_aa_in_light_or_dark(shop: Dashboard) -> None:
    page = await shop.open(color_scheme="light", reduced_motion="reduce")
    await page.context.add_init_script(AXE)
    found: dict[str, list[str]] = {}
    paths = await addresses(shop.conn)
    for name, path in {**paths, "bulk": "/ui/dead"}.items():
        await page.emulate_media(color_scheme="light")
        await shop.goto(page, path)
        if name == "bulk":
            await bulk_page(page)
        found[name] = await violations(page, runOnly={"type": "tag", "values": TAGS})
        await page.emulate_media(color_scheme="dark")
        dark = await violations(page, runOnly={"type": "rule", "values": ["color-contrast"]})
        found[f"{name} in the dark"] = dark
    shop.forgive("404")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


async def test_a82_no_page_scrolls_sideways(shop: Dashboard) -> None:
    page = await shop.open()
    wide: dict[str, list[str]] = {}
    for name, path in {**await addresses(shop.conn), "bulk": "/ui/dead"}.items():
        await shop.goto(page, path)
        if name == "bulk":
            await bulk_page(page)
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 844})
            if await page.evaluate(SCROLLS):
                wide[f"{name} at {width}"] = await page.evaluate(WIDER)
    shop.forgive("404")
    assert wide == {}


async def test_a82_long_words_do_not_widen_a_phone(shop: Dashboard) -> None:
    long = "x" * 200
    job_id = await calls.enqueue(
        shop.conn, long, {long: [long]}, queue=long, dedupe_key=long, group_key=long
    )
    await calls.pause(shop.conn, queue=long, reason=long)
    page = await shop.open(viewport={"width": 390, "height": 844})
    for path in ("/", f"/ui/queues/{long}", "/ui/jobs", f"/ui/jobs/{job_id}", "/ui/audit"):
        await shop.goto(page, path)
        assert not await page.evaluate(SCROLLS), (path, await page.evaluate(WIDER))


async def test_a82_dark_is_dark_and_light_is_light(shop: Dashboard) -> None:
    for scheme, is_dark in (("light", False), ("dark", True)):
        page = await shop.open(color_scheme=scheme)
        back = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        red = int(re.findall(r"\d+", back)[0])
        assert (red < 60) is is_dark, back
