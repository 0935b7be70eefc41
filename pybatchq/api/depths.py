"""How deep queues are, for all who ask: one look at a time, and what is dear to see is kept a bit.

Counting costs the more the deeper queues are, up to 100,000 a state, so a wall of dashboards must
not count as often as it asks. Whoever asks while somebody looks is answered from that look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Final

from aiohttp import web

from pybatchq import calls
from pybatchq.api.errors import unavailable
from pybatchq.api.services import SERVICES, Services
from pybatchq.calls import Connection
from pybatchq.errors import QueueNotFoundError
from pybatchq.rates import QueueRate
from pybatchq.types import QueueStats

LOOK_S: Final = 8.0
# A look that took less is made anew each time; what took longer is kept ten times as long.
CHEAP_S: Final = 0.02
KEPT_TIMES: Final = 10.0
MOST_KEPT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Depth:
    """`at`: when that was, by the database's clock. `rate`: where it is known."""

    stats: QueueStats
    rate: QueueRate | None
    at: datetime


class Depths:
    """The depths that one process has seen last."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._looking = asyncio.Lock()
        self._seen: dict[str, tuple[float, Depth]] = {}

    async def of(self, queues: Sequence[str], all_of: Sequence[str] = ()) -> dict[str, Depth]:
        """Of these queues, as far as there are such. all_of: all that there are, where known."""
        asked_at = monotonic()
        try:
            async with asyncio.timeout(LOOK_S), self._looking:
                wanted = [queue for queue in queues if self._is_old(queue, asked_at)]
                if wanted:
                    await self._look(wanted, all_of)
        except TimeoutError:
            raise unavailable("counting takes too long") from None
        return {queue: self._seen[queue][1] for queue in queues if queue in self._seen}

    def _is_old(self, queue: str, asked_at: float) -> bool:
        """Whether it was seen neither after it was asked for, nor recently enough."""
        until, _ = self._seen.get(queue, (0.0, None))
        return until < asked_at

    async def _look(self, wanted: Sequence[str], all_of: Sequence[str]) -> None:
        async def look(conn: Connection) -> list[Depth]:
            found: list[QueueStats] = []
            for queue in [None] if len(wanted) == len(all_of) else wanted:
                try:
                    found += await calls.stats(conn, queue=queue)
                except QueueNotFoundError:
                    continue
            rates = {rate.queue: rate for rate in await calls.queue_rates(conn)}
            at = await calls.now(conn)
            return [Depth(stats, rates.get(stats.queue), at) for stats in found]

        begun = monotonic()
        found = await self._services.db.run(look, within_s=LOOK_S)
        took_s = monotonic() - begun
        keep_s = 0.0 if took_s < CHEAP_S else min(took_s * KEPT_TIMES, MOST_KEPT_S)
        gone = set(wanted) if not all_of else self._seen.keys() - set(all_of) | set(wanted)
        for queue in gone:
            self._seen.pop(queue, None)
        # who asked before the look began is answered from it
        until = begun + took_s + keep_s if keep_s else begun
        self._seen.update((depth.stats.queue, (until, depth)) for depth in found)


DEPTHS: Final = web.AppKey("depths", Depths)


async def run_depths(app: web.Application) -> AsyncIterator[None]:
    """For cleanup_ctx."""
    app[DEPTHS] = Depths(app[SERVICES])
    yield
