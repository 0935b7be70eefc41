"""What names, payloads and errors say is text: nothing of it runs, and no digit is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
import pytest
from playwright.async_api import Page, expect

from pybatchq import calls
from pybatchq.types import JobId
from tests.browser.dashboard import Dashboard
from tests.conftest import Connection

pytestmark = pytest.mark.asyncio(loop_scope="session")
EVIL = (
    "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>"
    "javascript:alert(3){{7*7}}&lt;b&gt;%3Cb%3E"
)
IDS = '{"id": 1970670598291982290, "neg": -9223372036854775809, "f": 0.1, "d": 1.10}'


async def shows(page: Page, text: str, times: int = 1) -> None:
    """The page says this, letter by letter, and made no element of it."""
    await expect(page.locator("body")).to_contain_text(text)
    said = await page.locator("body").evaluate("body => body.textContent")
    assert str(said).count(text) >= times, page.url
    made = "img[src='x'], [onerror], a[href^='javascript'], main script, header script, main b"
    assert await page.locator(made).count() == 0, page.url


async def fill(conn: Connection) -> dict[str, JobId]:
    """Every text that users choose, as evil as it gets; the ids of jobs by what they do."""
    made: dict[str, JobId] = {}
    for name in ("completed", "dead", "running", "waiting"):
        made[name] = await calls.enqueue(
            conn, EVIL, {EVIL: [EVIL, {"deep": EVIL}]}, queue=EVIL, dedupe_key=EVIL + name,
            group_key=EVIL, headers={EVIL: EVIL},
        )  # fmt: skip
    leased = {job.job_id: job for job in await calls.lease(conn, queue=EVIL, n=3, worker=EVIL)}
    done, dead, running = (leased[made[name]] for name in ("completed", "dead", "running"))
    result: Any = {EVIL: EVIL}
    await calls.complete(conn, job_id=done.job_id, lease_id=done.lease_id, result=result)
    await calls.fail(
        conn, job_id=dead.job_id, lease_id=dead.lease_id, permanent=True,
        error=f"{EVIL}\n  {EVIL}",
    )  # fmt: skip
    await calls.progress(conn, job_id=running.job_id, lease_id=running.lease_id, progress=result)
    await calls.beat_worker(
        conn, worker_id=UUID(int=9), worker=EVIL, host=EVIL, pid=1, version=EVIL, queues=[EVIL],
        kinds=[EVIL], concurrency=1, running=1,
    )  # fmt: skip
    await calls.set_queue(conn, queue=EVIL, group_limit=1, max_running=1)
    return made


async def test_f090_hostile_text_is_text_on_every_page(bare: Dashboard) -> None:
    made = await fill(bare.conn)
    page = await bare.open()
    await shows(page, EVIL, 2)
    for path, times in (
        (f"/ui/queues/{quote(EVIL, safe='')}", 5),
        (f"/ui/queues/{quote(EVIL, safe='')}?edit=yes", 5),
        ("/ui/jobs", 8),
        (f"/ui/jobs?{'&'.join(f'{name}={quote(EVIL)}' for name in ('queue', 'kind'))}", 4),
        (f"/ui/jobs/{made['completed']}", 6),
        (f"/ui/jobs/{made['dead']}", 9),
        (f"/ui/jobs/{made['running']}", 8),
        (f"/ui/jobs/{made['waiting']}", 6),
        ("/ui/workers", 4),
    ):
        await bare.goto(page, path)
        await shows(page, EVIL, times)
    await bare.goto(page, f"/ui/jobs/{made['waiting']}/payload")
    await shows(page, msgspec.json.encode(EVIL).decode(), 3)
    await bare.goto(page, "/ui/dead")
    await shows(page, "<img src=x onerror=alert(N)>\"'</script><script>alert(N)")
    await page.get_by_role("button", name="Retry 1").click()
    await shows(page, EVIL)
    await page.get_by_role("button", name="Retry 1 job").click()
    await expect(page.locator(".said")).to_have_text("1 job put back.")


async def test_f090_hostile_text_is_text_in_live_updates_and_messages(bare: Dashboard) -> None:
    made = await fill(bare.conn)
    overview = await bare.open()
    job = await bare.open(f"/ui/jobs/{made['running']}")
    page = await bare.open(f"/ui/queues/{quote(EVIL, safe='')}")
    await page.get_by_label("Reason").fill(EVIL)
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".said")).to_have_text(
        f"Queue {EVIL} is paused: nothing starts in it."
    )
    await expect(overview.locator(".alerts li").filter(has_text="paused")).to_contain_text(EVIL)
    await shows(overview, EVIL, 3)
    await calls.cancel(bare.conn, job_id=made["running"], reason=EVIL)
    await expect(job.locator("main")).to_contain_text("asked to stop")
    await shows(job, EVIL, 8)
    await bare.goto(page, "/ui/audit")
    await shows(page, EVIL, 2)


async def test_f090_hostile_names_of_tokens_and_addresses_are_text(bare: Dashboard) -> None:
    token = await bare.token(EVIL[:100], "operate")
    page = await bare.open("/")
    await bare.sign_in(page, token)
    await shows(page, EVIL[:100])
    for path in (
        f"/?q={quote(EVIL)}", f"/ui/dead?kind={quote(EVIL)}", f"/ui/audit?target={quote(EVIL)}",
    ):  # fmt: skip
        await bare.goto(page, path)
        assert await page.locator(f"input[value={msgspec.json.encode(EVIL).decode()}]").count() == 1
        await shows(page, "batchq")
    for path in (f"/ui/jobs/{quote(EVIL, safe='')}", f"/ui/jobs?state={quote(EVIL)}"):
        await bare.goto(page, path)
        await shows(page, "Overview")
    bare.forgive("status of 4")
    page = await bare.open(f"/ui/sign-in?next={quote('javascript:alert(4)')}")
    await bare.sign_in(page, token)
    await expect(page).to_have_url(f"{bare.url}/")


async def test_f060_big_integers_and_floats_keep_every_digit(bare: Dashboard) -> None:
    specs = msgspec.Raw(f'[{{"kind": "k", "payload": {IDS}, "max_attempts": 1}}]'.encode())
    (job,) = await calls.enqueue_many(bare.conn, jobs=specs)
    (leased,) = await calls.lease(bare.conn, n=1)
    await bare.conn.execute(
        "select batchq.progress(%s, %s, %s::jsonb)", (job.job_id, leased.lease_id, IDS)
    )
    page = await bare.open(f"/ui/jobs/{job.job_id}")
    for digits in ("1970670598291982290", "-9223372036854775809", "0.1", "1.10"):
        await shows(page, digits, 2)
    await calls.fail(bare.conn, job_id=job.job_id, lease_id=leased.lease_id, error="no")
    await expect(page.locator("h1 .status")).to_have_text("failed")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.locator("h1 .status")).to_have_text("ready")
    record = await calls.get_job(bare.conn, job_id=job.job_id)
    for body in (await page.locator("main").inner_text(), record.payload.decode()):
        assert "1970670598291982290" in body
        assert "1.10" in body
    await page.get_by_role("link", name="as text").first.click()
    await shows(page, "1970670598291982290")


async def test_f060_an_id_beyond_what_scripts_can_count_is_kept_in_links(bare: Dashboard) -> None:
    await bare.conn.execute("select setval('batchq.position', 9007199254740993)")
    job_id = await calls.enqueue(bare.conn, "k", delay=timedelta(hours=1))
    assert job_id > 2**53
    page = await bare.open("/ui/jobs")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{bare.url}/ui/jobs/{job_id}")
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".said")).to_have_text(f"Job {job_id} is cancelled.")
