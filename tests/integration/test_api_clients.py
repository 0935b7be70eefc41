"""Clients that send half a body, lie about its length, drip, never read, or are not HTTP at all."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator

import pytest

from pybatchq.api import bodies, server
from tests.conftest import Connection
from tests.support.api import Api, running, serving
from tests.support.raw import TYPE, Wire, chunk, head, wire
from tests.support.working import until

GOOD = b'{"kind":"k"}'
LIMIT = {"BATCHQ_MAX_BODY": "2KiB", "BATCHQ_MAX_BULK_BODY": "2KiB"}
CHUNKED = f"Transfer-Encoding: chunked\r\n{TYPE}"


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db, **LIMIT) as api:
        yield api


@pytest.fixture
async def one(api: Api) -> AsyncIterator[Wire]:
    """A connection to it."""
    async with wire(api.port) as one:
        yield one


async def count(conn: Connection) -> int:
    return int((await (await conn.execute("select count(*) from batchq.jobs")).fetchall())[0][0])


async def test_a_body_in_pieces_and_one_in_chunks_are_taken(one: Wire) -> None:
    await one.send(head("POST", "/jobs", len(GOOD)), GOOD[:5])
    await asyncio.sleep(0.05)
    await one.send(GOOD[5:])
    assert (await one.answer()).status == 201
    await one.send(
        head("POST", "/jobs", more=CHUNKED), chunk(GOOD[:5]), chunk(GOOD[5:]), chunk(b"")
    )
    assert (await one.answer()).status == 201


async def test_requests_in_one_packet_are_answered_in_their_order(one: Wire) -> None:
    request = head("POST", "/jobs", len(GOOD)) + GOOD
    await one.send(request + head("GET", "/nothing") + request)
    assert [(await one.answer()).status for _ in range(3)] == [201, 404, 201]


async def test_a31_a_length_over_the_limit_is_refused_before_the_body_comes(one: Wire) -> None:
    await one.send(head("POST", "/jobs", 10_000_000))
    answer = await one.answer()
    assert (answer.status, answer.code) == (413, "HTTP413")


@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk"])
async def test_a31_chunks_over_the_limit_are_refused_while_they_come(one: Wire, path: str) -> None:
    await one.send(head("POST", path, more=CHUNKED))
    sending = asyncio.ensure_future(one.send(*[chunk(b"x" * 1000)] * 10_000))
    answer = await one.answer()
    assert (answer.status, answer.code) == (413, "HTTP413")
    await one.ended()
    sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending


async def test_a_length_that_is_too_short_leaves_a_rest_that_is_no_request(
    one: Wire, conn: Connection
) -> None:
    await one.send(head("POST", "/jobs", 5) + GOOD)
    first = await one.answer()
    assert (first.status, first.code) == (400, "HTTP400")
    second = await one.answer()
    assert second.status in (0, 400)
    await one.ended()
    assert await count(conn) == 0


async def test_f087_half_a_body_stores_nothing(
    api: Api, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SILENCE_S", 0.3)
    async with wire(api.port) as silent, wire(api.port) as leaving:
        await silent.send(head("POST", "/jobs", 1000) + GOOD)
        await leaving.send(head("POST", "/jobs", 1000) + GOOD)
        leaving.abort()
        answer = await silent.answer()
        assert (answer.status, answer.code) == (408, "HTTP408")
        await silent.ended()
    assert await count(conn) == 0
    assert (await api.post("/jobs", GOOD)).status == 201


async def test_a_body_that_drips_is_given_up(one: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "FIRST_S", 0.5)
    await one.send(head("POST", "/jobs", 1000))

    async def drip() -> None:
        while True:
            await one.send(b" ")
            await asyncio.sleep(0.02)

    dripping = asyncio.ensure_future(drip())
    answer = await one.answer()
    assert (answer.status, answer.code) == (408, "HTTP408")
    dripping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await dripping


async def test_a_head_that_drips_is_given_up(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "KEEP_ALIVE_S", 0.5)
    async with serving(db) as api, wire(api.port) as one, wire(api.port) as idle:

        async def drip() -> None:
            await one.send(b"GET /health HTTP/1.1\r\n")
            while True:
                await one.send(b"X-A: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        await one.ended()
        await idle.ended()
        dripping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await dripping
        assert (await api.get("/health")).status == 200


async def test_a_client_that_never_reads_is_cut_off(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREAD_S", 0.5)
    await conn.execute(
        "select batchq.enqueue_many(jsonb_agg(jsonb_build_object("
        "'kind', repeat('k', 250), 'dedupe_key', i || repeat('d', 900))))"
        " from generate_series(1, 500) i"
    )
    async with running(db) as (_, listening), wire(listening.port) as one:

        async def is_connected() -> bool:
            return listening.connections == 1

        async def is_gone() -> bool:
            return listening.connections == 0

        one.pause()
        await one.send(head("GET", "/jobs?limit=500") * 30)
        await until(is_connected)
        await until(is_gone)


async def test_one_client_too_many_is_told_so_and_the_others_are_served(db: str) -> None:
    async with running(db) as (_, listening):
        listening.most_connections = 3
        async with wire(listening.port) as a, wire(listening.port) as b, wire(listening.port) as c:
            for one in (a, b, c):
                await one.send(head("GET", "/health"))
                assert (await one.answer()).status == 200
            async with wire(listening.port) as one_too_many:
                answer = await one_too_many.answer()
                assert (answer.status, answer.code) == (503, "HTTP503")
                await one_too_many.ended()
            await a.send(head("GET", "/health"))
            assert (await a.answer()).status == 200
            b.abort()

            async def has_room() -> bool:
                return listening.connections < 3

            await until(has_room)
            async with wire(listening.port) as next_one:
                await next_one.send(head("GET", "/health"))
                assert (await next_one.answer()).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost : b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"x" * 10_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n" + CHUNKED.encode() + b"\r\n",
        b"GET /health\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_400_of_our_shape_and_the_end(one: Wire, data: bytes) -> None:
    await one.send(data)
    answer = await one.answer()
    assert (answer.status, answer.code) == (400, "HTTP400")
    await one.ended()


async def test_chunks_that_are_none_are_a_400(one: Wire, conn: Connection) -> None:
    await one.send(head("POST", "/jobs", more=CHUNKED), b"zz\r\n" + GOOD + b"\r\n0\r\n\r\n")
    assert (await one.answer()).status == 400
    await one.ended()
    assert await count(conn) == 0


async def test_a_packed_body_is_refused_and_not_unpacked(api: Api) -> None:
    bomb = gzip.compress(b" " * 10_000_000)[:2000]
    answer = await api.post("/jobs", bomb, headers={"Content-Encoding": "gzip"})
    assert answer.error[:2] == (415, "HTTP415")


async def test_expect_continue_is_answered(one: Wire) -> None:
    await one.send(head("POST", "/jobs", len(GOOD), more="Expect: 100-continue\r\n"))
    assert (await one.answer()).status == 100
    await one.send(GOOD)
    assert (await one.answer()).status == 201


async def test_an_old_client_is_answered_and_its_connection_closed(one: Wire) -> None:
    await one.send(b"GET /jobs HTTP/1.0\r\n\r\n")
    assert (await one.answer()).status == 200
    await one.ended()
