"""http_get in a real worker against real servers: outcomes, and where it may not go."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import gc
import hashlib
import ipaddress
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from pybatchq import builtin, calls
from pybatchq.addresses import Address, Rules, parse_rules
from pybatchq.builtin.http_get import BACKOFF_CAP_S, MAX_BODY, Client, look_up
from pybatchq.handlers import Registry
from pybatchq.types import JobRecord
from tests.conftest import Connection
from tests.support.web import Site, certificate, serving, speaking
from tests.support.working import until, working

SECRET = "s3cr3t"
WAIT = dt.timedelta(minutes=50)
LOOPBACK = [ipaddress.ip_address("127.0.0.1")]


def registry(*sites: Site, **options: Any) -> Registry:
    """http_get that may go to these servers."""
    made = Registry()
    allow = tuple(rule for site in sites for rule in parse_rules(site.here))
    client = Client(Rules(allow, options.pop("deny", ())), **options)
    made.handler("http_get")(client.http_get)
    return made


async def tried(
    db: str, conn: Connection, kinds: Registry, *urls: str, timeout_ms: int = 20_000
) -> list[JobRecord]:
    """The jobs for these URLs after their first attempt. There is no second."""
    ids = [
        await calls.enqueue(
            conn, "http_get", {"url": url, "timeout_ms": timeout_ms}, backoff="fixed",
            backoff_base=WAIT,
        )
        for url in urls
    ]  # fmt: skip

    async def look() -> list[JobRecord] | None:
        jobs = [await calls.get_job(conn, job_id=job_id) for job_id in ids]
        over = all(job.attempts and job.status != "running" for job in jobs)
        return jobs if over else None

    async with working(db, kinds, concurrency=50):
        jobs: list[JobRecord] = await until(look, within_s=40)
    assert {job.attempts for job in jobs} == {1}
    return jobs


def result(job: JobRecord) -> dict[str, Any]:
    assert job.status == "completed", job.last_error
    assert job.result is not None
    return dict(msgspec.json.decode(job.result))


def failed(job: JobRecord, *, status: str) -> str:
    """The error of a job that is not to be tried again (failed), or later (pending)."""
    assert job.last_error is not None
    assert job.status == status, job.last_error
    return job.last_error


async def by_path(request: web.BaseRequest) -> web.StreamResponse:
    """`/404` answers 404; so does `/404?to=…` with a Location, and others with a body."""
    headers = {"Set-Cookie": f"session={SECRET}"}
    if "to" in request.query:
        headers["Location"] = request.query["to"]
    if "after" in request.query:
        headers["Retry-After"] = request.query["after"]
    status = int(request.path.strip("/") or 200)
    return web.Response(status=status, text=f"{SECRET} in the body", headers=headers)


async def slow(request: web.BaseRequest) -> web.StreamResponse:
    """`/head` takes too long for its head, `/body` for its body, `/hops` redirects for ever."""
    if request.path == "/head":
        await asyncio.sleep(3600)
    if request.path == "/hops":
        await asyncio.sleep(0.2)
        return web.Response(status=302, headers={"Location": "/hops"})
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"drip")
        await asyncio.sleep(0.05)


async def large(request: web.BaseRequest) -> web.StreamResponse:
    """`/n` is a body of n bytes; `/endless` has no end."""
    response = web.StreamResponse()
    await response.prepare(request)
    left = 10**12 if request.path == "/endless" else int(request.path.strip("/"))
    while left:
        await response.write(b"x" * min(left, 65_536))
        left -= min(left, 65_536)
    return response


@contextlib.contextmanager
def deaf() -> Iterator[Site]:
    """A port whose queue of connections is full: the kernel lets nobody in."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        site = Site()
        site.port = listening.getsockname()[1]
        for _ in range(5):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield site


def tls(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's side, with a certificate signed by nobody else, and a client's that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the command openssl")
    pem = certificate(folder)
    mine = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    mine.load_cert_chain(pem)
    return mine, ssl.create_default_context(cafile=str(pem))


async def test_a33_a_good_answer_completes_and_its_body_is_not_kept(
    db: str, conn: Connection
) -> None:
    async with serving(by_path) as site:
        url = site.url("/200?page=1#part")
        (job,) = await tried(db, conn, registry(site), url)
        (bare,) = await tried(db, conn, registry(site), site.url("/204"))
    body = f"{SECRET} in the body".encode()
    found = result(job)
    assert 0 <= found.pop("elapsed_ms") < 20_000
    assert found == {
        "status": 200,
        "url": site.url("/200?page=1"),
        "content_type": "text/plain",
        "bytes": len(body),
        "truncated": False,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    assert (result(bare)["status"], result(bare)["bytes"]) == (204, 0)
    assert SECRET.encode() not in (job.result or b"")
    headers = site.requests[0].headers
    assert headers["User-Agent"].startswith("batchq/")
    assert site.requests[0].method == "GET"


async def test_a33_408_429_and_5xx_are_tried_again_and_every_other_4xx_and_3xx_is_final(
    db: str, conn: Connection
) -> None:
    again = [408, 429, 500, 501, 502, 503, 504, 599]
    final = [400, 401, 403, 404, 405, 410, 418, 451, 499, 300, 304, 305, 306, 399]
    async with serving(by_path) as site:
        urls = [site.url(f"/{status}") for status in again + final]
        jobs = await tried(db, conn, registry(site), *urls)
        for job, status in zip(jobs, again + final, strict=True):
            text = failed(job, status="pending" if status in again else "failed")
            assert f"{site.here}: answered {status}" in text
            assert job.run_at - job.updated_at == (
                WAIT if status in again else dt.timedelta(0)
            ) or (status in final)


async def test_a33_retry_after_is_the_least_wait_and_an_hour_the_most(
    db: str, conn: Connection
) -> None:
    soon = format_datetime(dt.datetime.now(dt.UTC) + dt.timedelta(minutes=20), usegmt=True)
    past = format_datetime(dt.datetime.now(dt.UTC) - dt.timedelta(minutes=20), usegmt=True)
    async with serving(by_path) as site:
        asked = ["120", soon, "999999999999", past, "0", "soon", "-5"]
        kinds = registry(site)
        urls = [site.url(f"/503?after={after}") for after in asked]
        jobs = await tried(db, conn, kinds, *urls)
    texts = [failed(job, status="pending") for job in jobs]
    assert set(texts) == {f"{site.here}: answered 503"}
    waits = [(job.run_at - job.updated_at).total_seconds() for job in jobs]
    assert waits[0] == 120
    assert 1100 < waits[1] <= 1200
    assert waits[2] == BACKOFF_CAP_S
    assert waits[3:] == [WAIT.total_seconds()] * 4  # no wait: the job's own backoff


async def test_a33_five_redirects_are_followed_and_a_sixth_is_not(
    db: str, conn: Connection
) -> None:
    async def count_down(request: web.BaseRequest) -> web.StreamResponse:
        left = int(request.path.strip("/"))
        if left == 0:
            return web.Response(text="there")
        status = [301, 302, 303, 307, 308][left % 5]
        target = f"/{left - 1}" if left % 2 else site.url(f"/{left - 1}")
        return web.Response(status=status, headers={"Location": target})

    async with serving(count_down) as site:
        good, bad = await tried(db, conn, registry(site), site.url("/5"), site.url("/6"))
    assert (result(good)["status"], result(good)["url"]) == (200, site.url("/0"))
    assert failed(bad, status="failed") == f"{site.here}: more than 5 redirects"
    assert len(site.requests) == 6 + 6


async def test_a33_a_redirect_that_leads_nowhere_is_final(db: str, conn: Connection) -> None:
    targets = {
        "/302": "answered 302 without a target",
        "/307?to=": "answered 307 without a target",
        "/301?to=http://[": "redirects: the URL cannot be read",
        "/301?to=ftp://h/": "redirects: not allowed: only http and https",
        "/301?to=file:///etc/passwd": "redirects: not allowed: only http and https",
    }
    async with serving(by_path) as site:
        jobs = await tried(db, conn, registry(site), *map(site.url, targets))
    for job, text in zip(jobs, targets.values(), strict=True):
        assert failed(job, status="failed").startswith(f"{site.here}: {text}"), job.last_error


async def test_a33_a_redirect_is_judged_anew_and_sends_nothing_where_it_may_not_go(
    db: str, conn: Connection
) -> None:
    async with serving(by_path) as inside, serving(by_path) as site:
        targets = [
            inside.url(), inside.url(host="localhost"), inside.url(host="[::1]"),
            inside.url(host="2130706433"), inside.url(host="[::ffff:127.0.0.1]"),
            f"//{inside.here}/", "http://169.254.169.254/latest/meta-data/",
        ]  # fmt: skip
        kinds = registry(site)
        urls = [site.url(f"/302?to={target}") for target in targets]
        jobs = await tried(db, conn, kinds, *urls)
        assert (inside.connections, inside.requests) == (0, [])
    for job in jobs:
        assert "not allowed: a l" in failed(job, status="failed")  # loopback, link-local


async def test_a33_what_is_not_public_is_refused_in_every_spelling_before_a_byte_is_sent(
    db: str, conn: Connection
) -> None:
    hosts = [
        "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001",
        "0x7f.0.0.1", "0177.0.0.1", "0177.0x0.1", "127.000.000.001", "localhost", "LOCALHOST.",
        "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "0", "0.0.0.0", "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::1%1]", "[::1%25lo]", "[fe80::1%25lo]",
        "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "user@127.0.0.1", "1.1.1.1@127.0.0.1",
        "169.254.169.254", "10.0.0.1", "100.64.0.1", "192.168.0.1", "[fd00:ec2::254]",
        "[fe80::1]", "224.0.0.1", "255.255.255.255", "127.0.0.1%2f", "127.0.0.%31",
    ]  # fmt: skip
    async with serving(by_path) as site:
        jobs = await tried(db, conn, registry(), *(site.url(host=host) for host in hosts))
        assert (site.connections, site.requests) == (0, [])
        for job, host in zip(jobs, hosts, strict=True):
            assert "not allowed" in failed(job, status="failed"), host
        # the same names and spellings get there once they may
        (job, other) = await tried(
            db, conn, registry(site), site.url(host="2130706433"), site.url(host="0x7f.1")
        )
        assert result(job)["url"] == result(other)["url"] == site.url()


async def test_a33_a_public_name_that_has_an_inner_address_is_refused(
    db: str, conn: Connection
) -> None:
    addresses = {
        "public.example": ["127.0.0.1"],
        "mixed.example": ["93.184.216.34", "::1"],
        "metadata.example": ["169.254.169.254"],
        "mapped.example": ["::ffff:10.0.0.1"],
    }

    async def resolve(name: str, port: int) -> list[Address]:
        return [ipaddress.ip_address(text) for text in addresses[name]]

    async with serving(by_path) as site:
        urls = [site.url(host=name) for name in addresses]
        jobs = await tried(db, conn, registry(look_up=resolve), *urls)
        assert site.connections == 0
    for job, name in zip(jobs, addresses, strict=True):
        text = failed(job, status="failed")
        assert text.startswith(f"{name}:{site.port}: not allowed: a ")
        assert "127.0" not in text  # what a name stands for inside is not told


async def test_a33_the_connection_goes_to_the_address_that_was_judged(
    db: str, conn: Connection
) -> None:
    """Every name here is looked up once a request, and no resolver but ours knows it."""
    asked: list[str] = []

    async def resolve(name: str, port: int) -> list[Address]:
        asked.append(name)
        return list(LOOPBACK) if len(asked) < 3 else [ipaddress.ip_address("10.0.0.1")]

    async with serving(by_path) as site:
        url = site.url("/302?to=/200", host="rebinding.invalid")
        (job,) = await tried(db, conn, registry(site, look_up=resolve), url)
        assert result(job)["status"] == 200
        assert asked == ["rebinding.invalid"] * 2  # once for the first request, once the redirect
        (job,) = await tried(db, conn, registry(site, look_up=resolve), url)
        assert "not allowed: a private address" in failed(job, status="failed")
    assert {request.host for request in site.requests} == {f"rebinding.invalid:{site.port}"}
    assert len(site.requests) == site.connections == 2


async def test_a33_rules_open_and_close_and_deny_wins(db: str, conn: Connection) -> None:
    async with serving(by_path) as site, serving(by_path) as other:
        kinds = Registry()
        builtin.register(
            kinds,
            allow=parse_rules("localhost,127.0.0.0/8"),
            deny=parse_rules(f"127.0.0.1:{other.port}"),
        )
        good = [site.url(), site.url(host="localhost")]
        bad = [other.url(), other.url(host="localhost"), site.url(f"/302?to={other.url()}")]
        jobs = await tried(db, conn, kinds, *good, *bad)
        assert other.connections == 0
    assert [result(job)["url"] for job in jobs[:2]] == good
    for job in jobs[2:]:
        assert "not allowed: denied by BATCHQ_HTTP_GET_DENY" in failed(job, status="failed")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("ftp://127.0.0.1/", "not allowed: only http and https"),
        ("file:///etc/passwd", "not allowed: only http and https"),
        ("gopher://localhost/", "not allowed: only http and https"),
        ("javascript:alert(1)", "not allowed: only http and https"),
        ("localhost/", "not allowed: only http and https"),
        ("//localhost/", "not allowed: only http and https"),
        ("http:///path", "the URL names no host"),
        ("http://h:99999/", "the URL cannot be read"),
        ("http://[::1", "the URL cannot be read"),
        ("http://a b/", "not allowed: the URL's host is no name"),
        ("http://h\r\nX-Other: 1/", "the URL cannot be read"),
    ],
)
async def test_a33_only_http_and_https_and_only_urls(
    db: str, conn: Connection, url: str, text: str
) -> None:
    (job,) = await tried(db, conn, registry(), url)
    assert failed(job, status="failed").startswith(text)


async def test_a33_proxies_of_the_environment_are_ignored(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"default login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(netrc))
    async with serving(by_path) as proxy, serving(by_path) as site:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url())
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        (job,) = await tried(db, conn, registry(site), site.url())
        assert (result(job)["status"], proxy.connections) == (200, 0)
    assert "Authorization" not in site.requests[0].headers


async def test_a33_credentials_go_to_their_own_server_only_and_are_never_stored(
    db: str, conn: Connection
) -> None:
    async with serving(by_path) as other, serving(by_path) as site:
        me = f"me:{SECRET}@127.0.0.1"
        urls = [
            site.url("/200", host=me),
            site.url("/302?to=/200", host=me),
            site.url(f"/302?to={other.url()}", host=me),
            site.url(f"/302?to=http://you:{SECRET}@{other.here}/", host=me),
            site.url("/404", host=me),
        ]
        jobs = await tried(db, conn, registry(site, other), *urls)
    wanted = [site.url("/200"), site.url("/200"), other.url(), other.url()]
    assert [result(job)["url"] for job in jobs[:4]] == wanted
    assert f"{site.here}: answered 404" in failed(jobs[4], status="failed")
    assert SECRET not in (jobs[4].last_error or "")
    basic = "Basic bWU6czNjcjN0"
    assert [r.headers.get("Authorization") for r in site.requests] == [basic] * 6
    assert [r.headers.get("Authorization") for r in other.requests] == [None, None]
    assert not any("Cookie" in r.headers for r in [*site.requests, *other.requests])


async def test_a33_errors_name_the_host_and_neither_query_nor_credentials_nor_body(
    db: str, conn: Connection
) -> None:
    async def resolve(name: str, port: int) -> list[Address]:
        return [] if name == "empty.invalid" else await look_up(name, port)

    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + SECRET.encode()
    garbage = f"{SECRET} {SECRET}\r\n\r\n".encode()
    header = f"HTTP/1.1 200 OK\r\nX {SECRET}: \0{SECRET}\r\n\r\n".encode()
    long = f"HTTP/1.1 200 OK\r\nX: {SECRET * 9000}\r\n\r\n".encode()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        closed = listening.getsockname()[1]
    async with (
        serving(by_path) as site, serving(slow) as late, speaking(cut) as short,
        speaking(garbage) as noise, speaking(header) as odd, speaking(long) as wide,
        speaking(b"") as mute,
    ):  # fmt: skip
        kinds = registry(site, late, short, noise, odd, wide, mute, look_up=resolve)
        gone = Site()
        gone.port = closed
        tail = f"?token={SECRET}#{SECRET}"
        wanted = [
            (site.url(f"/404{tail}"), "failed", "answered 404"),
            (site.url(f"/500{tail}"), "pending", "answered 500"),
            (site.url(f"/302{tail}"), "failed", "without a target"),
            (site.url(f"/302?to=//{SECRET}:99999/"), "failed", "redirects: the URL cannot be read"),
            (site.url(f"/302?to=http://10.0.0.1/{SECRET}"), "failed", "not allowed: a private"),
            (late.url(f"/head{tail}"), "pending", "timeout after 2000 ms"),
            (short.url(f"/{tail}"), "pending", "connection closed in the middle of the answer"),
            (noise.url(f"/{tail}"), "pending", "the answer is not HTTP"),
            (odd.url(f"/{tail}"), "pending", "the answer is not HTTP"),
            (wide.url(f"/{tail}"), "pending", "the answer is not HTTP"),
            (mute.url(f"/{tail}"), "pending", "connection closed without an answer"),
            (gone.url(f"/{tail}", host="localhost"), "failed", "not allowed: a loopback address"),
            (site.url(f"/{tail}", host="empty.invalid"), "pending", "no addresses"),
            (site.url(f"/{tail}", scheme="https"), "pending", "TLS error: "),
        ]
        urls = [url.replace("://", f"://me:{SECRET}@") for url, _, _ in wanted]
        jobs = await tried(db, conn, kinds, *urls, timeout_ms=2000)
        (refused,) = await tried(db, conn, registry(gone), gone.url(f"/{tail}"))
    wanted.append((gone.url(), "pending", "connection failed: Connection refused"))
    for job, (url, status, text) in zip([*jobs, refused], wanted, strict=True):
        error = failed(job, status=status)
        host = "10.0.0.1" if "a private" in text else url.split("/")[2]
        assert error.startswith(f"{host}: ")
        assert text in error
        assert len(error.splitlines()) == 1
        assert SECRET not in job.errors.decode()


async def test_a33_a_failed_lookup_is_tried_again(db: str, conn: Connection) -> None:
    (job,) = await tried(db, conn, registry(), f"http://no-such-host.invalid/?{SECRET}")
    text = failed(job, status="pending")
    assert text.startswith("no-such-host.invalid: name lookup failed: ")
    assert SECRET not in text


@pytest.mark.parametrize("where", ["head", "body", "hops", "lookup", "connect"])
async def test_a33_the_timeout_covers_all_of_it(db: str, conn: Connection, where: str) -> None:
    async def resolve(name: str, port: int) -> list[Address]:
        await asyncio.sleep(3600)
        return []

    async with serving(slow) as site:
        with deaf() as silent:
            kinds = registry(site, silent, look_up=resolve)
            url = {"lookup": site.url(host="name.example"), "connect": silent.url()}
            started = time.monotonic()
            (job,) = await tried(
                db, conn, kinds, url.get(where, site.url(f"/{where}")), timeout_ms=700
            )
            took = time.monotonic() - started
    assert failed(job, status="pending").endswith(": timeout after 700 ms")
    assert 0.7 <= took < 0.7 + 3  # a worker's start and slack are in it


async def test_a33_at_most_ten_mebibytes_are_read(db: str, conn: Connection) -> None:
    sizes = ["/0", f"/{MAX_BODY - 1}", f"/{MAX_BODY}", f"/{MAX_BODY + 1}", "/endless"]
    async with serving(large) as site:
        jobs = await tried(db, conn, registry(site), *map(site.url, sizes), timeout_ms=60_000)
    found = [result(job) for job in jobs]
    assert [(one["bytes"], one["truncated"]) for one in found] == [
        (0, False), (MAX_BODY - 1, False), (MAX_BODY, False), (MAX_BODY, True), (MAX_BODY, True),
    ]  # fmt: skip
    for one in found:
        assert one["sha256"] == hashlib.sha256(b"x" * one["bytes"]).hexdigest()
        assert one["status"] == 200


async def test_a33_a_packed_body_is_not_unpacked(db: str, conn: Connection) -> None:
    packed = b"\x1f\x8b whatever this is"

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    async with serving(answer) as site:
        (job,) = await tried(db, conn, registry(site), site.url())
    assert result(job)["sha256"] == hashlib.sha256(packed).hexdigest()
    assert result(job)["content_type"] == "application/octet-stream"


async def test_a33_an_answer_without_a_type_has_none(db: str, conn: Connection) -> None:
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
    odd = b"HTTP/1.1 200 OK\r\nContent-Type: t\xff/\xe4\r\nContent-Length: 2\r\n\r\nhi"
    async with speaking(plain) as site, speaking(odd) as other:
        jobs = await tried(db, conn, registry(site, other), site.url(), other.url())
    assert result(jobs[0])["content_type"] is None
    assert result(jobs[1])["bytes"] == 2


async def test_a33_https_with_a_certificate_that_nobody_vouches_for_is_no_connection(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    mine, trusting = tls(tmp_path)
    async with serving(by_path, mine) as site, serving(large, mine) as endless:
        url = site.url(f"/200?{SECRET}", scheme="https")
        (job,) = await tried(db, conn, registry(site), url)
        text = failed(job, status="pending")
        assert f"{site.here}: TLS error: self-signed certificate" in text.replace(
            "self signed", "self-signed"
        )
        assert SECRET not in text
        assert site.requests == []
        kinds = registry(site, endless, tls=trusting)
        more = endless.url("/endless", scheme="https")
        jobs = await tried(db, conn, kinds, url, more)
        assert [result(job)["status"] for job in jobs] == [200, 200]
        # the name counts: the certificate is for localhost and 127.0.0.1
        wrong = Registry()

        async def resolve(name: str, port: int) -> list[Address]:
            return list(LOOPBACK)

        client = Client(Rules(parse_rules(site.here)), look_up=resolve, tls=trusting)
        wrong.handler("http_get")(client.http_get)
        (job,) = await tried(db, conn, wrong, site.url(host="other.example", scheme="https"))
        assert "other.example" in failed(job, status="pending")
        assert "TLS error: Hostname mismatch" in (job.last_error or "")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a33_a_worker_that_stops_leaves_no_session_behind(
    db: str, conn: Connection, tmp_path: Path, scheme: str
) -> None:
    mine, trusting = tls(tmp_path) if scheme == "https" else (None, None)
    async with serving(slow, mine) as site:
        for path in ("/head", "/body"):
            url = site.url(path, scheme=scheme)
            await calls.enqueue(conn, "http_get", {"url": url, "timeout_ms": 60_000})

        async def came() -> bool:
            return len(site.requests) == 2

        async with working(db, registry(site, tls=trusting)):
            await until(came)
            await asyncio.sleep(0.1)  # into the body
    gc.collect()  # an unclosed session or socket would warn, and warnings are errors
