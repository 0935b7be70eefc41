"""The worker protocol over HTTP: leasing, settling, heartbeats, upkeep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.working import ended, statuses, until

SETTLING = ("complete", "fail", "release", "snooze", "progress")
MORE: dict[str, dict[str, Any]] = {
    "complete": {}, "fail": {"error": "boom"}, "release": {}, "snooze": {"delay": 60},
    "progress": {"progress": {"done": 1}},
}  # fmt: skip


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def lease(api: Api, **body: Any) -> list[dict[str, Any]]:
    answer = await api.post("/work/lease", body)
    assert answer.status == 200, answer.text
    jobs: list[dict[str, Any]] = answer.json["jobs"]
    return jobs


async def leased(api: Api, **more: Any) -> dict[str, int]:
    """A new job, leased: what names its lease."""
    await api.enqueue(**more)
    (job,) = await lease(api, queues=[more.get("queue", "default")])
    return {"job_id": job["job_id"], "lease_id": job["lease_id"]}


async def status(api: Api, job_id: int) -> tuple[str, str, int]:
    job = (await api.get(f"/jobs/{job_id}")).json
    return job["status"], job["state"], job["attempts"]


async def test_a_job_is_leased_with_all_its_worker_needs(api: Api) -> None:
    payload = '{"id":1970670598291982290,"f":0.1,"d":1.10,"s":"ü"}'
    job_id = (
        await api.post(
            "/jobs",
            '{"kind":"send","queue":"mail","timeout":90,"max_attempts":5,'
            f'"headers":{{"a":"b"}},"payload":{payload}}}',
        )
    ).json["id"]
    answer = await api.post(
        "/work/lease", {"queues": ["other", "mail"], "worker": "w1", "lease_for": 30}
    )
    (job,) = answer.json["jobs"]
    uuid = (await api.get(f"/jobs/{job_id}")).json["uuid"]
    assert job.pop("lease_id") > 0
    assert 29 < job.pop("lease_for") <= 30
    assert job == {
        "job_id": job_id, "uuid": uuid, "queue": "mail", "kind": "send", "type": "send",
        "payload": {"id": 1970670598291982290, "f": 0.1, "d": 1.1, "s": "ü"}, "attempt": 1,
        "max_attempts": 5, "timeout": 90.0, "headers": {"a": "b"},
    }  # fmt: skip
    for digits in ("1970670598291982290", "1.10"):  # F060: as text, too
        assert digits in answer.text
    shown = (await api.get(f"/jobs/{job_id}")).json
    assert (shown["status"], shown["locked_by"]) == ("running", "w1")


async def test_a_lease_takes_up_to_n_jobs_best_first_and_never_one_twice(api: Api) -> None:
    low = [await api.enqueue() for _ in range(3)]
    high = await api.enqueue(priority=5)
    first = await lease(api, n=2)
    rest = await lease(api, n=100)
    assert [job["job_id"] for job in first] == [high, low[0]]
    assert [job["job_id"] for job in rest] == low[1:]
    assert await lease(api, n=100) == []
    assert len({job["lease_id"] for job in first + rest}) == 4


async def test_a46_queues_are_levels_of_preference(api: Api) -> None:
    low = [await api.enqueue(queue="low") for _ in range(2)]
    high = [await api.enqueue(queue="high") for _ in range(2)]
    jobs = await lease(api, queues=["high", "low"], n=3)
    assert [job["job_id"] for job in jobs] == [*high, low[0]]


async def test_a45_a47_other_queues_are_left_alone_and_the_default_is_default(api: Api) -> None:
    other, own = await api.enqueue(queue="b"), await api.enqueue()
    answer = await api.post("/work/lease")
    assert [job["job_id"] for job in answer.json["jobs"]] == [own]
    assert (await status(api, other))[0] == "pending"


async def test_without_a_job_it_is_told_when_the_next_is_due(api: Api) -> None:
    assert (await api.post("/work/lease")).json == {"jobs": [], "next_due": None}
    await api.enqueue(delay=60)
    answer = (await api.post("/work/lease")).json
    assert answer["jobs"] == []
    assert 50 < answer["next_due"] <= 60


@pytest.mark.parametrize(
    ("name", "state", "after"),
    [
        ("complete", "completed", ("completed", "completed", 1)),
        ("fail", "scheduled", ("pending", "scheduled", 1)),
        ("release", "ready", ("pending", "ready", 0)),
        ("snooze", "scheduled", ("pending", "scheduled", 0)),
        ("progress", "leased", ("running", "leased", 1)),
    ],
)
async def test_one_job_is_settled(
    api: Api, name: str, state: str, after: tuple[str, str, int]
) -> None:
    lease = await leased(api)
    answer = await api.post(f"/work/{name}", {**lease, **MORE[name]})
    assert (answer.status, answer.json) == (200, {**lease, "state": state})
    assert await status(api, lease["job_id"]) == after


async def test_results_and_progress_keep_their_digits(api: Api) -> None:
    lease = await leased(api)
    digits = '{"n":1970670598291982290,"d":1.10}'
    names = f'"job_id":{lease["job_id"]},"lease_id":{lease["lease_id"]}'
    assert (await api.post("/work/progress", f'{{{names},"progress":{digits}}}')).status == 200
    assert '"d": 1.10' in (await api.get(f"/jobs/{lease['job_id']}")).text
    assert (await api.post("/work/complete", f'{{{names},"result":{digits}}}')).status == 200
    job = await api.get(f"/jobs/{lease['job_id']}")
    assert job.json["result"] == {"n": 1970670598291982290, "d": 1.1}
    assert "1970670598291982290" in job.text
    assert "1.10" in job.text


async def test_failing_for_good_or_with_a_wait_of_its_own(api: Api) -> None:
    lease = await leased(api)
    answer = await api.post("/work/fail", {**lease, "error": "no such user", "permanent": True})
    assert answer.json["state"] == "failed"
    job = (await api.get(f"/jobs/{lease['job_id']}")).json
    assert (job["status"], job["last_error"]) == ("failed", "no such user")
    lease = await leased(api)
    answer = await api.post("/work/fail", {**lease, "error": "later", "retry_in": -5})
    assert answer.json["state"] == "scheduled"  # F067: a wait in the past is none
    (again,) = await api_jobs(api)
    assert (again["job_id"], again["attempt"]) == (lease["job_id"], 2)


async def api_jobs(api: Api) -> list[dict[str, Any]]:
    return await lease(api, n=100)


@pytest.mark.parametrize("name", SETTLING)
async def test_many_are_settled_and_a_bad_one_spoils_none(api: Api, name: str) -> None:
    good = [await leased(api) for _ in range(3)]
    bad = {"job_id": good[0]["job_id"], "lease_id": 1 << 40}
    body = [{**one, **MORE[name]} for one in (good[0], bad, *good[1:])]
    answer = await api.post(f"/work/{name}", body)
    assert (answer.status, answer.json) == (200, {"refused": [{**bad, "reason": "lost"}]})
    after = {await status(api, one["job_id"]) for one in good}
    assert len(after) == 1
    assert after != {("running", "leased", 1)} or name == "progress"
    assert (await api.post(f"/work/{name}", [])).json == {"refused": []}


@pytest.mark.parametrize("name", [*SETTLING, "extend"])
async def test_whoever_lost_the_lease_is_told_409_and_changes_nothing(
    api: Api, conn: Connection, name: str
) -> None:
    lease = await leased(api)
    await calls.release(conn, **lease)
    (now,) = await calls.lease(conn, worker="another")
    answer = await api.post(f"/work/{name}", {**lease, **MORE.get(name, {})})
    lost = f"lease {lease['lease_id']} of job {lease['job_id']} is lost"
    assert answer.error == (409, "JQ004", lost)
    assert answer.json["name"] == "lease_lost"
    job = await calls.get_job(conn, job_id=now.job_id)
    assert (job.status, job.locked_by, job.progress) == ("running", "another", None)


@pytest.mark.parametrize("name", ["complete", "fail"])
async def test_being_asked_twice_is_no_error(api: Api, name: str) -> None:
    lease = await leased(api, max_attempts=1)
    body = {**lease, **MORE[name]}
    first, second = [await api.post(f"/work/{name}", body) for _ in range(2)]
    assert first.json == second.json
    assert (await api.post(f"/work/{name}", [body])).json == {"refused": []}


async def test_a_result_that_is_too_large_leaves_the_job_leased(api: Api) -> None:
    one, other = await leased(api), await leased(api)
    large = "x" * (1024 * 1024)
    answer = await api.post("/work/complete", {**one, "result": large})
    assert answer.error[:2] == (400, "JQ001")
    answer = await api.post("/work/complete", [{**one, "result": large}, {**other, "result": 1}])
    assert answer.json == {"refused": [{**one, "reason": "too_large"}]}
    assert (await status(api, one["job_id"]))[0] == "running"
    assert (await status(api, other["job_id"]))[0] == "completed"


async def test_a_lease_somebody_else_holds_just_now_is_deferred(
    api: Api, conn: Connection, connect: Any
) -> None:
    one, other = await leased(api), await leased(api)
    holder = await connect(autocommit=False)
    await calls.assert_lease(holder, **one)
    answer = await api.post("/work/complete", [one, other])
    assert answer.json == {"refused": [{**one, "reason": "deferred"}]}
    await holder.rollback()
    assert (await api.post("/work/complete", [one])).json == {"refused": []}


async def test_the_heartbeat_extends_and_says_who_is_to_stop(api: Api) -> None:
    going, asked = await leased(api), await leased(api)
    lost = {"job_id": 1 << 40, "lease_id": 7}
    assert (await api.post(f"/jobs/{asked['job_id']}/cancel")).status == 202
    before = (await api.get(f"/jobs/{going['job_id']}")).json["locked_until"]
    answer = await api.post("/work/extend", {"leases": [going, asked, lost], "lease_for": 3600})
    states = {one["job_id"]: one for one in answer.json["leases"]}
    assert {job_id: one["state"] for job_id, one in states.items()} == {
        going["job_id"]: "extended", asked["job_id"]: "cancelled", lost["job_id"]: "lost",
    }  # fmt: skip
    assert states[lost["job_id"]]["lease_until"] is None
    after = (await api.get(f"/jobs/{going['job_id']}")).json["locked_until"]
    assert before < after == states[going["job_id"]]["lease_until"]
    alone = await api.post("/work/extend", going)
    assert (alone.status, alone.json["state"]) == (200, "extended")


async def test_a_job_out_of_time_is_told_by_the_heartbeat(api: Api, conn: Connection) -> None:
    lease = await leased(api, timeout=0.01)

    async def over() -> bool:
        return bool((await api.post("/work/extend", lease)).json["state"] == "timed_out")

    await until(over)


async def test_the_loop_of_a_worker_is_one_request(api: Api) -> None:
    jobs = [await api.enqueue() for _ in range(6)]
    first = (await api.post("/work/settle-and-lease", {"n": 4, "worker": "w"})).json
    assert (len(first["jobs"]), first["refused"], first["next_due"]) == (4, [], None)
    one, two, three, four = [
        {"job_id": job["job_id"], "lease_id": job["lease_id"]} for job in first["jobs"]
    ]
    gone = {"job_id": jobs[5], "lease_id": 5}
    answer = await api.post(
        "/work/settle-and-lease",
        {
            "n": 2,
            "completed": [{**one, "result": {"ok": True}}, {**gone}],
            "failed": [{**two, "error": "boom", "permanent": True}],
            "released": [three, {**four, "delay": 300}],
        },
    )
    assert answer.json["refused"] == [{**gone, "reason": "lost"}]
    assert [job["job_id"] for job in answer.json["jobs"]] == jobs[4:]
    assert [(await status(api, job))[1] for job in jobs] == [
        "completed", "failed", "ready", "scheduled", "leased", "leased",
    ]  # fmt: skip
    assert (await api.get(f"/jobs/{jobs[0]}")).json["result"] == {"ok": True}


async def test_settling_only_leases_nothing_and_does_not_wait(api: Api) -> None:
    lease = await leased(api)
    other = await api.enqueue()
    async with asyncio.timeout(10):
        answer = await api.post(
            "/work/settle-and-lease", {"n": 0, "wait": 30, "completed": [lease]}
        )
    assert answer.json == {"jobs": [], "next_due": None, "refused": []}
    assert (await status(api, other))[0] == "pending"


async def test_whoever_has_to_hand_something_in_again_is_not_kept_waiting(api: Api) -> None:
    lost = {"job_id": 1, "lease_id": 1}
    async with asyncio.timeout(10):
        answer = await api.post("/work/settle-and-lease", {"wait": 30, "completed": [lost]})
    assert answer.json["refused"] == [{**lost, "reason": "lost"}]


async def test_nothing_is_settled_where_anything_of_the_request_is_refused(api: Api) -> None:
    lease = await leased(api)
    for name, body in (
        ("settle-and-lease", {"completed": [lease, {"job_id": 1}]}),
        ("settle-and-lease", {"completed": [lease], "queues": []}),
        ("complete", [lease, {"job_id": 1}]),
    ):
        answer = await api.post(f"/work/{name}", body)
        assert answer.error[:2] == (400, "JQ001")
        assert (await status(api, lease["job_id"]))[0] == "running"


async def test_a_cancelled_job_ends_cancelled_whatever_its_worker_says(
    api: Api, conn: Connection
) -> None:
    for name in ("fail", "release", "snooze"):
        lease = await leased(api)
        await calls.cancel(conn, job_id=lease["job_id"])
        answer = await api.post(f"/work/{name}", {**lease, **MORE[name]})
        assert answer.json["state"] == "cancelled"


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(api: Api, conn: Connection) -> None:
    await calls.pause(conn, queue="default")
    job = await api.enqueue()
    assert await lease(api) == []
    waiting = asyncio.ensure_future(lease(api, wait=30))
    await calls.resume(conn, queue="default")
    async with asyncio.timeout(15):
        assert [one["job_id"] for one in await waiting] == [job]


async def test_a_dead_workers_jobs_come_back_without_any_other_worker(
    db: str, conn: Connection
) -> None:
    """The API does the upkeep for workers that can only speak HTTP."""
    async with serving(db, BATCHQ_REAP_EVERY="0.2s") as api:
        job = await api.enqueue(backoff_base=0)
        await lease(api, lease_for=0.2, worker="dies")
        (again,) = await lease(api, wait=30)
        assert (again["job_id"], again["attempt"]) == (job, 2)
        assert (await api.post("/work/complete", _named(again))).status == 200
        record = await ended(conn, job)
        assert record.last_error is not None
        assert "expired" in record.last_error


def _named(job: dict[str, Any]) -> dict[str, int]:
    return {"job_id": job["job_id"], "lease_id": job["lease_id"]}


async def test_read_only_leases_nothing(db: str, conn: Connection) -> None:
    await calls.enqueue(conn, "k")
    async with serving(db, BATCHQ_READ_ONLY="on") as api:
        assert (await api.post("/work/lease")).error[0] == 403
    assert await statuses(conn) == {"pending": 1}


async def test_a_queue_sets_how_long_its_leases_last(api: Api, conn: Connection) -> None:
    await calls.set_queue(conn, queue="slow", lease_for=timedelta(seconds=600))
    await api.enqueue(queue="slow")
    (job,) = await lease(api, queues=["slow"])
    assert 599 < job["lease_for"] <= 600


async def test_many_workers_share_out_a_queue_without_a_job_twice(api: Api) -> None:
    jobs = (await api.post("/jobs/bulk", [{"kind": "k"}] * 500)).json["jobs"]
    seen: list[int] = []

    async def worker() -> None:
        done: list[dict[str, int]] = []
        while True:
            answer = await api.post("/work/settle-and-lease", {"n": 7, "completed": done})
            assert answer.json["refused"] == []
            done = [_named(job) for job in answer.json["jobs"]]
            if not done:
                return
            seen.extend(job["job_id"] for job in done)

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(worker())
    assert sorted(seen) == sorted(job["id"] for job in jobs)
    page = await api.get("/jobs?status=completed&limit=500")
    assert len(page.json["jobs"]) == 500
