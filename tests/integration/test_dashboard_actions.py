"""What people do on pages: it is done, it is written down who did it, and it is said once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from pybatchq import calls
from pybatchq.dashboard import bulk
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.pages import SAID, SESSION, Browser, Shown, dead, opened, token
from tests.support.working import statuses

ANN = "ann ü <b>"


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


@pytest.fixture
async def ann(api: Api, conn: Connection) -> Browser:
    """Signed in with every scope."""
    secret = await token(conn, "operate", "produce", "monitor", name=ANN)
    browser = Browser(api)
    assert (await browser.sign_in(secret)).status == 303
    return browser


async def noted(conn: Connection, n: int = 1) -> list[tuple[str, str, str | None]]:
    """The newest entries of the audit; all of them are of the last minute."""
    found = await calls.list_audit(conn, n=n)
    now = await calls.now(conn)
    assert all(timedelta() <= now - entry.at < timedelta(minutes=1) for entry in found)
    return [(entry.actor, entry.action, entry.target) for entry in found]


async def told_once(browser: Browser, answer: Shown, words: str) -> Shown:
    """The page it leads to, which says so, and does not when it is loaded again."""
    assert answer.set_cookies[SAID]["httponly"]
    assert answer.set_cookies[SAID]["samesite"] == "Lax"
    shown = await browser.follow(answer)
    assert words in shown.said, shown.said
    assert (await browser.page(answer.location)).said == ""
    return shown


async def job_of(conn: Connection, job_id: int) -> Any:
    return await calls.get_job(conn, job_id=job_id)


async def test_a_queue_is_paused_and_goes_on(ann: Browser, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="a/b ü")
    path = "/ui/queues/a%2Fb%20%C3%BC"
    page = await ann.page(path)
    done = await ann.submit(page, f"{path}/pause", reason=" <i>night</i> ")
    shown = await told_once(ann, done, "a/b ü is paused")
    settings = await calls.get_queue(conn, queue="a/b ü")
    assert settings.paused_at is not None
    assert "<i>night</i>" not in shown.text
    assert "&lt;i&gt;night&lt;/i&gt;" in shown.text
    assert await calls.lease(conn, queue="a/b ü") == []
    assert await noted(conn) == [(ANN, "pause", "queue a/b ü")]
    await told_once(ann, await ann.submit(shown, f"{path}/resume"), "goes on")
    assert (await calls.get_queue(conn, queue="a/b ü")).paused_at is None
    assert await noted(conn) == [(ANN, "resume", "queue a/b ü")]


async def test_settings_are_what_the_form_says_and_an_empty_field_is_none(
    ann: Browser, conn: Connection
) -> None:
    await calls.set_queue(conn, queue="q", max_attempts=7, rate=5)
    page = await ann.page("/ui/queues/q?edit=yes")
    form = page.form("/ui/queues/q")
    assert (form["max_attempts"], form["rate"], form["max_running"]) == ("7", "5", "")
    done = await ann.send(
        "/ui/queues/q", {**form, "max_attempts": "", "max_running": "3", "fair": "true"}
    )
    await told_once(ann, done, "settings of queue q were changed")
    settings = await calls.get_queue(conn, queue="q")
    assert (settings.max_running, settings.fair, settings.rate) == (3, True, 5)
    assert settings.max_attempts is None
    assert await noted(conn) == [(ANN, "set_queue", "queue q")]
    # unchanged, it changes nothing
    same = await ann.page("/ui/queues/q?edit=yes")
    assert (await ann.submit(same, "/ui/queues/q")).status == 303
    assert await calls.get_queue(conn, queue="q") == settings


async def test_settings_that_are_refused_are_shown_again_with_the_reason(
    ann: Browser, conn: Connection
) -> None:
    await calls.set_queue(conn, queue="q", rate=5)
    before, entries = await calls.get_queue(conn, queue="q"), await noted(conn, 100)
    for name, value in (
        ("max_running", "-1"), ("max_running", "<b>x"), ("rate", "-1"), ("timeout", "1e999"),
        ("breaker_share", "2"), ("backoff", "other"), ("nothing", "1"), ("max_depth", "9" * 30),
        ("fair", "maybe"), ("lease_for", "nan"),
    ):  # fmt: skip
        page = await ann.page("/ui/queues/q?edit=yes")
        shown = await ann.submit(page, "/ui/queues/q", **{name: value})
        assert shown.status == 400, (name, value)
        assert shown.document.audit() == []
        told = [one.text for one in shown.document.all("p", role="alert") if one.text]
        assert any(name in text for text in told), (name, told)
        if name in page.form("/ui/queues/q") and name not in {"backoff", "fair"}:
            assert shown.form("/ui/queues/q")[name] == value
    assert await calls.get_queue(conn, queue="q") == before
    assert await noted(conn, 100) == entries


async def test_a_breaker_is_reset(ann: Browser, conn: Connection) -> None:
    await calls.set_queue(conn, queue="q", breaker_share=0.5, breaker_min=2)
    await calls.enqueue_many(conn, jobs=[{"kind": "k k", "queue": "q"}] * 12)
    for job in await calls.lease(conn, queue="q", n=10):
        await calls.fail(conn, job_id=job.job_id, lease_id=job.lease_id, error="e", permanent=True)
    await calls.reap(conn)
    if not await calls.list_breakers(conn, queue="q"):
        await calls.maintain(conn)
    assert await calls.list_breakers(conn, queue="q")
    page = await ann.page("/ui/queues/q")
    done = await ann.submit(page, "/ui/queues/q/breaker")
    await told_once(ann, done, "kind k k run again")
    assert await calls.list_breakers(conn, queue="q") == []
    assert await noted(conn) == [(ANN, "reset_breaker", "queue q")]


async def test_one_job_is_cancelled_asked_retried_hurried_and_moved(
    ann: Browser, conn: Connection
) -> None:
    waiting = await calls.enqueue(conn, "k", delay=timedelta(hours=1))
    path = f"/ui/jobs/{waiting}"
    page = await ann.page(path)
    shown = await told_once(
        ann, await ann.submit(page, f"{path}/priority", priority="-32768"), "priority -32768"
    )
    assert (await job_of(conn, waiting)).priority == -32768
    assert await noted(conn) == [(ANN, "set_job", f"job {waiting}")]
    shown = await told_once(ann, await ann.submit(shown, f"{path}/run-now"), "due now")
    assert (await job_of(conn, waiting)).run_at <= await calls.now(conn)
    shown = await told_once(
        ann, await ann.submit(shown, f"{path}/cancel", reason="why not"), "is cancelled"
    )
    job = await job_of(conn, waiting)
    assert (job.status, job.last_error) == ("cancelled", job.last_error)
    assert await noted(conn) == [(ANN, "cancel", f"job {waiting}")]
    assert shown.document.all("form", action=f"{path}/cancel") == []

    await calls.enqueue(conn, "k", queue="r")
    (leased,) = await calls.lease(conn, queue="r")
    path = f"/ui/jobs/{leased.job_id}"
    page = await ann.page(path)
    await told_once(ann, await ann.submit(page, f"{path}/cancel"), "asked to stop")
    assert (await job_of(conn, leased.job_id)).cancel_requested_at is not None

    gone = await dead(conn)
    path = f"/ui/jobs/{gone}"
    await told_once(ann, await ann.submit(await ann.page(path), f"{path}/retry"), "pending again")
    assert (await job_of(conn, gone)).status == "pending"
    assert (await noted(conn))[0][:2] == (ANN, "redrive")


async def test_what_cannot_be_done_with_a_job_any_more_is_said(
    ann: Browser, conn: Connection
) -> None:
    job = await calls.enqueue(conn, "k")
    for action, fields, status in (
        ("priority", {"priority": "x"}, 400), ("priority", {"priority": "32768"}, 400),
        ("priority", {"priority": "9" * 5000}, 400), ("priority", {}, 400),
    ):  # fmt: skip
        shown = await ann.send(f"/ui/jobs/{job}/{action}", fields)
        assert (shown.status, shown.document.audit()) == (status, []), (action, fields)
    await calls.cancel(conn, job_id=job)
    for action in ("cancel", "run-now", "priority"):
        shown = await ann.send(f"/ui/jobs/{job}/{action}", {"priority": "1"})
        assert shown.status in {303, 409}, action
        if shown.status == 409:
            assert shown.document.audit() == []
    for job_id in ("999999", "x", str(uuid4())):
        shown = await ann.send(f"/ui/jobs/{job_id}/cancel")
        assert shown.status in {400, 404}
    assert (await job_of(conn, job)).status == "cancelled"


async def ask_and_do(browser: Browser, asked: Shown, **changed: str) -> Shown:
    """Confirm what was asked, as often as the page wants to go on."""
    for _ in range(50):
        if asked.status == 303:
            return asked
        assert asked.status == 200, asked.text[-900:]
        assert asked.document.audit() == []
        ids = [("id", one.get("value")) for one in asked.document.all("input", name="id")]
        fields = {k: v for k, v in asked.form("/ui/many").items() if k != "id"}
        asked = await browser.send("/ui/many", [*{**fields, **changed}.items(), *ids])
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize(
    ("action", "words", "status"),
    [("redrive", "2 jobs put back", "pending"), ("purge", "2 jobs forgotten", None),
     ("cancel", "2 jobs cancelled", "cancelled")],
)  # fmt: skip
async def test_chosen_jobs_are_counted_first_and_done_on_a_yes(
    ann: Browser, conn: Connection, action: str, words: str, status: str | None
) -> None:
    make = calls.enqueue if action == "cancel" else None
    jobs = [await make(conn, "k") if make else await dead(conn) for _ in range(4)]
    page = await ann.page("/ui/jobs")
    boxes = page.document.all("input", name="id", type="checkbox")
    assert {one.get("value") for one in boxes} == {*map(str, jobs)}
    before = await statuses(conn)
    chosen = [("action", action), ("back", "/ui/jobs?kind=k"), *(("id", str(j)) for j in jobs[:2])]
    asked = await ann.send("/ui/many", chosen)
    assert "2 jobs?" in asked.document.all("h1")[0].text
    assert await statuses(conn) == before, "nothing is done as yet"
    await told_once(ann, await ask_and_do(ann, asked), words)
    after = await statuses(conn)
    if status is None:
        assert after == {"failed": 2}
    else:
        assert after[status] == 2
        assert [(await job_of(conn, j)).status for j in jobs[:2]] == [status] * 2
    ((actor, did, _),) = await noted(conn)
    assert (actor, did) == (ANN, {"cancel": "cancel_many"}.get(action, action))


async def test_a_group_of_dead_letters_is_put_back_in_steps_and_each_once(
    ann: Browser, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": "q"}] * 40)
    for job in await calls.lease(conn, queue="q", n=40):
        error = f"no host 'h{job.job_id}' <b>" if job.job_id % 2 else "other"
        await calls.fail(
            conn, job_id=job.job_id, lease_id=job.lease_id, error=error, permanent=True
        )
    page = await ann.page("/ui/dead?queue=q")
    form = page.form("/ui/many", of="error", value="no host '…' <b>")
    monkeypatch.setattr(bulk, "STEP", 7)
    monkeypatch.setattr(bulk, "WORK_S", 0.0)  # each answer is one step
    asked = await ann.send("/ui/many", {**form, "action": "redrive"})
    assert "20 jobs?" in asked.document.all("h1")[0].text
    first = await ann.submit(asked, "/ui/many")
    assert first.status == 200
    assert "so far" in first.document.all("h1")[0].text
    # what dies again meanwhile is not taken twice
    again = await calls.lease(conn, queue="q", n=3)
    for job in again:
        await calls.fail(
            conn, job_id=job.job_id, lease_id=job.lease_id, error="no host 'z' <b>", permanent=True
        )
    await told_once(ann, await ask_and_do(ann, first), "20 jobs put back")
    assert await statuses(conn) == {"failed": 20 + len(again), "pending": 20 - len(again)}
    assert {entry[:2] for entry in await noted(conn, 3)} == {(ANN, "redrive")}


async def test_f090_a_group_whose_error_cannot_be_typed_is_put_back_too(
    ann: Browser, conn: Connection
) -> None:
    other = await dead(conn, "other")
    for error in ("\x1b[31mboom\x1b[0m", "boom\r\nat line 7", "tab\there", "\u202egnp.exe",
                  "nbsp\u00a0ü🙂", "  x "):  # fmt: skip
        gone = await dead(conn, error)
        page = await ann.page("/ui/dead")
        forms = page.document.all("form", action="/ui/many")
        fields = [
            {one.get("name"): one.get("value") for one in page.document.all("input", type="hidden")
             if form in one.parents}
            for form in forms
        ]  # fmt: skip
        (form,) = [one for one in fields if opened(one).get("error") not in {None, "other"}]
        asked = await ann.send("/ui/many", {**form, "action": "redrive"})
        assert "1 job?" in asked.document.all("h1")[0].text, repr(error)
        await told_once(ann, await ask_and_do(ann, asked), "1 job put back")
        await calls.cancel(conn, job_id=gone)
    assert (await job_of(conn, other)).status == "failed"


async def test_dead_letters_are_put_back_at_a_rate(ann: Browser, conn: Connection) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": "q"}] * 10)
    for job in await calls.lease(conn, queue="q", n=10):
        await calls.fail(conn, job_id=job.job_id, lease_id=job.lease_id, error="e", permanent=True)
    page = await ann.page("/ui/dead")
    fields = {**page.form("/ui/many"), "action": "redrive", "per_second": "0.01"}
    await told_once(ann, await ask_and_do(ann, await ann.send("/ui/many", fields)), "10 jobs")
    cursor = await conn.execute("select run_at from batchq.jobs order by 1")
    times = [at for (at,) in await cursor.fetchall()]
    assert times[-1] - times[0] > timedelta(seconds=800)
    for rate in ("0", "-1", "nan", "inf", "x", "1e400"):
        shown = await ann.send("/ui/many", {**fields, "per_second": rate})
        assert shown.status == 400, rate


async def test_the_rate_holds_over_all_steps(
    ann: Browser, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": "q"}] * 40)
    for job in await calls.lease(conn, queue="q", n=40):
        await calls.fail(conn, job_id=job.job_id, lease_id=job.lease_id, error="e", permanent=True)
    monkeypatch.setattr(bulk, "STEP", 10)
    fields = {"action": "redrive", "back": "/ui/dead", "queue": "q", "per_second": "0.1"}
    await ask_and_do(ann, await ann.send("/ui/many", fields))
    cursor = await conn.execute("select run_at from batchq.jobs order by 1")
    times = [at for (at,) in await cursor.fetchall()]
    assert len(times) == 40
    assert times[-1] - times[0] >= timedelta(seconds=380), "40 jobs, one every 10 s"


async def test_all_that_match_a_filter_are_cancelled_and_no_others(
    ann: Browser, conn: Connection
) -> None:
    jobs: list[dict[str, Any]] = [{"kind": "a", "queue": "q"}] * 5 + [{"kind": "b", "queue": "q"}]
    await calls.enqueue_many(conn, jobs=[*jobs, {"kind": "a", "queue": "other"}])
    page = await ann.page("/ui/jobs?kind=a&queue=q")
    asked = await ann.submit(page, "/ui/many", of="kind", value="a", action="cancel")
    assert "5 jobs?" in asked.document.all("h1")[0].text
    # what comes after the question is not meant
    late = await calls.enqueue(conn, "a", queue="q")
    await told_once(ann, await ask_and_do(ann, asked, reason="no more"), "5 jobs cancelled")
    assert await statuses(conn) == {"cancelled": 5, "pending": 3}
    assert (await job_of(conn, late)).status == "pending"


async def test_nothing_is_chosen_by_mistake(ann: Browser, conn: Connection) -> None:
    await dead(conn)
    waiting = await calls.enqueue(conn, "k")
    before = await statuses(conn)
    for fields in (
        {"action": "redrive"}, {"action": "purge", "step": "do"},
        {"action": "cancel", "step": "do"},
        {"action": "purge", "step": "do", "queue": "", "kind": ""},
        {"action": "other", "queue": "default"}, {"queue": "default"},
        {"action": "redrive", "queue": "default", "more": "1"},
        {"action": "redrive", "id": "x"}, {"action": "redrive", "id": "-1"},
        {"action": "redrive", "id": "9" * 19}, {"action": "redrive", "id": "1,2"},
        {"action": "purge", "step": "do", "queue": "default", "after": "x"},
        {"action": "redrive", "queue": "default", "done": "x"},
        {"action": "redrive", "queue": "default", "done": "9" * 30, "per_second": "0.001"},
        {"action": "redrive", "queue": "default", "done": "-1", "per_second": "1"},
        {"action": "purge", "step": "do", "queue": "default", "after": "9" * 30},
        {"action": "purge", "step": "do", "queue": "default", "after": "-1"},
    ):  # fmt: skip
        shown = await ann.send("/ui/many", {"back": "/ui/dead", **fields})
        assert (shown.status, shown.document.audit()) == (400, []), fields
    many = [("action", "cancel"), ("back", "/ui/jobs"), *[("id", str(waiting))] * 501]
    assert (await ann.send("/ui/many", many)).status == 400
    assert await statuses(conn) == before


async def test_nobody_is_led_elsewhere_after_an_action_or_signing_in(
    api: Api, ann: Browser, conn: Connection
) -> None:
    secret = await token(conn, "monitor")
    for back in ("//evil.test", "https://evil.test/", "/\\evil.test", "/x", "\n/ui/", "",
                 "javascript:alert(1)", "/ui/\r\nSet-Cookie: a=b", "//[", "http://[", "///x",
                 "/%5cevil.test", "/ui/\\evil.test"):  # fmt: skip
        job = await calls.enqueue(conn, "k")
        many = {"action": "cancel", "step": "do", "id": str(job), "back": back}
        shown = await ann.send("/ui/many", many)
        assert shown.status == 400 or shown.location in {"/", "/ui/jobs"}, back
        page = await ann.get("/ui/sign-in", params={"next": back})
        assert opened(page.form("/ui/sign-in"))["next"] == "/", back
        assert (await Browser(api).sign_in(secret, back)).location == "/", back
        direct = await Browser(api).send("/ui/sign-in", {"token": secret, "next": back})
        assert (direct.status, direct.location) == (303, "/"), back
        assert set(direct.set_cookies) == {SESSION}


async def test_a_worker_is_asked_to_drain(ann: Browser, conn: Connection) -> None:
    worker_id = await beat(conn, ["q"])
    page = await ann.page("/ui/workers")
    done = await ann.submit(page, f"/ui/workers/{worker_id}/drain")
    await told_once(ann, done, "takes no more jobs")
    (worker,) = await calls.list_workers(conn)
    assert worker.drain_requested_at is not None
    assert await noted(conn) == [(ANN, "drain_worker", f"worker {worker_id}")]
    await told_once(ann, await ann.send(f"/ui/workers/{uuid4()}/drain"), "not alive")
    assert (await ann.send("/ui/workers/x/drain")).status == 400


async def beat(conn: Connection, queues: list[str]) -> UUID:
    worker_id = uuid4()
    await calls.beat_worker(
        conn, worker_id=worker_id, worker="w of " + ",".join(queues), host="h", pid=1, version="1",
        queues=queues, kinds=["k"], concurrency=2, running=0,
    )  # fmt: skip
    return worker_id


async def test_the_workers_page_tells_what_each_runs(ann: Browser, conn: Connection) -> None:
    await beat(conn, ["q"])
    await beat(conn, ["r"])
    running, waiting = [await calls.enqueue(conn, "k", queue="q") for _ in range(2)]
    await calls.lease(conn, queue="q", worker="w of q")
    page = await ann.page("/ui/workers")
    rows = [tr for tr in page.document.all("tr") if tr.within("tbody")]
    links = [a for a in page.document.all("a") if a.get("href").startswith("/ui/jobs/")]
    assert [a.get("href") for a in links] == [f"/ui/jobs/{running}"]
    assert [str(running) in row.text for row in rows if "w of q" in row.text] == [True]
    assert str(waiting) not in [a.text for a in links]


async def test_the_audit_page_tells_who_and_leads_to_what(ann: Browser, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="q")
    await ann.send("/ui/queues/q/pause", {"reason": "r"})
    page = await ann.page("/ui/audit")
    rows = [tr.text for tr in page.document.all("tr") if tr.within("tbody")]
    assert any(ANN in row and "pause" in row and "queue q" in row for row in rows)
    of = await ann.page("/ui/audit?target=queue%20q")
    assert [tr for tr in of.document.all("tr") if tr.within("tbody")]
    mine = datetime.now(UTC).strftime("%Y-%m-%d")
    assert mine in of.text
