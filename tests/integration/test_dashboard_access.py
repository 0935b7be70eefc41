"""Who may see and do what on pages: sessions, forms of others, and tokens that are for some."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import aiohttp
import pytest

from pybatchq import calls
from pybatchq.api import auth
from pybatchq.dashboard.table import TABLE
from tests.conftest import Connection
from tests.integration.test_api_process import certificate
from tests.integration.test_dashboard_actions import beat
from tests.support.api import Api, api_process, serving
from tests.support.pages import FORM, SAID, SESSION, Browser, Document, Shown, dead, token
from tests.support.pages import filled as at
from tests.support.raw import wire
from tests.support.working import statuses, until

POSTS = [page.path for page in TABLE if page.method == "POST"]
GETS = [page.path for page in TABLE if page.method == "GET" and page.path != "/ui/live"]
PUBLIC = {"/ui/sign-in", "/ui/sign-out", "/ui/static/{name}"}
SECRET = "hush"  # in every text of what a token for other queues must not see


@pytest.fixture
async def api(db: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(auth, "KNOWN_S", 0.2)
    monkeypatch.setattr(auth, "RENEW_S", 0.1)
    async with serving(db) as api:
        yield api


async def signed_in(api: Api, conn: Connection, *scopes: Any, **more: Any) -> Browser:
    browser = Browser(api)
    answer = await browser.sign_in(await token(conn, *scopes, **more))
    assert answer.status == 303, answer.text[-500:]
    return browser


async def untouched(conn: Connection) -> tuple[Any, ...]:
    """What an action would change."""
    queues = await calls.list_queues(conn)
    jobs = await (
        await conn.execute("select id, status, priority, run_at from batchq.jobs")
    ).fetchall()
    return queues, sorted(jobs), len(await calls.list_audit(conn, n=1000))


async def test_f092_no_form_of_others_does_anything(api: Api, conn: Connection) -> None:
    job = await dead(conn, queue="q")
    ann = await signed_in(api, conn, "operate", "produce")
    bob = await signed_in(api, conn, "operate", "produce")
    mark, other = await ann.mark(), await bob.mark()
    assert mark != other
    before = await untouched(conn)
    fields = {"action": "purge", "step": "do", "back": "/ui/dead", "queue": "q", "priority": "5",
              "kind": "k", "max_running": "1"}  # fmt: skip
    form = urlencode({**fields, "mark": mark})
    foreign = {"Origin": "https://evil.test"}
    tries: list[tuple[str, dict[str, str], int]] = [
        (urlencode(fields), FORM, 403),
        (urlencode({**fields, "mark": ""}), FORM, 403),
        (urlencode({**fields, "mark": other}), FORM, 403),
        (urlencode({**fields, "mark": mark[:-1]}), FORM, 403),
        (urlencode({**fields, "mark": mark.upper() + "ü"}), FORM, 403),
        ("mark=" + mark + "%ff&" + urlencode(fields), FORM, 400),
        (form, {**FORM, **foreign}, 403),
        (form, {**FORM, "Origin": "null"}, 403),
        (form, {**FORM, "Origin": "http://["}, 403),
        (form, {**FORM, "Origin": "http://localhost:1"}, 403),
        (form, {**FORM, "Sec-Fetch-Site": "cross-site"}, 403),
        (form, {**FORM, "Sec-Fetch-Site": "same-site"}, 403),
        (form, {"Content-Type": "application/json"}, 415),
        (form, {"Content-Type": "text/plain"}, 415),
        (form, {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        (form, {"Content-Type": ""}, 415),
        (form + "&x=" + "y" * 300_000, FORM, 413),
        (form + "&x=1" * 3_000, FORM, 400),
        (form + "&kind=%ff%fe", FORM, 400),
    ]
    for path in POSTS:
        if path in PUBLIC:
            continue
        for body, headers, status in tries:
            shown = await ann.ask("POST", at(path, job), data=body.encode(), headers=headers)
            assert shown.status == status, (path, body[:80], headers, shown.status)
            assert shown.headers["Content-Type"].startswith("text/html")
        raw = await ann.ask("POST", at(path, job), data=b"mark=\xff\xfe", headers=FORM)
        assert raw.status == 400
        if path not in GETS:
            assert (await ann.get(f"{at(path, job)}?{form}")).status in {404, 405}, path
    assert await untouched(conn) == before


async def test_f092_the_query_of_a_post_is_no_form(api: Api, conn: Connection) -> None:
    ann = await signed_in(api, conn, "operate")
    job = await dead(conn, queue="q")
    query = urlencode({"mark": await ann.mark(), "action": "purge", "step": "do", "queue": "q"})
    assert (await ann.ask("POST", f"/ui/many?{query}", data=b"", headers=FORM)).status == 403
    assert (await calls.get_job(conn, job_id=job)).status == "failed"


async def test_signing_in_and_out_need_a_page_of_ours_too(api: Api, conn: Connection) -> None:
    secret = await token(conn, "monitor")
    browser = Browser(api)
    await browser.get("/ui/sign-in")
    for fields in ({"token": secret}, {"token": secret, "mark": "x"}):
        shown = await browser.ask("POST", "/ui/sign-in", data=urlencode(fields), headers=FORM)
        assert shown.status == 403
    ann = await signed_in(api, conn, "monitor")
    assert (await ann.ask("POST", "/ui/sign-out", data=b"", headers=FORM)).status == 403
    await ann.page("/ui/workers")


async def test_strangers_are_led_to_sign_in_and_back(api: Api, conn: Connection) -> None:
    secret = await token(conn, "monitor")
    browser = Browser(api)
    for path in GETS:
        shown = await browser.get(at(path) + ("" if path in PUBLIC else "?x=%C3%BC&y=1"))
        if path in PUBLIC:
            assert shown.status == 200
            continue
        assert shown.status == 303, path
        assert shown.location == "/ui/sign-in?" + urlencode({"next": f"{at(path)}?x=%C3%BC&y=1"})
    live = await browser.get("/ui/live?view=overview")
    assert live.status in {303, 401}
    for path in POSTS:
        if path not in PUBLIC:
            shown = await browser.ask("POST", at(path), data=b"mark=", headers=FORM)
            assert shown.location == "/ui/sign-in?next=%2F"
    for wrong in ("", "bq_no", "x" * 500, "\x00", "ü"):
        shown = await browser.sign_in(wrong)
        assert (shown.status, shown.document.audit()) == (401, [])
        assert SESSION not in shown.set_cookies
    answer = await browser.sign_in(f"  {secret}\n", "/ui/jobs?kind=%C3%BC&state=failed")
    assert answer.location == "/ui/jobs?kind=%C3%BC&state=failed"
    await browser.follow(answer)


async def test_a_session_is_a_new_secret_and_no_token(api: Api, conn: Connection) -> None:
    secret = await token(conn, "operate", "monitor")
    browser = Browser(api)
    browser.cookies[SESSION] = "a" * 43  # somebody else knows this one
    await browser.sign_in(secret)
    session = browser.cookies[SESSION]
    assert session not in {"a" * 43, secret}
    assert len(session) >= 40
    assert secret not in (await browser.page("/ui/jobs")).text
    bearer = {"Authorization": f"Bearer {session}"}
    assert (await api.get("/jobs", headers=bearer)).status == 401
    assert (await Browser(api, bearer).get("/ui/jobs")).status == 401
    with_token = Browser(api)
    with_token.cookies[SESSION] = secret
    assert (await with_token.get("/ui/jobs")).status == 303
    cookie = {"Cookie": f"{SESSION}={session}"}
    assert (await api.get("/jobs", headers=cookie)).status == 401, "the API takes tokens only"
    assert (await api.post("/jobs", {"kind": "k"}, headers=cookie)).status == 401
    stored = await (await conn.execute("select t::text from batchq.session t")).fetchall()
    assert session not in str(stored)


async def test_signing_out_ends_it_for_good(api: Api, conn: Connection) -> None:
    ann = await signed_in(api, conn, "monitor")
    session = ann.cookies[SESSION]
    page = await ann.page("/ui/jobs")
    out = await ann.submit(page, "/ui/sign-out")
    assert out.location == "/ui/sign-in"
    assert ann.cookies[SESSION] != session
    ann.cookies[SESSION] = session
    assert (await ann.get("/ui/jobs")).status == 303


async def test_a_revoked_token_ends_its_sessions_and_streams_within_seconds(
    api: Api, conn: Connection
) -> None:
    await token(conn, "monitor")
    ann = await signed_in(api, conn, "monitor", name="ann")
    cookie = {"Cookie": f"{SESSION}={ann.cookies[SESSION]}"}
    async with api.session.get(f"{api.url}/ui/live?view=overview", headers=cookie) as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"\n\ndata: ")
        await calls.revoke_token(conn, name="ann")

        async def refused() -> bool:
            return (await ann.get("/ui/jobs")).status == 303

        await until(refused, 6)
        await stream.read()  # it ends by itself


async def test_a_session_ends_with_its_token_and_after_its_time(api: Api, conn: Connection) -> None:
    await token(conn, "monitor")
    soon = (await calls.now(conn)) + timedelta(seconds=1)
    short = await signed_in(api, conn, "monitor", expires_at=soon)
    long = await signed_in(api, conn, "monitor")
    await long.page("/ui/jobs")
    await conn.execute(
        "update batchq.session set expires_at = now() where token_id ="
        " (select max(token_id) from batchq.token)"
    )

    async def over() -> bool:
        return [(await one.get("/ui/jobs")).status for one in (short, long)] == [303, 303]

    await until(over, 6)


async def test_the_cookie_is_for_this_site_and_no_script(api: Api, conn: Connection) -> None:
    await token(conn, "monitor")
    for headers, is_secure in (
        ({}, False), ({"X-Forwarded-Proto": "https"}, True), ({"X-Forwarded-Proto": "http"}, False)
    ):  # fmt: skip
        browser = Browser(api, headers)
        shown = await browser.get("/ui/sign-in")
        made = [shown.set_cookies[SESSION]]
        made.append((await browser.sign_in(await token(conn, "monitor"))).set_cookies[SESSION])
        for morsel in made:
            assert morsel["httponly"]
            assert (morsel["samesite"], morsel["path"], morsel["domain"]) == ("Lax", "/", "")
            assert bool(morsel["secure"]) is is_secure
            assert 0 < int(morsel["max-age"]) <= 12 * 3600
    kept = Browser(api)
    await kept.get("/ui/sign-in")
    assert SESSION not in (await kept.get("/ui/sign-in")).set_cookies, "it is not set anew"


async def test_behind_tls_the_cookie_is_secure(db: str, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with api_process(db, tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as process:
        port = await process.port()
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{port}/ui/sign-in", ssl=False) as answer,
        ):
            assert "; Secure" in answer.headers["Set-Cookie"]


async def test_whoever_may_only_look_is_shown_no_action_and_refused_each(
    api: Api, conn: Connection
) -> None:
    job = await dead(conn, queue="q")
    waiting = await calls.enqueue(conn, "k", queue="q", delay=timedelta(hours=1))
    await beat(conn, ["q"])
    viewer = await signed_in(api, conn, "monitor")
    before = await untouched(conn)
    for path in [*map(at, GETS), f"/ui/jobs/{job}", f"/ui/jobs/{waiting}", "/ui/queues/q?edit=yes"]:
        if "static" in path or path.endswith("payload") or path == "/ui/sign-in":
            continue
        page = await viewer.page(path)
        actions = {form.get("action") for form in page.document.all("form", method="post")}
        assert actions <= {"/ui/sign-out", "/ui/many" if path == "/ui/jobs" else ""}, path
        assert not page.document.all("button", name="action"), path
    for path in POSTS:
        if path not in PUBLIC:
            shown = await viewer.send(at(path, waiting), {"action": "cancel", "id": str(waiting)})
            assert (shown.status, shown.document.audit()) == (403, []), path
            assert "scope" in shown.text
    assert await untouched(conn) == before


async def test_a_read_only_api_does_nothing_for_anybody(db: str, conn: Connection) -> None:
    job = await dead(conn, queue="q")
    async with serving(db, BATCHQ_READ_ONLY="true") as api:
        ann = await signed_in(api, conn, "operate", "produce")
        before = await untouched(conn)
        for path in POSTS:
            if path not in PUBLIC:
                shown = await ann.send(at(path, job), {"action": "redrive", "id": str(job)})
                assert (shown.status, "read-only" in shown.text) == (403, True), path
        page = await ann.page(f"/ui/jobs/{job}")
        assert not page.document.all("form", action=f"/ui/jobs/{job}/retry")
        assert await untouched(conn) == before


async def test_without_tokens_another_name_is_no_operator(api: Api) -> None:
    evil = Browser(api, {"Host": "evil.test"})
    for path in ("/", "/ui/jobs", "/ui/live?view=overview"):
        assert (await evil.get(path)).status == 403, "a page whose name leads here"
    mine = await Browser(api).page("/")
    assert "Sign out" not in mine.text


def words_of(shown: Shown) -> str:
    """What is read on a page: neither its marks nor fractions of seconds."""
    return re.sub(r"<[^>]*>", " ", shown.text)


@dataclass(frozen=True, slots=True)
class House:
    """bea: may do everything with mail. others: jobs that are not hers; workers: nor are these."""

    bea: Browser
    mine: int
    others: list[int]
    workers: list[UUID]


@pytest.fixture
async def house(api: Api, conn: Connection) -> House:
    """Two queues with the same in them; of one bea may know nothing."""
    jobs: dict[str, list[int]] = {}
    for queue in ("mail", SECRET):
        await calls.set_queue(conn, queue=queue, max_attempts=3)
        kind = f"{queue} kind"
        gone = await dead(conn, f"{queue} error", queue=queue, kind=kind)
        runs = await calls.enqueue(conn, kind, queue=queue, dedupe_key=f"{queue} key")
        await calls.lease(conn, queue=queue, worker=f"{queue} worker")
        waits = await calls.enqueue(conn, kind, queue=queue)
        jobs[queue] = [gone, runs, waits]
        await calls.pause(conn, queue=queue, reason=f"{queue} reason")
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": SECRET}] * 976)
    workers = [await beat(conn, [SECRET]), await beat(conn, ["mail", SECRET])]
    await conn.execute(
        "update batchq.worker set worker = 'shared' where worker_id = %s", (workers[1],)
    )
    await calls.maintain(conn)
    bea = await signed_in(api, conn, "operate", "produce", queues=["mail"])
    return House(bea, jobs["mail"][0], jobs[SECRET], workers)


async def test_a_token_that_is_for_some_queues_is_shown_nothing_of_others(house: House) -> None:
    bea = house.bea
    paths = [at(path, house.mine, "mail") for path in GETS]
    for path in [*paths, "/ui/jobs?state=failed", "/ui/dead?kind=k", "/ui/throughput?range=7d"]:
        shown = await bea.get(path)
        assert shown.status == (403 if path == "/ui/audit" else 200), path
        assert SECRET not in shown.text, path
        assert "977" not in words_of(shown), path
    assert "No queue has such a name" in (await bea.page("/?q=" + SECRET)).text
    assert "mail error" in (await bea.page("/ui/dead")).text
    assert ">shared<" in (await bea.page("/ui/workers")).text
    for page in ("queues/", "jobs?queue=", "dead?queue=", "throughput?queue=",
                 "live?view=queue&queue="):  # fmt: skip
        assert (await bea.get(f"/ui/{page}{SECRET}")).status == 403, page
    for job in house.others:
        for path in (f"/ui/jobs/{job}", f"/ui/jobs/{job}/payload", f"/ui/jobs/{job}/result"):
            assert (await bea.get(path)).status == 404


async def test_a_token_that_is_for_some_queues_touches_no_others(
    house: House, conn: Connection
) -> None:
    before = await untouched(conn)
    for path in POSTS:
        for job in house.others:
            if path not in PUBLIC and path != "/ui/many":
                fields = {"priority": "5", "kind": "k"}
                shown = await house.bea.send(at(path, job, SECRET), fields)
                assert shown.status in {303, 403, 404}, (path, shown.status)
    for worker in house.workers:
        assert (await house.bea.send(f"/ui/workers/{worker}/drain")).status in {303, 403, 404}
    assert await untouched(conn) == before
    assert all(w.drain_requested_at is None for w in await calls.list_workers(conn))


@pytest.mark.parametrize("action", ["cancel", "redrive", "purge"])
async def test_a_token_that_is_for_some_queues_changes_many_of_its_own_only(
    house: House, conn: Connection, action: str
) -> None:
    before = await untouched(conn)
    other = str(house.others[0])
    tries: list[dict[str, str]] = [
        {"queue": SECRET}, {"kind": f"{SECRET} kind"}, {"every": "yes"}, {"state": "ready"},
        {"error": f"{SECRET} error"}, {"id": other}, {"queue": "mail", "id": other},
        {"created_before": "2100-01-01T00:00:00Z"}, {"kept": json.dumps({"queue": SECRET})},
        {"kept": json.dumps({"id": other})},
        {"queue": "mail", "kept": json.dumps({"queue": SECRET})},
    ]  # fmt: skip
    for fields in tries:
        for step in ("ask", "do"):
            wanted = {"back": "/ui/dead", "action": action, "step": step, **fields}
            shown = await house.bea.send("/ui/many", wanted)
            assert shown.status in {400, 403, 404}, (fields, step, shown.status)
            assert "977" not in words_of(shown)
    assert await untouched(conn) == before


@pytest.mark.parametrize("view", ["overview", "workers", "queue&queue=mail", "job&job={job}"])
async def test_a_stream_for_some_queues_tells_of_no_others(
    api: Api, conn: Connection, view: str
) -> None:
    await calls.set_queue(conn, queue="mail", max_attempts=3)
    await beat(conn, [SECRET])
    await beat(conn, ["mail"])
    job = await calls.enqueue(conn, f"{SECRET} kind", queue=SECRET)
    await calls.pause(conn, queue=SECRET, reason=f"{SECRET} reason")
    bea = await signed_in(api, conn, "monitor", queues=["mail"])
    cookie = {"Cookie": f"{SESSION}={bea.cookies[SESSION]}"}
    url = f"{api.url}/ui/live?view={view.format(job=job)}"
    async with api.session.get(url, headers=cookie) as stream:
        if stream.status != 200:
            assert stream.status == 404
            return
        await stream.content.readuntil(b"\n\n")
        told = await stream.content.readuntil(b"\n\n")
        assert told.startswith(b"data: ")
        assert SECRET.encode() not in told


async def test_several_queues_of_a_token_are_shown_one_at_a_time(
    api: Api, conn: Connection
) -> None:
    for queue in ("a", "b", SECRET):
        await dead(conn, f"{queue} error", queue=queue)
    await calls.maintain(conn)
    bea = await signed_in(api, conn, "monitor", queues=["b", "a"])
    for path in ("/ui/jobs", "/ui/dead", "/ui/throughput"):
        first = await bea.page(path)
        options = {one.get("value") for one in first.document.all("option")}
        assert {"a", "b"} <= options
        assert SECRET not in options
        await bea.page(f"{path}?queue=b")
    assert await statuses(conn) == {"failed": 3}


async def test_f090_f091_no_cookie_is_believed_or_breaks_a_page(api: Api) -> None:
    for name in (SESSION, SAID):
        for value in (b"\xff" * 30, "ü".encode() * 30, b"%ff%fe%00", b"x" * 5000, b'"<script>"' * 4,
                      b"", b"%3Cscript%3Ealert(1)%3C/script%3E", b"\\303\\277" * 9,
                      b"%1b[31m%0d%0aX: y"):  # fmt: skip
            for path in ("/", "/ui/sign-in", "/ui/nothing"):
                async with wire(api.port) as one:
                    cookie = b"Cookie: " + name.encode() + b"=" + value + b"\r\n"
                    await one.send(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n")
                    await one.send(cookie + b"Connection: close\r\n\r\n")
                    answer = await one.answer()
                wanted = 404 if path == "/ui/nothing" else 200
                assert answer.status == wanted, (name, value, path, answer.status)
                assert b"<script>alert" not in answer.text
                assert b"\x1b" not in answer.text
                assert Document(answer.text.decode()).audit() == []


async def test_f092_an_origin_that_may_use_the_api_may_not_use_pages(
    db: str, conn: Connection
) -> None:
    job = await dead(conn, queue="q")
    friend = {"Origin": "https://friend.test"}
    async with serving(db, BATCHQ_CORS_ORIGINS="https://friend.test") as api:
        ann = await signed_in(api, conn, "operate")
        page = await ann.get("/ui/jobs", headers=friend)
        assert "Access-Control-Allow-Credentials" not in page.headers
        shown = await ann.send(f"/ui/jobs/{job}/retry", {"mark": "guessed"}, headers=friend)
        assert shown.status == 403
    assert (await calls.get_job(conn, job_id=job)).status == "failed"
