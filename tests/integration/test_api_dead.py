"""Dead letters over HTTP: grouped by error, put back in steps, forgotten."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.working import statuses


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def die(conn: Connection, count: int = 1, error: str = "boom", **more: Any) -> list[int]:
    """The ids of new dead letters."""
    jobs = [{"kind": "k", "queue": "default", **more}] * count
    made: list[int] = [row.job_id for row in await calls.enqueue_many(conn, jobs=jobs)]
    leased = await calls.lease(conn, queue=jobs[0]["queue"], n=count, worker="w")
    ids = [job.job_id for job in leased]
    assert sorted(ids) == made
    await calls.fail_many(
        conn, job_ids=ids, lease_ids=[job.lease_id for job in leased], errors=[error] * count,
        permanents=[True] * count,
    )  # fmt: skip
    return made


def future() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


async def test_b34_dead_letters_are_grouped_by_their_error(api: Api, conn: Connection) -> None:
    assert (await api.get("/dead")).json == {"errors": [], "others": 0, "is_exact": True}
    mail = await die(conn, 12, "no route to 10.0.0.7", queue="mail", kind="send")
    await die(conn, 2, "timeout after 3000 ms", kind="fetch")
    groups = (await api.get("/dead")).json["errors"]
    assert [(one["error"], one["queue"], one["kind"], one["jobs"]) for one in groups] == [
        ("no route to N.N.N.N", "mail", "send", 12), ("timeout after N ms", "default", "fetch", 2),
    ]  # fmt: skip
    assert groups[0]["job_ids"] == mail[:1:-1]
    assert groups[0]["type"] == "send"
    assert groups[0]["first_at"] <= groups[0]["last_at"]
    for query, count in (("queue=mail", 1), ("kind=fetch", 1), ("type=fetch", 1), ("limit=1", 1),
                         ("queue=mail&kind=fetch", 0), ("kind=a&type=a", 0)):  # fmt: skip
        assert len((await api.get(f"/dead?{query}")).json["errors"]) == count


@pytest.mark.parametrize(
    ("query", "says"),
    [("limit=0", "limit: "), ("limit=1e9", "limit: "), ("queue=", "queue: "), ("a=b", "unknown"),
     ("kind=a&type=b", "kind and type differ"), ("limit=1&limit=2", "a parameter is given twice"),
     ("kind=%00", ""), ("kind=" + "k" * 300, "kind: ")],
)  # fmt: skip
async def test_f091_a_silly_parameter_is_400(api: Api, query: str, says: str) -> None:
    status, code, message = (await api.get(f"/dead?{query}")).error
    assert (status, code) == (400, "JQ001")
    assert message.startswith(says)


async def test_b34_redriven_letters_start_afresh(api: Api, conn: Connection) -> None:
    one, other = await die(conn, 2)
    dry = (await api.post("/dead/redrive", {"ids": [one], "dry_run": True})).json
    assert (dry["redriven"], dry["more"]) == (1, False)
    assert await statuses(conn) == {"failed": 2}
    answer = await api.post("/dead/redrive", {"ids": [one]})
    assert answer.json == {
        "redriven": 1, "more": False, "failed_before": None, "pause": 0.0, "next_cursor": None,
    }  # fmt: skip
    job = (await api.get(f"/jobs/{one}")).json
    assert (job["status"], job["attempts"], len(job["errors"])) == ("pending", 0, 1)
    assert (await api.get(f"/jobs/{other}")).json["status"] == "failed"
    assert (await api.post("/dead/redrive", {"ids": [one]})).json["redriven"] == 0


async def test_filters_have_to_match_all(api: Api, conn: Connection) -> None:
    await die(conn, 3, queue="mail", kind="a")
    await die(conn, 4, queue="mail", kind="b")
    await die(conn, 5, kind="a")
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for body, count in (
        ({"queue": "mail"}, 7), ({"kind": "a"}, 8), ({"type": "a", "queue": "mail"}, 3),
        ({"failed_before": later}, 12), ({"failed_after": later}, 0), ({"kind": "no"}, 0), ({}, 12),
    ):  # fmt: skip
        answer = await api.post("/dead/redrive", {**body, "dry_run": True})
        assert answer.json["redriven"] == count
        if body and "failed_after" not in body:
            answer = await api.post("/dead/purge", {**body, "dry_run": True})
            assert answer.json == {"purged": count, "more": False, "next_cursor": None}
    assert (await api.post("/dead/purge", {"all": True, "dry_run": True})).json["purged"] == 12


async def test_many_are_put_back_in_steps_and_none_twice(api: Api, conn: Connection) -> None:
    """Those that fail again meanwhile are left for another time."""
    jobs = await die(conn, 25)
    body: dict[str, Any] = {"limit": 10}
    steps = []
    while True:
        answer = (await api.post("/dead/redrive", body)).json
        steps.append(answer["redriven"])
        for job in await calls.lease(conn, n=100):
            await calls.fail(
                conn, job_id=job.job_id, lease_id=job.lease_id, error="again", permanent=True
            )
        if not answer["more"]:
            break
        body["failed_before"] = answer["failed_before"]
    assert steps == [10, 10, 5]
    for job_id in jobs:
        assert len((await api.get(f"/jobs/{job_id}")).json["errors"]) == 2


@pytest.mark.parametrize("route", ["/dead/redrive", "/jobs/redrive"])
async def test_b34_a_group_is_put_back_and_no_other(api: Api, conn: Connection, route: str) -> None:
    alike = await die(conn, 3, "no route to 10.0.0.7:80")
    alike += await die(conn, 2, "no route to 10.1.22.3:443\nTraceback")
    await die(conn, 4, "no route at all")
    await die(conn, 1, "no route to 10.0.0.7:80", queue="mail")
    groups = (await api.get("/dead", params={"queue": "default"})).json["errors"]
    assert groups[0]["jobs"] == 5
    body = {"error": groups[0]["error"], "queue": "default"}
    assert (await api.post(route, {**body, "dry_run": True})).json["redriven"] == 5
    assert (await api.post(route, {**body, "limit": 4})).json["redriven"] == 4
    assert (await api.post(route, {**body, "failed_after": future()})).json["redriven"] == 0
    assert (await api.post(route, {**body, "error": "no route to"})).json["redriven"] == 0
    assert (await api.post(route, body)).json["redriven"] == 1
    pending = (await api.get("/jobs?status=pending")).json["jobs"]
    assert sorted(job["id"] for job in pending) == alike


async def test_b34_a_group_is_forgotten_and_no_other(api: Api, conn: Connection) -> None:
    await die(conn, 3, "KeyError: 'a'")
    await die(conn, 2, "KeyError: 7")
    group = {"error": "KeyError: '…'"}
    assert (await api.post("/dead/purge", {**group, "dry_run": True})).json["purged"] == 3
    assert (await api.post("/dead/purge", group)).json["purged"] == 3
    (left,) = (await api.get("/dead")).json["errors"]
    assert (left["error"], left["jobs"]) == ("KeyError: N", 2)


@pytest.mark.parametrize(("route", "word"), [("redrive", "redriven"), ("purge", "purged")])
async def test_a_walk_by_cursor_comes_to_each_letter_once(
    api: Api, conn: Connection, route: str, word: str
) -> None:
    await die(conn, 25, kind="a")
    await die(conn, 5, kind="b")
    body: dict[str, Any] = {"kind": "a", "limit": 10}
    steps = []
    while True:
        answer = (await api.post(f"/dead/{route}", body)).json
        steps.append(answer[word])
        assert answer["more"] == (answer["next_cursor"] is not None)
        if not answer["more"]:
            break
        body["cursor"] = answer["next_cursor"]
    assert sum(steps) == 25
    assert max(steps) == 10
    assert (await statuses(conn))["failed"] == 5


async def test_a_rate_spreads_the_start_and_says_when_to_go_on(api: Api, conn: Connection) -> None:
    await die(conn, 20)
    answer = (await api.post("/dead/redrive", {"per_second": 0.5, "limit": 10})).json
    assert (answer["redriven"], answer["more"], answer["pause"]) == (10, True, 20.0)
    page = (await api.get("/jobs?status=pending")).json["jobs"]
    due = sorted(datetime.fromisoformat(job["run_at"]) for job in page)
    assert len(due) == 10
    assert timedelta(seconds=17) < due[-1] - due[0] < timedelta(seconds=19)


async def test_counting_first_counts_far_more_than_one_step(api: Api, conn: Connection) -> None:
    await die(conn, 2500)
    dry = (await api.post("/dead/redrive", {"dry_run": True})).json
    assert (dry["redriven"], dry["more"]) == (2500, False)
    assert (await api.post("/dead/redrive", {})).json["redriven"] == 1000
    named = [job.id for job in await calls.list_jobs(conn, status="failed", n=500)]
    named += [
        job.id for job in await calls.list_jobs(conn, status="failed", n=500, before_id=named[-1])
    ]
    named += [
        job.id for job in await calls.list_jobs(conn, status="failed", n=500, before_id=named[-1])
    ]
    assert len(named) == 1500
    answer = (await api.post("/dead/redrive", {"ids": named})).json  # named ones are one step
    assert answer["redriven"] == 1500
    assert await statuses(conn) == {"pending": 2500}


async def test_purged_letters_are_gone(api: Api, conn: Connection) -> None:
    one, other, *rest = await die(conn, 5)
    pending = await api.enqueue()
    assert (await api.post("/dead/purge", {"ids": [one, pending, 1 << 40]})).json == {
        "purged": 1, "more": False, "next_cursor": None,
    }  # fmt: skip
    assert (await api.get(f"/jobs/{one}")).status == 404
    assert (await api.get(f"/jobs/{pending}")).json["status"] == "pending"
    answer = await api.post("/dead/purge", {"kind": "k", "limit": 2})
    assert (answer.json["purged"], answer.json["more"]) == (2, True)
    answer = await api.post("/dead/purge", {"all": True})
    assert (answer.json["purged"], answer.json["more"]) == (len(rest) - 1, False)
    assert (await api.get(f"/jobs/{other}")).status == 404
    assert await statuses(conn) == {"pending": 1}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"ids": []}, "ids: "), ({"ids": [None]}, "ids"), ({"ids": ["1"]}, "ids"),
    ({"ids": list(range(10_001))}, "ids: "), ({"ids": 1}, "ids: "), ({"queue": ""}, "queue: "),
    ({"queue": "q" * 256}, "queue: "), ({"kind": "a", "type": "b"}, "kind and type differ"),
    ({"failed_before": "infinity"}, "failed_before: "), ({"failed_before": 7}, "failed_before: "),
    ({"failed_before": "20000-01-01T00:00:00Z"}, "failed_before: "),
    ({"failed_before": "2030-01-01T00:00:00"}, "failed_before: "), ({"limit": 0}, "limit: "),
    ({"limit": 100_001}, "limit: "), ({"error": 1}, "error: "), ({"error": "e" * 1001}, "error: "),
    ({"kind": "k", "cursor": "x"}, "invalid cursor"),
    ({"kind": "k", "cursor": "YmVmb3JlOjE"}, "invalid cursor"),
    ({"dry_run": 1}, "dry_run: "), ({"id": 1}, "unknown field"),
]  # fmt: skip


@pytest.mark.parametrize("route", ["redrive", "purge"])
@pytest.mark.parametrize(("body", "says"), BAD, ids=lambda value: str(value)[:50])
async def test_f063_f065_f091_a_silly_filter_is_400(
    api: Api, conn: Connection, route: str, body: dict[str, Any], says: str
) -> None:
    await die(conn)
    status, code, message = (await api.post(f"/dead/{route}", body)).error
    assert (status, code) == (400, "JQ001")
    assert message.startswith(says), message
    assert await statuses(conn) == {"failed": 1}


async def test_a_number_that_is_no_id_is_refused(api: Api, conn: Connection) -> None:
    (job,) = await die(conn)
    for number, expected in (
        (1 << 40, (404, "JQ003")),
        (2**63, (400, "JQ001")),
        (10**30, (400, "JQ001")),
    ):
        assert (await api.post("/dead/redrive", {"ids": [job, number]})).error[:2] == expected
    pending = await api.enqueue()
    await api.post("/work/lease")
    assert (await api.post("/dead/redrive", {"ids": [job, pending]})).error[:2] == (409, "JQ005")
    assert (await api.get(f"/jobs/{job}")).json["status"] == "failed"


@pytest.mark.parametrize(
    ("route", "body", "says"),
    [
        ("redrive", {"per_second": 0}, "per_second: "), ("redrive", {"all": True}, "unknown field"),
        ("redrive", {"per_second": -1}, "per_sec"), ("redrive", {"per_second": 1e9}, "per_second"),
        ("purge", {}, "no dead letters are named"), ("purge", {"all": False}, "no dead letters"),
        ("purge", {"all": True, "kind": "k"}, "all: "), ("purge", {"dry_run": True}, "no dead"),
    ],
)  # fmt: skip
async def test_purging_everything_has_to_be_said(
    api: Api, conn: Connection, route: str, body: dict[str, Any], says: str
) -> None:
    await die(conn)
    status, code, message = (await api.post(f"/dead/{route}", body)).error
    assert (status, code) == (400, "JQ001")
    assert message.startswith(says)
    assert await statuses(conn) == {"failed": 1}


@pytest.mark.parametrize(
    "name", ["My-Queue", 'a"b', "a';drop table x;--", "ü" * 63, "a\nb", "%s", "a/b", "null"]
)
async def test_f064_odd_names_are_filters_like_any(api: Api, conn: Connection, name: str) -> None:
    await die(conn, 2, queue=name, kind=name, error=name)
    await die(conn, 1)
    (group,) = (await api.get("/dead", params={"queue": name})).json["errors"]
    assert (group["queue"], group["kind"], group["jobs"]) == (name, name, 2)
    body = {"queue": name, "kind": name}
    assert (await api.post("/dead/redrive", {**body, "limit": 1})).json["redriven"] == 1
    assert (await api.post("/dead/purge", body)).json["purged"] == 1
    assert await statuses(conn) == {"failed": 1, "pending": 1}


async def test_f093_tens_of_thousands_of_letters_are_seen_at_once(
    api: Api, conn: Connection
) -> None:
    for n in range(10):
        await die(conn, 3_000, f"no route to host {n}", queue=f"q{n % 2}")
    started = time.monotonic()
    groups = (await api.get("/dead")).json
    assert time.monotonic() - started < 20
    assert {one["queue"]: one["jobs"] for one in groups["errors"]} == {"q0": 2_000, "q1": 3_000}
    assert (groups["others"], groups["is_exact"]) == (25_000, False)
    group = {"error": groups["errors"][0]["error"], "queue": "q1"}
    assert (await api.post("/dead/redrive", {**group, "dry_run": True})).json["redriven"] == 15_000
