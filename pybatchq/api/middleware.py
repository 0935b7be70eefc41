"""What holds for every request: its id, its line in the log, its errors' shape, who may send it."""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from aiohttp import web

from pybatchq import tracing
from pybatchq.api import accesslog
from pybatchq.api.answers import add
from pybatchq.api.errors import ApiError, as_api_error, refused
from pybatchq.api.services import SERVICES

Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

REQUEST_ID: Final = "X-Request-Id"
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
PREFLIGHT_S: Final = "600"
# A client that left before its answer; nginx counts them so.
CLIENT_LEFT: Final = 499

_SANE_ID = re.compile(r"[\w.:/+=@-]{1,100}", re.ASCII)
_PREFIX: Final = secrets.token_hex(4)
_numbers = itertools.count(1)


class Seen(NamedTuple):
    """A request that was answered. route: the pattern of its path, `` if it has none."""

    method: str
    route: str
    status: int
    took_s: float


class ErrorAnswer(Protocol):
    """How an error is told: as JSON, but for people."""

    def __call__(self, request: web.Request, error: ApiError, /) -> web.Response: ...


ERROR_ANSWER: Final[web.AppKey[ErrorAnswer]] = web.AppKey("error_answer")

Observer = Callable[[Seen], None]
OBSERVERS: Final = web.AppKey("observers", list[Observer])
"""Called after each request; for metrics. They must not raise or wait."""


@web.middleware
async def every_request(request: web.Request, handler: Next) -> web.StreamResponse:
    started = perf_counter()
    given = request.headers.get(REQUEST_ID)
    if given is None or not _SANE_ID.fullmatch(given):
        given = f"{_PREFIX}-{next(_numbers)}"
    status = CLIENT_LEFT
    route = route_of(request)
    try:
        span = tracing.request_span(request.method, route, request.headers)
        if span is None:
            response = await _answered(request, handler, given)
        else:
            with span as current:
                response = await _answered(request, handler, given)
                tracing.answered(current, response.status)
        if not response.prepared:
            response.headers[REQUEST_ID] = given
        status = response.status
        return response
    finally:
        _note(request, given, Seen(request.method, route, status, perf_counter() - started))


async def _answered(request: web.Request, handler: Next, request_id: str) -> web.StreamResponse:
    """The handler's answer, or that of its error."""
    origins = request.app[SERVICES].settings.cors_origins
    origin = request.headers.get("Origin")
    try:
        if origin is not None:
            if request.method == "OPTIONS" and origin in origins:
                return _preflight(origin)
            _check_origin(request, origin, origins)
        response = await handler(request)
    except (asyncio.CancelledError, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, the client gets one shape
        response = request.app[ERROR_ANSWER](request, _shown(error, request, request_id))
    if origin is not None and origin in origins and not response.prepared:
        add(response, {"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
    return response


def _shown(error: Exception, request: web.Request, request_id: str) -> ApiError:
    shown = as_api_error(error)
    if shown is None:
        fields = {"request_id": request_id, "method": request.method, "path": request.path}
        accesslog.access.error("request failed", exc_info=error, extra=fields)
        hint = f"the log of the API has more under request id {request_id}"
        return refused(500, "internal error", name="internal_error", hint=hint)
    return shown


def _check_origin(request: web.Request, origin: str, origins: tuple[str, ...]) -> None:
    """ApiError 403 for what a page of somebody else's has its visitor's browser send."""
    if request.method in SAFE or origin in origins or "Authorization" in request.headers:
        return
    if _host_of(origin) != request.headers.get("Host"):
        hint = "BATCHQ_CORS_ORIGINS names the origins that may"
        raise refused(403, "this origin may not change anything here", hint=hint)


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _preflight(origin: str) -> web.Response:
    return web.Response(
        status=204,
        headers={
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, Idempotency-Key, "
            + REQUEST_ID,
            "Access-Control-Max-Age": PREFLIGHT_S,
            "Vary": "Origin",
        },
    )


def route_of(request: web.Request) -> str:
    """The pattern of its path, `` if it has none."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _note(request: web.Request, request_id: str, seen: Seen) -> None:
    """Log and count it."""
    app = request.app
    for observe in app[OBSERVERS]:
        observe(seen)
    if app[SERVICES].settings.access_log:
        path, took_ms = request.rel_url.raw_path, round(seen.took_s * 1000, 1)
        accesslog.note(
            accesslog.Line(seen.method, path, seen.status, took_ms, request_id, request.remote)
        )
