"""Handlers that behave badly in a worker process, and say what they do in a ledger table.

`TEST_PATIENCE_S` shortens how long the worker waits for one that does not stop. `TEST_LEDGER_URL`
is the ledger's address where the worker's own leads through a pooler.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import psycopg

from pybatchq import Job, attempts, handler, worker

if patience := os.environ.get("TEST_PATIENCE_S"):
    attempts.STOP_WITHIN_S = worker.GIVE_UP_S = float(patience)

_local = threading.local()


def note(event: str, job: Job) -> None:
    """A row of testing.Ledger, by a connection of this thread's own."""
    conn: psycopg.Connection[Any] | None = getattr(_local, "conn", None)
    if conn is None:
        dsn = os.environ.get("TEST_LEDGER_URL") or os.environ["DATABASE_URL"]
        conn = _local.conn = psycopg.connect(dsn, autocommit=True)
    query = (
        "insert into ledger_event (event, job_id, lease_id, attempt, worker)"
        " values (%s, %s, %s, %s, %s)"
    )
    conn.execute(query, (event, job.id, job.lease_id, job.attempt, str(os.getpid())))


@handler("first is long")
async def first_is_long(payload: Any, job: Job) -> str:
    """A minute in the first attempt, nothing in later ones."""
    await asyncio.to_thread(note, "start", job)
    if job.attempt == 1:
        await asyncio.sleep(60)
    await asyncio.to_thread(note, "end", job)
    return f"attempt {job.attempt}"


@handler("blocks the loop")
async def blocks_the_loop(payload: dict[str, float], job: Job) -> str:
    await asyncio.to_thread(note, "start", job)
    time.sleep(payload["s"])  # noqa: ASYNC251  # the fault under test
    await asyncio.to_thread(note, "end", job)
    return f"attempt {job.attempt}"


@handler("leaks a thread")
def leaks_a_thread(payload: dict[str, float], job: Job) -> str:
    """The first attempt does not look whether it is to stop."""
    note("start", job)
    if job.attempt == 1:
        time.sleep(payload["s"])
    note("end", job)
    return f"attempt {job.attempt}"


@handler("thread")
def thread(payload: dict[str, float], job: Job) -> str:
    note("start", job)
    time.sleep(payload["s"])
    note("end", job)
    return f"attempt {job.attempt}"


@handler("crashes its process", runs_in="process")
def crashes_its_process(payload: Any, job: Job) -> str:
    note("start", job)
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note("end", job)
    return f"attempt {job.attempt}"


@handler("nap")
async def nap(payload: dict[str, float]) -> None:
    await asyncio.sleep(payload["s"])


@handler("says")
async def says(payload: dict[str, str], job: Job) -> None:
    job.log.info(payload["word"], extra={"own": [1, 2]})


@handler("quotes")
async def quotes(payload: Any) -> None:
    raise ValueError(payload)


@handler("quotes in a thread")
def quotes_in_a_thread(payload: Any) -> None:
    raise ValueError(payload)


@handler("quotes in a process", runs_in="process")
def quotes_in_a_process(payload: Any) -> None:
    raise ValueError(payload)


@handler("typed")
async def typed(payload: dict[str, int]) -> None:
    """Its payload does not fit."""
