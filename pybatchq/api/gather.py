"""Requests that arrive together become one enqueue_many, and each gets its own answer.

While a call or two are under way, what arrives waits in a bounded queue and is the next batch: the
busier, the larger. A batch is stored as a whole or not at all, so what one bad job spoils is taken
apart and sent again without it. Of jobs for a full queue as many are stored as it has room
for, in order; that takes a few calls, however many are refused.

Jobs with a dedupe key are gathered apart from the others. Only they can wait for somebody else's
open transaction, one that holds the same key; a batch that does is given up soon, and each of its
jobs is tried alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from pybatchq import calls
from pybatchq.api.errors import (
    ApiError,
    TimedOutError,
    as_api_error,
    place_of,
    refused,
    unavailable,
    without_place,
)
from pybatchq.api.pool import Database
from pybatchq.calls import Connection
from pybatchq.errors import BatchqError, QueueFullError, VersionMismatchError
from pybatchq.types import EnqueuedJob

IN_FLIGHT: Final = 2
ALONE: Final = 2
MOST_JOBS: Final = 500
MOST_BYTES: Final = 4 * 1024 * 1024
ROOM_JOBS: Final = 10_000
ROOM_BYTES: Final = 64 * 1024 * 1024
# A batch of keyed jobs that takes so long has met a key somebody holds.
KEYED_S: Final = 1.0
BATCH_S: Final = 5.0
KEY_HELD: Final = "a transaction that is still open holds this dedupe key"

log = logging.getLogger("pybatchq")


@dataclass(slots=True, eq=False)
class _Waiting:
    """A job of one request, on its way. spec: JSON text of an object of enqueue_many.

    later: it is not to run now, so it needs no room in a queue that is full.
    """

    spec: bytes
    queue: str
    later: bool
    answer: asyncio.Future[EnqueuedJob]

    def done(self, row: EnqueuedJob) -> None:
        if not self.answer.done():
            self.answer.set_result(row)

    def fail(self, error: ApiError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error.copy())


class _Line:
    """Jobs that wait to be sent, in order of arrival."""

    def __init__(self, *, within_s: float, most: int) -> None:
        self.within_s = within_s
        self._most = most
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: _Waiting) -> None:
        self._waiting.append(one)
        self._arrived.set()

    async def take(self) -> list[_Waiting]:
        """Once there are some: the next batch."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < self._most:
            size += len(self._waiting[0].spec)
            if batch and size > MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    def empty(self) -> list[_Waiting]:
        batch = list(self._waiting)
        self._waiting.clear()
        return batch


class Gatherer:
    """Enqueues the jobs of many requests, from open() to close()."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plain = _Line(within_s=BATCH_S, most=MOST_JOBS)
        self._keyed = _Line(within_s=KEYED_S, most=MOST_JOBS)
        self._alone = _Line(within_s=BATCH_S, most=1)
        self._held_jobs = 0
        self._held_bytes = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.on_batch: Callable[[int], None] = lambda _jobs: None  # for metrics

    @property
    def held(self) -> int:
        """Jobs that wait or are under way."""
        return self._held_jobs

    async def open(self) -> None:
        lines = [self._plain, self._keyed] * IN_FLIGHT + [self._alone] * ALONE
        self._tasks = [asyncio.ensure_future(self._run(line)) for line in lines]

    async def close(self) -> None:
        """Refuse what still waits. Requests that are under way are to have ended by now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for line in (self._plain, self._keyed, self._alone):
            for one in line.empty():
                one.fail(unavailable("the API is shutting down"))

    async def add(self, spec: bytes, *, keyed: bool, queue: str, later: bool) -> EnqueuedJob:
        """Enqueue one job: committed when this returns. ApiError for this job alone."""
        if self._held_jobs >= ROOM_JOBS or self._held_bytes + len(spec) > ROOM_BYTES:
            raise unavailable("too many requests are waiting for the database", retry_after_s=1)
        one = _Waiting(spec, queue, later, asyncio.get_running_loop().create_future())
        self._held_jobs += 1
        self._held_bytes += len(spec)
        try:
            (self._keyed if keyed else self._plain).put(one)
            return await one.answer
        finally:
            self._held_jobs -= 1
            self._held_bytes -= len(spec)

    async def _run(self, line: _Line) -> None:
        while True:
            batch = await line.take()
            self.on_batch(len(batch))
            try:
                await self._settle(batch, line)
            except Exception as error:  # noqa: BLE001  # one batch's; the next may go well
                self._fail(batch, error)

    async def _settle(self, batch: list[_Waiting], line: _Line) -> bool:
        """Answer every job of a batch. Returns whether a queue was full."""

        async def enqueue(conn: Connection) -> list[EnqueuedJob]:
            return await calls.enqueue_many(conn, jobs=jobs)

        jobs = Raw(b"[" + b",".join([one.spec for one in batch]) + b"]")
        try:
            rows = await self._database.run(enqueue, within_s=line.within_s)
        except VersionMismatchError as error:
            self._fail(batch, error)
        except QueueFullError as error:
            await self._fill(batch, line, error)
            return True
        except BatchqError as error:
            await self._apart(batch, line, error)
        except TimedOutError as error:
            self._timed_out(batch, line, error)
        except Exception as error:  # noqa: BLE001  # as_api_error knows those that are to be
            self._fail(batch, error)
        else:
            for one, row in zip(batch, rows, strict=True):
                one.done(row)
        return False

    async def _fill(self, batch: list[_Waiting], line: _Line, error: QueueFullError) -> None:
        """Store the first ones of the queue that is full, as many as it has room for.

        And those for other queues, and for later. Once one is refused, those behind it are, too.
        """
        its = [one for one in batch if f"queue '{one.queue}' is full" in str(error)]
        if not its:  # a name that is not written as it is
            await self._apart(batch, line, error)
            return
        now = [one for one in its if not one.later] or its
        asked = set(now)
        others = [one for one in batch if one not in asked]
        if others:
            await self._settle(others, line)
        if len(now) == 1:
            self._fail(now, error)
            return
        half = len(now) // 2
        if await self._settle(now[:half], line):
            self._fail(now[half:], error)
        else:
            await self._settle(now[half:], line)

    def _timed_out(self, batch: list[_Waiting], line: _Line, error: TimedOutError) -> None:
        if line is self._keyed:
            for one in batch:
                self._alone.put(one)
        else:
            self._fail(batch, unavailable(KEY_HELD) if line is self._alone else error)

    async def _apart(self, batch: list[_Waiting], line: _Line, error: BatchqError) -> None:
        """Refuse the job at fault; send those before it, and those behind it in halves.

        The error names the first bad one, or none where the array as a whole could not be read.
        """
        if len(batch) == 1:
            self._fail(batch, error)
            return
        at = place_of(error) or 0
        before, rest = batch[: max(at - 1, 0)], batch[at:]
        self._fail(batch[len(before) : at], error)
        for piece in (before, rest[: len(rest) // 2], rest[len(rest) // 2 :]):
            if piece:
                await self._settle(piece, line)

    def _fail(self, batch: list[_Waiting], error: Exception) -> None:
        shown = as_api_error(error)
        if shown is None:
            shown = refused(500, "internal error")
            log.error("a batch failed", exc_info=error, extra={"jobs": len(batch)})
        if isinstance(error, BatchqError):
            shown = shown.changed(message=without_place(error))
        for one in batch:
            one.fail(shown)
