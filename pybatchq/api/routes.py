"""One route: what it takes, who may use it, what it answers.

A Route is the only place where a route is described: the router, validation, authorisation and the
OpenAPI document are made from it. Its handler gets a Call, in which parameters and body are structs
already, calls, and renders.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from aiohttp import web
from msgspec import Struct

from pybatchq.api import bodies
from pybatchq.api.auth import ANYONE, Caller
from pybatchq.api.decoding import Decoder, parameters
from pybatchq.api.errors import invalid, refused
from pybatchq.api.pool import Acting
from pybatchq.api.services import Services
from pybatchq.settings import Settings
from pybatchq.types import Scope

Q = TypeVar("Q")
B = TypeVar("B")

Handler = Callable[["Call[Any, Any]"], Awaitable[web.StreamResponse]]
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]
BodySize = Literal["job", "bulk"]


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A route without parameters."""


class Call(Generic[Q, B]):
    """One request, as its handler sees it."""

    __slots__ = ("body", "caller", "query", "request", "services")

    def __init__(
        self, request: web.Request, services: Services, caller: Caller, query: Q, body: B
    ) -> None:
        self.request = request
        self.services = services
        self.caller = caller
        self.query = query
        self.body = body

    @property
    def path(self) -> dict[str, str]:
        """The parts of the path that its pattern names."""
        return dict(self.request.match_info)

    @property
    def acting(self) -> Acting:
        """For what operators do: `services.db`, but it is noted that this caller did it."""
        return self.services.db.acting(self.caller.actor)

    async def job_id(self) -> int:
        """The job that `{id}` of the path names, by number or UUID."""
        return await self.services.job_id(self.request.match_info["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """method and path as aiohttp has them; names in `{}` are parts of the path.

    scope: what a token needs; None: nobody is asked for one. Any scope may use a `monitor` route.
    query, body, answer: structs. body_may_be_empty: an empty one is the struct's defaults.
    reads_body: the handler reads the body itself; the struct is for the document only.
    statuses: of success, the usual one first. errors: codes of batchq.errors() beside those every
    route can have.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    scope: Scope | None
    query: type[Struct] = NoQuery
    body: type[Any] | None = None
    body_size: BodySize = "job"
    body_may_be_empty: bool = False
    reads_body: bool = False
    answer: type[Any] | None = None
    answer_type: str = bodies.JSON
    statuses: tuple[int, ...] = (200,)
    errors: tuple[str, ...] = ()
    changes: bool = field(default=False)
    """Whether it changes anything; False for a POST that only looks."""


ROUTES: Final = web.AppKey("routes", tuple[Route, ...])
"""All routes of an application, for those that describe them."""


def served(route: Route, services: Services) -> Served:
    """A route as a handler of aiohttp."""
    decode = None if route.body is None or route.reads_body else Decoder(route.body)
    handler, scope, query_type = route.handler, route.scope, route.query
    limit = body_limit(route, services.settings)
    refuses = services.settings.read_only and scope not in {None, "monitor"}

    async def serve(request: web.Request) -> web.StreamResponse:
        caller = ANYONE if scope is None else await services.guard.admit(request, scope)
        if refuses:
            raise refused(403, "this API is read-only", name="read_only")
        query = (
            _NONE
            if not request.query_string and query_type is NoQuery
            else _query(request, query_type)
        )
        value = None
        if decode is not None:
            value = await _body(request, route, decode, limit)
        return await handler(Call(request, services, caller, query, value))

    return serve


def body_limit(route: Route, settings: Settings) -> int:
    """The longest body a route takes, in bytes."""
    return settings.max_bulk_body if route.body_size == "bulk" else settings.max_body


_NONE = NoQuery()


def _query(request: web.Request, struct: type[Struct]) -> Struct:
    given = request.query
    if len(set(given)) < len(given):
        raise invalid("a parameter is given twice")
    return parameters(dict(given), struct)


async def _body(request: web.Request, route: Route, decode: Decoder[Any], limit: int) -> Any:
    if route.body_may_be_empty and not request.body_exists:
        return decode(b"{}")
    bodies.check_type(request)
    data = await bodies.read(request, limit)
    return decode(data or b"{}") if route.body_may_be_empty else decode(data)
