"""`/ui/dead`: dead letters by why they are dead."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from pybatchq import calls
from pybatchq.api.models import Name
from pybatchq.api.selection import queue_filter
from pybatchq.dashboard.pages import Page, Visit

MOST: int = 200
LOOK_S: float = 10.0


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    queue: Name | None = None
    kind: Name | None = None


async def dead(visit: Visit) -> web.Response:
    query, own = visit.query(DeadQuery), sorted(visit.caller.queues or ())
    queue = queue_filter(visit.caller, query.queue or (own[0] if own else None))
    found = await visit.services.db.run(
        lambda conn: calls.list_errors(conn, queue=queue, kind=query.kind, n=MOST), within_s=LOOK_S
    )
    return visit.page(
        "dead.html",
        errors=found,
        others=found.others,
        queue=queue,
        kind=query.kind,
        own_queues=own,
        n_jobs=sum(error.jobs for error in found),
    )


PAGES = (Page(path="/ui/dead", handler=dead),)
