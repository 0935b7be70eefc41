"""`batchq dev`, `run-once`, `handlers` and the variable MODE, run as a user would."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.processes import KINDS, ROOT, environment
from tests.support.working import ended

KIND_MODULE = """
import time
from pybatchq import PermanentError, handler

@handler("double")
def double(payload: dict[str, int], job):
    job.progress({"half": 1})
    return {"n": 2 * payload["n"]}

@handler("refuse")
async def refuse(payload):
    raise PermanentError("never")

@handler("wait")
def wait(payload):
    time.sleep(60)
"""

BREAKPOINTS = """
from pybatchq import handler

@handler("plain")
def plain(payload):
    breakpoint()
    return 1

@handler("coroutine")
async def coroutine(payload):
    breakpoint()
    return 1
"""


def run(
    *arguments: str, cwd: Path = ROOT, stdin: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pybatchq", *arguments],
        cwd=cwd, env=environment(None, **{"PYTHONPATH": str(ROOT), **settings}),
        input=stdin, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def started(*arguments: str, cwd: Path = ROOT, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """The same, while it runs; gone at the end, whatever happens."""
    with subprocess.Popen(
        [sys.executable, "-m", "pybatchq", *arguments],
        cwd=cwd, env=environment(None, **{"PYTHONPATH": str(ROOT), **settings}),
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """The next line on stderr that has this in it."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without {text!r}")


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A folder with a module `kinds` that registers handlers."""
    (tmp_path / "kinds.py").write_text(KIND_MODULE)
    return tmp_path


async def test_run_once_runs_one_job_here_and_settles_it(
    db: str, conn: Connection, module: Path
) -> None:
    job_id = await calls.enqueue(conn, "double", {"n": 4}, queue="q")
    done = run("run-once", "q", "--handlers", "kinds", "--dsn", db, cwd=module)
    assert (done.returncode, done.stdout.strip()) == (0, '{"n":8}')
    assert 'progress {"half":1}' in done.stderr
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.status, job.attempts, job.result) == ("completed", 1, b'{"n": 8}')


async def test_run_once_fails_if_the_job_does_or_there_is_none(
    db: str, conn: Connection, module: Path
) -> None:
    none = run("run-once", "--handlers", "kinds", "--dsn", db, cwd=module)
    assert none.returncode == 1
    assert none.stderr.startswith("batchq: no job is ready in queue 'default'")
    job_id = await calls.enqueue(conn, "refuse")
    done = run("run-once", "--handlers", "kinds", "--json", "--dsn", db, cwd=module)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "id": job_id, "kind": "refuse", "event": "failed", "result": None, "error": "never",
    }  # fmt: skip
    assert (await calls.get_job(conn, job_id=job_id)).status == "failed"


async def test_run_once_puts_back_what_it_has_no_handler_for(
    db: str, conn: Connection, module: Path
) -> None:
    job_id = await calls.enqueue(conn, "other")
    done = run("run-once", "--handlers", "kinds", "--dsn", db, cwd=module)
    assert done.returncode == 1
    assert "of kind 'other', which has no handler here: it was put back" in done.stderr
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.state, job.attempts) == ("ready", 0)


@pytest.mark.parametrize("kind", ["wait", "demo_task"])
async def test_ctrl_c_in_run_once_hands_the_job_back(
    db: str, conn: Connection, module: Path, kind: str
) -> None:
    job_id = await calls.enqueue(conn, kind, {"delay_ms": 60_000})
    with started("run-once", "--handlers", "kinds", "--dsn", db, cwd=module) as process:
        wait_for(process, f"running job {job_id}")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
    assert "Traceback" not in said
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.state, job.attempts) == ("ready", 0)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
async def test_who_quits_the_debugger_in_run_once_hands_the_job_back(
    db: str, conn: Connection, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "kinds.py").write_text(BREAKPOINTS)
    job_id = await calls.enqueue(conn, kind)
    done = run("run-once", "--handlers", "kinds", "--dsn", db, cwd=tmp_path, stdin="quit\n")
    assert "(Pdb)" in done.stdout
    assert f"job {job_id}: released" in done.stderr
    assert done.returncode == 0
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.state, job.attempts) == ("ready", 0)


def test_handlers_shows_kinds_and_the_schemas_of_their_payloads(module: Path) -> None:
    table = run("handlers", "--handlers", "kinds", cwd=module)
    assert table.returncode == 0
    assert "double\tkinds.double\tthread" in table.stdout
    listed = run("handlers", "--handlers", "kinds", "--json", cwd=module)
    kinds = {one["kind"]: one for one in map(json.loads, listed.stdout.splitlines())}
    assert set(kinds) == {"double", "refuse", "wait", "demo_task", "http_get", "batch_range"}
    assert kinds["http_get"]["schema"]["$defs"]["HttpGet"]["required"] == ["url"]
    assert kinds["double"]["schema"] == {
        "type": "object", "additionalProperties": {"type": "integer"},
    }  # fmt: skip
    plain = run("handlers", "--handlers", "kinds", "--json", cwd=module, BATCHQ_BUILTIN="off")
    assert len(plain.stdout.splitlines()) == 3


async def test_b08_a67_dev_starts_a_database_installs_and_works(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started("dev", "--handlers", KINDS, BATCHQ_DATA=str(data)) as process:
        told = re.search(r"export DATABASE_URL='(.*)'", wait_for(process, "DATABASE_URL"))
        assert told is not None
        wait_for(process, "worker started")
        async with await psycopg.AsyncConnection.connect(told[1], autocommit=True) as conn:
            job_id = await calls.enqueue(conn, "demo_task", {"message": "hi"})
            job = await ended(conn, job_id)
            assert job.result == b'{"message": "hi", "delay_ms": 0}'
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
    assert not (data / "dev" / "data" / "postmaster.pid").exists()


def test_a24_any_other_mode_is_refused_by_name() -> None:
    done = run(MODE="serve")
    assert done.returncode == 2
    assert "MODE is 'serve'; allowed: api, worker" in done.stderr


def test_a24_a26_mode_worker_is_the_command_worker() -> None:
    done = run(MODE="worker")
    assert done.returncode == 2
    assert done.stderr.startswith("batchq: DATABASE_URL is not set")
    assert "`batchq dev`" in done.stderr


async def test_a24_a34_mode_worker_works_and_opens_no_port(db: str, conn: Connection) -> None:
    with started(MODE="worker", DATABASE_URL=db) as process:
        job = await ended(conn, await calls.enqueue(conn, "batch_range", {"start": 0, "end": 9999}))
        assert msgspec.json.decode(job.result or b"")["sum"] == 49995000
        assert listening(process.pid) == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def listening(pid: int) -> list[str]:
    """The TCP addresses this process listens on."""
    links = (link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink())
    sockets = {str(link) for link in links}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


BROKEN = {
    "syntax": ("def a(:\n", "kinds.py:1: SyntaxError: "),
    "zero": ("x = 1\ny = 1 / 0\n", "kinds.py:2: ZeroDivisionError: "),
    "twice": (KIND_MODULE + KIND_MODULE, "ValueError: kind 'double' already has the handler"),
    "leaves": ("import sys\nsys.exit(4)\n", "kinds.py:2: SystemExit: 4"),
    "imports": ("import no_such_package\n", "kinds.py:1: ModuleNotFoundError: No module named"),
    "process": (
        "from pybatchq import handler\nhandler('k', runs_in='process')(lambda p: 1)\n",
        "kind 'k': runs_in='process' needs functions at the top of a module",
    ),
}


@pytest.mark.parametrize(("source", "says"), BROKEN.values(), ids=BROKEN)
def test_a_module_that_cannot_work_is_one_line_with_its_place(
    db: str, tmp_path: Path, source: str, says: str
) -> None:
    (tmp_path / "kinds.py").write_text(source)
    done = run("worker", "--handlers", "kinds", "--dsn", db, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert says in done.stderr


def test_a_server_that_will_not_have_us_is_not_waited_for(db: str) -> None:
    done = run("worker", "--dsn", psycopg.conninfo.make_conninfo(db, user="nobody_known"))
    assert done.returncode == 3
    assert "nobody_known" in done.stderr
    assert "Traceback" not in done.stderr


async def test_dev_stops_its_database_though_handlers_do_not_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with started("dev", "--handlers", KINDS, BATCHQ_DATA=str(data)) as process:
        told = re.search(r"export DATABASE_URL='(.*)'", wait_for(process, "DATABASE_URL"))
        assert told is not None
        wait_for(process, "worker started")
        async with await psycopg.AsyncConnection.connect(told[1], autocommit=True) as conn:
            job_id = await calls.enqueue(conn, "stubborn thread")
            await ended(conn, job_id, "running")
        process.send_signal(signal.SIGINT)
        wait_for(process, "stopping")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 5
    assert not (data / "dev" / "data" / "postmaster.pid").exists()
