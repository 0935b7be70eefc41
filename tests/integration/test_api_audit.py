"""What operators do over HTTP is written down, with the name of whoever did it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.integration.test_api_work_tokens import As, token
from tests.support.api import Api, serving


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def newest(conn: Connection) -> tuple[str, str, str | None]:
    (entry,) = await calls.list_audit(conn, n=1)
    return entry.actor, entry.action, entry.target


async def failed(conn: Connection, queue: str = "q") -> int:
    job_id = await calls.enqueue(conn, "k", queue=queue)
    (job,) = await calls.lease(conn, queue=queue)
    await calls.fail(conn, job_id=job_id, lease_id=job.lease_id, error="e", permanent=True)
    return job_id


async def test_every_route_that_changes_something_as_an_operator_names_its_caller(
    api: Api, conn: Connection
) -> None:
    ann = As(api, await token(conn, ["operate", "produce", "work"]))
    ann_is = (await calls.list_tokens(conn))[-1].name
    job, dead, gone, more, worker = (
        await calls.enqueue(conn, "k", queue="q"), await failed(conn, "d"),
        await failed(conn, "d"), await failed(conn, "d"), uuid4(),
    )  # fmt: skip
    await ann.post(f"/workers/{worker}", {"worker": "w", "host": "h"}, "PUT")
    await calls.reset_breaker(conn, queue="q", kind="k")
    for method, path, body, action, target in (
        ("POST", "/queues/q/pause", {"reason": "r"}, "pause", "queue q"),
        ("POST", "/queues/q/resume", {}, "resume", "queue q"),
        ("PUT", "/queues/q", {"max_attempts": 5}, "set_queue", "queue q"),
        ("PATCH", "/queues/q", {"timeout": 5}, "set_queue", "queue q"),
        ("PUT", "/queues/q/groups/g", {"weight": 5}, "set_group", "queue q"),
        ("POST", "/queues/q/breakers/k/reset", {}, "reset_breaker", "queue q"),
        ("PATCH", f"/jobs/{job}", {"priority": 5}, "set_job", f"job {job}"),
        ("POST", f"/jobs/{job}/cancel", {}, "cancel", f"job {job}"),
        ("POST", f"/jobs/{dead}/retry", {}, "redrive", None),
        ("POST", "/dead/redrive", {"ids": [gone]}, "redrive", None),
        ("POST", "/dead/purge", {"ids": [more]}, "purge", None),
        ("POST", "/jobs/cancel", {"queue": "d"}, "cancel_many", "queue d"),
        ("POST", f"/workers/{worker}/drain", {}, "drain_worker", f"worker {worker}"),
    ):  # fmt: skip
        answer = await ann.post(path, body, method)
        assert answer.status in {200, 202}, (path, answer.text)
        assert await newest(conn) == (ann_is, action, target), path


async def test_what_programs_do_is_not_written_down(api: Api, conn: Connection) -> None:
    program = As(api, await token(conn, ["produce", "work"]))
    before = await calls.list_audit(conn)
    job = (await program.post("/jobs", {"kind": "k"})).json["id"]
    assert (await program.post("/work/lease", {})).status == 200
    assert (await program.post(f"/jobs/{job}/cancel", {})).status == 202
    other = (await program.post("/jobs", {"kind": "k"})).json["id"]
    assert (await program.post(f"/jobs/{other}/cancel", {})).status == 200
    assert await calls.list_audit(conn) == before


async def test_an_error_leaves_no_trace_and_no_name_behind(api: Api, conn: Connection) -> None:
    assert (await api.post("/queues/none/resume")).error[:2] == (404, "JQ002")
    assert await calls.list_audit(conn) == []
    await api.post("/queues/q/pause")
    assert await newest(conn) == ("anyone", "pause", "queue q")
    await calls.resume(conn, queue="q")  # on no connection of the API's
    user = (await (await conn.execute("select session_user::text")).fetchone() or ("",))[0]
    assert await newest(conn) == (user, "resume", "queue q")


async def test_the_audit_comes_in_pages_and_of_one_target(api: Api, conn: Connection) -> None:
    for queue in ("a", "b", "a", "a"):
        await api.post(f"/queues/{queue}/pause", {"reason": queue})
    page = (await api.get("/audit?limit=3")).json
    assert [entry["target"] for entry in page["entries"]] == ["queue a", "queue a", "queue b"]
    entry = page["entries"][0]
    at = datetime.fromisoformat(entry["at"])
    assert abs(await calls.now(conn) - at) < timedelta(minutes=1)
    assert (entry["actor"], entry["action"]) == ("anyone", "pause")
    assert entry["details"] == {"reason": "a"}
    assert entry["db_user"]
    rest = (await api.get(f"/audit?limit=3&cursor={page['next_cursor']}")).json
    assert ([one["target"] for one in rest["entries"]], rest["next_cursor"]) == (["queue a"], None)
    own = (await api.get("/audit?target=queue%20b")).json["entries"]
    assert [one["target"] for one in own] == ["queue b"]
    assert (await api.get("/audit?target=queue")).json == {"entries": [], "next_cursor": None}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "cursor=x", "target=", "actor=ann"])
async def test_f091_a_silly_parameter_is_400(api: Api, query: str) -> None:
    assert (await api.get(f"/audit?{query}")).error[:2] == (400, "JQ001")


async def test_the_audit_is_for_tokens_of_all_queues(api: Api, conn: Connection) -> None:
    for scopes, queues, status in (
        (["monitor"], None, 200), (["operate"], None, 200), (["operate"], ["q"], 403),
    ):  # fmt: skip
        client = As(api, await token(conn, scopes, queues))
        assert (await client.get("/audit")).status == status
    assert (await api.get("/audit")).error[0] == 401


# changing a job


async def test_a_pending_job_is_changed(api: Api, conn: Connection) -> None:
    job = await api.enqueue(delay=3600)
    answer = await api.post(f"/jobs/{job}", {"priority": 7}, method="PATCH")
    assert (answer.status, answer.json) == (200, {"state": "scheduled"})
    later = datetime(2090, 1, 1, tzinfo=UTC)
    await api.post(f"/jobs/{job}", {"run_at": "2090-01-01T02:00:00+02:00"}, method="PATCH")
    found = (await api.get(f"/jobs/{job}")).json
    assert (found["priority"], datetime.fromisoformat(found["run_at"])) == (7, later)
    uuid = found["uuid"]
    assert (await api.post(f"/jobs/{uuid}", {"run_now": True}, method="PATCH")).json == {
        "state": "scheduled"
    }
    (leased,) = await calls.lease(conn)
    assert (leased.job_id, leased.priority) == (job, 7)
    answer = await api.post(f"/jobs/{job}", {"priority": 7}, method="PATCH")
    assert answer.error == (409, "JQ005", f"job {job} is running")
    ready = await api.enqueue()
    assert (await api.post(f"/jobs/{ready}", {"priority": -3}, method="PATCH")).json == {
        "state": "ready"
    }


BAD: list[dict[str, Any]] = [
    {}, {"run_now": False}, {"priority": 40_000}, {"priority": 1.5}, {"run_at": "soon"},
    {"run_at": "2030-01-01T00:00:00"}, {"run_at": "2030-01-01T00:00:00Z", "run_now": True},
    {"state": "ready"}, {"run_at": "9999-12-31T23:00:00-20:00"}, {"run_now": 1},
]  # fmt: skip


@pytest.mark.parametrize("body", BAD, ids=str)
async def test_f065_a_silly_change_is_400(api: Api, body: dict[str, Any]) -> None:
    job = await api.enqueue()
    assert (await api.post(f"/jobs/{job}", body, method="PATCH")).error[:2] == (400, "JQ001")


async def test_a_limited_operator_changes_jobs_of_its_queues_alone(
    api: Api, conn: Connection
) -> None:
    operator = As(api, await token(conn, ["operate"], ["mail"]))
    own, other = [await calls.enqueue(conn, "k", queue=queue) for queue in ("mail", "other")]
    assert (await operator.post(f"/jobs/{own}", {"priority": 1}, "PATCH")).status == 200
    for job in (other, 999):
        answer = await operator.post(f"/jobs/{job}", {"priority": 1}, "PATCH")
        assert answer.error == (404, "JQ003", f"no job {job}")
    producer = As(api, await token(conn, ["produce"]))
    assert (await producer.post(f"/jobs/{own}", {"priority": 1}, "PATCH")).error[0] == 403
