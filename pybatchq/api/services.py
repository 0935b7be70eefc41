"""What handlers work with, one of each a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from aiohttp import web

from pybatchq import calls
from pybatchq.api.auth import Guard, Openness, is_loopback
from pybatchq.api.errors import invalid
from pybatchq.api.finished import Poller
from pybatchq.api.gather import Gatherer
from pybatchq.api.pool import Database
from pybatchq.api.shared import Shared
from pybatchq.settings import Settings

MOST_ID: Final = 2**62 - 1


@dataclass(slots=True)
class Services:
    """`db` calls the functions of `pybatchq.calls`; see Database.

    shares_port: other processes listen on this one's port as well.
    """

    settings: Settings
    db: Database
    guard: Guard
    gatherer: Gatherer
    poller: Poller
    is_stopping: bool = False
    shares_port: bool = False
    _uuids: tuple[int, int] = field(default=(0, -1))
    _shared: Shared = field(default_factory=Shared)

    async def uuid(self, job_id: int) -> UUID:
        """As batchq.job_uuid. It is asked for job 0 only: the others' differ by the id.

        And again when connections were renewed: behind them there may be another installation.
        All who need it wait for one call: a thousand would take all connections.
        """
        while self._uuids[1] != self.db.renewals:
            await self._shared("job 0", self._ask_uuid)
        return UUID(int=self._uuids[0] | job_id)

    async def _ask_uuid(self) -> None:
        renewals = self.db.renewals
        self._uuids = (int(await self.db(calls.job_uuid, job_id=0)), renewals)

    async def job_id(self, text: str) -> int:
        """Of a number or a UUID, as batchq.job_id; ApiError 400, or JobNotFoundError."""
        if text.isascii() and text.isdigit():
            if len(text) > 19 or int(text) > MOST_ID:
                raise invalid(f"invalid job id: {text[:80]}", hint="give a number or a UUID")
            return int(text)
        return await self.db(calls.job_id, job=text)

    def stop(self) -> None:
        """Before the end of this process: be not ready, and let nobody wait."""
        self.is_stopping = True
        self.poller.stop()


SERVICES: Final = web.AppKey("services", Services)


def make_services(settings: Settings, dsn: str, name: str) -> Services:
    db = Database(dsn, name, pool_max=settings.pool_max, prepare=settings.prepare)
    return Services(settings, db, Guard(db, openness(settings)), Gatherer(db), Poller(db))


def openness(settings: Settings) -> Openness:
    """Who may do everything while no token exists."""
    if settings.open:
        return "everybody"
    return "this machine" if is_loopback(settings.host) else "nobody"


async def run_services(app: web.Application) -> AsyncIterator[None]:
    """For cleanup_ctx: from the start of the application to its end."""
    services = app[SERVICES]
    await services.db.open()
    await services.gatherer.open()
    await services.poller.open()
    yield
    await services.poller.close()
    await services.gatherer.close()
    await services.db.close()
