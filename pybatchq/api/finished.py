"""Waiting for jobs to end: one look for all requests that wait, however many."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Final

from pybatchq import calls
from pybatchq.api.errors import as_api_error, unavailable
from pybatchq.api.pool import Database

LOOK_EVERY_S: Final = 0.2
AFTER_TROUBLE_S: Final = 1.0
MOST_JOBS: Final = 1_000
MOST_WAITING: Final = 10_000
OVER: Final = frozenset({"completed", "failed", "cancelled"})

log = logging.getLogger("pybatchq")


class Poller:
    """Tells requests when their jobs have ended, from open() to close()."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: defaultdict[int, set[asyncio.Event]] = defaultdict(set)
        self._wanted = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def stop(self) -> None:
        """Let nobody wait any longer."""
        self._closing = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def wait(self, job_id: int, timeout_s: float) -> None:
        """Until the job has ended, the time is over, or this process is to end."""
        if self._closing or timeout_s <= 0:
            return
        if len(self._waiting) >= MOST_WAITING:
            raise unavailable("too many requests are waiting for jobs")
        event = asyncio.Event()
        self._waiting[job_id].add(event)
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[job_id].discard(event)
            if not self._waiting[job_id]:
                del self._waiting[job_id]

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                self._wanted.clear()
                await self._wanted.wait()
            pause_s = LOOK_EVERY_S
            try:
                await self._look()
            except Exception as error:  # who waits is answered with the job's state
                if as_api_error(error) is None:
                    log.exception("looking for ended jobs failed")
                pause_s = AFTER_TROUBLE_S
            await asyncio.sleep(pause_s)

    async def _look(self) -> None:
        job_ids = list(self._waiting)
        for at in range(0, len(job_ids), MOST_JOBS):
            some = job_ids[at : at + MOST_JOBS]
            found = await self._database(calls.job_states, job_ids=some)
            going_on = {job.job_id for job in found if job.status not in OVER}
            for job_id in some:
                if job_id not in going_on:  # ended, or forgotten meanwhile
                    for event in self._waiting.get(job_id, ()):
                        event.set()
