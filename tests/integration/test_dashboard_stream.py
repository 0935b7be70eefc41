"""Event streams as they are used: tabs that stay open, leave without a word, or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import psycopg
import pytest

from pybatchq import calls
from pybatchq.api import server as servers
from pybatchq.dashboard import live as hubs
from pybatchq.dashboard import stream as streams
from pybatchq.dashboard.context import HUB
from pybatchq.dashboard.live import TROUBLE, Hub
from tests.conftest import Connection
from tests.support.api import Api, api_process, client, running, url_of
from tests.support.raw import Wire, head, wire
from tests.support.servers import Databases
from tests.support.working import until

HOST = "127.0.0.1"
LIVE = "/ui/live?view=overview"
COUNTED = """
    select calls from pg_stat_user_functions where schemaname = 'batchq' and funcname = 'live'
"""


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """That nobody is there any more is found out by the next heartbeat."""
    monkeypatch.setattr(streams, "QUIET_S", 0.3)


@contextlib.asynccontextmanager
async def serving(dsn: str, **settings: str) -> AsyncIterator[tuple[Api, Hub]]:
    async with running(dsn, **settings) as (app, server), client(url_of(server)) as api:
        yield api, app[HUB]


@contextlib.asynccontextmanager
async def tab(api: Api, path: str = LIVE) -> AsyncIterator[aiohttp.StreamReader]:
    """A stream whose first lines came."""
    async with api.session.get(api.url + path) as response:
        assert response.status == 200, await response.text()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert await response.content.readuntil(b"\n\n") == b"retry: 2000\n\n"
        yield response.content


async def told(stream: aiohttp.StreamReader, within_s: float = 15) -> dict[str, str]:
    """The next cells; heartbeats are skipped."""
    async with asyncio.timeout(within_s):
        while True:
            event = await stream.readuntil(b"\n\n")
            if event.startswith(b"data: "):
                cells: dict[str, str] = msgspec.json.decode(event[6:].strip())
                return cells


async def nobody(hub: Hub, within_s: float = 15) -> None:
    async def look() -> bool:
        return hub.watchers == 0

    await until(look, within_s)


async def test_f088_open_streams_do_not_hold_up_the_end(db: str, tmp_path: Path) -> None:
    with api_process(db, tmp_path) as process, psycopg.connect(db) as holder:
        port = await process.port()
        async with client(f"http://{HOST}:{port}") as api, contextlib.AsyncExitStack() as stack:
            tabs = [await stack.enter_async_context(tab(api)) for _ in range(20)]
            idle = await stack.enter_async_context(wire(port))
            await idle.send(head("GET", "/health"))
            await idle.answer()
            unread = await stack.enter_async_context(wire(port))
            await unread.send(head("GET", LIVE))
            unread.pause()
            holder.execute("lock table batchq.job in access exclusive mode")
            slow = asyncio.ensure_future(api.post("/jobs", {"kind": "k"}))
            await asyncio.sleep(0.3)
            begun = time.monotonic()
            process.popen.terminate()
            for one in tabs:
                await one.read()  # they end well, not by a connection that breaks
            holder.rollback()
            assert (await slow).status == 201, "what was asked is answered"
            assert await process.ended(5) == 0
            assert time.monotonic() - begun < 5
    assert "Traceback" not in process.log
    assert " ERROR " not in process.log


async def test_f089_those_who_leave_give_their_place_back(
    db: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(db) as (api, hub):

        async def reset(n: int) -> None:
            async with wire(api.port) as one:
                await one.send(head("GET", LIVE))
                if n % 2:
                    await one.reader.read(10)
                one.abort()

        for _ in range(6):
            await asyncio.gather(*[reset(n) for n in range(50)])
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                one = await stack.enter_async_context(wire(api.port))
                await one.send(head("GET", LIVE))
                await one.reader.readuntil(b"retry")
                one.pause()
            closed = [await stack.enter_async_context(tab(api)) for _ in range(100)]
            assert len(closed) == 100
            assert hub.watchers >= 200
        await nobody(hub)
        async with tab(api) as stream:
            assert set(await told(stream)) >= {"totals", "alerts", "workers", TROUBLE}
            assert hub.watchers == 1
        await nobody(hub)
    assert not [one for one in caplog.records if one.levelname == "ERROR"], caplog.text


def short_sighted(port: int) -> socket.socket:
    """A client whose machine takes little before it is read."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect((HOST, port))
    one.sendall(head("GET", LIVE))
    return one


async def test_f089_those_who_do_not_read_are_cut_off_and_cost_little(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "UNREAD_S", 0.5)
    async with serving(db) as (api, hub):
        clients = [await asyncio.to_thread(short_sighted, api.port) for _ in range(3)]

        async def watched() -> bool:
            return hub.watchers == 3

        await until(watched)
        filling = {"filler": "x" * 1_000_000}

        async def gone() -> bool:
            for n, watcher in enumerate(hub._all()):  # what many changes would do
                watcher.tell({**filling, "n": str(n)})
            return hub.watchers == 0

        await until(gone, 20)
        for one in clients:
            one.close()
        async with tab(api) as stream:
            await told(stream)


async def test_the_streams_of_one_browser_tell_of_what_happens(db: str, conn: Connection) -> None:
    await calls.set_queue(conn, queue="q<b>", max_running=1)
    async with serving(db) as (api, hub):
        job = int((await api.post("/jobs", {"kind": "k", "queue": "q<b>"})).json["id"])
        async with (
            tab(api) as overview, tab(api, "/ui/live?view=queue&queue=q%3Cb%3E") as queue,
            tab(api, f"/ui/live?view=job&job={job}") as one,
            tab(api, "/ui/live?view=workers") as crew,
        ):  # fmt: skip
            first = await told(overview)
            assert "q&lt;b&gt;" in first["queue:q<b>"]
            assert {"depth", "alerts"} <= set(await told(queue))
            before: dict[str, str] = {}
            while "version" not in before:
                before = await told(one)
            assert {"version", "gates", "progress", "lease"} <= set(before)
            assert "crew" in await told(crew)
            assert hub.watchers == 4
            (leased,) = await calls.lease(conn, queue="q<b>", worker="<i>w")
            await calls.progress(
                conn, job_id=job, lease_id=leased.lease_id, progress={"<u>": "<script>"}
            )
            async with asyncio.timeout(15):
                cells = before
                while "script" not in cells.get("progress", ""):
                    cells = {**cells, **await told(one)}
            assert cells["version"] != before["version"]
            assert "<script>" not in cells["progress"]
            assert "&lt;i&gt;w" in cells["lease"]
            async with asyncio.timeout(15):
                while "queue:q<b>" not in await told(overview):
                    pass
        await nobody(hub)


async def test_a_stream_that_is_quiet_still_says_that_it_is_there(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_S", 2.0)
    async with serving(db) as (api, hub):
        async with tab(api, "/ui/live?view=workers") as stream:
            rest = await stream.read()  # it ends by itself, so that it is asked for anew
        assert rest.count(b":\n\n") >= 3
        assert rest.count(b"data: ") == 1
        assert hub.watchers == 0


async def test_f093_fifty_tabs_cost_the_database_one_statement_a_second(
    db: str, conn: Connection
) -> None:
    name = (await (await conn.execute("select current_database()")).fetchall())[0][0]
    await conn.execute(f"alter database \"{name}\" set track_functions = 'all'".encode())
    jobs = [await calls.enqueue(conn, "k", queue=f"q{n}") for n in range(20)]
    paths = [
        *[f"/ui/live?view=queue&queue=q{n}" for n in range(20)],
        *[f"/ui/live?view=job&job={job}" for job in jobs],
        *[f"/ui/live?view=overview&q={n}" for n in range(9)], "/ui/live?view=workers",
    ]  # fmt: skip
    async with serving(db) as (api, hub), contextlib.AsyncExitStack() as stack:
        begun = time.monotonic()
        tabs = [await stack.enter_async_context(tab(api, path)) for path in paths]
        for one in tabs:
            await told(one)
        assert hub.watchers == 50
        for n in range(2):  # something changes for everybody
            await calls.enqueue(conn, "k", queue=f"q{n}")
            wanted = hub.statements + 1

            async def asked(least: int = wanted) -> bool:
                return hub.statements >= least

            await until(asked)
        took_s, asked_for = time.monotonic() - begun, hub.statements
        assert 2 <= asked_for <= took_s + 1
    # counts of sessions arrive with their end
    counted = await until(lambda: _counted(conn))
    assert 2 <= counted <= took_s + 3, "at the database, too"


async def _counted(conn: Connection) -> int:
    found = await (await conn.execute(COUNTED)).fetchall()
    return int(found[0][0]) if found and found[0][0] >= 2 else 0


async def test_f071_tabs_outlive_the_database_and_go_on(
    server: Databases, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "AFTER_TROUBLE_S", 0.2)
    with server.fresh(template) as dsn:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            await calls.enqueue(conn, "k", queue="q")
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        other = psycopg.conninfo.make_conninfo(dsn, dbname="postgres")
        async with (
            serving(dsn) as (api, hub),
            await psycopg.AsyncConnection.connect(other, autocommit=True) as admin,
            tab(api) as stream,
        ):
            await told(stream)
            await admin.execute(f'alter database "{name}" allow_connections false'.encode())
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
            )
            cells: dict[str, str] = {}
            while not cells.get(TROUBLE):
                cells = await told(stream)
            page = await api.get("/")
            assert page.status == 503
            assert page.headers["Content-Type"].startswith("text/html")
            assert "Retry-After" in page.headers
            await admin.execute(f'alter database "{name}" allow_connections true'.encode())
            while cells.get(TROUBLE, "x") or "queue:q" not in cells:
                cells = await told(stream, 30)
            assert hub.watchers == 1

            async def back() -> bool:
                return (await api.get("/")).status == 200

            await until(back)


async def test_too_many_tabs_are_refused_and_pages_still_come(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "MOST_WATCHERS", 3)
    async with serving(db) as (api, hub), contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(tab(api))
        refused = await api.get(LIVE)
        assert refused.status == 503
        assert (await api.get("/")).status == 200
        assert hub.watchers == 3
        await stack.aclose()
        await nobody(hub)
        async with tab(api) as stream:
            await told(stream)


async def test_a_stream_is_no_use_to_old_http(db: str) -> None:
    """It comes without chunks, and ends with the connection."""
    async with serving(db) as (api, hub):
        one: Wire
        async with wire(api.port) as one:
            await one.send(b"GET /ui/live?view=overview HTTP/1.0\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(10):
                text = await one.reader.readuntil(b"data: ")
            assert b"chunked" not in text.lower()
        await nobody(hub)
