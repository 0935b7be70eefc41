"""All routes. A module with routes has a tuple ROUTES, and a place here.

What a module owns for as long as the process serves is a generator for `cleanup_ctx`, in CONTEXTS.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web

from pybatchq.api import (
    audit,
    breakers,
    change,
    dead,
    depths,
    enqueue,
    explain,
    groups,
    jobs,
    metrics,
    openapi,
    probes,
    queues,
    reference,
    throughput,
    upkeep,
    waiting,
    work,
    workers,
)
from pybatchq.api.routes import Route

TABLE: Final[tuple[Route, ...]] = (
    *probes.ROUTES,
    *metrics.ROUTES,
    *openapi.ROUTES,
    *reference.ROUTES,
    *enqueue.ROUTES,
    *jobs.ROUTES,
    *change.ROUTES,
    *queues.ROUTES,
    *groups.ROUTES,
    *breakers.ROUTES,
    *explain.ROUTES,
    *throughput.ROUTES,
    *dead.ROUTES,
    *work.ROUTES,
    *workers.ROUTES,
    *audit.ROUTES,
)
CONTEXTS: Final[tuple[Callable[[web.Application], AsyncIterator[None]], ...]] = (
    metrics.collecting,
    depths.run_depths,
    waiting.run_waiting,
    upkeep.run_upkeep,
)
