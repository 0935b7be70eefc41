"""Upkeep for workers that speak HTTP: somebody has to take their leases back when they die.

Workers of other kinds call maintain themselves. A process of the API does from its first lease on;
the database sees to it that of all who call only one does the work.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from typing import Final

import psycopg
from aiohttp import web

from pybatchq import calls
from pybatchq.api.errors import as_api_error
from pybatchq.api.services import SERVICES, Services

log = logging.getLogger("pybatchq")


class Upkeep:
    """Calls maintain every few seconds once it is wanted, from open() to close()."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def want(self) -> None:
        """There are workers here."""
        self._wanted.set()

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        await self._wanted.wait()
        every_s = self._services.settings.reap_every_s
        while True:
            more = False
            try:
                done = await self._services.db(calls.maintain)
                more = any(task.more for task in done)
            except psycopg.errors.InsufficientPrivilege:
                log.warning("upkeep is left to others: it takes the role batchq_operator")
                return
            except Exception as error:  # the next time may go well
                if as_api_error(error) is None:
                    log.exception("upkeep failed")
                else:
                    log.warning("upkeep failed", extra={"error": str(error)})
            # processes that started together need not go on together
            await asyncio.sleep(0 if more else every_s * random.uniform(1.0, 1.2))


UPKEEP: Final = web.AppKey("upkeep", Upkeep)


async def run_upkeep(app: web.Application) -> AsyncIterator[None]:
    """For cleanup_ctx."""
    upkeep = app[UPKEEP] = Upkeep(app[SERVICES])
    upkeep.open()
    yield
    await upkeep.close()
