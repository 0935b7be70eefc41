"""Leases that wait: requests that found no job are answered as soon as there is one.

One task serves all of them, so a request that waits holds no connection, and a job that comes costs
a call or two however many wait. It looks for jobs as a worker does (see lookout): parked, it is
rung for; a scheduled job wakes it when it is due; and where the doorbell cannot be heard, it polls.
Requests that want jobs of the same queues are served in the order in which they came.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Final

from aiohttp import web

from pybatchq import calls
from pybatchq.api.errors import ApiError, as_api_error, refused, unavailable
from pybatchq.api.services import SERVICES, Services
from pybatchq.connections import Connector
from pybatchq.listen import Listener
from pybatchq.lookout import Lookout
from pybatchq.types import WorkItem

MOST_WAITING: Final = 10_000
# park takes no more names.
MOST_PARKED: Final = 100
# How soon the end of this process, and clients that have left, are noticed.
NOTICE_S: Final = 0.25
AFTER_TROUBLE_S: Final = 0.5
CLOSE_S: Final = 2.0

Queues = tuple[str, ...]

log = logging.getLogger("pybatchq")


@dataclass(slots=True, eq=False)
class Want:
    """What one request asks for, in the words of lease_from. `has_left`: its client has gone."""

    queues: Queues
    n: int
    worker: str | None
    lease_for: timedelta | None
    has_left: Callable[[], bool]
    answer: asyncio.Future[list[WorkItem]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def is_open(self) -> bool:
        return not self.answer.done() and not self.has_left()

    def settle(self, items: list[WorkItem]) -> bool:
        """False if nobody waits for it any more."""
        if not self.is_open:
            return False
        self.answer.set_result(items)
        return True

    def let_go(self) -> None:
        if not self.answer.done():
            self.answer.set_result([])

    def fail(self, error: ApiError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error.copy())


async def lease(services: Services, want: Want) -> list[WorkItem]:
    """The jobs, or one `sleep`."""
    return await services.db.run(
        lambda conn: calls.settle_and_lease(
            conn, queues=want.queues, n=want.n, worker=want.worker, lease_for=want.lease_for
        ),
        within_s=services.settings.lease_timeout_s,
    )


async def give_back(services: Services, items: Sequence[WorkItem]) -> None:
    """Release what was leased for a client that has gone: it was not run."""
    leased = [item for item in items if item.event == "leased"]
    if not leased:
        return
    try:
        await services.db(
            calls.release_many,
            job_ids=[item.job_id for item in leased],
            lease_ids=[item.lease_id for item in leased],
        )
    except Exception as error:
        if as_api_error(error) is None:
            raise
        message = "a client left, and its jobs could not be released: their leases will run out"
        log.warning(message, extra={"jobs": len(leased)})


class Bell(Listener):
    """A doorbell for queues that change."""

    def __init__(self, connector: Connector, ring: Callable[[], None]) -> None:
        super().__init__(connector, (), ring)

    async def listen_for(self, queues: Iterable[Queues]) -> None:
        """Which queues park is to be for. Not parked afterwards if that is a change."""
        names = sorted({name for some in queues for name in some})
        if names != self._queues:
            await self.unpark()
            self._queues = names

    def covers(self, queues: Iterable[Queues]) -> bool:
        """Whether these are rung for already."""
        return self.parked and all(set(self._queues).issuperset(some) for some in queues)

    async def park(self) -> bool:
        return len(self._queues) <= MOST_PARKED and await super().park()


class Waiting:
    """Serves the wants of all requests, from open() to close()."""

    def __init__(self, services: Services, connector: Connector | None) -> None:
        """connector: where notifications are heard; None: poll."""
        self._services = services
        self._changed = asyncio.Event()
        self._bell = None if connector is None else Bell(connector, self._ring)
        self._lookout = Lookout(self._bell, services.settings.poll_s, self._changed.set)
        self._wants: dict[Queues, dict[Want, None]] = {}
        self._fresh: set[Queues] = set()  # what somebody new waits for
        self._look_after = 0.0
        self._swept_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Let nobody wait any longer."""
        self._changed.set()
        tasks = [task for task in (self._task, self._listening) if task is not None]
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def held(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._wants.values()))

    async def wait(self, want: Want, timeout_s: float) -> list[WorkItem]:
        """Jobs, or nothing when the time is over. The caller has just found none."""
        if self._services.is_stopping:
            return []
        if self.held >= MOST_WAITING:
            raise unavailable("too many requests are waiting for jobs")
        self._wants.setdefault(want.queues, {})[want] = None
        self._fresh.add(want.queues)
        self._changed.set()
        timer = asyncio.get_running_loop().call_later(timeout_s, want.let_go)
        try:
            return await want.answer
        finally:
            timer.cancel()
            self._drop(want)

    async def _run(self) -> None:
        while not self._services.is_stopping:
            self._changed.clear()
            try:
                await (self._turn() if self._wants else self._rest())
            except Exception as error:  # who waits is told, and asks again
                shown = as_api_error(error)
                if shown is None:
                    log.exception("serving requests that wait failed")
                    shown = refused(500, "internal error")
                for want in self._all():
                    want.fail(shown)
                await asyncio.sleep(AFTER_TROUBLE_S)
        for want in self._all():
            self._drop(want)

    async def _rest(self) -> None:
        """Nobody waits: producers need not ring."""
        if self._bell is not None:
            await self._bell.unpark()
        if not self._wants:
            await self._changed.wait()

    async def _turn(self) -> None:
        """Look for jobs if it is time, then sleep until it is, or until somebody new waits."""
        if self._bell is not None and self._listening is None:
            self._listening = asyncio.ensure_future(self._bell.run())
        if self._fresh and self._bell is not None and self._bell.covers(self._wants):
            while self._fresh:  # all others are rung for
                _, due_s = await self._serve(self._fresh.pop())
                if due_s is not None:
                    self._lookout.look_at = min(self._lookout.look_at, monotonic() + due_s)
        elif self._fresh or monotonic() >= self._lookout.look_at:
            await self._look()
        await self._sleep()

    async def _look(self) -> None:
        """Look for jobs for everybody, and see when to look again."""
        await asyncio.sleep(max(0.0, self._look_after - monotonic()))
        started = monotonic()
        self._fresh.clear()
        self._lookout.begin()
        if self._bell is not None:
            await self._bell.listen_for(self._wants)
        served, dues = 0, []
        for queues in list(self._wants):
            got, due_s = await self._serve(queues)
            served += got
            if due_s is not None:
                dues.append(due_s)
        if self._wants:
            await self._lookout.after(served, served, min(dues, default=None))
        ended = monotonic()
        self._look_after = ended + (ended - started)  # the more there is to do, the less often

    async def _serve(self, queues: Queues) -> tuple[int, float | None]:
        """Answer those that want these queues until there is no job left.

        How many jobs they were, and in how many seconds the next scheduled one is due.
        """
        got = 0
        while (want := self._first(queues)) is not None:
            items = await lease(self._services, want)
            if items[0].event != "leased":
                return got, items[0].timeout_s
            got += len(items)
            if not want.settle(items):
                await give_back(self._services, items)
            self._drop(want)
        return got, None

    def _first(self, queues: Queues) -> Want | None:
        """Who waits longest, and still waits."""
        while line := self._wants.get(queues):
            want = next(iter(line))
            if want.is_open:
                return want
            self._drop(want)
        return None

    async def _sleep(self) -> None:
        """Until it is time to look, somebody new waits, or something rings."""
        while self._wants and not self._changed.is_set() and not self._services.is_stopping:
            left = min(self._lookout.look_at - monotonic(), NOTICE_S)
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
            if monotonic() >= self._swept_at + NOTICE_S:
                self._swept_at = monotonic()
                for want in self._all():
                    if want.has_left():
                        self._drop(want)

    def _ring(self) -> None:
        self._lookout.ring()

    def _all(self) -> list[Want]:
        return [want for line in self._wants.values() for want in line]

    def _drop(self, want: Want) -> None:
        want.let_go()
        line = self._wants.get(want.queues, {})
        line.pop(want, None)
        if not line:
            self._wants.pop(want.queues, None)


WAITING: Final = web.AppKey("waiting", Waiting)


async def run_waiting(app: web.Application) -> AsyncIterator[None]:
    """For cleanup_ctx."""
    services = app[SERVICES]
    settings = services.settings
    connector = services.db.connector(settings.listen_url) if settings.doorbell else None
    waiting = app[WAITING] = Waiting(services, connector)
    waiting.open()
    yield
    await waiting.close()
