"""`batchq api` as users start it: modes, ports, signals, several processes, TLS."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import psycopg
import pytest

from tests.conftest import Connection
from tests.support.api import api_process, client, serving
from tests.support.console import batchq
from tests.support.processes import ROOT, environment
from tests.support.raw import head, wire
from tests.support.working import until

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def url(port: int) -> str:
    return f"http://{HOST}:{port}"


@pytest.mark.parametrize("mode", [None, "api"])
async def test_a24_a25_a28_the_program_without_arguments_is_the_api(
    db: str, conn: Connection, mode: str | None
) -> None:
    port = free_port()
    env = environment(db, BATCHQ_PORT=str(port), **({} if mode is None else {"MODE": mode}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pybatchq", cwd=ROOT, env=env, stderr=subprocess.DEVNULL
    )
    try:
        async with client(url(port)) as api:

            async def answers() -> bool:
                try:
                    return (await api.get("/health")).status == 200
                except aiohttp.ClientError:
                    return False

            await until(answers)
            job = await api.enqueue("demo_task")  # a worker would have this kind
            await asyncio.sleep(1.5)
            assert (await api.get(f"/jobs/{job}")).json["status"] == "pending"
    finally:
        process.terminate()
        async with asyncio.timeout(10):
            assert await process.wait() == 0


def test_a27_the_port_is_8080_unless_told_otherwise() -> None:
    from pybatchq.settings import Settings

    settings = Settings.from_env({})
    assert (settings.host, settings.port) == (HOST, 8080)


@pytest.mark.parametrize("arguments", [["api"], []])
def test_a26_without_a_database_url_it_ends_at_once_and_says_why(arguments: list[str]) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pybatchq", *arguments], cwd=ROOT, env=environment(None),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "DATABASE_URL" in done.stderr
    assert "batchq dev" in done.stderr
    assert time.monotonic() - started < 5


def test_a24_another_mode_is_refused_by_name(db: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pybatchq"], cwd=ROOT, env=environment(db, MODE="web"),
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "MODE is 'web'; allowed: api, worker" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "x"], "BATCHQ_PORT is 'x'; allowed: a whole number"),
        (["--pool-max", "0"], "BATCHQ_POOL_MAX is '0'"),
        (["--host", "no.such.host.invalid"], "BATCHQ_HOST is 'no.such.host.invalid'"),
        (["--host", "192.0.2.7"], "BATCHQ_HOST is '192.0.2.7': no address of this machine"),
        (["--tls-cert", "/nothing.pem"], "BATCHQ_TLS_CERT is '/nothing.pem'"),
        (["--tls-key", "/nothing.pem"], "BATCHQ_TLS_KEY is set and BATCHQ_TLS_CERT is not"),
        (["--cors-origins", "*"], "BATCHQ_CORS_ORIGINS is '*'"),
        (["--host", "no.such.host.invalid", "--processes", "2"], "BATCHQ_HOST is"),
    ],
)
def test_settings_that_make_no_sense_end_it_with_2(
    db: str, options: list[str], message: str, tmp_path: Path
) -> None:
    with api_process(db, tmp_path, *options) as process:
        assert process.popen.wait(20) == 2
        assert message in process.log
        assert "Traceback" not in process.log


async def test_a_port_in_use_is_named(db: str, tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = str(other.getsockname()[1])
        for options in (["--port", port], ["--port", port, "--processes", "2"]):
            with api_process(db, tmp_path, *options) as process:
                assert process.popen.wait(20) == 2
                assert f"BATCHQ_PORT is {port}: {HOST}:{port} is in use" in process.log


@pytest.mark.parametrize("given", [{}, {"BATCHQ_PORT": "0"}], ids=["any", "0"])
async def test_b08_a67_dev_serves_and_works_in_one_process(
    db: str, tmp_path: Path, given: dict[str, str]
) -> None:
    env = environment(db, **given)
    with (tmp_path / "log").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pybatchq", "dev", cwd=ROOT, env=env, stderr=out
        )
    try:

        async def told() -> str | None:
            found = re.search(r"HTTP API: (http://\S+)/", (tmp_path / "log").read_text())
            return None if found is None else found[1]

        async with client(await until(told)) as api:
            job = await api.enqueue("demo_task", payload={"message": "hi"})
            ended = (await api.get(f"/jobs/{job}?wait=30s")).json
            assert (ended["status"], ended["result"]["message"]) == ("completed", "hi")
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


async def test_dev_takes_another_port_than_8080_only_if_nobody_asked_for_that(
    db: str, tmp_path: Path
) -> None:
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "pybatchq", "dev", "--port", port], cwd=ROOT,
            env=environment(db), capture_output=True, text=True, timeout=40, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert f"BATCHQ_PORT is {port}: {HOST}:{port} is in use" in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_f088_it_stops_within_five_seconds_and_answers_what_was_read(
    db: str, conn: Connection, tmp_path: Path, signum: signal.Signals
) -> None:
    """An idle keep-alive connection, a request that waits for a job, and a slow one of 2 s."""
    with api_process(db, tmp_path) as process, psycopg.connect(db) as holder:
        port = await process.port()
        async with client(url(port)) as api, wire(port) as idle, wire(port) as silent:
            await idle.send(head("GET", "/health"))
            assert (await idle.answer()).status == 200
            job = await api.enqueue()
            waiting = asyncio.ensure_future(api.get(f"/jobs/{job}?wait=60s"))
            await asyncio.sleep(0.3)
            holder.execute("lock table batchq.job in access exclusive mode")
            slow = asyncio.ensure_future(api.post("/jobs", {"kind": "slow"}))
            await asyncio.sleep(0.5)
            started = time.monotonic()
            process.popen.send_signal(signum)
            await idle.ended()
            await silent.ended()
            assert time.monotonic() - started < 2
            with pytest.raises(aiohttp.ClientError):
                await api.get("/health")  # nothing new is accepted
            await asyncio.sleep(max(0, started + 2 - time.monotonic()))
            holder.rollback()
            assert (await slow).status == 201
            assert (await waiting).json["id"] == job
        assert await process.ended() == 0
        assert time.monotonic() - started < 5
        assert "stopped" in process.log


async def test_f088_ready_is_503_as_soon_as_it_is_to_stop(db: str) -> None:
    from pybatchq.api.services import SERVICES
    from tests.support.api import running, url_of

    async with running(db) as (app, server), client(url_of(server)) as api:
        assert (await api.get("/ready")).status == 200
        app[SERVICES].stop()
        assert (await api.get("/ready")).error == (503, "HTTP503", "the API is shutting down")
        assert (await api.get("/health")).status == 200
        assert (await api.post("/jobs", {"kind": "k"})).status == 201


async def test_f088_what_does_not_end_is_cut_off(db: str, tmp_path: Path) -> None:
    with api_process(db, tmp_path) as process, psycopg.connect(db) as holder:
        async with wire(await process.port()) as half:
            await half.send(head("POST", "/jobs", 1000) + b"{")
            await asyncio.sleep(0.3)
            holder.execute("lock table batchq.job in access exclusive mode")
            started = time.monotonic()
            process.popen.terminate()
            assert await process.ended() == 0
            assert time.monotonic() - started < 8


async def test_a_second_signal_ends_it_at_once(db: str, tmp_path: Path) -> None:
    with api_process(db, tmp_path) as process, psycopg.connect(db) as holder:
        async with client(url(await process.port())) as api:
            holder.execute("lock table batchq.job in access exclusive mode")
            slow = asyncio.ensure_future(api.post("/jobs", {"kind": "slow"}))
            await asyncio.sleep(0.3)
            process.popen.terminate()
            await asyncio.sleep(0.3)
            process.popen.terminate()
            assert await process.ended(3) == 4
            with pytest.raises(aiohttp.ClientError):
                await slow


async def test_a72_several_processes_serve_one_port(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    with api_process(db, tmp_path, "--processes", "2") as process:
        port = await process.port()

        async def both() -> bool:
            return process.log.count("listening") == 2

        await until(both)
        ids: set[int] = set()
        for _ in range(60):  # each on a connection of its own, so that both get some
            async with client(url(port)) as api:
                ids.add(await api.enqueue())
                assert (await api.get(f"/jobs/{max(ids)}")).status == 200
        assert len(ids) == 60
        query = (
            "select count(distinct application_name) from pg_stat_activity"
            " where application_name like 'batchq-api%' and datname = current_database()"
        )
        assert (await (await conn.execute(query)).fetchall())[0][0] == 2
        process.popen.terminate()
        assert await process.ended() == 0


async def test_a_process_that_dies_is_replaced_and_the_others_serve_on(
    db: str, tmp_path: Path
) -> None:
    with api_process(db, tmp_path, "--processes", "2") as process:
        port = await process.port()

        async def listening(times: int) -> None:
            async def look() -> bool:
                return process.log.count("listening") >= times

            await until(look)

        await listening(2)
        pids = [int(part.split()[0]) for part in process.log.split(" pid=")[1:]]
        os.kill(pids[0], signal.SIGKILL)
        await listening(3)
        for _ in range(20):
            async with client(url(port)) as api:
                await api.enqueue()
        process.popen.terminate()
        assert await process.ended() == 0


async def test_the_processes_end_when_their_supervisor_is_killed(db: str, tmp_path: Path) -> None:
    with api_process(db, tmp_path, "--processes", "2") as process:
        port = await process.port()
        process.popen.kill()

        async def gone() -> bool:
            try:
                _, writer = await asyncio.open_connection(HOST, port)
            except OSError:
                return True
            writer.transport.abort()
            return False

        await until(gone)


def certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


async def test_with_a_certificate_it_serves_https_only(db: str, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with api_process(db, tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)) as process:
        port = await process.port()
        trust = ssl.create_default_context(cafile=str(cert))
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://{HOST}:{port}/ready", ssl=trust) as answer,
        ):
            assert answer.status == 200
        async with client(url(port)) as plain:
            with pytest.raises(aiohttp.ClientError):
                await plain.get("/health")
        process.popen.terminate()
        assert await process.ended() == 0


async def test_each_request_is_a_line_of_the_log_without_its_query_or_body(
    db: str, tmp_path: Path
) -> None:
    options = {"BATCHQ_LOG_FORMAT": "json", "BATCHQ_ACCESS_LOG": "on", "BATCHQ_PORT": "0"}
    with api_process(db, tmp_path, **options) as process:

        async def listens() -> bool:
            return '"port":' in process.log

        await until(listens)
        port = int(process.log.partition('"port":')[2].partition("}")[0].partition(",")[0])
        async with client(url(port)) as api:
            await api.get("/jobs?kind=secret", headers={"X-Request-Id": "mine"})
            await api.post("/jobs", {"kind": "secret", "payload": "secret"})
        process.popen.terminate()
        assert await process.ended() == 0
    import msgspec

    lines = [msgspec.json.decode(line) for line in process.log.splitlines()]
    looked, posted = [line for line in lines if line["logger"] == "pybatchq.access"]
    assert list(looked) == [
        "ts", "level", "logger", "message", "method", "path", "status", "took_ms", "request_id",
        "remote",
    ]  # fmt: skip
    assert len(looked["ts"]) == len(lines[0]["ts"])
    assert (looked["message"], looked["level"]) == ("request", "info")
    assert (looked["method"], looked["path"], looked["status"]) == ("GET", "/jobs", 200)
    assert (looked["request_id"], looked["remote"]) == ("mine", HOST)
    assert looked["took_ms"] >= 0
    assert (posted["method"], posted["status"]) == ("POST", 201)
    assert "secret" not in process.log


async def test_no_request_can_look_like_two_lines_of_the_log(db: str, tmp_path: Path) -> None:
    with api_process(db, tmp_path, BATCHQ_ACCESS_LOG="on") as process:
        async with client(url(await process.port())) as api:
            await api.get("/%0A2030-01-01 INFO forged%1b[2J%E2%80%AE")
            for n in range(3):
                await api.get(f"/jobs?limit={n + 1}")
        process.popen.terminate()
        assert await process.ended() == 0
    lines = [line for line in process.log.splitlines() if " INFO request " in line]
    shape = r"[-0-9]{10} [0-9:]{8}\.\d{3} INFO request method=GET path=\S+ status=\d+ took_ms=\S+"
    shape += r" request_id=\S+ remote=127.0.0.1"
    assert len(lines) == 4
    assert all(re.fullmatch(shape, line) for line in lines), lines
    assert "\n2030" not in process.log
    assert process.log.isascii()


def test_the_help_names_every_option_of_a_variable() -> None:
    told = batchq("api", "--help").output
    for option in ("--host", "--port", "--processes", "--pool-max", "--tls-cert", "--open"):
        assert option in told


async def test_a77_a_thousand_clients_share_few_connections(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_POOL_MAX="5") as api:
        answers = await asyncio.gather(
            *[api.post("/jobs", {"kind": "k"}) for _ in range(1000)],
            *[api.get("/jobs?limit=1") for _ in range(200)],
        )
        assert {a.status for a in answers} <= {200, 201}
        cursor = await conn.execute(
            "select count(*) from pg_stat_activity where application_name like 'batchq-api%'"
            " and datname = current_database()"
        )
        assert (await cursor.fetchall())[0][0] <= 5
