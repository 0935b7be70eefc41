"""Who may do what: signing in, reading only, operating, signing out; in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Page, expect

from pybatchq import calls
from tests.browser.dashboard import Dashboard
from tests.support.working import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
CHANGING = (
    "/ui/queues/mail", "/ui/queues/mail/pause", "/ui/queues/mail/resume", "/ui/many",
    "/ui/jobs/1/cancel", "/ui/jobs/1/retry", "/ui/jobs/1/run-now", "/ui/jobs/1/priority",
    "/ui/workers/00000000-0000-0000-0000-000000000001/drain",
)  # fmt: skip
LOOKED_AT = (
    "/", "/ui/queues/mail", "/ui/queues/mail?edit=yes", "/ui/jobs", "/ui/jobs?state=failed",
    "/ui/jobs/1", "/ui/dead", "/ui/workers",
)  # fmt: skip
# What a page of ours can send: a form with this page's own mark.
POST = """
    async ([path, mark]) => {
        const rest = {action: "redrive", queue: "billing", priority: "5"};
        const body = new URLSearchParams({mark, ...rest});
        return (await fetch(path, {method: "POST", body})).status;
    }
"""


async def mark_of(page: Page) -> str:
    return str(await page.locator("input[name=mark]").first.get_attribute("value"))


async def test_a82_f092_a_token_that_may_only_read_sees_no_buttons_and_is_refused(
    shop: Dashboard,
) -> None:
    token = await shop.token("reader", "monitor")
    page = await shop.open("/ui/dead")
    await expect(page).to_have_url(re.compile("/ui/sign-in"))
    await shop.sign_in(page, token)
    await expect(page).to_have_url(re.compile("/ui/dead$"))
    for path in LOOKED_AT:
        await shop.goto(page, path)
        await expect(page.locator("header")).to_contain_text("reader")
        assert await page.locator("main form[method=post] button").count() == 0, path
        assert await page.locator("main input[type=checkbox]").count() == 0, path
    mark = await mark_of(page)
    before = await calls.stats(shop.conn)
    for path in CHANGING:
        assert await page.evaluate(POST, [path, mark]) == 403, path
    assert await calls.stats(shop.conn) == before
    shop.forgive("403")


async def test_a82_f092_a_form_without_the_mark_of_the_session_changes_nothing(
    shop: Dashboard,
) -> None:
    page = await shop.open("/ui/queues/mail")
    for path in CHANGING:
        assert await page.evaluate(POST, [path, ""]) == 403, path
        assert await page.evaluate(POST, [path, "0" * 64]) == 403, path
    other = await shop.open("/ui/queues/mail")
    assert await page.evaluate(POST, [CHANGING[1], await mark_of(other)]) == 403
    shop.forgive("403")
    assert await page.evaluate(POST, [CHANGING[1], await mark_of(page)]) == 200
    (mail,) = await calls.stats(shop.conn, queue="mail")
    assert mail.paused_at is not None, "with its own mark it does"


async def test_a82_an_operator_signs_in_acts_by_name_and_signs_out(shop: Dashboard) -> None:
    token = await shop.token("olga", "operate")
    page = await shop.open("/ui/queues/mail")
    await page.get_by_label("Token of the API").fill("bq_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert").filter(has_text="unknown")).to_be_visible()
    shop.forgive("401")
    await shop.sign_in(page, token)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator("h1 .tag")).to_have_text("paused")
    (entry,) = await calls.list_audit(shop.conn, n=1)
    assert (entry.actor, entry.action, entry.target) == ("olga", "pause", "queue mail")
    await shop.goto(page, "/ui/audit")
    await expect(page.locator("tbody tr").first).to_contain_text("olga")
    (cookie,) = [c for c in await page.context.cookies() if c.get("name") == "batchq_session"]
    assert cookie.get("httpOnly")
    assert cookie.get("sameSite") == "Lax"
    assert token not in str(cookie.get("value"))
    await page.get_by_role("button", name="Sign out").click()
    await expect(page).to_have_url(re.compile("/ui/sign-in"))
    await page.go_back()
    await page.reload()
    await expect(page).to_have_url(re.compile("/ui/sign-in"))
    await page.context.add_cookies([cookie])  # type: ignore[list-item]
    await shop.goto(page, "/")
    await expect(page).to_have_url(re.compile("/ui/sign-in"))  # the session itself is over


async def test_a82_a_token_that_is_revoked_ends_what_is_open(shop: Dashboard) -> None:
    token = await shop.token("olga", "operate")
    await shop.token("another", "monitor")  # without any token everybody would be let in
    page = await shop.open()
    await shop.sign_in(page, token)
    await calls.revoke_token(shop.conn, name="olga")

    async def is_shut_out() -> bool:
        await page.reload()
        return "/ui/sign-in" in page.url

    await until(is_shut_out, within_s=20)  # what is known of a token holds for some seconds
    # a stream that is refused, if the browser asked for one meanwhile, is an error to it
    shop.troubles[:] = [trouble for trouble in shop.troubles if "401" not in trouble]
