"""Queues over HTTP: depths, settings, pauses, and names of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, get_args
from urllib.parse import quote

import pytest

from pybatchq import calls
from pybatchq.api.depths import Depth, Depths
from pybatchq.api.queue_models import ChangeQueue, SetQueue, Setting
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.working import Calls

NONE = dict.fromkeys(SetQueue.__struct_fields__)
SOME = {
    "max_attempts": 5, "timeout": 120.5, "lease_for": 30.0, "backoff": "exponential",
    "backoff_base": 0.5, "backoff_factor": 3.0, "backoff_cap": 600.0, "backoff_jitter": "none",
    "max_running": 20, "rate": 100, "rate_period": 0.5, "group_limit": 3, "group_rate": 5,
    "group_period": 60.0, "group_retry": "yield", "fair": True, "age_every": 30.0,
    "max_depth": 1000, "on_full": "delay", "breaker_share": 0.5, "breaker_min": 20,
    "breaker_window": 30.0, "breaker_pause": 5.0,
}  # fmt: skip
# F064: every one is its own queue. `.` and `..` are parts of paths, which clients remove.
NAMES = [
    "My-Queue", "my-queue", 'a"b', "a';drop table x;--", "ü" * 63, "n" * 70 + "a", "n" * 70 + "b",
    "n" * 255, "   ", " a", "a ", "a\nb", "%s", "%", "%2F", "a/b", "/", "a//b/", "{x}", "}{", "a?b",
    "a#b", "a&b=c", "a+b", "a;b", "a:b", "\\", "\x7f", "\u202e", "𝒳", "null", "pause", "*", "~",
    "http://x/y",
]  # fmt: skip


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


def path(queue: str, more: str = "") -> str:
    return f"/queues/{quote(queue, safe='')}{more}"


async def put(api: Api, queue: str, body: Any, method: str = "PUT") -> Any:
    answer = await api.post(path(queue), body, method=method)
    assert answer.status == 200, answer.text
    return answer.json


async def test_queues_are_listed_with_their_depths(api: Api, conn: Connection) -> None:
    assert (await api.get("/queues")).json == {"queues": [], "next_cursor": None}
    for _ in range(3):
        await api.enqueue(queue="mail")
    await api.enqueue(queue="mail", delay=3600)
    bad = await api.enqueue(queue="mail", priority=9)
    (job,) = await calls.lease(conn, queue="mail")
    assert job.job_id == bad
    await calls.fail(conn, job_id=bad, lease_id=job.lease_id, error="x", permanent=True)
    await calls.lease(conn, queue="mail")
    await calls.pause(conn, queue="other", reason="why not")
    mail, other = (await api.get("/queues")).json["queues"]
    counts = {name: mail[name] for name in ("queue", "ready", "scheduled", "leased", "dead")}
    assert counts == {"queue": "mail", "ready": 2, "scheduled": 1, "leased": 1, "dead": 1}
    assert mail["is_exact"] is True
    assert 0 <= mail["oldest_age"] < 60
    age = datetime.now(UTC) - datetime.fromisoformat(mail["oldest_ready_at"])
    assert abs(age.total_seconds() - mail["oldest_age"]) < 30
    assert mail["next_run_at"] > mail["oldest_ready_at"]
    assert (mail["paused_at"], mail["settings"]) == (None, NONE)
    assert (other["queue"], other["ready"], other["oldest_age"]) == ("other", 0, None)
    assert other["pause_reason"] == "why not"
    assert other["paused_at"] is not None


async def test_one_queue(api: Api) -> None:
    await api.enqueue(queue="mail")
    await put(api, "mail", SOME)
    mail = (await api.get("/queues/mail")).json
    assert (mail["queue"], mail["ready"], mail["settings"]) == ("mail", 1, SOME)
    assert mail == {
        **(await api.get("/queues")).json["queues"][0],
        "oldest_age": mail["oldest_age"],
    }
    assert (await api.get("/queues/no")).error == (404, "JQ002", "no queue 'no'")


async def test_pages_of_queues_neither_skip_nor_repeat(api: Api) -> None:
    names = sorted(f"q{n:03}" for n in range(25))
    await api.post("/jobs/bulk", [{"kind": "k", "queue": name} for name in reversed(names)])
    for limit in (1, 7, 24, 25, 26):
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = await api.get("/queues", params={"limit": limit, "cursor": cursor})
            page = answer.json["queues"]
            assert [one["ready"] for one in page] == [1] * len(page)
            found += [one["queue"] for one in page]
            cursor = answer.json["next_cursor"]
            assert cursor is None or len(page) == limit
        assert found == names


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=1e9", "limit=x", "a=b"])
async def test_f091_a_silly_parameter_is_400(api: Api, query: str) -> None:
    status, code, message = (await api.get(f"/queues?{query}")).error
    assert (status, code) == (400, "JQ001")
    assert query.partition("=")[0] in message


async def test_put_sets_all_and_patch_what_it_names(api: Api) -> None:
    assert await put(api, "mail", SOME) == {
        "queue": "mail", "paused_at": None, "pause_reason": None, "settings": SOME,
    }  # fmt: skip
    changed = await put(api, "mail", {"max_attempts": 7, "timeout": None}, "PATCH")
    assert changed["settings"] == {**SOME, "max_attempts": 7, "timeout": None}
    assert await put(api, "mail", {}, "PATCH") == changed
    assert (await put(api, "mail", {"backoff_cap": 60}))["settings"] == {**NONE, "backoff_cap": 60}
    assert (await put(api, "mail", {}))["settings"] == NONE


async def test_patch_clears_what_it_names_and_what_it_says_is_null(api: Api) -> None:
    await put(api, "mail", SOME)
    body = {"rate": None, "clear": ["fair", "timeout", "on_full"], "timeout": 5}
    changed = await put(api, "mail", body, "PATCH")
    assert changed["settings"] == {**SOME, "rate": None, "fair": None, "on_full": None,
                                   "timeout": 5.0}  # fmt: skip
    answer = await api.post("/queues/mail", {"clear": ["queue"]}, method="PATCH")
    assert answer.error[:2] == (400, "JQ001")
    assert answer.json["message"].startswith("clear")


def test_put_patch_and_clear_know_the_same_settings() -> None:
    assert SetQueue.__struct_fields__ == get_args(Setting)
    assert ChangeQueue.__struct_fields__ == (*get_args(Setting), "clear")
    assert set(get_args(Setting)) == set(SOME)


async def test_groups_are_listed_and_set(api: Api, conn: Connection) -> None:
    assert (await api.get("/queues/mail/groups")).error == (404, "JQ002", "no queue 'mail'")
    await put(api, "mail", {"group_limit": 2})
    for _ in range(5):
        await api.enqueue(queue="mail", group_key="a/b")
    answer = await api.post("/queues/mail/groups/vip", {"group_limit": 9}, method="PUT")
    assert answer.json == {
        "queue": "mail", "group_key": "vip", "settings": {"group_limit": 9, "weight": None}
    }  # fmt: skip
    (job,) = await calls.lease(conn, queue="mail")
    busy, vip = (await api.get("/queues/mail/groups")).json["groups"]
    assert busy.pop("next_since") is not None
    assert busy == {
        "group_key": "a/b", "blocked": 3, "is_exact": True, "seats": 2, "group_limit": 2,
        "weight": 1, "is_set": False,
    }  # fmt: skip
    assert (vip["group_key"], vip["group_limit"], vip["is_set"]) == ("vip", 9, True)
    assert (await api.get("/queues/mail/groups?limit=1")).json["groups"][0]["blocked"] == 3
    assert (await api.get(f"/jobs/{job.job_id}")).json["group_key"] == "a/b"
    await api.post("/queues/mail/groups/a%2Fb", {"weight": 3}, method="PUT")
    assert (await api.get("/queues/mail/groups")).json["groups"][0]["weight"] == 3
    await api.post("/queues/mail/groups/vip", {}, method="PUT")
    names = [one["group_key"] for one in (await api.get("/queues/mail/groups")).json["groups"]]
    assert names == ["a/b"]


async def test_breakers_are_listed_and_reset(api: Api, conn: Connection) -> None:
    assert (await api.get("/queues/mail/breakers")).error == (404, "JQ002", "no queue 'mail'")
    assert (await api.post("/queues/mail/breakers/k/reset", {})).error[:2] == (404, "JQ002")
    await put(api, "mail", {"breaker_share": 1, "breaker_min": 2})
    assert (await api.get("/queues/mail/breakers")).json == {"breakers": []}
    for _ in range(5):
        await api.enqueue(kind="a/b", queue="mail")
    for job in await calls.lease(conn, queue="mail", n=2):
        await calls.fail(conn, job_id=job.job_id, lease_id=job.lease_id, error="no route")
    assert await calls.lease(conn, queue="mail") == []
    (open_one,) = (await api.get("/queues/mail/breakers")).json["breakers"]
    assert open_one.pop("opened_at") < open_one.pop("probe_at")
    assert open_one == {
        "kind": "a/b", "probe_job_id": None, "probes": 0, "held": 3, "ended": 2, "failed": 2,
        "last_error": "no route",
    }  # fmt: skip
    for _ in range(2):  # asked twice
        answer = await api.post("/queues/mail/breakers/a%2Fb/reset", {})
        assert answer.json == {"breakers": []}
    assert len(await calls.lease(conn, queue="mail", n=9)) == 3
    answer = await api.post(f"/queues/mail/breakers/{'k' * 256}/reset", {})
    assert answer.error[:2] == (400, "JQ001")


BAD_GROUP: list[dict[str, Any]] = [
    {"group_limit": -1}, {"group_limit": 10_001}, {"weight": 0}, {"weight": 1001}, {"weight": "x"},
    {"limit": 1},
]  # fmt: skip


@pytest.mark.parametrize("body", BAD_GROUP, ids=str)
async def test_f065_a_silly_setting_of_a_group_is_400(api: Api, body: dict[str, Any]) -> None:
    answer = await api.post("/queues/mail/groups/g", body, method="PUT")
    assert answer.error[:2] == (400, "JQ001")
    answer = await api.post(f"/queues/mail/groups/{'g' * 256}", {"weight": 1}, method="PUT")
    assert answer.error[:2] == (400, "JQ001")
    assert (await api.get("/queues/mail")).error[0] == 404


async def test_settings_are_for_the_jobs_and_leases_to_come(api: Api) -> None:
    await put(api, "mail", {"max_attempts": 9, "timeout": 77, "lease_for": 500})
    job = await api.enqueue(queue="mail")
    record = (await api.get(f"/jobs/{job}")).json
    assert (record["max_attempts"], record["timeout"]) == (9, 77.0)
    (leased,) = (await api.post("/work/lease", {"queues": ["mail"]})).json["jobs"]
    assert 499 < leased["lease_for"] <= 500


async def test_of_two_changes_at_once_none_is_lost(api: Api) -> None:
    await put(api, "mail", SOME)
    for n in range(1, 11):
        await asyncio.gather(
            put(api, "mail", {"max_attempts": n}, "PATCH"),
            put(api, "mail", {"timeout": n}, "PATCH"),
            put(api, "mail", {"lease_for": n}, "PATCH"),
        )
        settings = (await api.get("/queues/mail")).json["settings"]
        assert (settings["max_attempts"], settings["timeout"], settings["lease_for"]) == (n, n, n)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"max_attempts": 0}, "max_attempts: "), ({"max_attempts": -1}, "max_attempts: "),
    ({"max_attempts": 40_000}, "max_attempts: "), ({"max_attempts": 1.5}, "max_attempts: "),
    ({"max_attempts": True}, "max_attempts: "), ({"timeout": 0}, "timeout: "),
    ({"timeout": -5}, "timeout: "), ({"timeout": 1e12}, "timeout: "),
    ({"timeout": "60 s"}, "timeout: "), ({"lease_for": 0}, "lease_for: "),
    ({"lease_for": 1e9}, "lease_for: "), ({"backoff": "linear"}, "backoff: "),
    ({"backoff_base": -1}, "backoff_base: "), ({"backoff_factor": 0.5}, "backoff_factor: "),
    ({"backoff_factor": 1e9}, "backoff_factor: "), ({"backoff_cap": 1e12}, "backoff_cap: "),
    ({"max_running": -1}, "max_running: "), ({"max_running": 1_000_001}, "max_running: "),
    ({"rate": 0.5}, "rate: "), ({"rate_period": 0.05}, "rate_period: "),
    ({"group_limit": 10_001}, "group_limit: "), ({"group_rate": -1}, "group_rate: "),
    ({"group_period": 1e9}, "group_period: "), ({"group_retry": "keep"}, "group_retry: "),
    ({"fair": 1}, "fair: "), ({"age_every": 0.5}, "age_every: "), ({"max_depth": 0}, "max_depth: "),
    ({"on_full": "drop"}, "on_full: "), ({"breaker_share": 0}, "breaker_share: "),
    ({"breaker_share": 1.5}, "breaker_share: "), ({"breaker_min": 0}, "breaker_min: "),
    ({"breaker_window": 0.5}, "breaker_window: "), ({"breaker_pause": 1e6}, "breaker_pause: "),
    ({"backoff_jitter": "some"}, "backoff_jitter: "), ({"limit": 1}, "unknown field: limit"),
    ({"queue": "x"}, "unknown field: queue"),
]  # fmt: skip


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(("body", "says"), BAD, ids=str)
async def test_f065_f067_a_silly_setting_is_400_and_sets_nothing(
    api: Api, method: str, body: dict[str, Any], says: str
) -> None:
    await put(api, "mail", SOME)
    answer = await api.post("/queues/mail", {"timeout": 1, **body}, method=method)
    status, code, message = answer.error
    assert (status, code) == (400, "JQ001")
    assert message.startswith(says)
    assert (await api.get("/queues/mail")).json["settings"] == SOME


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"timeout":NaN}', '{"timeout":1e999}'])
async def test_f059_a_body_that_is_no_object_is_400(api: Api, method: str, body: str) -> None:
    assert (await api.post("/queues/mail", body, method=method)).error[0] == 400
    answer = await api.ask(method, "/queues/mail", data="timeout=1")
    assert answer.error[:2] == (415, "HTTP415")


async def test_pausing_keeps_the_first_time_and_resuming_ends_it(api: Api) -> None:
    first = (await api.post("/queues/mail/pause", {"reason": "provider is down"})).json
    assert (first["queue"], first["pause_reason"]) == ("mail", "provider is down")
    again = (await api.post("/queues/mail/pause")).json
    assert again == first
    await api.enqueue(queue="mail")
    assert (await api.post("/work/lease", {"queues": ["mail"]})).json["jobs"] == []
    seen = (await api.get("/queues/mail")).json
    assert (seen["paused_at"], seen["pause_reason"]) == (first["paused_at"], "provider is down")
    open_ = (await api.post("/queues/mail/resume")).json
    assert (open_["paused_at"], open_["pause_reason"]) == (None, None)
    assert (await api.post("/queues/mail/resume")).status == 200
    assert len((await api.post("/work/lease", {"queues": ["mail"]})).json["jobs"]) == 1


async def test_what_cannot_be_paused_or_resumed(api: Api) -> None:
    assert (await api.post("/queues/no/resume")).error == (404, "JQ002", "no queue 'no'")
    answer = await api.post("/queues/mail/pause", {"reason": "x" * 1001})
    assert answer.error[:2] == (400, "JQ001")
    assert (await api.post("/queues/mail/pause", {"why": "x"})).error[0] == 400
    assert (await api.get("/queues/mail/pause")).error[:2] == (405, "HTTP405")
    assert (await api.get("/queues/mail")).error[0] == 404  # none of these made it


@pytest.mark.parametrize("name", NAMES)
async def test_f064_odd_names_in_the_path(api: Api, name: str) -> None:
    job = await api.enqueue(queue=name)
    assert (await put(api, name, {"max_attempts": 7}))["queue"] == name
    assert (await put(api, name, {"timeout": 9}, "PATCH"))["settings"]["max_attempts"] == 7
    assert (await api.post(path(name, "/pause"), {"reason": name})).json["pause_reason"] == name
    seen = (await api.get(path(name))).json
    assert (seen["queue"], seen["ready"], seen["pause_reason"]) == (name, 1, name)
    assert (await api.post(path(name, "/resume"))).status == 200
    listed = (await api.get("/jobs", params={"queue": name})).json["jobs"]
    assert [one["id"] for one in listed] == [job]


async def test_f064_different_names_are_different_queues(api: Api) -> None:
    for number, name in enumerate(NAMES, 1):
        await put(api, name, {"max_attempts": number})
    page = (await api.get("/queues?limit=1000")).json["queues"]
    assert {one["queue"]: one["settings"]["max_attempts"] for one in page} == {
        name: number for number, name in enumerate(NAMES, 1)
    }


@pytest.mark.parametrize(
    "raw", ["", "%00", "a%00b", "%ff", "%c3", "%zz", "%", "a%2", "n" * 256, "%F0%9D", "n" * 7000]
)
@pytest.mark.parametrize("more", ["", "/pause", "/resume"])
async def test_f064_what_is_no_name_is_4xx(api: Api, raw: str, more: str) -> None:
    """As it is on the wire: a client's library may refuse to send it."""
    for method, body in (("GET", b""), ("POST", b"{}"), ("PUT", b"{}"), ("PATCH", b"{}")):
        reader, writer = await asyncio.open_connection("127.0.0.1", api.port)
        writer.write(
            f"{method} /queues/{raw}{more} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        status = int((await reader.readline()).split()[1])
        await reader.read()
        writer.close()
        # what is no UTF-8 stays as it is written, and is a name like any other
        assert 400 <= status < 500 or (status == 200 and raw.startswith(("%", "a%")))
    assert (await api.get("/health")).status == 200


async def test_f093_many_who_ask_at_once_are_answered_from_few_looks(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls.enqueue_many(conn, jobs=[{"kind": "k", "queue": f"q{n % 5}"} for n in range(500)])
    async with serving(db) as api:
        await api.get("/queues")
        seen = Calls(monkeypatch)
        asked, everybody, look = 0, asyncio.Event(), Depths.of

        async def of(depths: Depths, *queues: Any) -> dict[str, Depth]:
            nonlocal asked
            asked += 1
            if asked == 100:
                everybody.set()
            return await look(depths, *queues)

        async def slowly(_arguments: dict[str, Any]) -> None:
            await everybody.wait()  # as counting deep queues is

        monkeypatch.setattr(Depths, "of", of)
        seen.before["stats"] = slowly
        answers = await asyncio.gather(*[api.get("/queues") for _ in range(100)])
        assert {answer.status for answer in answers} == {200}
        for answer in answers:
            assert [one["ready"] for one in answer.json["queues"]] == [100] * 5
        assert 1 <= seen.since(0)["stats"] <= 3


async def test_f093_what_is_quick_to_count_is_never_old(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybatchq.api.depths.CHEAP_S", 5.0)  # quick on any machine
    for count in range(1, 20):
        await api.enqueue(queue="mail")
        assert (await api.get("/queues/mail")).json["ready"] == count
        assert (await api.get("/queues")).json["queues"][0]["ready"] == count
