"""`/ui/audit`: who did what, and when."""

from __future__ import annotations

from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from pybatchq import calls
from pybatchq.api.errors import refused
from pybatchq.dashboard.pages import Page, Visit

PER_PAGE = 100


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """target: what it was done to, as the page shows it."""

    target: Annotated[str, Meta(max_length=300)] | None = None
    before: Annotated[int, Meta(ge=0, le=2**62)] | None = None


async def show(visit: Visit) -> web.Response:
    if visit.caller.queues is not None:
        raise refused(403, "the audit is of all queues", hint=visit.caller.hint)
    query = visit.query(AuditQuery)
    found = await visit.services.db(
        calls.list_audit, n=PER_PAGE, before_id=query.before, target=query.target
    )
    older = found[-1].audit_id if len(found) == PER_PAGE else None
    return visit.page("audit.html", entries=found, target=query.target, older=older)


PAGES = (Page(path="/ui/audit", handler=show),)
