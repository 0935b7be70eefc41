"""Leases that wait, over HTTP: answered when a job comes, whatever becomes of the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

import psycopg
import pytest
from aiohttp import web
from psycopg import sql

from pybatchq import calls
from pybatchq.api.waiting import WAITING
from tests.conftest import Connection
from tests.support.api import Answer, Api, running, serving, url_of
from tests.support.api import client as client_of
from tests.support.working import Calls, until

# Long enough that only a doorbell, or the due time, is in time.
NO_POLL = {"BATCHQ_POLL": "3600s"}
PARKED = """
select count(*) from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and a.datname = current_database()
  and a.application_name like 'batchq-api listen%'
"""


async def waiting(api: Api, **body: Any) -> Answer:
    return await api.post("/work/lease", {"wait": 30, **body})


def begin(request: Awaitable[Answer]) -> asyncio.Task[Answer]:
    return asyncio.ensure_future(request)


async def one_job(request: Awaitable[Answer], within_s: float = 15) -> dict[str, Any]:
    async with asyncio.timeout(within_s):
        answer = await request
    assert answer.status == 200, answer.text
    (job,) = answer.json["jobs"]
    found: dict[str, Any] = job
    return found


async def parked(conn: Connection) -> int:
    """How many queues somebody at the API is parked for."""
    return int((await (await conn.execute(PARKED)).fetchall())[0][0])


async def until_parked(conn: Connection, count: int = 1) -> None:
    async def look() -> bool:
        return await parked(conn) == count

    await until(look)


async def until_waiting(app: web.Application, count: int) -> None:
    async def look() -> bool:
        return app[WAITING].held == count

    await until(look)


async def test_it_is_rung_for(db: str, conn: Connection) -> None:
    async with serving(db, **NO_POLL) as api:
        request = begin(waiting(api))
        await until_parked(conn)
        job = await calls.enqueue(conn, "k")  # by SQL: the API does not hear of it otherwise
        assert (await one_job(request))["job_id"] == job


async def test_it_is_rung_for_more_than_once(db: str, conn: Connection) -> None:
    async with serving(db, **NO_POLL) as api:
        for _ in range(5):
            request = begin(waiting(api))
            await until_parked(conn)
            job = await calls.enqueue(conn, "k")
            assert (await one_job(request))["job_id"] == job


async def test_a_job_that_is_being_added_while_it_parks_is_not_missed(
    db: str, conn: Connection, connect: Any
) -> None:
    producer = await connect(autocommit=False)
    job = await calls.enqueue(producer, "k")
    async with serving(db, **NO_POLL) as api:
        request = begin(waiting(api))
        await until_parked(conn)
        await producer.commit()
        assert (await one_job(request))["job_id"] == job


async def test_a_scheduled_job_is_given_out_when_it_is_due(db: str, conn: Connection) -> None:
    # nor is it the upkeep that makes it ready and rings
    async with serving(db, BATCHQ_REAP_EVERY="3600s", **NO_POLL) as api:
        await api.enqueue(delay=1.5)
        started = time.monotonic()
        answer = await waiting(api)
        assert len(answer.json["jobs"]) == 1
        assert 1 < time.monotonic() - started < 15


async def test_without_a_doorbell_it_polls(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_DOORBELL="off", BATCHQ_POLL="0.05s") as api:
        request = begin(waiting(api))
        await asyncio.sleep(0)
        job = await calls.enqueue(conn, "k")
        assert (await one_job(request))["job_id"] == job
        assert await parked(conn) == 0


async def test_when_the_time_is_over_it_is_answered_with_nothing(db: str) -> None:
    async with serving(db, **NO_POLL) as api:
        started = time.monotonic()
        answer = await waiting(api, wait=0.3)
        assert (answer.status, answer.json) == (200, {"jobs": [], "next_due": None})
        assert 0.25 < time.monotonic() - started < 10


async def test_a_queue_nobody_waited_for_yet_is_heard_as_well(db: str, conn: Connection) -> None:
    async with serving(db, **NO_POLL) as api:
        first = begin(waiting(api, queues=["a"]))
        await until_parked(conn)
        second = begin(waiting(api, queues=["b", "c"]))
        await until_parked(conn, 3)
        third = begin(waiting(api, queues=["c"]))
        job_c = await calls.enqueue(conn, "k", queue="c")
        jobs = await asyncio.wait((second, third), return_when=asyncio.FIRST_COMPLETED)
        assert (await one_job(jobs[0].pop()))["job_id"] == job_c
        job_a = await calls.enqueue(conn, "k", queue="a")
        assert (await one_job(first))["job_id"] == job_a
        job_c = await calls.enqueue(conn, "k", queue="c")
        assert (await one_job(jobs[1].pop()))["job_id"] == job_c


async def test_with_more_queues_than_can_be_parked_for_it_polls(db: str, conn: Connection) -> None:
    async with (
        running(db, BATCHQ_POLL="0.1s") as (app, server),
        client_of(url_of(server)) as api,
    ):
        requests = [begin(waiting(api, queues=["q0"]))]
        await until_parked(conn)
        requests += [begin(waiting(api, queues=[f"q{n}"])) for n in range(1, 120)]
        await until_waiting(app, 120)
        await until_parked(conn, 0)
        jobs = [await calls.enqueue(conn, "k", queue=f"q{n}") for n in range(120)]
        assert [(await one_job(request))["job_id"] for request in requests] == jobs


async def test_those_who_wait_are_served_in_their_order(db: str, conn: Connection) -> None:
    async with running(db, **NO_POLL) as (app, server), client_of(url_of(server)) as api:
        requests = []
        for number in range(1, 6):
            requests.append(begin(waiting(api)))
            await until_waiting(app, number)
        jobs = [await calls.enqueue(conn, "k") for _ in range(5)]
        assert [(await one_job(request))["job_id"] for request in requests] == jobs


async def test_waiting_holds_no_connection_of_the_pool(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_POOL_MAX="1", **NO_POLL) as api:
        requests = [begin(waiting(api)) for _ in range(200)]
        await until_parked(conn)
        started = time.monotonic()
        for _ in range(20):
            assert (await api.get("/jobs")).status == 200
        assert time.monotonic() - started < 10
        jobs = [
            job["id"] for job in (await api.post("/jobs/bulk", [{"kind": "k"}] * 200)).json["jobs"]
        ]
        got = [(await one_job(request))["job_id"] for request in requests]
        assert sorted(got) == sorted(jobs)


async def test_one_job_costs_the_same_however_many_wait(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(db, **NO_POLL) as (app, server), client_of(url_of(server)) as api:
        requests = [begin(waiting(api)) for _ in range(100)]
        await until_waiting(app, 100)
        await until_parked(conn)
        seen = Calls(monkeypatch)
        started = time.monotonic()
        await calls.enqueue(conn, "k")
        done, rest = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        await until_parked(conn)  # awake for that one job, and parked again
        assert seen.since(started)["settle_and_lease"] <= 10
        for request in rest:
            request.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


async def test_producers_need_not_ring_when_nobody_waits(db: str, conn: Connection) -> None:
    async with serving(db, **NO_POLL) as api:
        request = begin(waiting(api, wait=0.5))
        await until_parked(conn)
        await request
        await until_parked(conn, 0)


async def test_a_client_that_left_is_given_no_job(db: str, conn: Connection) -> None:
    async with running(db, **NO_POLL) as (_, server):
        async with client_of(url_of(server)) as leaving:
            request = begin(waiting(leaving, lease_for=3600))
            await until_parked(conn)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        async with client_of(url_of(server)) as api:
            job = await calls.enqueue(conn, "k")
            found = await one_job(waiting(api))
            assert (found["job_id"], found["attempt"]) == (job, 1)
        started = time.monotonic()
        await server.close()  # nor does its request go on
        assert time.monotonic() - started < 3


@pytest.mark.parametrize("waits", [True, False])
async def test_f087_what_was_leased_for_a_client_that_left_goes_to_others(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """It leaves while the database leases, for an hour; the attempt does not count."""
    async with running(db, **NO_POLL) as (_, server), client_of(url_of(server)) as leaving:
        if not waits:
            await calls.enqueue(conn, "k")
        seen, gone = Calls(monkeypatch), asyncio.Event()

        async def leave(rows: list[tuple[Any, ...]]) -> None:
            if rows[0][0] == "leased" and not gone.is_set():
                request.cancel()

                async def noticed() -> bool:
                    assert server._runner.server is not None
                    return all(one.transport is None for one in server._runner.server.connections)

                await until(noticed)
                gone.set()

        seen.after["settle_and_lease"] = leave
        request = begin(waiting(leaving, lease_for=3600, wait=30 if waits else 0))
        if waits:
            await until_parked(conn)
            await calls.enqueue(conn, "k")
        await gone.wait()
        async with client_of(url_of(server)) as api:
            assert (await one_job(waiting(api)))["attempt"] == 1


async def test_f088_whoever_waits_is_answered_when_the_server_stops(
    db: str, conn: Connection
) -> None:
    async with running(db, **NO_POLL) as (_, server), client_of(url_of(server)) as api:
        requests = [begin(waiting(api, queues=[f"q{n % 3}"])) for n in range(30)]
        await until_parked(conn, 3)
        started = time.monotonic()
        await server.close()
        assert time.monotonic() - started < 4
        for request in requests:
            answer = await request
            assert (answer.status, answer.json["jobs"]) == (200, [])


async def test_a_doorbell_that_is_cut_off_is_replaced(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_POLL="0.2s") as api:
        request = begin(waiting(api))
        await until_parked(conn)
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'batchq-api listen%'"
        )
        await until_parked(conn)
        job = await calls.enqueue(conn, "k")
        assert (await one_job(request))["job_id"] == job


async def test_who_waits_while_the_database_goes_away_is_told_503(
    db: str, conn: Connection
) -> None:
    async def allow(yes: bool) -> None:
        async with await psycopg.AsyncConnection.connect(
            db, dbname="postgres", autocommit=True
        ) as other:
            name = sql.Identifier(conn.info.dbname)
            setting = sql.SQL("true" if yes else "false")
            await other.execute(
                sql.SQL("alter database {} allow_connections {}").format(name, setting)
            )

    async with serving(db, BATCHQ_POLL="0.1s") as api:
        request = begin(waiting(api))
        await until_parked(conn)
        await allow(False)
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name like 'batchq-api%'"
        )
        async with asyncio.timeout(20):
            answer = await request
        assert answer.error[:2] == (503, "HTTP503")
        assert int(answer.headers["Retry-After"]) > 0
        await allow(True)
        job = await calls.enqueue(conn, "k")

        async def back() -> bool:
            return (await api.get("/jobs")).status == 200

        await until(back)
        assert (await one_job(waiting(api)))["job_id"] == job


async def test_a10_a_lease_that_takes_too_long_is_503_and_says_what_becomes_of_the_jobs(
    db: str, conn: Connection, connect: Any
) -> None:
    holder = await connect(autocommit=False)
    async with serving(db, BATCHQ_LEASE_TIMEOUT="0.5s") as api:
        job = await api.enqueue()
        await holder.execute("lock table batchq.ready in access exclusive mode")
        async with asyncio.timeout(20):
            answer = await waiting(api)
        assert answer.error[:2] == (503, "HTTP503")
        assert "ready again when their leases end" in answer.json["hint"]
        await holder.rollback()
        assert (await one_job(waiting(api)))["job_id"] == job
