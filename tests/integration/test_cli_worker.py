"""`batchq worker` as a process: signals, exit codes, and what it says when it cannot work."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pybatchq import calls
from pybatchq.testing import Ledger
from tests.conftest import Connection
from tests.support.processes import KINDS, ROOT, environment, process, worker_process
from tests.support.working import ended, statuses, until


async def running(conn: Connection, count: int) -> None:
    """Wait until so many jobs have started."""

    async def look() -> bool:
        cursor = await conn.execute("select count(*) from ledger")
        return bool((await cursor.fetchall())[0][0] == count)

    await until(look)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_a37_b07_a_signal_lets_running_jobs_finish(
    db: str, conn: Connection, tmp_path: Path, signum: signal.Signals
) -> None:
    jobs = [{"kind": "ledger", "payload": {"ms": 700}}] * 3
    async with (
        Ledger(db) as ledger,
        worker_process(db, tmp_path / "log", "--concurrency", "2") as worker,
    ):
        await calls.enqueue_many(conn, jobs=jobs)
        await running(conn, 2)
        worker.signal(signum)
        assert await worker.ended(within_s=3) == 0
        assert [run.attempt for run in await ledger.runs()] == [1, 1]
    assert "stopping" in worker.log
    assert "worker stopped" in worker.log
    assert await statuses(conn) == {"completed": 2, "pending": 1}


async def test_a37_f085_a_second_signal_hands_running_jobs_back_at_once(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with (
        Ledger(db),
        worker_process(db, tmp_path / "log") as worker,
    ):
        await calls.enqueue_many(conn, jobs=[{"kind": "ledger", "payload": {"ms": 60_000}}] * 2)
        await running(conn, 2)
        worker.signal(signal.SIGTERM)
        await worker.logged("stopping")
        worker.signal(signal.SIGTERM)
        assert await worker.ended(within_s=3) == 4
    jobs = await calls.list_jobs(conn)
    assert [(job.state, job.attempts) for job in jobs] == [("ready", 0)] * 2


async def test_a37_the_end_of_the_grace_hands_running_jobs_back(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with (
        Ledger(db),
        worker_process(db, tmp_path / "log", "--grace", "300ms") as worker,
    ):
        job_id = await calls.enqueue(conn, "ledger", {"ms": 60_000})
        await running(conn, 1)
        at = time.monotonic()
        worker.signal(signal.SIGTERM)
        assert await worker.ended(within_s=5) == 4
        assert time.monotonic() - at > 0.3
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.state, job.attempts) == ("ready", 0)


async def test_f084_f085_what_does_not_stop_is_left_behind_with_an_exit_code(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with worker_process(db, tmp_path / "log", "--grace", "0") as worker:
        for kind in ("stubborn", "stubborn thread"):
            await calls.enqueue(conn, kind)

        async def both_run() -> bool:
            return await statuses(conn) == {"running": 2}

        await until(both_run)
        worker.signal(signal.SIGTERM)
        assert await worker.ended(within_s=12) == 5
    assert "leaving running jobs behind" in worker.log
    assert "Traceback" not in worker.log


async def test_b11_a_worker_frozen_past_its_lease_is_told_or_its_late_result_refused(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    options = ("--lease", "1s", "--concurrency", "1")
    async with (
        Ledger(db) as ledger,
        worker_process(db, tmp_path / "frozen", "--name", "frozen", *options) as frozen,
    ):
        job_id = await calls.enqueue(conn, "ledger", {"ms": 400})
        await running(conn, 1)
        frozen.signal(signal.SIGSTOP)
        async with worker_process(db, tmp_path / "other", "--name", "other", *options):
            job = await ended(conn, job_id)
            assert job.attempts == 2
            frozen.signal(signal.SIGCONT)
            await frozen.logged("the lease was lost")
        after = await calls.get_job(conn, job_id=job_id)
        assert (after.status, after.attempts) == ("completed", 2)
        assert after.finished_at == job.finished_at
        assert len(await ledger.runs()) == 2
        await calls.enqueue(conn, "ledger")
        await running(conn, 3)  # and goes on


async def test_a38_a_worker_without_its_database_waits_and_can_be_stopped(tmp_path: Path) -> None:
    dsn = f"postgresql://nobody@/none?host={tmp_path}"
    with process(dsn, tmp_path / "log", "--handlers", KINDS) as worker:
        await worker.logged("database unreachable: trying again")
        assert worker.popen.poll() is None
        worker.signal(signal.SIGTERM)
        await worker.ended(within_s=3)
    assert "Traceback" not in worker.log


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "module": (["--handlers", "no_such_module"], 2, "module no_such_module cannot be imported"),
    "concurrency": (["--concurrency", "0"], 2, "BATCHQ_CONCURRENCY is '0'; allowed: "),
    "lease": (["--lease", "soon"], 2, "BATCHQ_LEASE is 'soon'; allowed: "),
    "poll": (["--poll", "0"], 2, "BATCHQ_POLL is '0'; allowed: "),
    "queues": (["--queues", "a,,b"], 2, "BATCHQ_QUEUES is 'a,,b'; allowed: "),
    "queue": (["--queues", "x" * 300], 2, "invalid queue"),
    "option": (["--nope"], 2, "No such option"),
}


@pytest.mark.parametrize(("options", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_f065_what_makes_no_sense_is_named_with_its_exit_code(
    db: str, options: list[str], code: int, message: str
) -> None:
    done = run("worker", *options, dsn=db)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def run(*arguments: str, dsn: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pybatchq", *arguments],
        cwd=ROOT,
        env=environment(dsn),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a26_without_an_address_the_worker_says_which_variable_is_missing() -> None:
    done = run("worker")
    assert done.returncode == 2
    assert done.stderr.startswith("batchq: DATABASE_URL is not set")
    assert "batchq demo" in done.stderr


def test_a_database_without_batchq_is_refused_with_what_to_do(empty_db: str) -> None:
    done = run("worker", "--handlers", KINDS, dsn=empty_db)
    assert done.returncode == 1
    assert "batchq" in done.stderr
    assert "hint: run `batchq install`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["worker", "demo"])
def test_help_says_what_a_command_does(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert "Exit codes:" in done.stdout
    text = " ".join(done.stdout.split())
    assert {"worker": "second signal", "demo": "killed in the middle"}[command] in text


async def test_a_module_of_the_current_folder_is_found_and_an_empty_one_warned_of(
    db: str, tmp_path: Path
) -> None:
    with process(db, tmp_path / "log", BATCHQ_BUILTIN="off") as worker:
        await worker.logged("no handlers are registered")
        await worker.logged("worker started")
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
