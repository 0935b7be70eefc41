"""Running one attempt: from a leased row to its ending. Nothing a job does may escape from here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from pybatchq import endings
from pybatchq.endings import Ending, Stop
from pybatchq.handlers import Handler
from pybatchq.job import Job
from pybatchq.payloads import PayloadError
from pybatchq.types import WorkItem

STOP_WITHIN_S = 5.0

# Runs a plain function's handler somewhere else than in the event loop.
Elsewhere = Callable[["Attempt"], Awaitable[Ending]]


class Attempt:
    """One leased job while this process has it. Times are of the monotonic clock.

    A heartbeat thread reads it and may set `beat_at` and `job.cancelled`; all else is the loop's.
    """

    __slots__ = (
        "beat_at", "handler", "item", "job", "lease_s", "on_stop", "since", "started", "stop",
        "stop_by", "task", "timer",
    )  # fmt: skip

    def __init__(self, item: WorkItem, handler: Handler, job: Job) -> None:
        self.item = item
        self.handler = handler
        self.job = job
        self.lease_s = item.lease_s
        self.since = monotonic()  # leased; once started: started
        self.beat_at = self.since + item.lease_s / 4
        self.started = False
        self.stop: Stop | None = None
        self.stop_by = float("inf")
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.on_stop: Callable[[], None] | None = None  # tells a process

    def cancel(self, why: Stop) -> None:
        """Ask the handler to stop. A coroutine is cancelled, a thread sees `job.cancelled`."""
        if self.stop is None:
            self.stop = why
            self.stop_by = monotonic() + STOP_WITHIN_S
            self.job.cancelled = True
            if self.task is not None and self.handler.is_async:
                self.task.cancel()
            if self.on_stop is not None:
                self.on_stop()


async def run(attempt: Attempt, elsewhere: Elsewhere) -> Ending:
    """Run the handler to its ending. Raises nothing, whatever the handler does."""
    item, handler = attempt.item, attempt.handler
    if item.timeout_s is not None:
        attempt.timer = asyncio.get_running_loop().call_later(
            item.timeout_s, attempt.cancel, "timed_out"
        )
    try:
        if handler.runs_in == "loop":
            ending = await _in_loop(handler, attempt.job, item.payload)
        else:
            ending = await elsewhere(attempt)
    except BaseException as error:  # noqa: BLE001  # a job may fail its attempt, never its worker
        ending = endings.raised(error, handler.policy, item.attempt)
    if attempt.timer is not None:
        attempt.timer.cancel()
    if attempt.stop is None and ending.event != "stopped":
        return ending
    return endings.after_stop(ending, attempt.stop, item.timeout_s, handler.runs_in)


async def _in_loop(handler: Handler, job: Job, data: bytes) -> Ending:
    failure: BaseException | None = None
    try:
        payload = handler.decode(data)
        handler.enter(job)
        value = await (
            handler.function(payload, job) if handler.wants_job else handler.function(payload)
        )
        ending = endings.returned(value)
    except PayloadError as error:
        return endings.undecodable(error)
    except BaseException as error:  # noqa: BLE001
        failure = error
        ending = endings.raised(error, handler.policy, job.attempt)
    handler.leave(job, failure)
    return ending


def run_here(handler: Handler, job: Job, data: bytes) -> Ending:
    """Run a plain function's handler in this thread. Raises nothing."""
    failure: BaseException | None = None
    try:
        payload = handler.decode(data)
        handler.enter(job)
        value: Any = (
            handler.function(payload, job) if handler.wants_job else handler.function(payload)
        )
        ending = endings.returned(value)
    except PayloadError as error:
        return endings.undecodable(error)
    except BaseException as error:  # noqa: BLE001
        failure = error
        ending = endings.raised(error, handler.policy, job.attempt)
    handler.leave(job, failure)
    return ending
