"""All pages, and how they are put into an application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from pybatchq.api.answers import error_answer
from pybatchq.api.errors import ApiError
from pybatchq.api.middleware import ERROR_ANSWER
from pybatchq.api.services import SERVICES
from pybatchq.dashboard import (
    assets,
    audit,
    bulk,
    dead,
    jobs,
    overview,
    queues,
    sign_in,
    stream,
    throughput,
    workers,
)
from pybatchq.dashboard.context import HUB, RENDERER
from pybatchq.dashboard.live import Hub
from pybatchq.dashboard.pages import HOME, Page, error_page, served
from pybatchq.dashboard.rendering import Renderer
from pybatchq.dashboard.stream import PATH as STREAM

PREFIX: Final = "/ui/"
TABLE: Final[tuple[Page, ...]] = (
    *overview.PAGES,
    *queues.PAGES,
    *bulk.PAGES,
    *jobs.PAGES,
    *dead.PAGES,
    *throughput.PAGES,
    *workers.PAGES,
    *audit.PAGES,
    *sign_in.PAGES,
    *stream.PAGES,
    *assets.PAGES,
)


def add_dashboard(app: web.Application) -> None:
    """Before the application starts; its services are there."""
    services, renderer = app[SERVICES], Renderer()
    app[RENDERER] = renderer
    app[HUB] = Hub(services.db, renderer.clock)
    app[ERROR_ANSWER] = _error_answer
    app.cleanup_ctx.append(_run)
    app.on_shutdown.append(_end_streams)
    for page in TABLE:
        handler = served(page, services, renderer)
        app.router.add_route(page.method, page.path, handler)
        if page.method == "GET" and page not in stream.PAGES:
            app.router.add_route("HEAD", page.path, handler)


def _error_answer(request: web.Request, error: ApiError) -> web.Response:
    """People get a page, programs JSON."""
    is_page = request.path == HOME or request.path.startswith(PREFIX)
    if is_page and request.path != STREAM:
        return error_page(request, request.app[SERVICES], request.app[RENDERER], error)
    return error_answer(error)


async def _run(app: web.Application) -> AsyncIterator[None]:
    await app[HUB].open()
    yield
    await app[HUB].close()


async def _end_streams(app: web.Application) -> None:
    """A tab that is open must not hold up the end."""
    app[HUB].stop()
