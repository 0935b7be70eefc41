"""Requests that are gathered into one call: each has its own answer, whatever the others do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pybatchq import calls
from pybatchq.api import gather
from pybatchq.api.services import SERVICES
from tests.conftest import Connect, Connection
from tests.support.api import Answer, Api, client, running, serving, url_of
from tests.support.raw import head, send_and_leave
from tests.support.working import Calls, until

HOLD = "lock table batchq.job in access exclusive mode"
# The models let it pass, and the database does not.
TOO_EARLY = "0001-01-01T00:00:00Z"
A_DAY = 86_400


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def ids(conn: Connection) -> set[int]:
    return {row[0] for row in await (await conn.execute("select id from batchq.jobs")).fetchall()}


async def transactions(conn: Connection) -> int:
    """How many transactions wrote jobs."""
    query = "select count(distinct xmin::text) from batchq.job"
    return int((await (await conn.execute(query)).fetchall())[0][0])


async def posted(api: Api, *bodies: object) -> list[asyncio.Task[Answer]]:
    return [asyncio.ensure_future(api.post("/jobs", body)) for body in bodies]


async def test_a77_requests_that_arrive_together_become_few_calls(
    api: Api, conn: Connection, connect: Connect
) -> None:
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *[{"kind": "k"}] * 500)
    await asyncio.sleep(0.3)
    await other.commit()
    answers = await asyncio.gather(*posts)
    assert {a.status for a in answers} == {201}
    assert {a.json["id"] for a in answers} == await ids(conn)
    assert await transactions(conn) < 20


@pytest.mark.parametrize("bad", [1, 7, 60])
async def test_f091_a_bad_job_fails_alone(
    api: Api, conn: Connection, connect: Connect, bad: int
) -> None:
    bodies: list[object] = [{"kind": "k"}] * 60
    bodies[:bad] = [{"kind": "k", "run_at": TOO_EARLY}] * bad
    random.shuffle(bodies)
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *bodies)
    await asyncio.sleep(0.3)
    await other.commit()
    answers = await asyncio.gather(*posts)
    assert sum(a.status == 201 for a in answers) == 60 - bad == len(await ids(conn))
    for body, answer in zip(bodies, answers, strict=True):
        if body == {"kind": "k"}:
            assert answer.status == 201
        else:
            status, code, message = answer.error
            assert (status, code) == (400, "JQ001")
            assert message.startswith("invalid run_at")
            assert "job" not in message


async def test_f091_a_number_that_spoils_the_whole_array_fails_alone(
    api: Api, conn: Connection, connect: Connect
) -> None:
    bodies: list[object] = ['{"kind":"k"}'] * 40
    bodies[23] = '{"kind":"k","payload":1e400000}'
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *bodies)
    await asyncio.sleep(0.3)
    await other.commit()
    answers = await asyncio.gather(*posts)
    assert [a.status for a in answers] == [201] * 23 + [400] + [201] * 16
    assert len(await ids(conn)) == 39


async def test_when_too_many_wait_the_next_is_refused_at_once(
    api: Api, conn: Connection, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "ROOM_JOBS", 50)
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *[{"kind": "k"}] * 80)
    refused, _ = await asyncio.wait(posts, timeout=1.5)
    for task in refused:
        answer = task.result()
        assert answer.error[:2] == (503, "HTTP503")
        assert answer.headers["Retry-After"] == "1"
    assert len(refused) == 30
    await other.commit()
    answers = await asyncio.gather(*posts)
    assert sum(a.status == 201 for a in answers) == 50 == len(await ids(conn))
    assert (await api.post("/jobs", {"kind": "k"})).status == 201


async def test_many_bytes_are_too_many_as_well(
    api: Api, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "ROOM_BYTES", 100_000)
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *[{"kind": "k", "payload": "x" * 30_000}] * 5)
    refused, _ = await asyncio.wait(posts, timeout=1.5)
    assert {task.result().status for task in refused} == {503}
    assert len(refused) == 2
    await other.commit()
    assert sorted(a.status for a in await asyncio.gather(*posts)) == [201] * 3 + [503] * 2


async def test_a_key_somebody_holds_delays_no_other_job_for_long(
    api: Api, conn: Connection, connect: Connect
) -> None:
    """The one place where an enqueue waits: the same key in a transaction that is still open."""
    other = await connect(autocommit=False)
    await other.execute("select batchq.enqueue('k', dedupe_key => 'held')")
    started = time.monotonic()
    held = asyncio.ensure_future(api.post("/jobs", {"kind": "k", "dedupe_key": "held"}))
    keyed = await posted(api, *[{"kind": "k", "dedupe_key": str(n)} for n in range(20)])
    plain = await posted(api, *[{"kind": "k"}] * 20)
    assert {a.status for a in await asyncio.gather(*plain)} == {201}
    assert time.monotonic() - started < 1.0
    assert {a.status for a in await asyncio.gather(*keyed)} == {201}
    assert not held.done()
    answer = await held
    assert answer.error == (503, "HTTP503", gather.KEY_HELD)
    await other.rollback()
    assert (await api.post("/jobs", {"kind": "k", "dedupe_key": "held"})).status == 201


async def test_a_key_that_is_let_go_in_time_is_taken(api: Api, connect: Connect) -> None:
    other = await connect(autocommit=False)
    await other.execute("select batchq.enqueue('k', dedupe_key => 'held')")
    held = asyncio.ensure_future(api.post("/jobs", {"kind": "k", "dedupe_key": "held"}))
    await asyncio.sleep(1.5)  # longer than a batch waits
    assert not held.done()
    await other.commit()
    assert (await held).json["duplicate"] is True


async def test_f087_f042_clients_that_leave_touch_nobody_else(db: str, conn: Connection) -> None:
    """500 requests aborted at random moments, among others that wait for their answers."""
    async with running(db, BATCHQ_POOL_MAX="4") as (app, server), client(url_of(server)) as api:
        body = b'{"kind":"aborted","payload":"' + b"x" * 2000 + b'"}'
        request = head("POST", "/jobs", len(body)) + body
        stay = [asyncio.ensure_future(api.post("/jobs", {"kind": "k"})) for _ in range(100)]
        await asyncio.gather(
            *[send_and_leave(api.port, request, random.uniform(0, 0.05)) for _ in range(500)]
        )
        bulk = b"[" + b",".join([body.replace(b"aborted", b"in bulk")] * 20) + b"]"
        request = head("POST", "/jobs/bulk", len(bulk)) + bulk
        await asyncio.gather(
            *[send_and_leave(api.port, request, random.uniform(0, 0.05)) for _ in range(100)]
        )
        answers = await asyncio.gather(*stay)
        assert {a.status for a in answers} == {201}
        assert {a.json["id"] for a in answers} <= await ids(conn)
        services = app[SERVICES]

        async def idle() -> bool:
            return services.gatherer.held == 0 and services.db.lent == 0

        assert await until(idle)
        # a bulk body is there as a whole or not at all
        cursor = await conn.execute("select count(*) % 20 from batchq.jobs where kind = 'in bulk'")
        assert (await cursor.fetchall())[0][0] == 0
        listed = await asyncio.gather(*[api.get("/jobs") for _ in range(20)])
        assert {a.status for a in listed} == {200}
        cursor = await conn.execute(
            "select count(*) from pg_stat_activity where application_name like 'batchq-api%'"
            " and state <> 'idle'"
        )
        assert (await cursor.fetchall())[0][0] == 0
        held = await asyncio.gather(*[services.db(calls.version) for _ in range(4)])
        assert len(held) == 4


async def gathered(api: Api, connect: Connect, bodies: list[Any]) -> list[Answer]:
    """Their answers, when they were sent as few batches."""
    other = await connect(autocommit=False)
    await other.execute(HOLD)
    posts = await posted(api, *bodies)
    await asyncio.sleep(0.3)
    await other.commit()
    return await asyncio.gather(*posts)


@pytest.mark.parametrize("name", ["full", "o'clock", "a\\b"])
async def test_a_job_for_a_full_queue_fails_alone(
    api: Api, conn: Connection, connect: Connect, name: str
) -> None:
    await calls.set_queue(conn, queue=name, max_depth=1)
    await api.enqueue(queue=name)
    later = {"kind": "k", "queue": name, "delay": A_DAY}
    bodies = [{"kind": "k"}, {"kind": "k", "queue": name}, {"kind": "k", "queue": "b"}, later] * 10
    answers = await gathered(api, connect, bodies)
    for body, answer in zip(bodies, answers, strict=True):
        if body == {"kind": "k", "queue": name}:
            assert (answer.status, answer.json["code"]) == (429, "JQ006")
            assert int(answer.headers["Retry-After"]) > 0
            assert "is full: 1 jobs wait" in answer.json["message"]
        else:
            assert answer.status == 201, answer.text


@pytest.mark.parametrize("room", [0, 1, 77, 200])
async def test_as_many_are_stored_as_there_is_room_and_in_few_calls(
    db: str, conn: Connection, connect: Connect, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    await calls.set_queue(conn, queue="full", max_depth=room or 1)
    async with serving(db) as api:
        if room == 0:
            await api.enqueue(queue="full")
        seen = Calls(monkeypatch)
        answers = await gathered(api, connect, [{"kind": "k", "queue": "full"}] * 300)
        stored = sum(answer.status == 201 for answer in answers)
        assert room <= stored <= gather.IN_FLIGHT * room  # batches do not see each other
        assert sum(answer.status == 429 for answer in answers) == 300 - stored
        assert seen.since(0)["enqueue_many"] < 80
