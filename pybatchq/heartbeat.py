"""Heartbeats: leases of running jobs are renewed on a connection of their own.

Each job has its own beat, a quarter to a third of its lease. The answer is also how a job learns
that it was cancelled, that its time is over or that its lease is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import psycopg

from pybatchq import calls
from pybatchq.attempts import Attempt
from pybatchq.connections import Connector
from pybatchq.errors import BatchqError
from pybatchq.handlers import Job

IDLE_TICK_S = 1.0
CALL_TIMEOUT_S = 10.0
R = TypeVar("R")

log = logging.getLogger("pybatchq")


class Heartbeat:
    """The control connection of a worker: heartbeats, progress and upkeep."""

    def __init__(
        self,
        connector: Connector,
        running: Mapping[int, Attempt],
        lease_for: timedelta | None,
        give_up: Callable[[Attempt], None],
    ) -> None:
        self._connector = connector
        self._running = running
        self._lease_for = lease_for
        self._give_up = give_up
        self._conn: calls.Connection | None = None
        self._opening = asyncio.Lock()
        self._nudge = asyncio.Event()
        self._wakes_at = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                await self._pause()
                for attempt in [one for one in self._running.values() if one.is_stuck()]:
                    self._give_up(attempt)
                now = time.monotonic()
                due = [attempt for attempt in self._running.values() if attempt.beat_at <= now]
                if due:
                    await self._beat(due)
        finally:
            if self._conn is not None:
                await self._conn.close()

    def expect(self, attempt: Attempt) -> None:
        """A job has started. Its first beat may be due before this wakes by itself."""
        if attempt.beat_at < self._wakes_at:
            self._nudge.set()

    async def save_progress(self, job: Job, value: Any) -> None:
        """Progress of one job; errors are the handler's to see."""
        conn = await self._connection()
        await calls.progress(conn, job_id=job.id, lease_id=job.lease_id, progress=value)

    async def call(self, function: Callable[[calls.Connection], Awaitable[R]]) -> R | None:
        """Make a call, or log why it failed and return None; the next one has a new connection."""
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await function(await self._connection())
        except (psycopg.Error, BatchqError, TimeoutError) as error:
            log.warning(
                "heartbeat or upkeep failed",
                extra={"error": " ".join(str(error).split()) or type(error).__name__},
            )
            async with self._opening:
                if self._conn is not None:
                    await self._conn.close()
                    self._conn = None
            return None

    async def _beat(self, due: list[Attempt]) -> None:
        answers = await self.call(
            lambda conn: calls.extend(
                conn,
                job_ids=[attempt.item.job_id for attempt in due],
                lease_ids=[attempt.item.lease_id for attempt in due],
                lease_for=self._lease_for,
            )
        )
        now = time.monotonic()
        for answer in answers or ():
            attempt = self._running.get(answer.lease_id)
            if attempt is None:
                continue
            match answer.state:
                case "lost" | "cancelled" | "timed_out":
                    attempt.cancel(answer.state)
                case "extended" | "deferred":
                    pass
            if answer.state != "deferred":
                attempt.beat_at = now + attempt.lease_s / 4

    async def _pause(self) -> None:
        pause_s = self._tick_s()
        self._wakes_at = time.monotonic() + pause_s
        self._nudge.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._nudge.wait()

    def _tick_s(self) -> float:
        """A twelfth of the shortest lease, so that none waits for more than a third of its own."""
        shortest = min((a.lease_s for a in self._running.values()), default=IDLE_TICK_S * 12)
        return max(0.02, min(IDLE_TICK_S, shortest / 12))

    async def _connection(self) -> calls.Connection:
        async with self._opening:
            if self._conn is None or self._conn.closed:
                self._conn = await self._connector.connect("control")
            return self._conn
