"""The list of workers over HTTP: those with a driver, and those without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from pybatchq import calls
from pybatchq.handlers import Registry
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.working import until, working

BEAT = {"worker": "w1", "host": "a"}


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def listed(api: Api, query: str = "") -> list[dict[str, Any]]:
    answer = await api.get(f"/workers{query}")
    assert answer.status == 200, answer.text
    workers: list[dict[str, Any]] = answer.json["workers"]
    return workers


async def beat(api: Api, worker_id: UUID | str, **more: Any) -> int:
    answer = await api.post(f"/workers/{worker_id}", {**BEAT, **more}, method="PUT")
    return answer.status


async def test_a_worker_with_a_driver_is_listed_while_it_runs(api: Api, db: str) -> None:
    assert await listed(api) == []
    async with working(db, Registry(), queues=["mail", "low"], name="w1", concurrency=7):
        found = await until(lambda: listed(api))
        (worker,) = found
        assert (worker["worker"], worker["queues"]) == ("w1", ["mail", "low"])
        assert (worker["concurrency"], worker["running"], worker["is_alive"]) == (7, 0, True)
        assert worker["started_at"] <= worker["beat_at"]

    async def gone() -> bool:
        return await listed(api) == []

    await until(gone)


async def test_a_worker_without_one_says_that_it_is_there(api: Api) -> None:
    worker_id = uuid4()
    told = {
        "worker": "w1", "host": "a", "pid": 7, "version": "1.0", "queues": ["mail"],
        "kinds": ["send"], "concurrency": 4, "running": 3, "memory_bytes": 1 << 40,
        "stopping": False,
    }  # fmt: skip
    assert await beat(api, worker_id, **told) == 200
    (worker,) = await listed(api)
    more = {"worker_id": str(worker_id), "is_alive": True, "drain_requested_at": None}
    assert {**told, **more} == {
        name: value for name, value in worker.items() if name not in {"started_at", "beat_at"}
    }
    assert await beat(api, worker_id, **{**told, "running": 0, "stopping": True}) == 200
    (worker,) = await listed(api)
    assert (worker["running"], worker["stopping"]) == (0, True)
    for _ in range(2):  # being asked twice is no error
        assert (await api.ask("DELETE", f"/workers/{worker_id}")).status == 204
    assert await listed(api) == []


async def test_what_is_not_said_has_a_default(api: Api) -> None:
    assert await beat(api, uuid4()) == 200
    (worker,) = await listed(api)
    assert (worker["queues"], worker["kinds"], worker["version"]) == (["default"], [], "unknown")
    assert (worker["concurrency"], worker["running"], worker["memory_bytes"]) == (1, 0, None)


async def test_filters_and_limit(api: Api, conn: Connection) -> None:
    for name, queues in (("a", ["mail"]), ("b", ["mail", "low"]), ("c", ["low"])):
        assert await beat(api, uuid4(), worker=name, queues=queues) == 200
    await conn.execute(
        "update batchq.worker set beat_at = beat_at - interval '5 min' where worker = 'c'"
    )
    for query, names in (
        ("", "abc"), ("?alive=true", "ab"), ("?alive=false", "c"), ("?queue=low", "bc"),
        ("?queue=low&alive=true", "b"), ("?queue=no", ""), ("?limit=3", "abc"),
    ):  # fmt: skip
        assert sorted(worker["worker"] for worker in await listed(api, query)) == list(names)
    assert [worker["worker"] for worker in await listed(api)][2] == "c"  # those alive come first
    assert len(await listed(api, "?limit=2")) == 2


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=10001", "limit=1e9", "alive=maybe", "alive=null", "a=b", "queue="]
)
async def test_f091_a_silly_parameter_is_400(api: Api, query: str) -> None:
    status, code, message = (await api.get(f"/workers?{query}")).error
    assert (status, code) == (400, "JQ001")
    assert query.partition("=")[0] in message


BAD: list[tuple[dict[str, Any], str]] = [
    ({"worker": ""}, "worker: "), ({"worker": "w" * 256}, "worker: "), ({"worker": None}, "worker"),
    ({"host": 7}, "host: "), ({"pid": -1}, "pid: "), ({"pid": 2**31}, "pid: "),
    ({"version": "v" * 256}, "version: "), ({"queues": [""]}, "queues"),
    ({"queues": ["q"] * 1001}, "queues"), ({"kinds": [7]}, "kinds"),
    ({"concurrency": 1.5}, "concurrency: "), ({"running": 2**63}, "running: "),
    ({"memory_bytes": -1}, "memory_bytes: "), ({"memory_bytes": 2**63}, "memory_bytes: "),
    ({"stopping": "yes"}, "stopping: "), ({"lease": 1}, "unknown field: lease"),
    ({"worker": "a\0b"}, "the body holds a NUL"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), BAD, ids=lambda value: str(value)[:50])
async def test_f065_f091_a_silly_beat_is_400(api: Api, body: dict[str, Any], says: str) -> None:
    answer = await api.post(f"/workers/{uuid4()}", {**BEAT, **body}, method="PUT")
    status, code, message = answer.error
    assert (status, code) == (400, "JQ001")
    assert message.startswith(says), message
    assert await listed(api) == []


@pytest.mark.parametrize("worker_id", ["1", "w1", "%00", "%ff", "x" * 36, "0" * 33, "ü"])
async def test_what_is_no_uuid_is_400(api: Api, worker_id: str) -> None:
    for method in ("PUT", "DELETE"):
        body = BEAT if method == "PUT" else None
        answer = await api.post(f"/workers/{worker_id}", body, method=method)
        assert answer.error[:2] == (400, "JQ001")


@pytest.mark.parametrize(
    "name", ["My-Queue", 'a"b', "a';drop table x;--", "ü" * 255, "a\nb", "%s", "null"]
)
async def test_f064_odd_names_are_names(api: Api, name: str) -> None:
    assert await beat(api, uuid4(), worker=name, host=name, queues=[name], kinds=[name]) == 200
    answer = await api.get("/workers", params={"queue": name})
    (worker,) = answer.json["workers"]
    assert (worker["worker"], worker["queues"], worker["kinds"]) == (name, [name], [name])


async def test_a_worker_that_is_asked_to_drain_learns_it_by_its_next_beat(
    api: Api, conn: Connection
) -> None:
    worker_id, other = uuid4(), uuid4()
    for one in (worker_id, other):
        assert (await api.post(f"/workers/{one}", BEAT, method="PUT")).json == {"drain": False}
    for _ in range(2):  # being asked twice is no error
        answer = await api.post(f"/workers/{worker_id}/drain")
        assert (answer.status, answer.json) == (200, {"asked": True})
    assert (await api.post(f"/workers/{worker_id}", BEAT, method="PUT")).json == {"drain": True}
    assert (await api.post(f"/workers/{other}", BEAT, method="PUT")).json == {"drain": False}
    asked = {one["worker_id"]: one["drain_requested_at"] for one in await listed(api)}
    assert asked[str(worker_id)] is not None
    assert asked[str(other)] is None
    (entry,) = await calls.list_audit(conn)
    assert (entry.action, entry.actor) == ("drain_worker", "anyone")


async def test_whoever_is_not_there_cannot_be_asked_to_drain(api: Api) -> None:
    assert (await api.post(f"/workers/{uuid4()}/drain")).json == {"asked": False}
    assert (await api.post("/workers/7/drain")).error[:2] == (400, "JQ001")
