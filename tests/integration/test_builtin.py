"""The built-in kinds at work in a real worker: demo_task, batch_range, and what all have in common.

For http_get see test_builtin_http_get.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from pybatchq import builtin, calls
from pybatchq.addresses import parse_rules
from pybatchq.handlers import Registry
from pybatchq.types import JobRecord
from tests.conftest import Connection
from tests.support.web import Site, serving
from tests.support.working import ended, until, working

DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "builtin-handlers.md"
MAX = 2**53 - 1
NEVER = {"message": "never", "delay_ms": 3_600_000}
LONG = {"start": 0, "end": 999_999_999}


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    builtin.register(registry)
    return registry


async def running(conn: Connection, job_id: int) -> JobRecord:
    return await ended(conn, job_id, "running")


def result(job: JobRecord) -> Any:
    assert job.result is not None
    return msgspec.json.decode(job.result)


def test_a_kind_of_ones_own_is_left_alone_and_nothing_is_registered_by_import() -> None:
    registry = Registry()

    @registry.handler("demo_task")
    async def mine(payload: Any) -> None:
        pass

    builtin.register(registry)
    builtin.register(registry)
    assert set(registry.by_kind) == set(builtin.KINDS)
    assert registry.by_kind["demo_task"].function is mine
    command = (
        "import pybatchq.builtin as b; from pybatchq import handlers; print(handlers.handlers)"
    )
    shown = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert b"by_kind={}" in shown.stdout


async def test_the_documentation_shows_what_happens(db: str, conn: Connection) -> None:
    text = DOCUMENTATION.read_text()
    registry = Registry()
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        scope: dict[str, Any] = {"builtin": builtin, "Registry": Registry}
        exec(code, scope)  # the page's own text
        registry = scope.get("registry", registry)
    assert set(registry.by_kind) == set(builtin.KINDS)
    for statement in re.findall(r"```sql\n(.*?)```", text, re.DOTALL):
        await conn.execute(statement.encode())
    del registry.by_kind["http_get"]  # no test asks the internet
    async with working(db, registry):
        for job_id in (1, 2):
            job = await ended(conn, job_id)
            shown = re.search(rf"## {job.kind}\n.*?Result: `(.*?)`", text, re.DOTALL)
            assert shown is not None
            assert result(job) == msgspec.json.decode(shown[1])
    allowed = re.search(r"^BATCHQ_HTTP_GET_ALLOW=(.*)$", text, re.MULTILINE)
    assert allowed is not None
    assert len(parse_rules(allowed[1])) == 4


async def test_a32_demo_task_waits_logs_and_answers(
    db: str, conn: Connection, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    job_id = await calls.enqueue(conn, "demo_task", {"message": "hi there", "delay_ms": 500})
    async with working(db, registry):
        job = await ended(conn, job_id)
    assert result(job) == {"message": "hi there", "delay_ms": 500}
    assert job.started_at is not None
    assert job.finished_at is not None
    # finished_at is when the outcome came in; a loaded machine may be late, never early
    assert 0.5 <= (job.finished_at - job.started_at).total_seconds() < 2.5
    (record,) = [r for r in caplog.records if "[demo_task]" in r.getMessage()]
    assert record.getMessage() == "[demo_task] hi there"
    assert record.__dict__["job_id"] == job_id


async def test_a32_every_field_of_demo_task_has_a_default_and_others_are_ignored(
    db: str, conn: Connection, registry: Registry
) -> None:
    payloads = [{}, {"message": "x", "colour": "red", "url": 7}]
    ids = [await calls.enqueue(conn, "demo_task", payload) for payload in payloads]
    async with working(db, registry):
        jobs = [await ended(conn, job_id) for job_id in ids]
    assert [result(job) for job in jobs] == [
        {"message": "", "delay_ms": 0},
        {"message": "x", "delay_ms": 0},
    ]


async def test_a35_a_payload_that_does_not_fit_fails_for_good_and_the_worker_goes_on(
    db: str, conn: Connection, registry: Registry
) -> None:
    bad: list[tuple[str, Any, str]] = [
        ("demo_task", {"delay_ms": "x"}, "delay_ms"),
        ("demo_task", {"delay_ms": "5"}, "delay_ms"),
        ("demo_task", {"delay_ms": True}, "delay_ms"),
        ("demo_task", {"delay_ms": 1.5}, "delay_ms"),
        ("demo_task", {"delay_ms": None}, "delay_ms"),
        ("demo_task", {"delay_ms": -1}, "delay_ms"),
        ("demo_task", {"delay_ms": 3_600_001}, "delay_ms"),
        ("demo_task", {"message": 5}, "message"),
        ("demo_task", [], "payload"),
        ("http_get", {}, "url"),
        ("http_get", {"url": None}, "url"),
        ("http_get", {"url": ""}, "url"),
        ("http_get", {"url": "http://h/", "timeout_ms": 0}, "timeout_ms"),
        ("http_get", {"url": "http://h/", "timeout_ms": 300_001}, "timeout_ms"),
        ("http_get", {"url": "http://h/", "timeout_ms": "3000"}, "timeout_ms"),
        ("batch_range", {"start": 1}, "end"),
        ("batch_range", {"end": 1}, "start"),
        ("batch_range", {"start": False, "end": 1}, "start"),
        ("batch_range", {"start": "0", "end": 1}, "start"),
        ("batch_range", {"start": -(2**53), "end": 0}, "start"),
        ("batch_range", {"start": 0, "end": 2**53}, "end"),
        ("batch_range", {"start": 0, "end": 2**70}, "end"),
        ("batch_range", {"start": 5, "end": 4}, "end"),
        ("batch_range", {"start": 0, "end": 1_000_000_000}, "end"),
    ]
    ids = [await calls.enqueue(conn, kind, payload) for kind, payload, _ in bad]
    async with working(db, registry):
        jobs = [await ended(conn, job_id, "failed") for job_id in ids]
        await ended(conn, await calls.enqueue(conn, "demo_task", {"delay_ms": 1}))
    for job, (_, payload, field) in zip(jobs, bad, strict=True):
        assert job.last_error is not None
        assert job.last_error.startswith(f"decode payload: {field}: "), (payload, job.last_error)
        assert job.attempts == 1


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (0, 9999), (7, 7), (0, 0), (-5, 4), (-250_000, 123_456), (0, 99_999), (0, 100_000),
        (1, 200_000), (MAX - 250_000, MAX), (-MAX, -MAX + 100_000), (MAX, MAX),
    ],
)  # fmt: skip
async def test_a34_batch_range_is_exact_and_includes_both_ends(
    db: str, conn: Connection, registry: Registry, start: int, end: int
) -> None:
    job_id = await calls.enqueue(conn, "batch_range", {"start": start, "end": end})
    async with working(db, registry):
        job = await ended(conn, job_id)
    count = end - start + 1
    assert result(job) == {
        "start": start, "end": end, "count": count, "sum": (start + end) * count // 2,
    }  # fmt: skip
    assert b"." not in (job.result or b".")


async def test_a34_a_billion_numbers_may_be_asked_for_and_progress_is_seen_by_the_chunk(
    db: str, conn: Connection, registry: Registry
) -> None:
    job_id = await calls.enqueue(conn, "batch_range", LONG)
    seen: list[dict[str, int]] = []

    async def look() -> bool:
        job = await calls.get_job(conn, job_id=job_id)
        assert job.status in {"pending", "running"}
        if job.progress is not None:
            seen.append(msgspec.json.decode(job.progress))
        return len({one["done"] for one in seen}) == 2

    async with working(db, registry):
        await until(look)
        await calls.cancel(conn, job_id=job_id)
        await ended(conn, job_id, "cancelled")
    assert all(one["done"] % 100_000 == 0 < one["done"] for one in seen)
    assert {one["count"] for one in seen} == {1_000_000_000}


async def test_a34_heartbeats_and_others_go_on_while_numbers_are_added_up(
    db: str, conn: Connection, registry: Registry
) -> None:
    ids = [
        await calls.enqueue(conn, "batch_range", {"start": n, "end": n + 99_999_999})
        for n in (0, 1)
    ]
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    ticking = asyncio.ensure_future(tick())
    async with working(db, registry, lease_s=1, reap_every_s=0.1):
        jobs = [await ended(conn, job_id, within_s=50) for job_id in ids]
    ticking.cancel()
    assert [job.attempts for job in jobs] == [1, 1]
    assert [result(job)["count"] for job in jobs] == [100_000_000, 100_000_000]
    assert len(gaps) > 20
    assert sorted(gaps)[len(gaps) * 9 // 10] < 0.2


STOPPED = [("demo_task", NEVER), ("batch_range", LONG), ("http_get", None)]


@pytest.mark.parametrize(("kind", "payload"), STOPPED)
@pytest.mark.parametrize("by", ["cancel", "timeout", "grace"])
async def test_a32_a33_a34_all_stop_within_a_second(
    db: str, conn: Connection, by: str, kind: str, payload: dict[str, Any] | None
) -> None:
    async with serving(_never) as site:
        registry = Registry()
        builtin.register(registry, allow=parse_rules(site.here))
        payload = payload or {"url": site.url(), "timeout_ms": 300_000}
        timeout = dt.timedelta(seconds=0.5) if by == "timeout" else None
        job_id = await calls.enqueue(
            conn, kind, payload, timeout=timeout, backoff="fixed",
            backoff_base=dt.timedelta(hours=1),
        )  # fmt: skip
        async with working(db, registry, lease_s=1, grace_s=0) as worker:
            await running(conn, job_id)
            if kind == "http_get":
                await until(_came(site))
            asked = time.monotonic()
            if by == "cancel":
                await calls.cancel(conn, job_id=job_id)
            elif by == "grace":
                worker.stop()
            job = await ended(conn, job_id, "cancelled" if by == "cancel" else "pending")
            took = time.monotonic() - asked
        # a heartbeat (a third of the lease) or the timeout comes first; the rest is slack
        assert took < 2.5
        assert job.attempts == (0 if by == "grace" else 1)
        if by == "timeout":
            assert (job.last_error or "").startswith("timed out after 0.5 s")


def _came(site: Site) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return bool(site.requests)

    return look


async def _never(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    return web.Response()
