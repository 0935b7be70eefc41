"""Kinds of jobs for the bench's workers, those included that are started as `batchq worker`.

They stand at the top of a module, so that a process handler can be sent to its process. The
`ledger` kinds write each start and end into a file that only they and the bench know of.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from pybatchq import Job, handler

MODULE = "bench.drivers.kinds"
LEDGER_VARIABLE = "BENCH_LEDGER"
WORK_S = 0.001
LOOK_EVERY_S = 0.01

_ledger: list[int] = []


@handler("noop")
async def noop(_payload: Any) -> None:
    """Nothing, in the event loop."""


@handler("noop_thread")
def noop_thread(_payload: Any) -> None:
    """Nothing, in a thread."""


@handler("noop_process", runs_in="process")
def noop_process(_payload: Any) -> None:
    """Nothing, in a process."""


def work(_payload: Any) -> None:
    """Use the processor for a millisecond of this thread's own time, whoever else wants it."""
    until = time.thread_time() + WORK_S
    while time.thread_time() < until:
        pass


handler("work_thread")(work)
handler("work_process", runs_in="process")(work)


@handler("ledger")
async def ledger(payload: dict[str, float], job: Job) -> None:
    """Nothing can cancel it between its last line and its return."""
    note("start", job)
    await asyncio.sleep(payload["s"])
    note("end", job)


def ledger_plain(payload: dict[str, float], job: Job) -> None:
    note("start", job)
    until = time.monotonic() + payload["s"]
    while time.monotonic() < until:
        job.check()
        time.sleep(LOOK_EVERY_S)
    note("end", job)


handler("ledger_thread")(ledger_plain)
handler("ledger_process", runs_in="process")(ledger_plain)


def note(event: str, job: Job) -> None:
    """Append a line in one step: from any thread or process, and whatever happens next."""
    if not _ledger:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        _ledger.append(os.open(os.environ[LEDGER_VARIABLE], flags, 0o644))
    os.write(_ledger[0], f"{event} {job.id}\n".encode())
