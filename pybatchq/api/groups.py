"""Groups of a queue: how many of their jobs wait and have seats, and what is set for one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct
from msgspec.structs import asdict

from pybatchq import calls
from pybatchq.api import queues
from pybatchq.api.answers import answer
from pybatchq.api.models import shown
from pybatchq.api.queue_models import SetGroup
from pybatchq.api.routes import Call, NoQuery, Route

PATH = f"{queues.PATH}/groups"


class GroupsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Those with the most blocked jobs first."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000")] = 100


class Group(Struct, frozen=True):
    """A group: `blocked` jobs wait for their turn.

    `is_exact` is false where these were not counted to the end. `seats`: jobs that are ready or
    running, or keep their seat until their retry; `group_limit`: how many seats there are, null: no
    limit. `is_set`: something is different for this group. `next_since`: since when the job is
    blocked that is next.
    """

    group_key: str
    blocked: int
    is_exact: bool
    seats: int
    group_limit: int | None
    weight: int
    is_set: bool
    next_since: datetime | None


class GroupList(Struct, frozen=True):
    groups: list[Group]


class GroupState(Struct, frozen=True):
    """What is set for one group."""

    queue: str
    group_key: str
    settings: SetGroup


async def list_groups(call: Call[GroupsQuery, None]) -> web.Response:
    queue = queues.queue_of(call)
    found = await call.services.db(calls.list_groups, queue=queue, n=call.query.limit)
    return answer(GroupList([shown(one, Group) for one in found]))


async def set_group(call: Call[NoQuery, SetGroup]) -> web.Response:
    queue, key = queues.queue_of(call), call.path["group_key"]
    given = asdict(call.body)
    await call.acting(calls.set_group, queue=queue, group_key=key, reset=True, **given)
    return answer(GroupState(queue, key, call.body))


ROUTES = (
    Route(
        method="GET",
        path=PATH,
        handler=list_groups,
        summary="Groups of a queue: blocked jobs, seats, limits",
        scope="monitor",
        query=GroupsQuery,
        answer=GroupList,
        errors=("JQ001", "JQ002"),
    ),
    Route(
        method="PUT",
        path=f"{PATH}/{{group_key:[^/]+}}",
        handler=set_group,
        summary="Set what is different for one group of a queue; what is left out is nothing",
        scope="operate",
        body=SetGroup,
        answer=GroupState,
        errors=("JQ001",),
        changes=True,
    ),
)
