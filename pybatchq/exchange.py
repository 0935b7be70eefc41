"""A worker's work connection: what finished is settled and new jobs are leased in one round trip.

Whatever got no answer is handed in again, over a new connection if need be; an outcome that the
database refuses is found and failed by itself.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import psycopg

from pybatchq import calls
from pybatchq.connections import Connector, Pauses, check_version, is_connection_loss
from pybatchq.errors import BatchqError
from pybatchq.metrics import WorkerMetrics
from pybatchq.outcomes import Outcomes
from pybatchq.silence import silence
from pybatchq.types import WorkItem

log = logging.getLogger("pybatchq")


class Answer(NamedTuple):
    """due_s: nothing was leased, and so long until the next scheduled job is due."""

    leased: list[WorkItem]
    due_s: float | None


class Queues:
    """The queues of a worker: in order of preference, or by weight."""

    def __init__(self, queues: Sequence[str] | Mapping[str, float]) -> None:
        if isinstance(queues, str) or not queues:
            raise ValueError("queues is a list of at least one name, or names with weights")
        self.names = list(queues)
        self._weights = dict(queues) if isinstance(queues, Mapping) else None
        if self._weights and not all(0 < weight < 1e6 for weight in self._weights.values()):
            raise ValueError("weights of queues are over 0 and under 1,000,000")

    def shown(self) -> list[str]:
        if self._weights is None:
            return self.names
        return [f"{name}={weight:g}" for name, weight in self._weights.items()]

    def order(self) -> list[str]:
        """In which order to lease from them this time.

        By weight: each comes first as often as its weight says (Efraimidis and Spirakis 2006).
        """
        if self._weights is None:
            return self.names
        drawn = {name: random.random() ** (1 / weight) for name, weight in self._weights.items()}
        return sorted(drawn, key=drawn.__getitem__, reverse=True)


class Exchange:
    """The connection that settles and leases. One call at a time."""

    def __init__(
        self,
        connector: Connector,
        outcomes: Outcomes,
        metrics: WorkerMetrics,
        *,
        queues: Queues,
        worker: str,
        lease_for: timedelta | None,
        timeout_s: float,
    ) -> None:
        self._connector = connector
        self._outcomes = outcomes
        self._metrics = metrics
        self._queues = queues
        self._worker = worker
        self._lease_for = lease_for
        self._timeout_s = timeout_s
        self._pauses = Pauses()  # between calls that failed, whatever new connections promise
        self._conn: calls.Connection | None = None

    @property
    def is_connected(self) -> bool:
        return self._conn is not None and not self._conn.closed

    async def open(self) -> int:
        """Connect and check schema and queues; a server that goes away is tried again.

        The number of the UUID of job 0. VersionMismatchError, InvalidArgumentError.
        """
        while True:
            conn = await self._connector.connect("work", refusable=True)
            try:
                await check_version(conn)
                await calls.next_due(conn, queues=self._queues.names)  # refuses what is no name
                uuids = (await calls.job_uuid(conn, job_id=0)).int
            except psycopg.OperationalError:
                await conn.close()
                await asyncio.sleep(self._pauses.next_s())
            except BaseException:
                await conn.close()
                raise
            else:
                self._conn = conn
                return uuids

    async def close(self) -> None:
        if self._conn is not None:
            await self._conn.close()
            self._conn = None

    async def turn(self, n: int) -> Answer | None:
        """Hand in all outcomes and lease up to n jobs. None: no answer, they are kept."""
        batch = self._outcomes.take()
        try:
            return self._sorted(await self._call(batch, n), batch)
        except (psycopg.Error, BatchqError, TimeoutError) as error:
            self._outcomes.put_back(batch)
            if is_connection_loss(error):
                await self._reconnect(error)
            else:
                await self._settle_singly(error)
            return None

    async def _call(self, batch: Outcomes, n: int) -> list[WorkItem]:
        if self._conn is None:
            self._conn = await self._connector.connect("work")
        async with silence(self._timeout_s):
            items = await calls.settle_and_lease(
                self._conn,
                queues=self._queues.order(),
                n=n,
                worker=self._worker,
                lease_for=self._lease_for,
                **batch.arguments(),
            )
        self._pauses.worked()
        return items

    def _sorted(self, items: list[WorkItem], batch: Outcomes) -> Answer:
        """Jobs come last. A deferred settlement goes again; a lost one is not ours."""
        due_s, skip = None, 0
        for item in items:
            if item.event == "leased":
                break
            skip += 1
            if item.event == "sleep":
                due_s = item.timeout_s
            elif item.event == "deferred":
                self._outcomes.put_back(batch.only(item.job_id, item.lease_id))
            else:
                self._metrics.refused += 1
                log.warning(
                    "outcome refused: the lease was lost",
                    extra={
                        "job_id": item.job_id, "lease_id": item.lease_id, "reason": item.event,
                    },
                )  # fmt: skip
        return Answer(items[skip:] if skip else items, due_s)

    async def _settle_singly(self, error: BaseException) -> None:
        """The database refused a settlement: find the outcome it cannot take and fail that job."""
        log.error("settlement refused: trying its outcomes one by one", extra={"error": str(error)})
        for single in self._outcomes.take().singly():
            try:
                self._sorted(await self._call(single, 0), single)
            except (psycopg.Error, BatchqError, TimeoutError) as refused:
                if is_connection_loss(refused):
                    self._outcomes.put_back(single)
                    await self._reconnect(refused)
                elif not single.is_failure():
                    self._outcomes.put_back(single.as_failure(f"outcome refused: {_why(refused)}"))
                else:
                    log.exception("outcome dropped: the database takes neither it nor its error")
        await asyncio.sleep(self._pauses.next_s())

    async def _reconnect(self, error: BaseException) -> None:
        """Leave a connection whose state is not known, and open another one."""
        self._metrics.reconnects += 1
        log.warning(
            "database call failed: opening a new connection",
            extra={"error": " ".join(str(error).split()) or type(error).__name__},
        )
        await self.close()
        await asyncio.sleep(self._pauses.next_s())
        self._conn = await self._connector.connect("work")


def _why(error: BaseException) -> str:
    """What the database said, without its context: that is full of SQL."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return said or str(error)
