"""A worker's health over HTTP: real sockets, and a loop that is really blocked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pybatchq import calls, health
from pybatchq.handlers import Registry
from pybatchq.health import HealthServer, HealthState
from pybatchq.metrics import Exposition, WorkerMetrics
from pybatchq.settings import SettingsError
from pybatchq.worker import Worker
from tests.conftest import Connection
from tests.support.processes import ROOT
from tests.support.working import PATIENCE_S

FINE = HealthState(connected=True, stopping=False, loop_blocked_s=0.0)


@contextlib.asynccontextmanager
async def serving(
    state: Callable[[], HealthState] = lambda: FINE, metrics: Callable[[], bytes] = lambda: b""
) -> AsyncIterator[HealthServer]:
    server = HealthServer(0, state=state, metrics=metrics)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


async def ask(server: HealthServer, path: str, method: str = "GET") -> tuple[int, Any]:
    """Status and JSON of an answer, whose headers are as they must be."""
    url = f"http://127.0.0.1:{server.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, allow_redirects=False) as answer,
    ):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.content_type == "application/json"
        return answer.status, None if method == "HEAD" else await answer.json()


async def test_b20_health_is_200_while_the_database_is_away_or_the_worker_stops() -> None:
    state = HealthState(connected=False, stopping=True, loop_blocked_s=60.0)
    async with serving(lambda: state) as server:
        assert await ask(server, "/health") == (200, {"status": "ok"})
        assert await ask(server, "/health", "HEAD") == (200, None)


async def test_f097_health_is_503_once_the_loop_is_blocked_for_over_a_minute() -> None:
    state = HealthState(connected=True, stopping=False, loop_blocked_s=61.2)
    async with serving(lambda: state) as server:
        status, body = await ask(server, "/health")
    assert status == 503
    assert body == {
        "code": "HTTP503",
        "name": "not_healthy",
        "message": "a handler has blocked the event loop for 61 s",
        "problems": ["a handler has blocked the event loop for 61 s"],
    }


async def test_ready_is_200_when_nothing_is_wrong() -> None:
    async with serving() as server:
        assert await ask(server, "/ready") == (200, {"status": "ready"})


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (HealthState(False, False, 0.0), "there is no connection to the database"),
        (HealthState(True, True, 0.0), "the worker is stopping"),
        (HealthState(True, False, 5.6), "a handler has blocked the event loop for 6 s"),
        (HealthState(True, False, 0.0, ("no heartbeat",)), "no heartbeat"),
    ],
    ids=["database", "stopping", "loop", "other"],
)
async def test_b20_f088_f097_ready_is_503_naming_the_one_thing_that_is_wrong(
    state: HealthState, problem: str
) -> None:
    async with serving(lambda: state) as server:
        status, body = await ask(server, "/ready")
        assert (status, body["name"], body["problems"]) == (503, "not_ready", [problem])


async def test_ready_names_everything_that_is_wrong() -> None:
    state = HealthState(False, True, 100.0, ("no heartbeat",))
    async with serving(lambda: state) as server:
        status, body = await ask(server, "/ready")
    assert status == 503
    assert len(body["problems"]) == 4
    assert body["message"] == "; ".join(body["problems"])


async def test_b35_metrics_are_prometheus_text() -> None:
    metrics = WorkerMetrics()
    metrics.ended("k", "completed", 1)
    exposition = Exposition(metrics, info={}, gauges={})
    async with (
        serving(metrics=exposition.render) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.get("/metrics") as answer,
    ):
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = await answer.text()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"batchq_worker_jobs", "batchq_worker_run_seconds"} <= families


@pytest.mark.parametrize(
    "path", ["/", "/nothing", "/health/", "/../etc/passwd", "/%00", "/ready/x"]
)
async def test_f091_what_is_not_there_is_a_404_of_our_shape(path: str) -> None:
    async with serving() as server:
        status, body = await ask(server, path)
    assert (status, body["code"], body["name"]) == (404, "HTTP404", "not_found")


async def test_f092_nothing_is_changed_here() -> None:
    async with serving() as server:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            status, body = await ask(server, "/health", method)
            assert (status, body["code"]) == (405, "HTTP405")


async def test_f091_a_fault_of_ours_is_a_500_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def state() -> HealthState:
        raise RuntimeError("secret")

    async with serving(state) as server:
        status, body = await ask(server, "/ready")
        assert status == 500
        assert "secret" not in json.dumps(body)
        assert (await ask(server, "/nothing"))[0] == 404
    assert "health request failed" in caplog.text


async def test_a_port_in_use_is_named_with_its_setting() -> None:
    async with serving() as server:
        other = HealthServer(server.port, state=lambda: FINE, metrics=lambda: b"")
        message = rf"^BATCHQ_HEALTH_PORT is {server.port}: 127\.0\.0\.1:{server.port} is in use"
        with pytest.raises(SettingsError, match=message):
            await other.start()
        assert await ask(server, "/health") == (200, {"status": "ok"})
        await other.close()


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid"])
async def test_a_host_that_is_not_ours_is_named_with_its_setting(host: str) -> None:
    server = HealthServer(0, host=host, state=lambda: FINE, metrics=lambda: b"")
    with pytest.raises(SettingsError, match=f"^BATCHQ_HEALTH_HOST is '{host}'"):
        await server.start()


def test_a_port_that_cannot_be_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="port is 65536"):
        HealthServer(65_536, state=lambda: FINE, metrics=lambda: b"")


async def test_f088_close_ends_idle_connections_and_frees_the_port() -> None:
    async with serving() as server:
        port = server.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await reader.readline()
        at = time.monotonic()
        await server.close()
        assert time.monotonic() - at < 5
        async with asyncio.timeout(5):
            await reader.read()
        writer.close()
        await server.close()  # once more does no harm
        again = HealthServer(port, state=lambda: FINE, metrics=lambda: b"")
        await again.start()
        await again.close()


async def test_f045_what_is_no_http_is_answered_and_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as server:
        for garbage in (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET\r\n\r\n", b"\0" * 20_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            with contextlib.suppress(ConnectionError):
                writer.write(garbage)
                writer.write_eof()
                await reader.read()
            writer.close()
        assert (await ask(server, "/health"))[0] == 200
    assert not [one for one in caplog.records if one.levelno > logging.INFO]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def statuses(port: int, path: str) -> Iterator[int]:
    """Statuses of answers, asked for without an event loop, for as long as anyone may wait."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as got:
                yield got.status
        except urllib.error.HTTPError as error:
            with error:
                yield error.code


async def test_f097_it_answers_and_tells_while_a_handler_blocks_the_main_loop(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "UNREADY_AFTER_S", 0.2)
    monkeypatch.setattr(health, "DEAD_AFTER_S", 0.4)
    registry = Registry()
    told = threading.Event()

    @registry.handler("block")
    async def block(_payload: Any) -> None:
        assert told.wait(PATIENCE_S)

    port = free_port()
    await calls.enqueue(conn, "block")
    with Worker(db, registry=registry, health_port=port).in_thread() as worker:
        assert 503 in statuses(port, "/ready")
        assert 503 in statuses(port, "/health")
        assert next(statuses(port, "/metrics")) == 200
        told.set()
        assert 200 in statuses(port, "/health")
        assert 200 in statuses(port, "/ready")
        assert worker.loop_blocked_s() == 0


def test_importing_it_does_nothing() -> None:
    program = (
        "import logging, threading, pybatchq.health, pybatchq.metrics;"
        "assert threading.active_count() == 1; assert not logging.getLogger().handlers"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=30, check=True)
