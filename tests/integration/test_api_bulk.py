"""Many jobs in one request: all or none as an array, line by line as a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conftest import Connection
from tests.support.api import Answer, Api, serving
from tests.support.working import until

LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def payloads(conn: Connection) -> list[Any]:
    """Of all jobs, in the order of their ids."""
    cursor = await conn.execute("select payload from batchq.jobs order by id")
    return [row[0] for row in await cursor.fetchall()]


async def stream(api: Api, *chunks: bytes, headers: dict[str, str] | None = None) -> Answer:
    async def pieces() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return await api.ask("POST", "/jobs/bulk", data=pieces(), headers={**LINES, **(headers or {})})


@pytest.mark.parametrize("path", ["/jobs/bulk", "/jobs:bulk"])
async def test_a84_a_thousand_jobs_get_a_thousand_ids_in_order(
    api: Api, conn: Connection, path: str
) -> None:
    answer = await api.post(path, [{"kind": "k", "payload": n} for n in range(1000)])
    assert answer.status == 201
    jobs = answer.json["jobs"]
    ids = [job["id"] for job in jobs]
    assert ids == sorted(set(ids))
    assert len(ids) == 1000
    assert await payloads(conn) == list(range(1000))
    told = (await api.get(f"/jobs/{ids[7]}")).json
    assert jobs[7] == {"id": ids[7], "uuid": told["uuid"], "duplicate": False}


@pytest.mark.parametrize(
    ("bad", "status", "message"),
    [
        ({"kind": "k", "priority": "high"}, 400, "priority: expected int, got str"),
        ({"kind": "k", "payload": None}, 400, "payload: it is null"),
        ({"payload": 1}, 400, "kind: this field is required"),
        ({"kind": "k", "run_at": "0001-01-01T00:00:00Z"}, 400, "invalid run_at"),
    ],
)
async def test_a84_one_bad_job_of_many_is_named_and_none_is_stored(
    api: Api, conn: Connection, bad: dict[str, Any], status: int, message: str
) -> None:
    for body in ([{"kind": "k"}] * 4 + [bad], {"jobs": [{"kind": "k"}] * 4 + [bad]}):
        answer = await api.post("/jobs/bulk", body)
        assert answer.error[0] == status
        assert answer.json["message"].startswith(message)
        assert answer.json["detail"] == "job 5"
    assert await payloads(conn) == []


async def test_a84_dedupe_keys_are_honoured(api: Api) -> None:
    body = [{"kind": "k", "dedupe_key": key} for key in ("a", "b", "a")]
    first = await api.post("/jobs/bulk", body)
    assert first.status == 201
    assert [job["duplicate"] for job in first.json["jobs"]] == [False, False, True]
    again = await api.post("/jobs/bulk", body)
    assert again.status == 200
    assert [job["id"] for job in again.json["jobs"]] == [job["id"] for job in first.json["jobs"]]
    assert all(job["duplicate"] for job in again.json["jobs"])


async def test_a31_f065_the_number_of_jobs_and_bytes_is_limited(db: str) -> None:
    async with serving(db, BATCHQ_MAX_BULK="3", BATCHQ_MAX_BULK_BODY="2KiB") as api:
        many = await api.post("/jobs/bulk", [{"kind": "k"}] * 4)
        assert many.error[:2] == (413, "HTTP413")
        assert many.json["name"] == "too_many_jobs"
        long = await api.post("/jobs/bulk", [{"kind": "k", "payload": "x" * 3000}])
        assert (long.error[0], long.json["name"]) == (413, "body_too_large")
        assert (await api.post("/jobs/bulk", [{"kind": "k"}] * 3)).status == 201
        assert (await api.post("/jobs/bulk", [])).json == {"jobs": []}
        assert (await api.post("/jobs/bulk", {"kind": "k"})).error[:2] == (400, "JQ001")
        keyed = await api.post("/jobs/bulk", [{"kind": "k"}], headers={"Idempotency-Key": "a"})
        assert keyed.error[:2] == (400, "JQ001")


async def test_ten_thousand_jobs_are_taken_at_once(api: Api, conn: Connection) -> None:
    answer = await api.post("/jobs/bulk", [{"kind": "k", "payload": "x" * 150}] * 10_000)
    assert answer.status == 201
    assert len(answer.json["jobs"]) == 10_000


async def test_lines_are_stored_in_order_wherever_their_bytes_are_cut(
    api: Api, conn: Connection
) -> None:
    text = "".join(json.dumps({"kind": "k", "payload": n}) + "\n" for n in range(2500))
    data = text.encode() + b'\r\n\n  \n{"kind":"k","payload":2500,"dedupe_key":"d"}\r\n'
    data += b'{"kind":"k","payload":0,"dedupe_key":"d"}'
    answer = await stream(api, *[data[at : at + 777] for at in range(0, len(data), 777)])
    assert (answer.status, answer.json) == (201, {"taken": 2502, "duplicates": 1})
    assert await payloads(conn) == list(range(2501))


async def test_lines_before_a_bad_one_are_stored_and_counted(api: Api, conn: Connection) -> None:
    good = b'{"kind":"k"}\n'
    for bad, message in (
        (b'{"kind":5}\n', "kind: expected str, got int"),
        (b"nonsense\n", "the body is no JSON"),
        (b'{"kind":"k"} {"kind":"k"}\n', "the body is no JSON"),
        (b'{"kind":"k","run_at":"0001-01-01T00:00:00Z"}\n', "invalid run_at"),
    ):
        before = len(await payloads(conn))
        answer = await stream(api, good * 1500, bad, good)
        status, _, said = answer.error
        assert (status, said.startswith(message)) == (400, True)
        taken = len(await payloads(conn)) - before
        assert taken == 1500
        assert answer.json["detail"] == "line 1501; taken: 1500"


async def test_lines_have_no_limit_but_that_of_one(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_MAX_BODY="2KiB", BATCHQ_MAX_BULK_BODY="2KiB") as api:
        line = json.dumps({"kind": "k", "payload": "x" * 1000}).encode() + b"\n"
        answer = await stream(api, *[line] * 200)
        assert answer.json == {"taken": 200, "duplicates": 0}
        for long in (b'{"kind":"' + b"x" * 3000 + b'"}\n', b"x" * 5000):
            answer = await stream(api, line, long)
            assert answer.error[:2] == (413, "HTTP413")
            assert answer.json["detail"] == "line 2; taken: 1"


async def test_a_stream_that_breaks_off_keeps_what_was_stored(
    api: Api, conn: Connection, db: str
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", api.port)
    writer.write(
        b"POST /jobs/bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    lines = b'{"kind":"k"}\n' * 1000
    writer.write(f"{len(lines):x}\r\n".encode() + lines + b"\r\n")
    await writer.drain()

    async def stored() -> bool:
        return len(await payloads(conn)) == 1000

    await until(stored)
    writer.transport.abort()
    assert (await api.get("/health")).status == 200
    assert len(await payloads(conn)) == 1000


async def test_a43_f094_one_key_sent_ten_times_at_once_makes_one_job(
    api: Api, conn: Connection
) -> None:
    body, key = {"kind": "k", "payload": {"n": 1}}, {"Idempotency-Key": "order-42"}
    answers = await asyncio.gather(*[api.post("/jobs", body, headers=key) for _ in range(10)])
    assert sorted(a.status for a in answers) == [200] * 9 + [201]
    (first,) = {a.json["id"] for a in answers}
    assert {a.json.get("duplicate", False) for a in answers if a.status == 200} == {True}
    job_id, lease_id = (
        await (await conn.execute("select job_id, lease_id from batchq.lease()")).fetchall()
    )[0]
    await conn.execute("select batchq.complete(%s::bigint, %s::bigint)", (job_id, lease_id))
    after = await api.post("/jobs", body, headers=key)
    assert (after.status, after.json["id"], after.json["duplicate"]) == (200, first, True)


async def test_f094_the_same_key_for_another_body_is_a_conflict(api: Api, conn: Connection) -> None:
    key = {"Idempotency-Key": "order-42"}
    first = await api.post("/jobs", {"kind": "k", "payload": 1}, headers=key)
    for other in ({"kind": "k", "payload": 2}, {"kind": "j", "payload": 1}, {"kind": "k"}):
        answer = await api.post("/jobs", other, headers=key)
        status, code, _ = answer.error
        assert (status, code) == (409, "HTTP409")
        assert str(first.json["id"]) in answer.json["hint"]
    assert len(await payloads(conn)) == 1
    # white space between fields and their order are not what was asked for
    same = await api.post("/jobs", '{ "payload":1,  "kind":"k"}', headers=key)
    assert same.json == {**first.json, "duplicate": True}


async def test_f094_of_two_bodies_with_one_key_at_once_one_is_stored(
    api: Api, conn: Connection
) -> None:
    key = {"Idempotency-Key": "k"}
    posts = [api.post("/jobs", {"kind": "k", "payload": n % 2}, headers=key) for n in range(20)]
    answers = await asyncio.gather(*posts)
    assert sorted(a.status for a in answers) == [200] * 9 + [201] + [409] * 10
    assert len(await payloads(conn)) == 1


async def test_f094_the_key_lives_for_a_day_in_a_namespace_of_its_own(
    api: Api, conn: Connection
) -> None:
    key = {"Idempotency-Key": "k"}
    headers = {"trace": "t"}
    job = (await api.post("/jobs", {"kind": "k", "headers": headers}, headers=key)).json["id"]
    assert (await api.post("/jobs", {"kind": "k", "dedupe_key": "k"})).status == 201
    told = (await api.get(f"/jobs/{job}")).json
    assert told["headers"]["trace"] == "t"
    assert set(told["headers"]) == {"trace", "idempotency-fingerprint"}
    cursor = await conn.execute(
        "select extract(epoch from held_until - clock_timestamp())::float8 from batchq.dedupe"
        " where job_id = %s",
        (job,),
    )
    ((left_s,),) = await cursor.fetchall()
    assert 23.9 * 3600 < left_s <= 24 * 3600


@pytest.mark.parametrize("key", ["", " ", "x" * 256, "a\tb", "é"])
async def test_f094_a_key_that_is_none_is_refused(api: Api, key: str) -> None:
    answer = await api.post("/jobs", {"kind": "k"}, headers={"Idempotency-Key": key})
    assert answer.error[:2] == (400, "JQ001")


async def test_f094_a_key_and_a_dedupe_key_are_one_too_many(api: Api) -> None:
    body = {"kind": "k", "dedupe_key": "d"}
    assert (await api.post("/jobs", body, headers={"Idempotency-Key": "k"})).error[0] == 400
