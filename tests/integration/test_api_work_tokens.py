"""Tokens that are limited to queues, at work: what they may lease, settle, see and change."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Answer, Api, serving
from tests.support.working import ended

SETTLING: dict[str, dict[str, Any]] = {
    "complete": {"result": 1}, "fail": {"error": "boom"}, "release": {}, "snooze": {"delay": 60},
    "progress": {"progress": 1},
}  # fmt: skip


class As:
    """A client with a token."""

    def __init__(self, api: Api, secret: str) -> None:
        self._api = api
        self._headers = {"Authorization": f"Bearer {secret}"}

    async def get(self, path: str) -> Answer:
        return await self._api.get(path, headers=self._headers)

    async def post(self, path: str, body: Any = None, method: str = "POST") -> Answer:
        return await self._api.post(path, body, headers=self._headers, method=method)


async def token(conn: Connection, scopes: list[Any], queues: list[str] | None = None) -> str:
    """The secret of a new token."""
    secret = f"bq_{uuid4().hex}"
    await calls.create_token(
        conn, name=secret, secret_hash=hashlib.sha256(secret.encode()).digest(), scopes=scopes,
        queues=queues,
    )  # fmt: skip
    return secret


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


@pytest.fixture
async def mail(api: Api, conn: Connection) -> As:
    """A worker that may work on mail and low only."""
    return As(api, await token(conn, ["work"], ["mail", "low"]))


async def leased(conn: Connection, queue: str) -> dict[str, int]:
    """A new job, leased by somebody with a connection: what names its lease."""
    await calls.enqueue(conn, "k", queue=queue)
    (job,) = await calls.lease(conn, queue=queue, worker="other")
    return {"job_id": job.job_id, "lease_id": job.lease_id}


async def test_a_limited_token_leases_from_its_queues_only(mail: As, conn: Connection) -> None:
    for queue in ("mail", "low", "default"):
        await calls.enqueue(conn, "k", queue=queue)
    for body in ({"queues": ["other"]}, {"queues": ["mail", "other"]}, {}, {"queues": ["Mail"]}):
        for path in ("/work/lease", "/work/settle-and-lease"):
            status, code, message = (await mail.post(path, body)).error
            assert (status, code, message) == (403, "HTTP403", "this token is not for that queue")
    jobs = (await mail.post("/work/lease", {"queues": ["mail", "low"], "n": 9})).json["jobs"]
    assert [job["queue"] for job in jobs] == ["mail", "low"]


@pytest.mark.parametrize("name", [*SETTLING, "extend"])
async def test_to_it_the_leases_of_others_are_lost_ones(
    mail: As, conn: Connection, name: str
) -> None:
    """Numbers of leases can be guessed; they are no secrets."""
    own, other = await leased(conn, "mail"), await leased(conn, "other")
    more = SETTLING.get(name, {})
    before = await calls.get_job(conn, job_id=other["job_id"])
    answer = await mail.post(f"/work/{name}", {**other, **more})
    unknown = await mail.post(f"/work/{name}", {"job_id": 1 << 40, "lease_id": 7, **more})
    assert answer.error[:2] == unknown.error[:2] == (409, "JQ004")
    assert answer.json["hint"] == unknown.json["hint"]
    if name == "extend":
        answer = await mail.post("/work/extend", {"leases": [other, own]})
        states = {one["job_id"]: one["state"] for one in answer.json["leases"]}
        assert states == {other["job_id"]: "lost", own["job_id"]: "extended"}
    else:
        answer = await mail.post(f"/work/{name}", [{**other, **more}, {**own, **more}])
        assert answer.json == {"refused": [{**other, "reason": "lost"}]}
    assert await calls.get_job(conn, job_id=other["job_id"]) == before
    if name == "complete":
        await ended(conn, own["job_id"])


async def test_nor_does_the_loop_settle_them(mail: As, conn: Connection) -> None:
    own = [await leased(conn, "mail") for _ in range(3)]
    others = [await leased(conn, "other") for _ in range(3)]
    answer = await mail.post(
        "/work/settle-and-lease",
        {
            "queues": ["mail"], "n": 0,
            "completed": [own[0], others[0]],
            "failed": [{**one, "error": "boom"} for one in (own[1], others[1])],
            "released": [own[2], others[2]],
        },
    )  # fmt: skip
    assert answer.json["refused"] == [{**one, "reason": "lost"} for one in others]
    states = [(await calls.get_job(conn, job_id=one["job_id"])).state for one in [*own, *others]]
    assert states == ["completed", "scheduled", "ready", "leased", "leased", "leased"]


async def test_settling_thousands_looks_their_queues_up_in_few_calls(
    mail: As, conn: Connection
) -> None:
    for queue in ("mail", "other"):
        await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": queue}] * 1500)
    jobs = [
        job for queue in ("mail", "other") for job in await calls.lease(conn, queue=queue, n=1500)
    ]
    body = [{"job_id": job.job_id, "lease_id": job.lease_id} for job in jobs]
    refused = (await mail.post("/work/complete", body)).json["refused"]
    others = [job.job_id for job in jobs if job.queue == "other"]
    assert [one["job_id"] for one in refused] == others


async def test_a_token_of_all_queues_settles_all(api: Api, conn: Connection) -> None:
    worker = As(api, await token(conn, ["work"]))
    lease = await leased(conn, "other")
    assert (await worker.post("/work/complete", lease)).json["state"] == "completed"


@pytest.mark.parametrize("scope", ["produce", "operate", "monitor"])
async def test_work_takes_the_scope_work(api: Api, conn: Connection, scope: str) -> None:
    client = As(api, await token(conn, [scope]))
    lease = await leased(conn, "mail")
    for name in (*SETTLING, "lease", "settle-and-lease", "extend"):
        answer = await client.post(f"/work/{name}", {**lease, **SETTLING.get(name, {})})
        assert answer.error == (403, "HTTP403", "this token has no scope work")
    for method in ("PUT", "DELETE"):
        answer = await client.post(f"/workers/{uuid4()}", {}, method)
        assert answer.error[0] == 403
    assert (await api.post("/work/lease")).error[:2] == (401, "HTTP401")


async def test_a_limited_operator_is_held_to_its_queues(api: Api, conn: Connection) -> None:
    operator = As(api, await token(conn, ["operate"], ["mail"]))
    worker = As(api, await token(conn, ["work"], ["mail"]))
    for queue in ("mail", "other"):
        await calls.enqueue(conn, "k", queue=queue)
    assert [one["queue"] for one in (await operator.get("/queues")).json["queues"]] == ["mail"]
    for method, path in (("GET", ""), ("PUT", ""), ("PATCH", ""), ("POST", "/pause"),
                         ("POST", "/resume")):  # fmt: skip
        body: dict[str, Any] | None = None if method == "GET" else {}
        answer = await operator.post(f"/queues/other{path}", body, method)
        assert answer.error == (403, "HTTP403", "this token is not for that queue")
        answer = await operator.post(f"/queues/mail{path}", body, method)
        assert answer.status == 200, answer.text
        answer = await worker.post(f"/queues/mail{path}", body, method)
        assert answer.status == (200 if method == "GET" else 403)
    assert (await calls.get_queue(conn, queue="other")).paused_at is None


async def test_a_limited_operator_has_its_own_dead_letters_only(api: Api, conn: Connection) -> None:
    operator = As(api, await token(conn, ["operate"], ["mail"]))
    two = As(api, await token(conn, ["operate"], ["mail", "low"]))
    own, other = [await leased(conn, "mail") for _ in range(2)], await leased(conn, "other")
    for lease in (*own, other):
        await calls.fail(
            conn, job_id=lease["job_id"], lease_id=lease["lease_id"], error="boom", permanent=True
        )
    groups = (await operator.get("/dead")).json["errors"]
    assert [(one["queue"], one["jobs"]) for one in groups] == [("mail", 2)]
    assert (await operator.get("/dead?queue=other")).error[0] == 403
    assert (await two.get("/dead")).error[0] == 403
    assert len((await two.get("/dead?queue=mail")).json["errors"]) == 1
    for client in (operator, two):
        for path in ("/dead/redrive", "/dead/purge"):
            answer = await client.post(path, {"ids": [own[0]["job_id"], other["job_id"]]})
            assert answer.error == (404, "JQ003", f"no job {other['job_id']}")
            assert (await client.post(path, {"queue": "other"})).error[0] == 403
    answer = await operator.post("/dead/redrive", {"dry_run": True})
    assert answer.json["redriven"] == 2
    assert (await two.post("/dead/redrive", {"ids": [own[0]["job_id"]]})).json["redriven"] == 1
    assert (await operator.post("/dead/purge", {"all": True})).json["purged"] == 1
    assert (await calls.get_job(conn, job_id=other["job_id"])).status == "failed"


async def test_a_limited_token_sees_who_works_on_its_queues(
    mail: As, api: Api, conn: Connection
) -> None:
    all_ = As(api, await token(conn, ["work"]))
    for name, queues in (("a", ["mail", "secret"]), ("b", ["secret"]), ("c", ["low"])):
        body = {"worker": name, "host": "h", "queues": queues}
        assert (await all_.post(f"/workers/{uuid4()}", body, "PUT")).status == 200
        answer = await mail.post(f"/workers/{uuid4()}", body, "PUT")
        assert answer.status == (200 if name == "c" else 403)
    seen = (await mail.get("/workers")).json["workers"]
    assert sorted((one["worker"], *one["queues"]) for one in seen) == [
        ("a", "mail"), ("c", "low"), ("c", "low"),
    ]  # fmt: skip
    assert (await mail.get("/workers?queue=secret")).error[0] == 403
    assert len((await all_.get("/workers")).json["workers"]) == 4


async def test_a_limited_operator_drains_workers_of_its_queues_alone(
    api: Api, conn: Connection
) -> None:
    operator = As(api, await token(conn, ["operate"], ["mail", "low"]))
    worker = As(api, await token(conn, ["work"]))
    for queues, status in ((["mail"], 200), (["mail", "secret"], 403), (["secret"], 403)):
        path = f"/workers/{uuid4()}"
        await worker.post(path, {"worker": "w", "host": "h", "queues": queues}, "PUT")
        assert (await operator.post(f"{path}/drain")).status == status
        assert (await worker.post(f"{path}/drain")).error[0] == 403
    drained = [one.queues for one in await calls.list_workers(conn) if one.drain_requested_at]
    assert drained == [["mail"]]
