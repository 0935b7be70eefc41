"""Jobs over HTTP: added, read, listed, cancelled and tried again, on a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pybatchq import calls
from pybatchq.api.errors import CATALOGUE
from tests.conftest import Connection
from tests.support.api import JSON, Api, serving
from tests.support.working import until


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def leased(conn: Connection, queue: str = "default") -> tuple[int, int]:
    (job,) = await calls.lease(conn, queue=queue, worker="w")
    return job.job_id, job.lease_id


async def dead(api: Api, conn: Connection, **more: Any) -> int:
    """The id of a new dead letter."""
    job = await api.enqueue(**more)
    job_id, lease_id = await leased(conn, more.get("queue", "default"))
    await calls.fail(conn, job_id=job_id, lease_id=lease_id, error="boom", permanent=True)
    return job


async def test_a29_a30_the_source_systems_curl_line_works(api: Api, conn: Connection) -> None:
    body = '{"type":"demo_task","payload":{"message":"hi","delay_ms":1000},"max_attempts":3}'
    answer = await api.post("/jobs", body)
    assert answer.status == 201
    assert answer.headers["Content-Type"] == "application/json"
    job = await calls.get_job(conn, job_id=answer.json["id"])
    assert answer.json == {"id": job.id, "uuid": str(job.uuid)}
    assert (job.kind, job.max_attempts) == ("demo_task", 3)
    assert json.loads(job.payload) == {"message": "hi", "delay_ms": 1000}


async def test_a20_a47_b22_b24_defaults(api: Api) -> None:
    job = (await api.get(f"/jobs/{await api.enqueue('noop')}")).json
    assert (job["queue"], job["max_attempts"], job["priority"]) == ("default", 3, 0)
    assert (job["payload"], job["status"], job["state"]) == ({}, "pending", "ready")


async def test_b15_priority_and_run_at_are_stored_and_obeyed(api: Api, conn: Connection) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    low, high = await api.enqueue(priority=-1), await api.enqueue(priority=5)
    waits = await api.enqueue(priority=9, run_at=later.isoformat())
    job = (await api.get(f"/jobs/{waits}")).json
    assert job["available_at"] == job["run_at"] == later.isoformat().replace("+00:00", "Z")
    assert job["state"] == "scheduled"
    assert [job.job_id for job in await calls.lease(conn, n=5)] == [high, low]


async def test_f067_the_past_is_due_now(api: Api) -> None:
    for times in ({"delay": -5}, {"delay": 0}, {"run_at": "2001-01-01T00:00:00Z"}):
        job = await api.enqueue(**times)
        assert (await api.get(f"/jobs/{job}")).json["state"] == "ready"


async def test_f070_delay_is_in_seconds(api: Api, conn: Connection) -> None:
    job = await api.enqueue(delay=90.5)
    record = await calls.get_job(conn, job_id=job)
    assert record.run_at - record.created_at == timedelta(seconds=90.5)


async def test_b16_b21_a_job_is_found_by_number_and_by_uuid(api: Api, conn: Connection) -> None:
    job = await api.enqueue("sum", payload={"n": [1, 4]}, timeout=2.5, headers={"a": "b"})
    job_id, lease_id = await leased(conn)
    await calls.complete(conn, job_id=job_id, lease_id=lease_id, result={"n": 5})
    by_number = await api.get(f"/jobs/{job}")
    assert by_number.status == 200
    told = by_number.json
    assert told["result"] == {"n": 5}
    assert (told["status"], told["attempts"], told["timeout"]) == ("completed", 1, 2.5)
    assert told["headers"] == {"a": "b"}
    assert told["started_at"] <= told["finished_at"]
    assert (await api.get(f"/jobs/{told['uuid']}")).json == told
    assert (await api.get(f"/jobs/{told['uuid'].upper()}")).json == told


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/jobs/999", 404, "JQ003"),
        ("/jobs/0", 404, "JQ003"),
        (f"/jobs/{2**62}", 400, "JQ001"),
        (f"/jobs/{10**30}", 400, "JQ001"),
        ("/jobs/-1", 400, "JQ001"),
        ("/jobs/1.0", 400, "JQ001"),
        ("/jobs/٣", 400, "JQ001"),
        ("/jobs/abc", 400, "JQ001"),
        ("/jobs/a';drop table x;--", 400, "JQ001"),
        ("/jobs/%00", 400, "JQ001"),
        ("/jobs/%ff", 400, "JQ001"),
        ("/jobs/00000000-0000-8000-8000-000000000001", 404, "JQ003"),
        ("/jobs/00000000-0000-4000-8000-000000000001", 400, "JQ001"),
        ("/jobs/1?wait=2m", 400, "JQ001"),
        ("/jobs/1?wait=soon", 400, "JQ001"),
        ("/jobs/1?wiat=1s", 400, "JQ001"),
        ("/jobs/1?wait=1s&wait=2s", 400, "JQ001"),
    ],
)
async def test_b16_f091_what_names_no_job_is_refused(
    api: Api, path: str, status: int, code: str
) -> None:
    assert (await api.get(path)).error[:2] == (status, code)


async def test_a16_a_failed_job_shows_the_error_of_each_attempt(api: Api, conn: Connection) -> None:
    job = await api.enqueue(max_attempts=2, backoff="fixed", backoff_base=0, backoff_jitter="none")
    for error in ("e1", "e2"):
        job_id, lease_id = await leased(conn)
        await calls.fail(conn, job_id=job_id, lease_id=lease_id, error=error)
    told = (await api.get(f"/jobs/{job}")).json
    assert (told["status"], told["last_error"]) == ("failed", "e2")
    assert [(e["attempt"], e["error"], e["worker"]) for e in told["errors"]] == [
        (2, "e2", "w"), (1, "e1", "w"),
    ]  # fmt: skip


async def test_f060_every_digit_of_a_payload_comes_back(api: Api) -> None:
    body = '{"kind":"k","payload":{"id":1970670598291982290,"f":0.1,"d":1.10,"big":1e30}}'
    job = (await api.post("/jobs", body)).json["id"]
    told = (await api.get(f"/jobs/{job}")).text
    assert '"id": 1970670598291982290' in told
    assert '"d": 1.10' in told
    assert '"f": 0.1' in told
    assert '"big": 1000000000000000000000000000000' in told


@pytest.mark.parametrize(
    "name",
    [
        "My-Queue",
        'a"b',
        "a';drop table x;--",
        "é" * 63,
        "q" * 70 + "1",
        "%s",
        "/",
        " ",
        "a\nb",
        "日",
    ],
)
async def test_f064_odd_names_are_kept_as_they_are(api: Api, name: str) -> None:
    job = await api.enqueue(name, queue=name, dedupe_key=name)
    told = (await api.get(f"/jobs/{job}")).json
    assert (told["kind"], told["queue"], told["dedupe_key"]) == (name, name, name)
    listed = (await api.get("/jobs", params={"queue": name, "kind": name})).json["jobs"]
    assert [one["id"] for one in listed] == [job]


async def test_a41_the_second_answer_with_a_key_is_200_and_a_duplicate(api: Api) -> None:
    first = await api.post("/jobs", {"kind": "k", "dedupe_key": "d"})
    second = await api.post("/jobs", {"kind": "k", "dedupe_key": "d"})
    assert (first.status, second.status) == (201, 200)
    assert second.json == {**first.json, "duplicate": True}


async def test_a42_a_key_is_held_while_its_job_is_unfinished_or_pending(
    api: Api, conn: Connection
) -> None:
    first = await api.enqueue(dedupe_key="d")
    job_id, lease_id = await leased(conn)
    running = (await api.post("/jobs", {"kind": "k", "dedupe_key": "d"})).json
    assert running["id"] == first
    pending = {"kind": "k", "dedupe_key": "d", "dedupe_scope": "pending"}
    follow_up = await api.post("/jobs", pending)
    assert follow_up.status == 201
    await calls.complete(conn, job_id=job_id, lease_id=lease_id)
    assert (await api.post("/jobs", pending)).json["id"] == follow_up.json["id"]


async def test_a43_a_thousand_requests_with_one_key_make_one_job(
    api: Api, conn: Connection
) -> None:
    posts = [api.post("/jobs", {"kind": "k", "dedupe_key": "d"}) for _ in range(1000)]
    answers = await asyncio.gather(*posts)
    assert sorted(a.status for a in answers) == [200] * 999 + [201]
    assert len({a.json["id"] for a in answers}) == 1
    assert await count(conn) == 1


async def test_a44_a_thousand_requests_without_a_key_make_a_thousand_jobs(
    api: Api, conn: Connection
) -> None:
    answers = await asyncio.gather(*[api.post("/jobs", {"kind": "k"}) for _ in range(1000)])
    assert {a.status for a in answers} == {201}
    assert len({a.json["id"] for a in answers}) == 1000 == await count(conn)


async def count(conn: Connection) -> int:
    return int((await (await conn.execute("select count(*) from batchq.jobs")).fetchall())[0][0])


async def test_a15_a72_a_job_posted_to_one_api_is_seen_by_another_at_once(
    db: str, api: Api
) -> None:
    async with serving(db) as other:
        for _ in range(50):
            job = await api.enqueue()
            assert (await other.get(f"/jobs/{job}")).status == 200


async def test_b17_b18_b23_filters(api: Api, conn: Connection) -> None:
    running = await api.enqueue("a", priority=1)
    await leased(conn)
    waits = await api.enqueue("a", delay=60)
    other = await api.enqueue("b", queue="q")

    async def ids(**filters: str) -> list[int]:
        return [job["id"] for job in (await api.get("/jobs", params=filters)).json["jobs"]]

    assert await ids() == [other, waits, running]
    assert await ids(kind="a") == await ids(type="a") == [waits, running]
    assert await ids(queue="q") == [other]
    assert await ids(status="processing") == await ids(status="running") == [running]
    assert await ids(status="pending") == [other, waits]
    assert await ids(state="scheduled") == [waits]
    listed = (await api.get("/jobs", params={"status": "processing"})).json["jobs"]
    assert listed[0]["status"] == "running"
    at = (await api.get(f"/jobs/{waits}")).json["created_at"]
    assert await ids(created_after=at) == [other, waits]
    assert await ids(created_before=at) == [running]


@pytest.mark.parametrize(
    "query",
    ["status=done", "state=x", "limit=0", "limit=501", "limit=1000000000", "limit=x", "cursor=x",
     "cursor=YmVmb3JlOi0x", "cursor=%C3%A9", "kind=a&type=b", "created_after=2030-01-01", "page=2"],
)  # fmt: skip
async def test_b17_f091_a_bad_filter_is_a_400_that_says_so(api: Api, query: str) -> None:
    assert (await api.get(f"/jobs?{query}")).error[:2] == (400, "JQ001")


async def test_b19_pages_neither_skip_nor_repeat_while_jobs_are_added_and_change(
    api: Api, conn: Connection, db: str
) -> None:
    await conn.execute(
        "select batchq.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'k', 'delay', i % 3)))"
        " from generate_series(1, 3000) i"
    )
    there = {row[0] for row in await (await conn.execute("select id from batchq.jobs")).fetchall()}
    stop = asyncio.Event()

    async def disturb() -> None:
        while not stop.is_set():
            await api.enqueue()
            for job in await calls.lease(conn, n=5):
                await calls.complete(conn, job_id=job.job_id, lease_id=job.lease_id)

    task = asyncio.ensure_future(disturb())
    seen: list[int] = []
    cursor: str | None = None
    while True:
        params = {"limit": "100", **({} if cursor is None else {"cursor": cursor})}
        page = (await api.get("/jobs", params=params)).json
        seen += [job["id"] for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    stop.set()
    await task
    assert len(seen) == len(set(seen))
    assert there <= set(seen)
    assert seen == sorted(seen, reverse=True)


async def test_a83_cancel_says_which_it_was(api: Api, conn: Connection) -> None:
    waits, runs, ended = [await api.enqueue() for _ in range(3)]
    await api.post(f"/jobs/{waits}/cancel", {"reason": "too late"})
    again = await api.post(f"/jobs/{waits}/cancel")
    assert (again.status, again.json["status"]) == (200, "cancelled")
    await leased(conn)
    asked = await api.post(f"/jobs/{runs}/cancel")
    assert (asked.status, asked.json["id"], asked.json["status"]) == (202, runs, "running")
    job_id, lease_id = await leased(conn)
    await calls.complete(conn, job_id=job_id, lease_id=lease_id)
    assert (await api.post(f"/jobs/{ended}/cancel")).error[:2] == (409, "JQ005")
    assert (await api.post("/jobs/999/cancel")).error[:2] == (404, "JQ003")
    assert (await api.post("/jobs/x/cancel")).error[:2] == (400, "JQ001")
    assert (await api.post(f"/jobs/{waits}/cancel", {"why": 1})).error[:2] == (400, "JQ001")
    assert (await api.get(f"/jobs/{waits}")).json["last_error"] == "too late"


async def test_a83_a_thousand_cancels_race_leases_and_each_answer_is_true(
    api: Api, conn: Connection
) -> None:
    ids = [await api.enqueue() for _ in range(300)]

    async def lease_all() -> set[int]:
        found: set[int] = set()
        while jobs := await calls.lease(conn, n=7):
            found |= {job.job_id for job in jobs}
        return found

    leasing = asyncio.ensure_future(lease_all())
    answers = await asyncio.gather(*[api.post(f"/jobs/{job}/cancel") for job in ids])
    ran = await leasing
    cancelled = {a.json["id"] for a in answers if a.status == 200}
    assert {a.json["id"] for a in answers if a.status == 202} == ran
    assert cancelled == set(ids) - ran


async def test_retry_puts_a_dead_letter_back_and_says_no_to_others(
    api: Api, conn: Connection
) -> None:
    job = await dead(api, conn)
    for _ in range(2):  # being asked twice is no error
        answer = await api.post(f"/jobs/{job}/retry")
        assert (answer.status, answer.json["status"]) == (200, "pending")
    told = (await api.get(f"/jobs/{job}")).json
    assert (told["status"], told["attempts"]) == ("pending", 0)
    job_id, lease_id = await leased(conn)
    assert (await api.post(f"/jobs/{job}/retry")).error[:2] == (409, "JQ005")
    await calls.complete(conn, job_id=job_id, lease_id=lease_id)
    assert (await api.post(f"/jobs/{job}/retry")).error[:2] == (409, "JQ005")
    assert (await api.post("/jobs/999/retry")).error[:2] == (404, "JQ003")


async def test_many_are_cancelled_by_filter_after_a_dry_run(api: Api, conn: Connection) -> None:
    ids = [await api.enqueue("a") for _ in range(3)]
    other = await api.enqueue("b")
    await leased(conn)
    counted = await api.post("/jobs/cancel", {"type": "a", "dry_run": True})
    assert counted.json == {
        "cancelled": 2, "asked": 1, "deferred": 0, "more": False, "next_cursor": None,
    }  # fmt: skip
    assert (await api.get(f"/jobs/{ids[1]}")).json["status"] == "pending"
    first = await api.post("/jobs/cancel", {"kind": "a", "state": "pending", "limit": 1})
    assert (first.json["cancelled"], first.json["more"]) == (1, True)
    beyond = {"kind": "a", "state": "pending", "cursor": first.json["next_cursor"]}
    assert (await api.post("/jobs/cancel", {**beyond, "dry_run": True})).json["cancelled"] == 1
    rest = await api.post("/jobs/cancel", {"kind": "a"})
    assert (rest.json["cancelled"], rest.json["asked"], rest.json["more"]) == (1, 1, False)
    assert (await api.get(f"/jobs/{other}")).json["status"] == "pending"
    assert (await api.post("/jobs/cancel", {"ids": [other]})).json["cancelled"] == 1
    assert (await api.post("/jobs/cancel", {})).error[:2] == (400, "JQ001")
    assert (await api.post("/jobs/cancel", {"ids": [999]})).error[:2] == (404, "JQ003")
    assert (await api.post("/jobs/cancel")).error[:2] == (415, "HTTP415")


async def test_many_are_redriven_by_filter_after_a_dry_run(api: Api, conn: Connection) -> None:
    ids = [await dead(api, conn, kind="a") for _ in range(3)]
    await dead(api, conn, kind="b")
    counted = await api.post("/jobs/redrive", {"kind": "a", "dry_run": True})
    assert (counted.json["redriven"], counted.json["more"]) == (3, False)
    first = await api.post("/jobs/redrive", {"kind": "a", "limit": 1})
    assert (first.json["redriven"], first.json["more"]) == (1, True)
    assert (await api.post("/jobs/redrive", {"ids": ids})).json["redriven"] == 2
    listed = (await api.get("/jobs", params={"status": "failed"})).json["jobs"]
    assert [job["kind"] for job in listed] == ["b"]
    assert (await api.post("/jobs/redrive", {"ids": []})).error[:2] == (400, "JQ001")


async def test_waiting_answers_once_the_job_has_ended(api: Api, conn: Connection) -> None:
    job = await api.enqueue()
    job_id, lease_id = await leased(conn)
    waiting = [asyncio.ensure_future(api.get(f"/jobs/{job}?wait=30s")) for _ in range(50)]
    done, _ = await asyncio.wait(waiting, timeout=0.5)
    assert not done
    started = asyncio.get_running_loop().time()
    await calls.complete(conn, job_id=job_id, lease_id=lease_id, result=1)
    for answer in await asyncio.gather(*waiting):
        assert (answer.status, answer.json["result"]) == (200, 1)
    assert asyncio.get_running_loop().time() - started < 5


async def test_waiting_ends_with_its_time_and_not_at_all_for_what_has_ended(
    api: Api, conn: Connection
) -> None:
    job = await api.enqueue()
    assert (await api.get(f"/jobs/{job}?wait=300ms")).json["status"] == "pending"
    await calls.cancel(conn, job_id=job)
    assert (await api.get(f"/jobs/{job}?wait=60s")).json["status"] == "cancelled"
    assert (await api.get("/jobs/999?wait=60s")).error[:2] == (404, "JQ003")


async def test_one_look_serves_all_that_wait(api: Api, conn: Connection, db: str) -> None:
    """200 requests that wait hold no connection, and few are open."""
    ids = [await api.enqueue() for _ in range(200)]
    waiting = [asyncio.ensure_future(api.get(f"/jobs/{job}?wait=20s")) for job in ids]
    query = "select count(*) from pg_stat_activity where application_name like 'batchq-api%'"

    async def few() -> bool:
        (row,) = await (await conn.execute(query)).fetchall()
        return bool(row[0] <= 10)

    assert await until(few)
    await calls.cancel_many(conn, job_ids=ids)
    answers = await asyncio.gather(*waiting)
    assert {a.json["status"] for a in answers} == {"cancelled"}


async def test_a31_the_type_and_the_size_of_a_body_are_checked(db: str) -> None:
    async with serving(db, BATCHQ_MAX_BODY="2KiB") as api:
        body = json.dumps({"kind": "k", "payload": "x" * 2048})
        assert (await api.post("/jobs", body)).error[:2] == (413, "HTTP413")
        for given in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
            answer = await api.post("/jobs", '{"kind":"k"}', headers={"Content-Type": given})
            assert answer.error[:2] == (415, "HTTP415")
        for given in ("application/json; charset=utf-8", "Application/JSON"):
            answer = await api.post("/jobs", '{"kind":"k"}', headers={"Content-Type": given})
            assert answer.status == 201
        packed = await api.post("/jobs", b"...", headers={**JSON, "Content-Encoding": "gzip"})
        assert packed.error[:2] == (415, "HTTP415")


async def test_c22_a_payload_over_a_mebibyte_is_refused_by_the_database(db: str) -> None:
    async with serving(db, BATCHQ_MAX_BODY="8MiB") as api:
        answer = await api.post("/jobs", {"kind": "k", "payload": "x" * 1_100_000})
        status, code, message = answer.error
        assert (status, code) == (400, "JQ001")
        assert message == "invalid payload: 'string'"


async def test_f091_numbers_no_database_can_hold_are_refused(api: Api) -> None:
    answer = await api.post("/jobs", '{"kind":"k","payload":1e400000}')
    assert answer.error[:2] == (400, "JQ001")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/jobs/1/nothing", 404),
        ("POST", "/../etc/passwd", 404),
        ("PUT", "/jobs", 405),
        ("DELETE", "/jobs/1", 405),
        ("GET", "/jobs/1/cancel", 405),
        ("PATCH", "/health", 405),
    ],
)
async def test_f091_f092_what_is_not_there_has_the_one_shape(
    api: Api, method: str, path: str, status: int
) -> None:
    answer = await api.ask(method, path)
    assert answer.error[:2] == (status, f"HTTP{status}")
    assert ("Allow" in answer.headers) == (status == 405)


async def test_every_answer_has_the_headers_that_protect_it(api: Api) -> None:
    for path in ("/health", "/jobs", "/nothing", "/", "/jobs/x"):
        answer = await api.get(path)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["Server"] == "batchq"
        assert answer.headers["X-Request-Id"]
    assert (await api.get("/")).headers["Content-Type"].startswith("text/html")


async def test_a_request_id_is_kept_if_it_is_sane(api: Api) -> None:
    for given in ("abc-1", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"):
        answer = await api.get("/health", headers={"X-Request-Id": given})
        assert answer.headers["X-Request-Id"] == given
    for given in ("a b", "x" * 101, 'a"b', "é"):
        answer = await api.get("/health", headers={"X-Request-Id": given})
        assert answer.headers["X-Request-Id"] != given
    ids = {(await api.get("/health")).headers["X-Request-Id"] for _ in range(10)}
    assert len(ids) == 10


async def test_f091_a_fault_of_ours_is_a_500_without_its_text(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(calls, "list_jobs", broken)
    answer = await api.get("/jobs", headers={"X-Request-Id": "mine"})
    assert answer.error == (500, "HTTP500", "internal error")
    assert "secret" not in answer.text
    assert "mine" in answer.json["hint"]
    (record,) = [one for one in caplog.records if one.name == "pybatchq.access"]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "secret"
    assert record.__dict__["request_id"] == "mine"


async def test_head_is_get_without_a_body(api: Api) -> None:
    answer = await api.ask("HEAD", "/jobs")
    assert (answer.status, answer.text) == (200, "")


async def test_the_statuses_are_those_of_the_catalogue(conn: Connection) -> None:
    listed = {one.code: (one.http_status, one.name) for one in await calls.errors(conn)}
    assert listed.items() <= CATALOGUE.items()


async def test_a_database_that_is_made_anew_gives_its_own_uuids(db: str, conn: Connection) -> None:
    async with serving(db) as api:
        first = (await api.post("/jobs", {"kind": "k"})).json["uuid"]
        await conn.execute("update batchq.installation set prefix = prefix # 1")
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'batchq-api%' and datname = current_database()"
        )

        async def serves() -> str | None:
            answer = await api.post("/jobs", {"kind": "k"})
            return answer.json["uuid"] if answer.status == 201 else None

        uuid = await until(serves)
        assert uuid[:18] != first[:18]
        assert (await api.get(f"/jobs/{uuid}")).json["uuid"] == uuid
