"""One job in the foreground, for whoever debugs its handler.

A plain function runs in the main thread, so that a debugger's prompt works; nothing is timed out.
The lease is long instead of renewed: nobody else takes the job while one stands at a breakpoint.
"""

from __future__ import annotations

import bdb
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import msgspec

from pybatchq import attempts, calls, endings
from pybatchq.attempts import Attempt
from pybatchq.endings import RELEASED, Ending
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.outcomes import Outcomes
from pybatchq.types import WorkItem

WORKER = "run-once"
# What Ctrl-C raises, and `quit` at the prompt of pdb.
QUITTING = {KeyboardInterrupt.__qualname__, bdb.BdbQuit.__qualname__}


class Ran(NamedTuple):
    """item: the job that ran. reason: why its ending was not taken, None if it was."""

    item: WorkItem
    ending: Ending
    reason: str | None


async def run_once(
    conn: calls.Connection,
    registry: Registry,
    *,
    queue: str,
    lease_for: timedelta,
    started: Callable[[WorkItem], None],
    progress: Callable[[str], None],
) -> Ran | None:
    """Lease the next job of a queue, run it and settle it; None if there is none.

    The connection is in autocommit. started: called before the handler is. progress: called with
    the JSON of what the handler reports.
    LookupError if there is no handler for its kind: the job is put back, as it is by Ctrl-C and by
    who quits the debugger.
    """
    (item, *_) = await calls.settle_and_lease(
        conn, queues=[queue], n=1, worker=WORKER, lease_for=lease_for
    )
    if item.event != "leased":
        return None
    outcomes = Outcomes()
    handler = registry.by_kind.get(item.kind)
    if handler is None:
        outcomes.release(item)
        await calls.settle_and_lease(conn, n=0, **outcomes.arguments())
        raise LookupError(f"job {item.job_id} is of kind {item.kind!r}, which has no handler here")
    uuids = (await calls.job_uuid(conn, job_id=0)).int
    untimed = msgspec.structs.replace(item, timeout_s=None)
    attempt = Attempt(untimed, handler, Job(untimed, uuids, lambda _, text: progress(text)))
    attempt.stop = "shutdown"  # whatever cancels it is Ctrl-C, and hands it back
    try:
        if handler.is_async:
            started(item)
            ending = await attempts.run(attempt, _nowhere)
        else:
            ending = _run_here(attempt, started)
    except bdb.BdbQuit:  # after steps that led out of the handler
        ending = RELEASED
    if ending.event == "failed" and ending.what in QUITTING:
        ending = RELEASED
    outcomes.add(item, ending)
    refused = await calls.settle_and_lease(conn, n=0, **outcomes.arguments())
    return Ran(item, ending, refused[0].event if refused else None)


def _run_here(attempt: Attempt, started: Callable[[WorkItem], None]) -> Ending:
    """In this very thread; Ctrl-C reaches the function, not the event loop."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started(attempt.item)
        ending = attempts.run_here(attempt.handler, attempt.job, attempt.item.payload)
    except KeyboardInterrupt:
        return RELEASED
    finally:
        signal.signal(signal.SIGINT, before)
    return endings.after_stop(ending, "shutdown", None, attempt.handler.runs_in)


async def _nowhere(_attempt: Attempt) -> Ending:
    raise AssertionError("a coroutine runs in the loop")
