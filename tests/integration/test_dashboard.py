"""Pages of the dashboard over HTTP: all answer, all links lead on, nothing stored is code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybatchq import calls
from pybatchq.dashboard.table import TABLE
from tests.conftest import Connection
from tests.support.api import Api, client, running, serving, url_of
from tests.support.pages import Browser, dead, filled
from tests.support.raw import wire

HOSTILE = """<img src=x onerror=alert(1)>"'</script><script>alert(2)</script>&lt;{{7*7}}\x1b[31m"""
# Names that a path has to carry whole.
NAMES = ["a/b", "%2F", "a b?c#d", "ü–🙂", "{x}", "a;b=c", "+", HOSTILE]
ADDRESSES = ["/", "/ui/jobs", "/ui/dead", "/ui/throughput", "/ui/workers", "/ui/audit"]
# What a text holds if it got out of its place.
ESCAPED = re.compile(r"<img src=x|<script>alert|onerror=alert\(1\)>|\x1b|\x00")


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


@pytest.fixture
async def browser(api: Api) -> Browser:
    return Browser(api)


async def furnish(conn: Connection, name: str = "mail") -> dict[str, int]:
    """One job of each state in this queue, and a worker; hostile texts wherever there are any."""
    await calls.set_queue(conn, queue=name, group_limit=1, max_running=5, fair=True)
    common: dict[str, Any] = {
        "kind": name, "queue": name, "payload": {HOSTILE: [HOSTILE, 1970670598291982290]},
        "headers": {"trace": HOSTILE},
    }  # fmt: skip
    jobs = {"failed": await dead(conn, f"{HOSTILE}\n{HOSTILE}", **common)}
    for state in ("completed", "leased"):
        jobs[state] = await calls.enqueue(conn, **common)
        (job,) = await calls.lease(conn, queue=name, worker=HOSTILE)
        await calls.progress(conn, job_id=job.job_id, lease_id=job.lease_id, progress=[HOSTILE])
        if state == "completed":
            result = {"out": HOSTILE}
            await calls.complete(conn, job_id=job.job_id, lease_id=job.lease_id, result=result)
    hour = timedelta(hours=1)
    jobs["scheduled"] = await calls.enqueue(conn, **common, delay=hour, dedupe_key=HOSTILE)
    jobs["grouped"] = await calls.enqueue(conn, **common, group_key=HOSTILE)
    jobs["blocked"] = await calls.enqueue(conn, **common, group_key=HOSTILE)
    jobs["cancelled"] = await calls.enqueue(conn, **common)
    await calls.cancel(conn, job_id=jobs["cancelled"], reason=HOSTILE)
    await calls.act_as(conn, actor=HOSTILE)
    await calls.pause(conn, queue=name, reason=HOSTILE)
    await calls.beat_worker(
        conn, worker_id=uuid4(), worker=HOSTILE, host=HOSTILE, pid=7, version=HOSTILE,
        queues=[name], kinds=[name], concurrency=4, running=1, memory_bytes=123_456_789,
    )  # fmt: skip
    return jobs


async def crawl(browser: Browser, *starts: str) -> set[str]:
    """Every page that links lead to from here; each is there and sound."""
    seen: set[str] = set()
    left = list(starts)
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        assert len(seen) < 2_000, "pages without end"
        shown = await browser.get(path)
        assert shown.status < 400, (path, shown.status, shown.text[-400:])
        if shown.status == 303:
            left.append(shown.location)
        elif shown.headers["Content-Type"].startswith("text/html") and path != "/reference":
            assert shown.document.audit() == [], path
            assert not ESCAPED.search(outside_fields(shown.text)), path
            links = (one for one in shown.document.links if not _is_sorted(one))
            left += [one for one in links if one not in seen]
    return seen


def outside_fields(text: str) -> str:
    """A page without what its fields hold, which has to come back character by character."""
    return re.sub(r' value="[^"]*"', "", text)


def _is_sorted(path: str) -> bool:
    return path.startswith("/?")


async def test_a_database_without_anything_has_all_pages_too(browser: Browser) -> None:
    for path in ADDRESSES:
        await browser.page(path)
    await crawl(browser, "/")


async def test_a82_all_pages_answer_and_every_link_leads_to_one(
    browser: Browser, conn: Connection
) -> None:
    jobs = await furnish(conn)
    await calls.maintain(conn)
    seen = await crawl(browser, "/")
    assert set(ADDRESSES) <= seen
    assert {f"/ui/jobs/{job_id}" for job_id in jobs.values()} <= seen
    for part in ("payload", "headers"):
        assert f"/ui/jobs/{jobs['failed']}/{part}" in seen
    assert "/ui/queues/mail" in seen


@pytest.mark.timeout(120)
async def test_f090_any_name_leads_to_its_own_pages(browser: Browser, conn: Connection) -> None:
    dead_ones = {name: (await furnish(conn, name))["failed"] for name in NAMES}
    await calls.maintain(conn)
    seen = await crawl(browser, "/")
    for name, job_id in dead_ones.items():
        shown = await browser.page("/ui/queues/" + quote(name, safe=""))
        assert not ESCAPED.search(outside_fields(shown.text))
        assert shown.document.all("form", action=shown.path + "/resume"), name
        listed = await browser.page("/ui/jobs?" + urlencode({"queue": name, "state": "failed"}))
        assert f"/ui/jobs/{job_id}" in listed.document.links
        assert f"/ui/jobs/{job_id}" in seen


async def test_f090_what_is_stored_is_text_wherever_it_is_shown(
    browser: Browser, conn: Connection
) -> None:
    jobs = await furnish(conn, HOSTILE)
    starts = [f"/ui/jobs/{job_id}" for job_id in jobs.values()]
    for path in [*ADDRESSES, *starts, "/ui/queues/" + quote(HOSTILE, safe="")]:
        shown = await browser.page(path)
        assert not ESCAPED.search(outside_fields(shown.text)), path
        scripts = shown.document.all("script")
        assert [one.text for one in scripts] == [""], path
        assert "\\u001b[31m" in shown.text or path == "/ui/throughput", "it is shown as it is"


async def test_f060_numbers_keep_their_digits_on_every_page(
    browser: Browser, conn: Connection
) -> None:
    digits = ["1970670598291982290", "0.1", "1.10", "123456789012345678901234567890", "1E+400"]
    text = '{"n": [' + ", ".join(digits) + "]}"
    await conn.execute("select batchq.enqueue('k', payload => %s::jsonb)", (text,))
    (job,) = await calls.lease(conn)
    await conn.execute(
        "select batchq.progress(%s, %s, progress => %s::jsonb)", (job.job_id, job.lease_id, text)
    )
    cursor = await conn.execute("select payload::text from batchq.jobs")
    stored = (await cursor.fetchall())[0][0]
    wanted = re.findall(r"[-+.0-9eE]*\d", stored.partition("[")[2])
    shown = await browser.page(f"/ui/jobs/{job.job_id}")
    numbers = [one.text for one in shown.document.all("span", **{"class": "num"})]
    assert numbers == wanted * 2, "of the payload and of the progress"
    as_text = await browser.get(f"/ui/jobs/{job.job_id}/payload")
    assert as_text.text == stored


async def test_f061_a_very_deep_payload_and_progress_have_their_page(
    browser: Browser, conn: Connection
) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    await conn.execute("select batchq.enqueue('k', payload => %s::jsonb)", (deep,))
    (job,) = await calls.lease(conn)
    await conn.execute(
        "select batchq.progress(%s, %s, progress => %s::jsonb)", (job.job_id, job.lease_id, deep)
    )
    await browser.page(f"/ui/jobs/{job.job_id}")
    assert (await browser.get(f"/ui/jobs/{job.job_id}/payload")).text.strip() == deep


async def test_a_job_has_a_page_under_its_uuid_and_is_found_by_either(
    browser: Browser, conn: Connection
) -> None:
    job_id = await calls.enqueue(conn, "k")
    uuid = str(await calls.job_uuid(conn, job_id=job_id))
    for name in (uuid, uuid.upper(), str(job_id)):
        assert f"Job {job_id} " in (await browser.page(f"/ui/jobs/{name}")).text
        found = await browser.follow(await browser.get(f"/ui/jobs?id=%20{name}%20"))
        assert f"Job {job_id} " in found.text


WRONG = [
    ("/ui/jobs/999999", 404), ("/ui/jobs/01890a5d-ac96-774b-bcce-b302099a8057", 400),
    ("/ui/jobs/x", 400),
    ("/ui/jobs/-1", 400), ("/ui/jobs/99999999999999999999", 400), ("/ui/jobs/0", 404),
    ("/ui/jobs/%00", 400), ("/ui/jobs/%ff", 400), ("/ui/jobs/1/nothing", 404),
    ("/ui/jobs/999999/payload", 404),
    ("/ui/queues/none", 404), ("/ui/queues/%00", 400), ("/ui/queues/" + "x" * 256, 404),
    ("/ui/nothing", 404), ("/ui/", 404), ("/ui/static/none.js", 404),
    ("/ui/static/..%2frendering.py", 404), ("/ui/static/%2e%2e/rendering.py", 404),
    ("/ui/jobs?state=x", 400), ("/ui/jobs?status=x", 400), ("/ui/jobs?nothing=1", 400),
    ("/ui/jobs?before=x", 400), ("/ui/jobs?created_after=x", 400),
    ("/ui/jobs?created_after=1", 400), ("/ui/jobs?queue=" + "x" * 256, 400),
    ("/ui/jobs?before=" + "x" * 101, 400), ("/?page=x", 400), ("/?page=0", 400),
    ("/?page=999999999999999999999", 400), ("/?sort=x", 400), ("/?x=1", 400),
    ("/ui/throughput?range=x", 400), ("/ui/throughput?queue=none", 404),
    ("/ui/audit?before=-1", 400), ("/ui/audit?before=x", 400),
    ("/ui/audit?target=" + "x" * 301, 400), ("/ui/dead?x=1", 400),
    ("/ui/dead?kind=" + "x" * 256, 400), ("/ui/queues/none?edit=x", 400),
]  # fmt: skip


async def test_f091_what_is_wrong_or_missing_has_a_page_that_says_so(browser: Browser) -> None:
    for path, status in WRONG:
        shown = await browser.get(path)
        assert shown.status == status, (path, shown.status, shown.document.all("h1")[0].text)
        assert shown.headers["Content-Type"] == "text/html; charset=utf-8", path
        assert shown.document.audit() == [], path
        assert "Content-Security-Policy" in shown.headers
        for hidden in ("select ", "Traceback", "psycopg", "PL/pgSQL"):
            assert hidden not in shown.text, path
        assert 'href="/"' in shown.text, path


async def test_only_people_get_pages_for_errors(browser: Browser) -> None:
    for query in ("view=job", "view=queue", "view=other", "view=job&job=x", "view=overview&x=1",
                  "page=0", "view=queue&queue=" + "x" * 256):  # fmt: skip
        shown = await browser.get(f"/ui/live?{query}")
        assert shown.status == 400, query
        assert shown.headers["Content-Type"] == "application/json", "a program reads it"
    for method, path, status in (
        ("POST", "/", 405), ("DELETE", "/ui/jobs", 405), ("PUT", "/ui/queues/q", 405),
        ("GET", "/ui/many", 405), ("GET", "/ui/sign-out", 405),
        ("PATCH", "/ui/static/style.css", 405),
    ):  # fmt: skip
        shown = await browser.ask(method, path)
        assert (shown.status, shown.document.audit()) == (status, [])
        assert "GET" in shown.headers["Allow"] or "POST" in shown.headers["Allow"]
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("DELETE", "/jobs", 405),
        ("GET", "/jobs/999", 404),
        ("GET", "/uix", 404),
    ):
        assert (await browser.api.ask(method, path)).error[0] == status


async def test_f091_bytes_in_an_address_are_no_error_of_ours(browser: Browser) -> None:
    for path in (b"/ui/jobs/\xff", b"/ui/queues/\xff\xfe", b"/ui/jobs?kind=\xff",
                 b"/?q=\xed\xa0\x80", b"/ui/queues/%ed%a0%80", b"/ui/jobs?queue=%ed%a0%80",
                 b"/ui/\xff", b"/ui/static/\xff", b"/ui/jobs?id=\xff",
                 b"/ui/sign-in?next=/ui/\xff"):  # fmt: skip
        async with wire(browser.api.port) as one:
            await one.send(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await one.answer()
            assert answer.status in {200, 303, 400, 404}, path


async def test_every_page_takes_head_and_says_what_get_does(
    browser: Browser, conn: Connection
) -> None:
    job = await calls.enqueue(conn, "k", queue="q")
    await calls.maintain(conn)
    for page in TABLE:
        if page.method == "GET" and page.path != "/ui/live":
            path = filled(page.path, job)
            got, head = await browser.get(path), await browser.ask("HEAD", path)
            assert (got.status, head.status, head.text) == (200, 200, ""), path
            assert head.headers["Content-Type"] == got.headers["Content-Type"]
            assert head.headers["Content-Length"] == str(len(got.text.encode())), path
    assert (await browser.ask("HEAD", "/ui/live?view=overview")).status == 405


async def test_f090_pages_carry_a_strict_policy_and_are_not_kept(
    browser: Browser, conn: Connection
) -> None:
    job = await calls.enqueue(conn, "k", payload="<script>")
    for path in [*ADDRESSES, f"/ui/jobs/{job}", "/ui/sign-in", "/ui/nothing"]:
        headers = (await browser.get(path)).headers
        policy = headers["Content-Security-Policy"]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules.pop("default-src") == "'none'"
        assert rules.pop("base-uri") == rules.pop("frame-ancestors") == "'none'"
        assert set(rules.values()) == {"'self'"}, policy
        assert {"script-src", "style-src", "form-action"} <= set(rules)
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "same-origin"
    part = await browser.get(f"/ui/jobs/{job}/payload")
    assert part.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert part.headers["X-Content-Type-Options"] == "nosniff"


async def test_assets_are_kept_for_good_under_their_own_address_only(browser: Browser) -> None:
    page = await browser.page("/")
    assets = {
        one.get("href") or one.get("src") for one in page.document.all("link", "script", "img")
    }
    assert len(assets) >= 4
    for path in assets:
        shown = await browser.get(path)
        assert shown.status == 200
        assert shown.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert shown.headers["X-Content-Type-Options"] == "nosniff"
        assert re.match(
            r"text/(css|javascript); charset=utf-8|image/svg\+xml", shown.headers["Content-Type"]
        )
        assert not re.search(r"(?:url\(|@import|https?:)(?!//www\.w3\.org)", shown.text), path
        plain = path.partition("?")[0]
        for other in (plain, f"{plain}?v=", f"{plain}?v=000000000000", f"{plain}?v=other"):
            assert "immutable" not in (await browser.get(other)).headers["Cache-Control"], other


async def test_a_time_is_told_relative_and_absolute(browser: Browser, conn: Connection) -> None:
    job = await calls.enqueue(conn, "k")
    for path in ("/ui/jobs", f"/ui/jobs/{job}"):
        times = (await browser.page(path)).document.all("time")
        assert times
        for time in times:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", time.get("datetime"))
            assert time.get("title") == time.get("datetime")
            assert re.search(r"\d[smh] ago.* \d\d:\d\d:\d\dZ", time.text), time.text


async def test_pages_of_jobs_go_on_to_the_last_and_back(browser: Browser, conn: Connection) -> None:
    jobs = [{"kind": "k" if n % 3 else HOSTILE} for n in range(160)]
    await calls.enqueue_many(conn, jobs=jobs)
    for query, count in (("", 160), ("?" + urlencode({"kind": HOSTILE, "status": "pending"}), 54)):
        found: list[str] = []
        path: str | None = "/ui/jobs" + query
        while path is not None:
            shown = await browser.page(path)
            found += [one for one in shown.document.links if re.fullmatch(r"/ui/jobs/\d+", one)]
            path = next((a.get("href") for a in shown.document.all("a", rel="next")), None)
        assert len(found) == len(set(found)) == count


async def test_the_queues_of_the_overview_are_found_sorted_and_paged(
    browser: Browser, conn: Connection
) -> None:
    for n in range(60):
        await calls.enqueue(conn, "k", queue=f"q{n:02}")
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": "q33"}] * 3)

    async def rows(query: str) -> list[str]:
        document = (await browser.page("/" + query)).document
        return [tr.get("data-live") for tr in document.all("tr") if tr.get("data-live")]

    assert await rows("") == [f"queue:q{n:02}" for n in range(50)]
    assert await rows("?page=2") == [f"queue:q{n:02}" for n in range(50, 60)]
    assert (await rows("?sort=waiting"))[0] == "queue:q33"
    assert await rows("?q=Q5&page=1") == [f"queue:q{n}" for n in range(50, 60)]
    for beyond in ("?page=99", "?q=none"):
        await browser.page("/" + beyond)


# What values can do to a page: nothing but 200, 303 or a refusal.
text = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["\x00", "\ud800", "9" * 40, "-1", "null", "nan", "..", "%00"]),
    st.sampled_from(["2030-01-31T12:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+00:00",
                     "9999-12-31T23:59:59-14:00", "failed", "ready", "default"]),
    st.integers().map(str), st.binary(max_size=8),
    st.sampled_from(['{"queue": "default"}', '{"id": 1}', "[]", '{"queue": "\\ud800"}', "[" * 9999,
                     '{"queue": "\\u0000", "action": "purge"}', "{", '{"a": null}']),
)  # fmt: skip
PARAMETERS = {
    "/": ["q", "sort", "page"],
    "/ui/jobs": ["status", "state", "queue", "kind", "dedupe_key", "created_after",
                 "created_before", "before", "id"],
    "/ui/dead": ["queue", "kind"],
    "/ui/throughput": ["queue", "kind", "range"],
    "/ui/audit": ["target", "before"],
    "/ui/queues/default": ["edit"],
    "/ui/sign-in": ["next"],
    "/ui/static/style.css": ["v"],
}  # fmt: skip
FIELDS = ["action", "step", "back", "queue", "kind", "state", "error", "created_after",
          "created_before", "before", "per_second", "reason", "every", "done", "after", "id",
          "kept"]  # fmt: skip
POSTS = {
    "/ui/many": FIELDS,
    "/ui/queues/default": ["max_running", "rate", "backoff", "timeout", "fair", "none"],
    "/ui/queues/default/pause": ["reason"],
    "/ui/queues/default/breaker": ["kind"],
    "/ui/jobs/1/priority": ["priority"],
    "/ui/jobs/1/cancel": ["reason"],
    "/ui/sign-in": ["token", "next"],
}


def encoded(values: dict[str, Any]) -> str:
    return urlencode(values, errors="surrogatepass")


@pytest.mark.timeout(120)
async def test_f091_no_parameter_and_no_field_ends_in_an_error_of_ours(
    db: str, conn: Connection
) -> None:
    await dead(conn)
    await calls.enqueue(conn, "k")
    loop = asyncio.get_running_loop()
    async with running(db) as (_, server), client(url_of(server)) as api:
        browser = Browser(api)
        mark = await browser.mark()

        async def ask(method: str, path: str, given: dict[str, Any]) -> None:
            if method == "GET":
                shown = await browser.get(f"{path}?{encoded(given)}")
            else:
                body = encoded({**given, "mark": mark})
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                shown = await browser.ask("POST", path, data=body.encode(), headers=headers)
            assert shown.status in {200, 303, 400, 401, 403, 404, 409}, (shown.status, shown.text)
            if shown.headers["Content-Type"].startswith("text/html") and shown.status != 303:
                assert shown.document.audit() == []

        def one(method: str, table: dict[str, list[str]]) -> None:
            choices = st.sampled_from(list(table)).flatmap(
                lambda path: st.tuples(
                    st.just(path), st.dictionaries(st.sampled_from(table[path]), text, max_size=4)
                )
            )

            @settings(
                max_examples=120,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(choices)
            def look(chosen: tuple[str, dict[str, Any]]) -> None:
                path, values = chosen
                if path == "/ui/many":
                    values = {"action": "redrive", "back": "/ui/dead", **values}
                asked = ask(method, path, values)
                asyncio.run_coroutine_threadsafe(asked, loop).result(30)

            look()

        await asyncio.to_thread(one, "GET", PARAMETERS)
        await asyncio.to_thread(one, "POST", POSTS)
