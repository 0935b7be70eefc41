"""The thread that keeps a worker's leases alive, whatever its handlers do to the event loop.

It has an event loop and a connection of its own: heartbeats of all jobs the worker holds, their
progress, upkeep of the queues, the worker's row in the registry, its health port. The answer to a
heartbeat is how a job learns that it was cancelled, that its time is over or that its lease is
lost. The worker's own loop is asked every second whether it still turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol, TypeVar
from uuid import UUID, uuid4

import msgspec
import psycopg

from pybatchq import calls
from pybatchq.attempts import Attempt
from pybatchq.connections import Connector
from pybatchq.endings import Stop
from pybatchq.errors import BatchqError
from pybatchq.metrics import WorkerMetrics
from pybatchq.types import WorkItem

TICK_S = 1.0
CALL_TIMEOUT_S = 10.0
FLUSH_EVERY_S = 0.5
BEAT_AT_ONCE_EVERY_S = 0.2
REGISTER_EVERY_S = 30.0
STALL_S = 1.0
R = TypeVar("R")

log = logging.getLogger("pybatchq")


class Service(Protocol):
    """Something that lives as long as the thread, in its loop."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Orders:
    """What the thread asks of the worker, in the worker's own loop."""

    stop: Callable[[Attempt, Stop], None]
    give_up: Callable[[Attempt], None]
    died: Callable[[BaseException], None]
    look: Callable[[], None]
    drain: Callable[[], None]


class Heartbeat:
    """The thread; `running` is the worker's own table of what it holds, by lease."""

    def __init__(
        self,
        connector: Connector,
        running: Mapping[int, Attempt],
        orders: Orders,
        metrics: WorkerMetrics,
        *,
        lease_for: timedelta | None,
        reap_every_s: float,
        describe: Callable[[], dict[str, Any]],
        service: Service | None = None,
    ) -> None:
        """describe: arguments of beat_worker, but for worker_id."""
        self._connector = connector
        self._running = running
        self._orders = orders
        self._metrics = metrics
        self._lease_for = lease_for
        self._reap_every_s = reap_every_s
        self._describe = describe
        self._service = service
        self._worker_id: UUID = uuid4()
        self._conn: calls.Connection | None = None
        self._opening = asyncio.Lock()
        self._thread = threading.Thread(target=self._run, name="batchq-heartbeat", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None  # the thread's
        self._main: asyncio.AbstractEventLoop | None = None  # the worker's
        self._main_thread = 0
        self._ready: asyncio.Future[None] | None = None  # in the worker's loop
        self._over: asyncio.Future[None] | None = None
        self._end = asyncio.Event()
        self._nudge = asyncio.Event()
        self._register_now = asyncio.Event()
        self._is_asked = False  # to drain: the worker was told
        self._wakes_at = 0.0
        self._progress: dict[int, tuple[int, str]] = {}
        self._flushed_at = 0.0
        self._all_at_once = False
        self._beaten_at = 0.0
        self._answered_at = 0.0
        self.is_failing = False  # whether the last call got no answer
        self._warn_at = STALL_S

    async def start(self) -> None:
        """Start the thread. What its service says when it cannot start comes out here."""
        self._main = asyncio.get_running_loop()
        self._main_thread = threading.get_ident()
        self._answered_at = monotonic()
        self._ready, self._over = self._main.create_future(), self._main.create_future()
        self._thread.start()
        await self._ready

    async def close(self) -> None:
        """Stop beating, sign off from the registry and end the thread."""
        if self._over is not None and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(self._end.set)
            await self._over
            self._thread.join(CALL_TIMEOUT_S)  # it has nothing left to do

    def expect(self, attempt: Attempt) -> None:
        """A job has come. Its first beat may be due before the thread wakes by itself."""
        if attempt.beat_at < self._wakes_at:
            self._wakes_at = 0.0
            self._call_soon(self._nudge.set)

    def save_progress(self, item: WorkItem, text: str) -> None:
        """Write it soon; only the newest of a job. From any thread."""
        is_first = not self._progress
        self._progress[item.lease_id] = (item.job_id, text)
        if is_first:
            self._call_soon(self._nudge.set)

    def beat_now(self) -> None:
        """Somebody was asked to stop: ask for all jobs at once whether it was one of them."""
        self._all_at_once = True
        self._call_soon(self._nudge.set)

    def register_now(self, worker_id: str) -> None:
        """A worker was asked to drain: if it is this one, ask the registry at once."""
        if worker_id == str(self._worker_id):
            self._call_soon(self._register_now.set)

    def loop_blocked_s(self) -> float:
        """For how long the worker's loop has not turned, beyond a tick."""
        return max(0.0, monotonic() - self._answered_at - 2 * TICK_S)

    def _call_soon(self, function: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(function)

    def _tell(self, function: Callable[..., object], *arguments: Any) -> None:
        """Have the worker's loop do this."""
        if self._main is not None:
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._in_thread())
        except BaseException as caught:  # noqa: BLE001  # it is the worker's to raise
            error = caught
        self._tell(self._ended, error)

    def _ended(self, error: BaseException | None) -> None:
        if self._ready is not None and not self._ready.done():
            if error is None:
                self._ready.set_result(None)
            else:
                self._ready.set_exception(error)
        elif error is not None:
            self._orders.died(error)
        if self._over is not None:
            self._over.set_result(None)

    async def _in_thread(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            if self._service is not None:
                await self._service.start()
            self._tell(self._started)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._beats()),
                    group.create_task(self._upkeep()),
                    group.create_task(self._register()),
                    group.create_task(self._watch()),
                ]
                await self._end.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await self._sign_off()
            if self._service is not None:
                await self._service.close()

    def _started(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def _sign_off(self) -> None:
        if self._conn is not None:
            with contextlib.suppress(psycopg.Error, BatchqError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await calls.drop_worker(self._conn, worker_id=self._worker_id)
            await self._conn.close()

    async def _beats(self) -> None:
        while True:
            await self._pause()
            held = list(self._running.values())
            now = monotonic()
            for attempt in held:
                if attempt.stop_by < now:
                    self._tell(self._orders.give_up, attempt)
            if self._all_at_once and now >= self._beaten_at + BEAT_AT_ONCE_EVERY_S:
                self._all_at_once = False
                await self._beat(held)
            elif any(attempt.beat_at <= now for attempt in held):
                # those that are nearly due come along, so that many jobs are few statements
                await self._beat([a for a in held if a.beat_at <= now + a.lease_s / 12])
            if self._progress and now >= self._flushed_at + FLUSH_EVERY_S:
                await self._flush()

    async def _pause(self) -> None:
        pause_s = self._tick_s()
        self._wakes_at = monotonic() + pause_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._nudge.wait()
        self._nudge.clear()

    def _tick_s(self) -> float:
        """A twelfth of the shortest lease, so that none waits for more than a third of its own."""
        shortest = min((a.lease_s for a in list(self._running.values())), default=TICK_S * 12)
        tick_s = max(0.02, min(TICK_S, shortest / 12))
        if self._progress:
            tick_s = min(tick_s, max(0.02, self._flushed_at + FLUSH_EVERY_S - monotonic()))
        if self._all_at_once:
            tick_s = min(tick_s, BEAT_AT_ONCE_EVERY_S)
        return tick_s

    async def _beat(self, due: list[Attempt]) -> None:
        self._beaten_at = monotonic()
        if not due:
            return
        answers = await self._ask(
            lambda conn: calls.extend(
                conn,
                job_ids=[attempt.item.job_id for attempt in due],
                lease_ids=[attempt.item.lease_id for attempt in due],
                lease_for=self._lease_for,
            )
        )
        self._metrics.heartbeats += 1
        now = monotonic()
        for answer in answers or ():
            attempt = self._running.get(answer.lease_id)
            if attempt is None or answer.state == "deferred":
                continue
            attempt.beat_at = now + attempt.lease_s / 4
            if answer.state != "extended":
                attempt.job.cancelled = True  # at once, also if the worker's loop is blocked
                self._tell(self._orders.stop, attempt, answer.state)

    async def _flush(self) -> None:
        """Write the newest progress. What the database cannot take is dropped, with a warning."""
        self._flushed_at = monotonic()
        taken, self._progress = self._progress, {}
        rows = [(job_id, lease_id, text) for lease_id, (job_id, text) in taken.items()]
        if not await self._save(rows) and len(rows) > 1:
            for row in rows:
                await self._save([row])

    async def _save(self, rows: list[tuple[int, int, str]]) -> bool:
        answer = await self._ask(
            lambda conn: calls.progress_many(
                conn,
                job_ids=[job_id for job_id, _, _ in rows],
                lease_ids=[lease_id for _, lease_id, _ in rows],
                progress=[msgspec.Raw(text.encode()) for _, _, text in rows],
            )
        )
        return answer is not None

    async def _upkeep(self) -> None:
        """Reap and promote every few seconds. The database sees to it that one worker does it."""
        pause_s = self._reap_every_s * random.random()
        while True:
            await asyncio.sleep(pause_s)
            done = await self._ask(calls.maintain)
            more = any(task.more for task in done or ())
            pause_s = 0.0 if more else self._reap_every_s * random.uniform(1.0, 1.2)

    async def _register(self) -> None:
        """Say every half a minute that this worker lives; written by nothing else.

        The answer says whether it was asked to drain.
        """
        while True:
            self._register_now.clear()
            arguments = self._describe()
            is_asked = await self._ask(
                lambda conn, told=arguments: calls.beat_worker(  # type: ignore[misc]
                    conn, worker_id=self._worker_id, **told
                )
            )
            if is_asked and not self._is_asked:
                self._is_asked = True
                self._tell(self._orders.drain)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REGISTER_EVERY_S * random.uniform(0.9, 1.1)):
                    await self._register_now.wait()

    async def _watch(self) -> None:
        """Find out when the worker's loop stands still, and where."""
        while True:
            asked_at = monotonic()
            self._tell(self._answer, asked_at)
            await asyncio.sleep(TICK_S)
            if monotonic() > asked_at + TICK_S + STALL_S:
                continue  # this thread stood still, too: the process was frozen, or starved
            blocked_s = monotonic() - self._answered_at - TICK_S
            if blocked_s < STALL_S:
                self._warn_at = STALL_S
            elif blocked_s >= self._warn_at:
                self._warn_at = 2 * blocked_s
                log.warning(
                    "a handler blocks the event loop: make it a plain function, which runs in a"
                    " thread, or await",
                    extra={"blocked_s": round(blocked_s, 1), "where": self._where()},
                )

    def _answer(self, asked_at: float) -> None:
        self._answered_at = asked_at

    def _where(self) -> str:
        """The line at which the worker's thread stands."""
        frame = sys._current_frames().get(self._main_thread)  # noqa: SLF001  # there is no other
        stack = traceback.extract_stack(frame, limit=3) if frame is not None else []
        return " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(stack))

    async def _ask(self, function: Callable[[calls.Connection], Awaitable[R]]) -> R | None:
        """Make a call, or log why it failed and return None; the next one has a new connection."""
        async with self._opening:
            if self._conn is None or self._conn.closed:
                self._conn = await self._connector.connect("control")
            conn = self._conn
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                answer = await function(conn)
        except (psycopg.Error, BatchqError, TimeoutError) as error:
            log.warning(
                "heartbeat or upkeep failed",
                extra={"error": " ".join(str(error).split()) or type(error).__name__},
            )
            self.is_failing = True
            self._tell(self._orders.look)  # whether its own connection still works
            await conn.close()
            return None
        self.is_failing = False
        return answer
