"""The image's own commands, outside a container: build, install, ENTRYPOINT, HEALTHCHECK.

What Docker adds, networks and mounts, is not here. As root, they run as another account.
"""

from __future__ import annotations

import contextlib
import email
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.console import add, query
from tests.support.image import Container, Image, service_environment
from tests.support.servers import Databases
from tests.support.web import certificate

OTHERS = re.compile(r"redis|valkey|amqp|pika|kombu|celery|kafka|nats|embedded|pytest|hypothesis")
pytestmark = pytest.mark.timeout(240)  # the first one builds

LAST_LINES = {"api": "stopped", "worker": "end=drained"}
PATIENCE_S = 40
WORKERS = 3
JOBS = 300


@pytest.fixture(scope="module")
def image(server: Databases) -> Iterator[Image]:
    """Built once, by the Dockerfile's own commands."""
    # not pytest's tmp_path: its folders are closed to other accounts
    folder = Path(tempfile.mkdtemp(prefix="batchq-image-"))
    folder.chmod(0o755)
    try:
        yield Image(folder, account(server.admin))
    finally:
        shutil.rmtree(folder)


def account(dsn: str) -> int | None:
    """Whom to be: not root, if we are, but somebody who may enter the socket's folder."""
    if os.geteuid() != 0:
        return None
    host = str(conninfo_to_dict(dsn).get("host", ""))
    return (Path(host).stat().st_uid if host.startswith("/") else 0) or 10_001


def variables(service: str) -> dict[str, str]:
    """What compose sets, without its database; a port of its own instead of a container's 8080."""
    env = {k: v for k, v in service_environment(service).items() if k != "DATABASE_URL"}
    port = free_port()
    return {**env, "BATCHQ_PORT": port, "BATCHQ_HEALTH_PORT": port}


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@contextlib.contextmanager
def workers(image: Image, folder: Path, dsn: str) -> Iterator[list[Container]]:
    """As many as --scale would start, healthy."""
    with contextlib.ExitStack() as stack:
        found = []
        for n in range(WORKERS):
            log = folder / f"worker-{n}"
            starting = image.started(log, "worker", dsn=dsn, variables=variables("worker"))
            found.append(stack.enter_context(starting))
        for one in found:
            one.become_healthy()
        yield found


def counts(dsn: str) -> dict[str, int]:
    return dict(query(dsn, "select status, count(*)::int from batchq.jobs group by 1"))


def seen_at_work(dsn: str) -> set[str]:
    """Who held jobs until all of them had ended."""
    names: set[str] = set()
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            rows = conn.execute("select status, locked_by from batchq.jobs").fetchall()
            names |= {str(name) for _, name in rows if name is not None}
            if {status for status, _ in rows} == {"completed"}:
                return names
            assert time.monotonic() < deadline, counts(dsn)
            time.sleep(0.02)


def test_a28_the_wheel_has_what_it_needs_and_nothing_else(image: Image) -> None:
    with zipfile.ZipFile(image.wheel) as wheel:
        names = wheel.namelist()
        metadata = email.message_from_bytes(
            wheel.read(next(n for n in names if n.endswith("/METADATA")))
        )
    top = image.folder / "src"
    sources = {
        f"pybatchq/{path.relative_to(root)}"
        for root, folder in ((top / "pybatchq", "."), (top, "sql"))
        for path in (root / folder).rglob("*")
        if path.is_file()
    }
    packed = {name for name in names if not name.startswith("pybatchq-")}
    assert packed == sources
    assert {"pybatchq/py.typed", "pybatchq/sql/install.sql"} <= packed
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert (metadata["Name"], metadata["License-Expression"]) == ("pybatchq", "MIT")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_payload() == (top / "README.md").read_text()


def test_a05_a66_nothing_but_the_core_is_installed(image: Image) -> None:
    program = "import importlib.metadata as m; print(*(d.name for d in m.distributions()))"
    said = subprocess.check_output([image.python, "-c", program], text=True, cwd=image.app)
    names = said.lower().split()
    assert {"pybatchq", "psycopg", "aiohttp"} <= set(names)
    assert not [name for name in names if OTHERS.search(name)]


def test_a28_the_core_alone_installs_the_schema_and_tells_versions(
    image: Image, empty_db: str
) -> None:
    for _ in range(2):
        done = image.run("install", dsn=empty_db)
        assert done.returncode == 0, done.stderr
        assert "batchq is installed" in done.stdout
    told = json.loads(image.run("version", "--json", dsn=empty_db).stdout)
    assert told["database"]["batchq"] == told["batchq"]
    # the command of the package, too
    script = image.python.with_name("batchq")
    assert "batchq" in subprocess.check_output([script, "version"], text=True, cwd=image.app)


def test_a66_own_handlers_are_found_in_app(image: Image) -> None:
    (image.app / "own_jobs.py").write_text(
        "from pybatchq import handler\n\n\n@handler('own')\nasync def own(payload):\n    pass\n"
    )
    done = image.run("handlers", "--json", BATCHQ_HANDLERS="own_jobs")
    assert "own" in {json.loads(line)["kind"] for line in done.stdout.splitlines()}, done.stderr


def test_a65_three_workers_share_300_jobs(image: Image, db: str, tmp_path: Path) -> None:
    with workers(image, tmp_path, db) as found:
        add(db, "demo_task", JOBS, payload={"message": "hi", "delay_ms": 100})
        names = seen_at_work(db)
        assert counts(db) == {"completed": JOBS}
        assert len(names) == WORKERS
        alive = query(db, "select worker::text from batchq.list_workers() where is_alive")
        assert {name for (name,) in alive} == names
        for one in found:
            assert one.stop() == 0, one.log.read_text()
            assert not image.healthy(one.env)
    said = "".join(one.log.read_text() for one in found)
    assert said.count("[demo_task] hi") == JOBS


@pytest.mark.parametrize("name", ["api", "worker"])
def test_a66_mode_chooses_and_a_signal_ends_pid_1(
    image: Image, db: str, tmp_path: Path, name: str
) -> None:
    """The kernel drops the signals that PID 1 of a container has no handler for."""
    isolated = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to make a PID namespace: run as root on Linux")
    env = {**variables(name), "MODE": "" if name == "api" else name}
    with image.started(tmp_path / "log", dsn=db, variables=env, before=isolated) as started:
        started.become_healthy()
        children = Path(f"/proc/{started.popen.pid}/task/{started.popen.pid}/children")
        (pid,) = children.read_text().split()
        assert "NSpid:\t" + pid + "\t1\n" in Path(f"/proc/{pid}/status").read_text()
        os.kill(int(pid), signal.SIGTERM)
        assert started.popen.wait(PATIENCE_S) == 0
    assert LAST_LINES[name] in started.log.read_text().splitlines()[-1]


def test_a65_a_job_posted_to_the_api_is_run_by_a_worker(
    image: Image, db: str, tmp_path: Path
) -> None:
    env, log = variables("api"), tmp_path / "api"
    with (
        workers(image, tmp_path, db),
        image.started(log, "api", dsn=db, variables=env) as api,
    ):
        api.become_healthy()
        posted = post(
            env["BATCHQ_PORT"],
            {"type": "demo_task", "payload": {"message": "hi", "delay_ms": 500}},
        )
        assert isinstance(posted["id"], int)
        seen_at_work(db)
        assert counts(db) == {"completed": 1}
        assert api.stop() == 0, log.read_text()


def post(port: str, job: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/jobs", json.dumps(job).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.status == 201
        told: dict[str, Any] = json.load(answer)
        return told


@contextlib.contextmanager
def tls_database(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """What begins as PostgreSQL over TLS does, on a port; then what came of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))
    came_of: list[str] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                with client, contextlib.suppress(OSError):
                    client.recv(8)
                    client.sendall(b"S")
                    with context.wrap_socket(client, server_side=True) as secure:
                        came_of.append("trusted" if secure.recv(1) else "left")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1], came_of
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a66_the_bundle_of_authorities_is_the_one_that_psycopg_uses(
    image: Image, tmp_path: Path
) -> None:
    with tls_database(tmp_path) as (port, came_of):
        dsn = (
            f"host=localhost hostaddr=127.0.0.1 port={port} dbname=x user=x"
            " sslmode=verify-full sslrootcert=system"
        )
        refused = image.run("jobs", dsn=dsn)
        assert (refused.returncode, came_of) == (3, [])
        bundle = image.folder / "authorities.pem"
        shutil.copy(tmp_path / "public.pem", bundle)
        image.run("jobs", dsn=dsn, SSL_CERT_FILE=str(bundle))
        assert came_of == ["trusted"]
