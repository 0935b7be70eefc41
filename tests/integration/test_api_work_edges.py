"""The worker protocol over HTTP: what is refused, and odd values that are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.api import Api, serving

SETTLING = ("complete", "fail", "release", "snooze", "progress")


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


BAD: list[tuple[str, Any, str]] = [
    ("lease", {"n": 0}, "n: "),
    ("lease", {"n": -1}, "n: "),
    ("lease", {"n": 101}, "n: "),
    ("lease", {"n": 2147483648}, "n: "),
    ("lease", {"n": 1.5}, "n: "),
    ("lease", {"n": None}, "n: "),
    ("lease", {"n": "1"}, "n: "),
    ("lease", {"queues": []}, "queues: "),
    ("lease", {"queues": "default"}, "queues: "),
    ("lease", {"queues": [""]}, "queues"),
    ("lease", {"queues": [None]}, "queues"),
    ("lease", {"queues": ["x" * 256]}, "queues"),
    ("lease", {"queues": ["q"] * 101}, "queues"),
    ("lease", {"queue": "default"}, "unknown field: queue"),
    ("lease", {"worker": "w" * 256}, "worker: "),
    ("lease", {"lease_for": 0}, "lease_for: "),
    ("lease", {"lease_for": -5}, "lease_for: "),
    ("lease", {"lease_for": 1e9}, "lease_for: "),
    ("lease", {"lease_for": "60"}, "lease_for: "),
    ("lease", {"wait": 31}, "wait: "),
    ("lease", {"wait": -1}, "wait: "),
    ("lease", "[]", "the body: expected object"),
    ("complete", {"lease_id": 1}, "job_id: this field is required"),
    ("complete", {"job_id": 1}, "lease_id: this field is required"),
    ("complete", {"job_id": "1", "lease_id": 1}, "job_id: "),
    ("complete", {"job_id": None, "lease_id": 1}, "job_id: "),
    ("complete", {"job_id": -1, "lease_id": 1}, "job_id: "),
    ("complete", {"job_id": 2**63, "lease_id": 1}, "job_id: "),
    ("complete", {"job_id": 10**30, "lease_id": 1}, "job_id: "),
    ("complete", {"job_id": 1, "lease_id": 1, "results": 1}, "unknown field: results"),
    ("complete", '"x"', "the body: expected"),
    ("complete", "7", "the body: expected"),
    ("complete", "[7]", "the body: expected object"),
    ("complete", "[" + ",".join(['{"job_id":1,"lease_id":1}'] * 10_001) + "]", "the body: "),
    ("complete", '{"job_id":1,"lease_id":1,"result":' + "[" * 200 + "]" * 200 + "}", "result: "),
    ("fail", {"job_id": 1, "lease_id": 1}, "error: this field is required"),
    ("fail", {"job_id": 1, "lease_id": 1, "error": None}, "error: "),
    ("fail", {"job_id": 1, "lease_id": 1, "error": "a\0b"}, "the body holds a NUL"),
    ("fail", {"job_id": 1, "lease_id": 1, "error": "x", "permanent": "no"}, "permanent: "),
    ("fail", {"job_id": 1, "lease_id": 1, "error": "x", "retry_in": 1e12}, "retry_in: "),
    ("fail", {"job_id": 1, "lease_id": 1, "error": "x", "retry_in": "1 mon"}, "retry_in: "),
    ("snooze", {"job_id": 1, "lease_id": 1}, "delay: this field is required"),
    ("snooze", {"job_id": 1, "lease_id": 1, "delay": None}, "delay: "),
    ("snooze", {"job_id": 1, "lease_id": 1, "delay": 1e12}, "delay: "),
    ("progress", {"job_id": 1, "lease_id": 1}, "progress: this field is required"),
    ("progress", {"job_id": 1, "lease_id": 1, "progress": "x" * 65537}, "progress of job 1"),
    ("extend", {}, "job_id: this field is required"),
    ("extend", {"job_id": 1}, "lease_id: this field is required"),
    ("extend", {"job_id": 1, "leases": []}, "leases: "),
    ("extend", {"leases": [{"job_id": 1}]}, "leases"),
    ("extend", {"leases": [], "lease_for": 0.01}, "lease_for: "),
    ("settle-and-lease", {"n": -1}, "n: "),
    ("settle-and-lease", {"completed": None}, "completed: "),
    ("settle-and-lease", {"completed": [{}]}, "completed[0].job_id: this field is required"),
    ("settle-and-lease", {"failed": [{"job_id": 1, "lease_id": 1}]}, "failed[0].error: "),
    ("settle-and-lease", {"released": [{"job_id": 1, "lease_id": 1, "delay": 1e12}]}, "rel"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "says"), BAD, ids=lambda value: str(value)[:60])
async def test_f065_f067_f091_a_silly_value_is_400_with_field_and_reason(
    api: Api, name: str, body: Any, says: str
) -> None:
    status, code, message = (await api.post(f"/work/{name}", body)).error
    assert (status, code) == (400, "JQ001"), message
    assert message.startswith(says), message


@pytest.mark.parametrize("name", [*SETTLING, "lease", "extend", "settle-and-lease"])
@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nope", b'{"job_id":NaN}', b'{"job_id":1,"lease_id":Infinity}', b"\xff\xfe",
        b'{"job_id":1,"lease_id":1,"x":"\\ud800"}', b"[" * 100_000, b'{"a":' * 20_000,
        '{"worker":"ü"}'.encode("latin-1"),
    ],
    ids=lambda body: repr(body[:20]),
)  # fmt: skip
async def test_f059_f061_f062_what_is_no_json_is_400(api: Api, name: str, body: bytes) -> None:
    if body == b"" and name == "lease":
        return  # which is all defaults
    answer = await api.post(f"/work/{name}", body)
    assert answer.error[0] == 400
    assert answer.error[1] in {"JQ001", "HTTP400"}


@pytest.mark.parametrize("number", ["1e400000", "1e131073", "1" * 140_000])
async def test_f060_a_number_that_postgresql_cannot_hold_is_400(api: Api, number: str) -> None:
    lease = await leased(api)
    names = f'"job_id":{lease["job_id"]},"lease_id":{lease["lease_id"]}'
    for name, field in (("complete", "result"), ("progress", "progress")):
        for body in (f'{{{names},"{field}":{number}}}', f'[{{{names},"{field}":{number}}}]'):
            answer = await api.post(f"/work/{name}", body)
            assert answer.error[:2] == (400, "JQ001")
    answer = await api.post(
        "/work/settle-and-lease", f'{{"completed":[{{{names},"result":{number}}}]}}'
    )
    assert answer.error[:2] == (400, "JQ001")
    assert (await status(api, lease["job_id"]))[0] == "running"


async def test_f062_a_monstrous_error_is_kept_by_its_ends(api: Api) -> None:
    lease = await leased(api)
    error = "head" + "x" * 5_000_000 + "tail"
    answer = await api.post("/work/fail", {**lease, "error": error, "permanent": True})
    assert answer.json["state"] == "failed"
    kept = (await api.get(f"/jobs/{lease['job_id']}")).json["last_error"]
    assert kept.startswith("head")
    assert kept.endswith("tail")
    assert len(kept) < 5_000


@pytest.mark.parametrize(
    "name",
    ["My-Queue", 'a"b', "a';drop table x;--", "ü" * 63, "n" * 70 + "a", "  ", "a\nb", "%s", "a/b",
     "{x}", "\x7f", "𝒳", ".", "\\"],
)  # fmt: skip
async def test_f064_odd_names_are_names(api: Api, name: str) -> None:
    job = await api.enqueue(kind=name, queue=name)
    await api.enqueue(queue="n" * 70 + "b")
    (got,) = await lease(api, queues=[name], n=100, worker=name)
    assert (got["job_id"], got["queue"], got["kind"]) == (job, name, name)
    assert (await api.post("/work/complete", _named(got))).status == 200
    assert (await status(api, job))[0] == "completed"


@pytest.mark.parametrize("name", [*SETTLING, "lease", "extend", "settle-and-lease"])
async def test_a_body_of_another_type_or_method_is_refused(api: Api, name: str) -> None:
    answer = await api.post(f"/work/{name}", "a=1", headers={"Content-Type": "text/plain"})
    assert answer.error[:2] == (415, "HTTP415")
    answer = await api.get(f"/work/{name}")
    assert answer.error[:2] == (405, "HTTP405")
    assert answer.headers["Allow"] == "POST"


async def test_a_body_that_is_too_long_is_413(db: str) -> None:
    async with serving(db, BATCHQ_MAX_BODY="1KiB", BATCHQ_MAX_BULK_BODY="2KiB") as api:
        answer = await api.post("/work/lease", {"worker": "w" * 2000})
        assert answer.error[:2] == (413, "HTTP413")
        answer = await api.post(
            "/work/complete", {"job_id": 1, "lease_id": 1, "result": "x" * 3000}
        )
        assert answer.error[:2] == (413, "HTTP413")


def _named(job: dict[str, Any]) -> dict[str, int]:
    return {"job_id": job["job_id"], "lease_id": job["lease_id"]}
