"""Why a job is not running, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api, serving


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def test_a_job_is_explained_by_number_and_uuid(api: Api, conn: Connection) -> None:
    job = await api.enqueue(queue="mail", delay=3600)
    await calls.pause(conn, queue="mail", reason="provider is down")
    answer = await api.get(f"/jobs/{job}/explain")
    assert answer.status == 200
    due, paused, worker = answer.json["gates"]
    assert [one["gate"] for one in (due, paused, worker)] == ["due", "paused", "worker"]
    assert list(due) == ["gate", "holds", "says", "until", "data"]
    assert due["holds"] is True
    assert due["until"] == (await api.get(f"/jobs/{job}")).json["run_at"]
    assert paused["until"] is None
    assert paused["data"]["reason"] == "provider is down"
    uuid = (await api.get(f"/jobs/{job}")).json["uuid"]
    assert (await api.get(f"/jobs/{uuid}/explain")).json == answer.json
    assert (await api.get("/jobs/999/explain")).error[:2] == (404, "JQ003")
    assert (await api.get("/jobs/x/explain")).error[:2] == (400, "JQ001")
    assert (await api.get(f"/jobs/{job}/explain?x=1")).error[:2] == (400, "JQ001")


async def test_a_queue_is_explained_and_its_next_jobs_shown(api: Api, conn: Connection) -> None:
    await calls.set_queue(conn, queue="mail", group_limit=1, max_running=2)
    one, two, three = [await api.enqueue(queue="mail") for _ in range(3)]
    jobs = (await api.get("/queues/mail/peek")).json["jobs"]
    assert [job["job_id"] for job in jobs] == [one, two]
    assert jobs[0] == {
        "job_id": one, "kind": "k", "priority": 0, "group_key": None, "state": "ready",
    }  # fmt: skip
    assert len((await api.get("/queues/mail/peek?limit=1")).json["jobs"]) == 1
    assert len(await calls.lease(conn, queue="mail", n=5)) == 2
    assert (await api.get("/queues/mail/peek")).json == {"jobs": []}
    (cap, *_) = (await api.get("/queues/mail/explain")).json["gates"]
    assert (cap["gate"], sorted(cap["data"]["job_ids"])) == ("cap", [one, two])
    assert (await api.get(f"/jobs/{three}/explain")).json["gates"][0]["gate"] == "cap"
    assert (await api.get("/queues/no/explain")).error[:2] == (404, "JQ002")
    assert (await api.get("/queues/no/peek")).error[:2] == (404, "JQ002")
    assert (await api.get("/queues/mail/peek?limit=1001")).error[:2] == (400, "JQ001")
