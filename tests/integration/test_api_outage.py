"""The API while its database is away, silent, read-only, restarted: 503 at once, then service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import psycopg
import pytest

from pybatchq.api import gather, pool
from pybatchq.api.services import SERVICES
from pybatchq.embedded import Server, StopMode
from pybatchq.install import install_dsn
from tests.conftest import Connect, Connection
from tests.support import servers
from tests.support.api import Answer, Api, api_process, client, running, serving, url_of
from tests.support.proxy import Proxy
from tests.support.working import until

NOWHERE = "host=127.0.0.1 port=1 user=u dbname=d"
# An address that swallows packets, by RFC 5737.
BLACK_HOLE = "host=192.0.2.1 user=u dbname=d"


async def timed(asking: object) -> tuple[Answer, float]:
    started = time.monotonic()
    answer: Answer = await asking  # type: ignore[misc]
    return answer, time.monotonic() - started


async def answers_503(api: Api, method: str, path: str, body: object = None) -> float:
    """How long it took."""
    if method == "GET":
        answer, took_s = await timed(api.get(path))
    else:
        answer, took_s = await timed(api.post(path, body))
    status, code, _ = answer.error
    assert (status, code) == (503, "HTTP503"), answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    return took_s


ASKED = [
    ("POST", "/jobs", {"kind": "k"}),
    ("POST", "/jobs", {"kind": "k", "dedupe_key": "d"}),
    ("POST", "/jobs/bulk", [{"kind": "k"}]),
    ("GET", "/jobs/1", None),
    ("GET", "/jobs", None),
    ("GET", "/ready", None),
]


@pytest.mark.parametrize("dsn", [NOWHERE, BLACK_HOLE])
async def test_a38_b20_with_no_database_everything_is_503_soon_and_health_is_200(dsn: str) -> None:
    async with serving(dsn) as api:
        for method, path, body in ASKED:
            assert await answers_503(api, method, path, body) < 4
        answer, took_s = await timed(api.get("/health"))
        assert (answer.status, answer.json) == (200, {"status": "ok"})
        assert took_s < 0.5


async def test_a38_a_database_known_to_be_away_is_not_waited_for() -> None:
    async with running(NOWHERE) as (app, server), client(url_of(server)) as api:

        async def away() -> bool:
            return app[SERVICES].db.is_away

        await until(away)
        for method, path, body in ASKED:
            assert await answers_503(api, method, path, body) < 0.5
        refused = await asyncio.gather(*[api.post("/jobs", {"kind": "k"}) for _ in range(500)])
        assert {a.status for a in refused} == {503}


async def test_f045_a_database_that_is_away_is_not_knocked_at_by_every_request() -> None:
    knocks = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal knocks
        knocks += 1
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, serving(f"host=127.0.0.1 port={port} user=u dbname=d") as api:
        until_s = time.monotonic() + 3
        while time.monotonic() < until_s:
            answers = await asyncio.gather(*[api.get("/jobs") for _ in range(20)])
            assert {a.status for a in answers} == {503}
    assert 2 <= knocks <= 16  # libpq knocks twice at a time: with encryption and without


async def test_a38_a_server_that_falls_silent_is_answered_for(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "CALL_S", 1.0)
    monkeypatch.setattr(gather, "BATCH_S", 1.0)
    async with Proxy(db).running() as proxy, serving(proxy.dsn, BATCHQ_POOL_MAX="3") as api:
        await api.enqueue()
        proxy.silence()
        assert await answers_503(api, "POST", "/jobs", {"kind": "k"}) < 6

        async def serves() -> bool:
            answer, took_s = await timed(api.post("/jobs", {"kind": "k"}))
            assert took_s < 6
            return answer.status == 201

        await until(serves, 45)


async def test_f042_when_all_connections_are_busy_the_next_request_is_refused_in_time(
    db: str, connect: Connect
) -> None:
    other = await connect(autocommit=False)
    await other.execute("lock table batchq.job in access exclusive mode")
    async with serving(db, BATCHQ_POOL_MAX="2") as api:
        busy = [asyncio.ensure_future(api.get("/jobs/1")) for _ in range(10)]
        await asyncio.sleep(0.3)
        assert await answers_503(api, "GET", "/jobs/2") < 4
        assert (await api.get("/health")).status == 200
        await other.rollback()
        assert {(await task).status for task in busy} <= {404, 503}
        assert (await api.get("/jobs/1")).status == 404


async def test_f043_a_server_that_turns_read_only_is_503_until_it_takes_writes_again(
    db: str, server: servers.Databases, conn: Connection
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(db)["dbname"]
    async with serving(db) as api:
        job = await api.enqueue()
        with psycopg.connect(server.admin, autocommit=True) as admin:
            admin.execute(
                f'alter database "{name}" set default_transaction_read_only = on'.encode()
            )
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'batchq-api%%' and datname = %s",
                (name,),
            )

            async def is_unready() -> bool:
                answer = await api.get("/ready")
                return answer.status == 503 and "read-only" in answer.text

            await until(is_unready)
            assert await answers_503(api, "POST", "/jobs", {"kind": "k"}) < 4
            assert (await api.get(f"/jobs/{job}")).status == 200  # looking goes on
            admin.execute(f'alter database "{name}" reset default_transaction_read_only'.encode())

            async def serves() -> bool:
                answer = await api.post("/jobs", {"kind": "k"})
                return answer.status == 201 and (await api.get("/ready")).status == 200

            await until(serves, 45)


async def test_f044_terminated_backends_cost_a_few_503_and_nothing_else(
    db: str, conn: Connection
) -> None:
    async with serving(db) as api:
        accepted: set[int] = set()

        async def post() -> int:
            answer = await api.post("/jobs", {"kind": "k"})
            if answer.status == 201:
                accepted.add(answer.json["id"])
            return answer.status

        seen = set()
        for _ in range(10):
            posts = [asyncio.ensure_future(post()) for _ in range(50)]
            await asyncio.sleep(0.002)
            await conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'batchq-api%' and datname = current_database()"
            )
            seen |= set(await asyncio.gather(*posts))
        assert seen <= {201, 503}

        async def serves() -> bool:
            return await post() == 201

        await until(serves)
        cursor = await conn.execute("select id from batchq.jobs")
        assert accepted <= {row[0] for row in await cursor.fetchall()}


@pytest.fixture
async def own_server() -> AsyncIterator[Server]:
    """A server of the test's own, to be stopped, with batchq in its database batchq."""
    with servers.running(None, fsync="on", max_connections=50) as own:
        own.create_database("batchq")
        await install_dsn(own.dsn("batchq"))
        yield own


@pytest.mark.timeout(180)
async def test_a06_a_server_restarted_in_a_burst_is_503_then_service_and_nothing_is_lost(
    own_server: Server, tmp_path: Path
) -> None:
    dsn = own_server.dsn("batchq")
    with api_process(dsn, tmp_path) as process:
        async with client(f"http://127.0.0.1:{await process.port()}") as api:
            accepted: set[int] = set()
            refused = 0
            stop = asyncio.Event()

            async def produce() -> None:
                nonlocal refused
                while not stop.is_set():
                    answer, took_s = await timed(api.post("/jobs", {"kind": "k"}))
                    assert took_s < 15
                    if answer.status == 201:
                        accepted.add(answer.json["id"])
                    else:
                        assert answer.error[0] == 503
                        refused += 1
                        await asyncio.sleep(0.05)

            async with asyncio.TaskGroup() as producers:
                for _ in range(50):
                    producers.create_task(produce())
                modes: tuple[StopMode | None, ...] = (None, "fast", "immediate")
                for mode in modes:
                    if mode is not None:
                        await asyncio.to_thread(own_server.restart, mode)
                    before = len(accepted)

                    async def goes_on(than: int = before) -> bool:
                        return len(accepted) > than + 500

                    await until(goes_on, 40)
                stop.set()
            assert refused
            assert (await api.get("/ready")).status == 200
    with psycopg.connect(dsn) as conn:
        stored = {row[0] for row in conn.execute("select id from batchq.jobs").fetchall()}
    assert accepted <= stored


@pytest.mark.timeout(180)
async def test_a03_killing_the_api_in_a_burst_loses_nothing_that_was_acknowledged(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    accepted: set[int] = set()
    for _ in range(3):
        with api_process(db, tmp_path) as process:
            async with client(f"http://127.0.0.1:{await process.port()}") as api:

                async def produce(api: Api = api) -> None:
                    try:
                        while True:
                            answer = await api.post("/jobs", {"kind": "k"})
                            assert answer.status == 201
                            accepted.add(answer.json["id"])
                    except aiohttp.ClientError:
                        return

                producers = [asyncio.ensure_future(produce()) for _ in range(50)]
                before = len(accepted)

                async def goes_on(than: int = before) -> bool:
                    return len(accepted) > than + 300

                await until(goes_on)
                process.popen.kill()
                await asyncio.gather(*producers)
    cursor = await conn.execute("select id from batchq.jobs")
    assert accepted <= {row[0] for row in await cursor.fetchall()}
    assert len(accepted) > 900


async def test_f073_a_database_without_batchq_is_503_that_says_so(empty_db: str) -> None:
    async with serving(empty_db) as api:
        answer = await api.post("/jobs", {"kind": "k"})
        assert answer.error[:2] == (503, "JQ009")
        assert "batchq install" in (answer.json["hint"] or "")
        ready = await api.get("/ready")
        assert (ready.status, "batchq install" in ready.text) == (503, True)
        await install_dsn(empty_db)
        assert (await api.get("/ready")).status == 200
        assert (await api.post("/jobs", {"kind": "k"})).status == 201


async def test_a_user_without_rights_is_told_so(db: str, conn: Connection) -> None:
    await conn.execute("create role nobody_here login")
    try:
        async with serving(psycopg.conninfo.make_conninfo(db, user="nobody_here")) as api:
            answer = await api.post("/jobs", {"kind": "k"})
            assert answer.error[0] in (500, 503)
            assert (await api.get("/ready")).status == 503
    finally:
        await conn.execute("drop role nobody_here")
