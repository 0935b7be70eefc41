"""A worker with nothing but HTTP: the example, as a process, and the guide's lines, in a shell."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api, serving
from tests.support.processes import ROOT
from tests.support.working import ended, until

EXAMPLE = ROOT / "examples" / "http_worker.py"
GUIDE = (ROOT / "docs" / "api-work.md").read_text()


@contextlib.contextmanager
def example(api: Api, folder: Path, *queues: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """The example, isolated from everything installed here; what it wrote is in worker.log."""
    command = [sys.executable, "-I", "-S", str(EXAMPLE), api.url, *queues]
    with (folder / "worker.log").open("ab") as out:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def exit_code(process: subprocess.Popen[bytes]) -> int:
    async def over() -> bool:
        return process.poll() is not None

    await until(over)
    return int(process.returncode)


async def test_it_drains_its_queues_and_ends_when_told(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with serving(db) as api:
        shouted = [await api.enqueue("shout", payload={"text": f"ü{n}"}) for n in range(20)]
        low = await api.enqueue("shout", payload={"text": "low"}, queue="low")
        other = await api.enqueue("shout", payload={"text": "other"}, queue="other")
        wrong = await api.enqueue("shout", payload={}, max_attempts=1)
        unknown = await api.enqueue("unknown")
        with example(api, tmp_path, "default", "low") as process:
            assert (await ended(conn, low)).result == b'{"text": "LOW"}'
            late = await api.enqueue("shout", payload={"text": "late"})  # while it waits
            await ended(conn, late)
            process.send_signal(signal.SIGTERM)
            assert await exit_code(process) == 0
        results = [(await calls.get_job(conn, job_id=job)).result for job in shouted]
        assert results == [f'{{"text": "Ü{n}"}}'.encode() for n in range(20)]
        failed = await ended(conn, wrong, "failed")
        assert failed.last_error == "KeyError: 'text'"
        assert (await ended(conn, unknown, "failed")).attempts == 1
        assert (await calls.get_job(conn, job_id=other)).status == "pending"


async def test_a11_it_dies_in_a_job_which_comes_back_and_completes(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    """No other worker runs: the API takes the lease back."""
    async with serving(db, BATCHQ_REAP_EVERY="0.2s") as api:
        job = await api.enqueue("sleep", payload={"seconds": 1.5}, backoff_base=0)
        with example(api, tmp_path, LEASE_S="1") as process:
            await ended(conn, job, "running")
            process.kill()
        with example(api, tmp_path, LEASE_S="1"):  # its heartbeat outlives the lease
            record = await ended(conn, job)
        assert record.attempts == 2
        assert record.last_error is not None
        assert "expired" in record.last_error


async def test_a83_it_stops_a_job_that_was_cancelled(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    async with serving(db) as api:
        job = await api.enqueue("sleep", payload={"seconds": 3600})
        with example(api, tmp_path, LEASE_S="0.6"):
            await ended(conn, job, "running")
            assert (await api.post(f"/jobs/{job}/cancel")).status == 202
            assert (await ended(conn, job, "cancelled")).attempts == 1


async def test_the_guides_requests_work_as_they_are_written(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) >= 3
    async with serving(db) as api:
        script = "set -e\n" + "\n".join(blocks).replace("http://localhost:8080", api.url)
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        out = tmp_path / "out"
        with _shell(script, out) as process:
            assert await exit_code(process) == 0, out.read_text()
        assert '"code"' not in out.read_text()
        assert '"state":"lost"' not in out.read_text()
        assert '"refused":[{' not in out.read_text()
        jobs = [(await calls.get_job(conn, job_id=job)).state for job in range(1, 5)]
        assert jobs == ["completed", "completed", "scheduled", "scheduled"]


@contextlib.contextmanager
def _shell(script: str, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    with out.open("wb") as file:
        process = subprocess.Popen(["sh", "-c", script], stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
