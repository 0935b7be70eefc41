"""What each live page shows of batchq.live: cells, pieces of HTML by name.

A cell stands in its page as an element with `data-live` of that name, made by the same macro.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Raw, Struct

from pybatchq.api.auth import Caller
from pybatchq.api.workers import seen_by
from pybatchq.dashboard.live import Cells
from pybatchq.dashboard.rendering import Renderer
from pybatchq.live import Alert, Live, LiveJob
from pybatchq.rates import WatchedQueue, summed, watched
from pybatchq.types import JobCounters, WorkerInfo

PARTS: Final = "parts.html"
PER_PAGE: Final = 50

Sort = Literal["name", "waiting", "running", "dead", "age"]
ORDERS: Final[dict[Sort, Callable[[WatchedQueue], Any]]] = {
    "name": lambda queue: queue.queue,
    "waiting": lambda queue: -(queue.ready + queue.scheduled + queue.blocked),
    "running": lambda queue: -queue.leased,
    "dead": lambda queue: -queue.dead,
    "age": lambda queue: (queue.oldest_ready_at is None, queue.oldest_ready_at),
}


class OverviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """q: part of a queue's name."""

    q: str = ""
    sort: Sort = "name"
    page: Annotated[int, Meta(ge=1, le=100_000)] = 1


@dataclass(frozen=True, slots=True)
class View:
    """key: equal for views that show the same. job_id: the job it is about."""

    key: Hashable
    cells: Callable[[Live], Cells]
    job_id: int | None = None


def queues_of(live: Live, caller: Caller) -> list[WatchedQueue]:
    return [one for one in watched(live.queues, live.rates) if caller.may_use(one.queue)]


def alerts_of(live: Live, caller: Caller) -> list[Alert]:
    """Those about other people's queues are not for a caller with queues of its own."""
    return [a for a in live.alerts if a.queue is None or caller.may_use(a.queue)]


def workers_of(workers: Sequence[WorkerInfo], caller: Caller) -> list[WorkerInfo]:
    return [
        seen_by(caller, worker)
        for worker in workers
        if caller.queues is None or not caller.queues.isdisjoint(worker.queues)
    ]


def counters_of(live: Live, caller: Caller) -> JobCounters | None:
    """They are of all queues."""
    return live.counters if caller.queues is None else None


def total_of(queues: Sequence[WatchedQueue]) -> WatchedQueue | None:
    """The queues a visitor may see as one; None if there is none."""
    return summed(queues) if queues else None


def chosen(queues: Sequence[WatchedQueue], query: OverviewQuery) -> list[WatchedQueue]:
    """Those of any page of the overview, in its order."""
    part = query.q.lower()
    found = [queue for queue in queues if part in queue.queue.lower()]
    found.sort(key=ORDERS["name"])
    found.sort(key=ORDERS[query.sort])
    return found


def of_page(found: Sequence[WatchedQueue], query: OverviewQuery) -> Sequence[WatchedQueue]:
    at = max(query.page - 1, 0) * PER_PAGE
    return found[at : at + PER_PAGE]


def overview(renderer: Renderer, caller: Caller, query: OverviewQuery) -> View:
    kept: dict[str, tuple[WatchedQueue, str]] = {}
    names: set[str] = set()

    def rows(queues: Sequence[WatchedQueue]) -> Cells:
        """Of the queues on the page: in the order of names, of those that come, too.

        In another order they would change places all the time, so these stay.
        """
        if not names or query.sort == "name":
            names.clear()
            names.update(queue.queue for queue in of_page(chosen(queues, query), query))
        for queue in queues:
            if queue.queue in names and kept.get(queue.queue, (None, ""))[0] != queue:
                kept[queue.queue] = (queue, renderer.cell(PARTS, "queue_cells", queue))
        return {f"queue:{name}": kept[name][1] for name in names if name in kept}

    def cells(live: Live) -> Cells:
        queues = queues_of(live, caller)
        return {
            "totals": renderer.cell(PARTS, "totals", total_of(queues), counters_of(live, caller)),
            "alerts": renderer.cell(PARTS, "alerts", alerts_of(live, caller)),
            "workers": renderer.cell(PARTS, "crew", workers_of(live.workers, caller)),
            **rows(queues),
        }

    return View(("overview", caller.queues, query), cells)


def queue(renderer: Renderer, caller: Caller, name: str) -> View:
    def cells(live: Live) -> Cells:
        found = [one for one in queues_of(live, caller) if one.queue == name]
        alerts = [alert for alert in alerts_of(live, caller) if alert.queue in {None, name}]
        shown = {"alerts": renderer.cell(PARTS, "alerts", alerts)}
        if found:
            shown["depth"] = renderer.cell(PARTS, "depth", found[0])
        return shown

    return View(("queue", caller.queues, name), cells)


def workers(renderer: Renderer, caller: Caller) -> View:
    def cells(live: Live) -> Cells:
        found = workers_of(live.workers, caller)
        names = {f"worker:{w.worker_id}": renderer.cell(PARTS, "worker_cells", w) for w in found}
        return {"crew": renderer.cell(PARTS, "crew", found), **names}

    return View(("workers", caller.queues), cells)


def job(renderer: Renderer, caller: Caller, job_id: int) -> View:
    def cells(live: Live) -> Cells:
        for one in live.jobs:
            if one.job_id == job_id and caller.may_use(one.queue):
                return job_cells(renderer.cell, one)
        return {}

    return View(("job", caller.queues, job_id), cells, job_id)


def job_cells(made: Callable[..., str], live: LiveJob) -> Cells:
    """`version` differs when the rest of the page is no longer what it was.

    made: part or cell of the Renderer.
    """
    return {
        "version": f"{live.state} {live.attempts} {live.cancel_requested_at} {live.priority}",
        "gates": made(PARTS, "gates", live.gates),
        "progress": made(PARTS, "progress", _some(live.progress)),
        "lease": made(PARTS, "lease", live),
    }


def _some(data: Raw) -> bytes | None:
    return None if bytes(data) == b"null" else bytes(data)
