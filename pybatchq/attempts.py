"""Running one attempt: from a leased row to an outcome. Nothing a job does may escape from here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, Literal

from pybatchq import jsontext
from pybatchq.errors import InvalidArgumentError, PermanentError, RetryIn, Snooze
from pybatchq.handlers import Handler, Job
from pybatchq.outcomes import MAX_RESULT_BYTES, Outcomes, clean, describe
from pybatchq.types import WorkItem

Stop = Literal["cancelled", "lost", "timed_out", "shutdown"]
UNKNOWN_KIND_CAP_S = 300.0
STOP_WITHIN_S = 5.0

log = logging.getLogger("pybatchq")


class Attempt:
    """One leased job while this process has it. Times are of the monotonic clock."""

    __slots__ = ("beat_at", "handler", "item", "job", "lease_s", "stop", "stop_by", "task")

    def __init__(self, item: WorkItem, handler: Handler, job: Job) -> None:
        self.item = item
        self.handler = handler
        self.job = job
        self.lease_s = item.lease_s
        self.beat_at = time.monotonic() + item.lease_s / 4
        self.stop: Stop | None = None
        self.stop_by = float("inf")
        self.task: asyncio.Task[None] | None = None

    def cancel(self, why: Stop) -> None:
        """Ask the handler to stop. A coroutine is cancelled, a thread sees `job.cancelled`."""
        if self.stop is None:
            self.stop = why
            self.stop_by = time.monotonic() + STOP_WITHIN_S
            self.job.cancelled = True
            if self.task is not None and self.handler.is_async:
                self.task.cancel()

    def is_stuck(self) -> bool:
        """Whether this is a coroutine that was cancelled and did not end."""
        return self.handler.is_async and time.monotonic() > self.stop_by


async def run(attempt: Attempt, outcomes: Outcomes, threads: Executor) -> None:
    """Run the handler and note the outcome. Raises nothing, whatever the handler does."""
    item, handler = attempt.item, attempt.handler
    try:
        payload = jsontext.decode(item.payload)
    except ValueError as error:
        outcomes.fail(item, clean(f"decode payload: {error}", 500), permanent=True)
        return
    arguments = (payload, attempt.job) if handler.wants_job else (payload,)
    try:
        if handler.is_async:
            call: Awaitable[Any] = handler.function(*arguments)
        else:
            loop = asyncio.get_running_loop()
            call = loop.run_in_executor(threads, _call, handler.function, arguments)
        result = await (call if item.timeout_s is None else _within(call, attempt))
        _returned(attempt, result, outcomes)
    except BaseException as error:  # noqa: BLE001  # a job may fail its attempt, never its worker
        _failed(attempt, error, outcomes)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """In a thread. Two exceptions mean something else to a future, and would never arrive."""
    try:
        return function(*arguments)
    except (StopIteration, GeneratorExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error


async def _within(call: Awaitable[Any], attempt: Attempt) -> Any:
    """Await with the job's timeout. A thread cannot be stopped, only told: it is waited for."""

    async def expire() -> None:
        await asyncio.sleep(attempt.item.timeout_s or 0)
        attempt.cancel("timed_out")

    timer = asyncio.ensure_future(expire())
    try:
        return await call
    finally:
        timer.cancel()


def _returned(attempt: Attempt, result: Any, outcomes: Outcomes) -> None:
    item = attempt.item
    if attempt.stop == "timed_out" and not attempt.handler.is_async:
        outcomes.fail(item, f"timed out after {item.timeout_s:g} s")
        return
    if result is None:
        outcomes.complete(item, None)
        return
    try:
        text = jsontext.encode(result)
    except InvalidArgumentError as error:
        outcomes.fail(item, clean(f"result cannot be stored: {error}", 500), permanent=True)
        return
    if len(text) > MAX_RESULT_BYTES or len(text.encode()) > MAX_RESULT_BYTES:
        outcomes.fail(item, "result cannot be stored: it is over 1 MiB", permanent=True)
        return
    outcomes.complete(item, text)


def _failed(attempt: Attempt, error: BaseException, outcomes: Outcomes) -> None:
    item, stop = attempt.item, attempt.stop
    if isinstance(error, asyncio.CancelledError):
        match stop:
            case "lost":
                pass  # not ours to settle
            case "cancelled":
                outcomes.fail(item, "cancelled", permanent=True)
            case "timed_out":
                outcomes.fail(item, f"timed out after {item.timeout_s:g} s")
            case "shutdown":
                outcomes.release(item)
            case None:
                outcomes.fail(item, "the handler was cancelled from inside")
    elif stop == "timed_out":
        outcomes.fail(item, f"timed out after {item.timeout_s:g} s; {describe(error)}")
    # a wait that is NaN is no wait: the job's backoff it is
    elif isinstance(error, Snooze) and error.seconds == error.seconds:
        outcomes.release(item, error.seconds)
    elif isinstance(error, RetryIn) and error.seconds == error.seconds:
        outcomes.fail(item, describe(error), retry_in_s=error.seconds)
    else:
        outcomes.fail(item, describe(error), permanent=isinstance(error, PermanentError))


class UnknownKinds:
    """Kinds without a handler here: put back, each time for longer, with one line in the log."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def put_back(self, item: WorkItem, outcomes: Outcomes) -> None:
        times = self._seen.get(item.kind, 0)
        if times == 0:
            log.warning(
                "no handler for this kind: its jobs are put back",
                extra={"kind": item.kind, "queue": item.queue},
            )
        self._seen[item.kind] = times + 1
        outcomes.release(item, min(UNKNOWN_KIND_CAP_S, 2.0 ** min(times, 16)))
