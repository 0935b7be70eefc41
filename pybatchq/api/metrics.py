"""GET /metrics: the queues, the workers and this process, for Prometheus.

What comes from the database is asked for once a second at most, however many ask here, and costs
the same with any length of history.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from time import monotonic
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

import pybatchq
from pybatchq import calls
from pybatchq.api import counted, latency
from pybatchq.api.answers import text
from pybatchq.api.auth import Caller
from pybatchq.api.errors import ApiError, TimedOutError, as_api_error, unavailable
from pybatchq.api.middleware import OBSERVERS
from pybatchq.api.observed import Observed, gauge
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.services import SERVICES, Services
from pybatchq.calls import Connection
from pybatchq.metrics import CONTENT_TYPE, OTHER
from pybatchq.types import JobCounters, KindCounters, QueueStats, WorkerInfo

# What is dear to see, as very deep queues are, is kept longer.
KEEP_S: Final = 1.0
KEEP_TIMES: Final = 10.0
MOST_KEPT_S: Final = 10.0
LOOK_S: Final = 4.0
# More have one series together, so that nobody's names fill up Prometheus.
MOST_QUEUES: Final = 1_000
MOST_WORKERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the database says at `at`."""

    at: datetime
    queues: list[QueueStats]
    workers: list[WorkerInfo]
    counters: JobCounters
    kinds: list[KindCounters]


class ApiMetrics:
    """The metrics of one process, from its start to close()."""

    def __init__(self, services: Services) -> None:
        self.observed = Observed()
        self._services = services
        self._process = ProcessCollector(registry=None)
        self._looking: asyncio.Future[Snapshot | ApiError] | None = None
        self._fresh_until = 0.0
        self._pages: dict[frozenset[str] | None, bytes] = {}

    async def page(self, caller: Caller) -> bytes:
        """Text of the type CONTENT_TYPE, about the queues of the caller. ApiError 503."""
        snapshot = await self._snapshot()
        found = self._pages.get(caller.queues)
        if found is None:
            found = self._pages[caller.queues] = self._rendered(snapshot, caller)
        return found

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _snapshot(self) -> Snapshot:
        """What was seen lately, or is looked for now on behalf of all who ask."""
        looking = self._looking
        if looking is None or (looking.done() and monotonic() >= self._fresh_until):
            self._looking = looking = asyncio.ensure_future(self._look())
        seen = await asyncio.shield(looking)
        if isinstance(seen, ApiError):
            raise seen.copy()
        return seen

    async def _look(self) -> Snapshot | ApiError:
        begun, keep_s = monotonic(), KEEP_S
        try:
            seen = await self._services.db.run(_look, within_s=LOOK_S)
        except TimedOutError:
            return unavailable("the database does not answer in time")
        except Exception as error:
            shown = as_api_error(error)
            if shown is None:
                raise
            return shown
        else:
            keep_s = max(KEEP_S, min((monotonic() - begun) * KEEP_TIMES, MOST_KEPT_S))
            return seen
        finally:
            self._fresh_until = monotonic() + keep_s
            self._pages.clear()

    def _rendered(self, snapshot: Snapshot, caller: Caller) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        queues = [queue for queue in snapshot.queues if caller.may_use(queue.queue)]
        registry.register(_Families(_queues(queues, snapshot.at)))
        told = counted.families(snapshot.counters, snapshot.kinds, caller)
        times = latency.families(snapshot.kinds, caller)
        registry.register(_Families(chain(told, times, _age(snapshot))))
        workers = [one for one in snapshot.workers if _may_see(caller, one)]
        registry.register(_Families(_workers(workers, snapshot.at)))
        own = self._own()
        registry.register(_Families(_labelled(own) if self._services.shares_port else own))
        return generate_latest(registry)

    def _own(self) -> Iterator[Metric]:
        """Of this process."""
        yield InfoMetricFamily("batchq", "This API", value={"version": pybatchq.__version__})
        yield from self.observed.families()
        services = self._services
        text_ = "Jobs of requests that wait to be stored, or are being stored"
        yield gauge("batchq_gather_held_jobs", text_, services.gatherer.held)
        text_ = "Connections to the database that are in use"
        yield gauge("batchq_pool_used_connections", text_, services.db.lent)
        most = services.settings.pool_max
        yield gauge("batchq_pool_max_connections", "As BATCHQ_POOL_MAX says", most)
        yield from self._process.collect()


class _Families:
    """Something to register, for one page."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _labelled(families: Iterable[Metric]) -> Iterator[Metric]:
    """Families of one process of several: a scrape of their port meets now one, now the other."""
    process = {"process": str(os.getpid())}
    for family in families:
        family.samples = [one._replace(labels=one.labels | process) for one in family.samples]
        yield family


async def _look(conn: Connection) -> Snapshot:
    queues = await calls.stats(conn)
    workers = await calls.list_workers(conn, n=MOST_WORKERS)
    counters = await calls.counters(conn)
    kinds = await calls.kind_counters(conn)
    return Snapshot(await calls.now(conn), queues, workers, counters, kinds)


def _age(seen: Snapshot) -> Iterator[Metric]:
    age_s = max(0.0, (seen.at - seen.counters.tallied_at).total_seconds())
    text_ = "How old the batchq_jobs_ counters are: upkeep brings them up to date"
    yield gauge("batchq_counters_age_seconds", text_, age_s)


def _queues(queues: list[QueueStats], at: datetime) -> Iterator[Metric]:
    depth = GaugeMetricFamily(
        "batchq_queue_depth", "Jobs by state; counts stop at 100,000", labels=("queue", "state")
    )
    oldest = GaugeMetricFamily(
        "batchq_queue_oldest_ready_seconds",
        "How long the longest waiting ready job is ready; 0 where there is none",
        labels=("queue",),
    )
    paused = GaugeMetricFamily(
        "batchq_queue_paused", "1 while the queue is paused", labels=("queue",)
    )
    for name, row in _bounded(queues, at).items():
        for state, count in row.depth.items():
            depth.add_metric((name, state), count)
        oldest.add_metric((name,), row.oldest_s)
        paused.add_metric((name,), row.is_paused)
    return iter((depth, oldest, paused))


@dataclass(slots=True)
class _Row:
    """A queue, or several that have one series."""

    depth: dict[str, int]
    oldest_s: float
    is_paused: bool

    def add(self, other: _Row) -> None:
        for state, count in other.depth.items():
            self.depth[state] += count
        self.oldest_s = max(self.oldest_s, other.oldest_s)
        self.is_paused |= other.is_paused


def _bounded(queues: list[QueueStats], at: datetime) -> dict[str, _Row]:
    """The queues by name; of very many the fullest, and the others as one."""
    ranked = sorted(queues, key=_size, reverse=True) if len(queues) > MOST_QUEUES else queues
    rows: dict[str, _Row] = {}
    for number, queue in enumerate(ranked):
        name = queue.queue if number < MOST_QUEUES else OTHER
        row = _row(queue, at)
        if name in rows:  # a queue may be named like this by its owner
            rows[name].add(row)
        else:
            rows[name] = row
    return rows


def _size(queue: QueueStats) -> int:
    return queue.ready + queue.scheduled + queue.blocked + queue.leased + queue.dead


def _row(queue: QueueStats, at: datetime) -> _Row:
    depth = {
        "ready": queue.ready,
        "scheduled": queue.scheduled,
        "blocked": queue.blocked,
        "leased": queue.leased,
        "failed": queue.dead,
    }
    since = queue.oldest_ready_at
    oldest_s = 0.0 if since is None else max(0.0, (at - since).total_seconds())
    return _Row(depth, oldest_s, queue.paused_at is not None)


def _may_see(caller: Caller, worker: WorkerInfo) -> bool:
    return caller.queues is None or not caller.queues.isdisjoint(worker.queues)


def _workers(workers: list[WorkerInfo], at: datetime) -> Iterator[Metric]:
    alive = [worker for worker in workers if worker.is_alive]
    yield gauge("batchq_workers", "Worker processes that are alive", len(alive))
    silent = len(workers) - len(alive)
    text_ = "Worker processes that stopped beating within a day, without a good-bye"
    yield gauge("batchq_workers_silent", text_, silent)
    running = sum(worker.running for worker in alive)
    yield gauge("batchq_workers_running_jobs", "Jobs that run now", running)
    slots = sum(worker.concurrency for worker in alive)
    yield gauge("batchq_workers_slots", "Jobs that may run at once", slots)
    if workers:
        since_s = max(0.0, (at - max(worker.beat_at for worker in workers)).total_seconds())
        yield gauge("batchq_workers_last_beat_seconds", "Since the newest heartbeat", since_s)


METRICS: Final = web.AppKey("metrics", ApiMetrics)


async def collecting(app: web.Application) -> AsyncIterator[None]:
    """For cleanup_ctx: count from the start of the application to its end."""
    services = app[SERVICES]
    metrics = app[METRICS] = ApiMetrics(services)
    services.gatherer.on_batch = metrics.observed.batch
    app[OBSERVERS].append(metrics.observed.request)
    yield
    await metrics.close()


async def scrape(call: Call[NoQuery, None]) -> web.Response:
    return text(await call.request.app[METRICS].page(call.caller), CONTENT_TYPE)


ROUTES = (
    Route(
        method="GET",
        path="/metrics",
        handler=scrape,
        summary="Depths, ages, rates, workers and this process, for Prometheus",
        scope="monitor",
        answer_type=CONTENT_TYPE.partition(";")[0],
    ),
)
