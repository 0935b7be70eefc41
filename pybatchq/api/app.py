"""The application of one process: its services, its routes and the dashboard."""

from __future__ import annotations

import os
import socket

from aiohttp import web

from pybatchq.api.middleware import OBSERVERS, every_request
from pybatchq.api.routes import ROUTES, served
from pybatchq.api.services import SERVICES, make_services, run_services
from pybatchq.api.table import CONTEXTS, TABLE
from pybatchq.dashboard.table import add_dashboard
from pybatchq.settings import Settings


def make_app(settings: Settings, dsn: str) -> web.Application:
    """Serves once it is started; touches no database before that."""
    app = web.Application(middlewares=[every_request])
    name = settings.name or f"{socket.gethostname()}:{os.getpid()}"
    services = make_services(settings, dsn, name)
    app[SERVICES] = services
    app[ROUTES] = TABLE
    app[OBSERVERS] = []
    app.cleanup_ctx.append(run_services)
    app.cleanup_ctx.extend(CONTEXTS)
    for route in TABLE:
        app.router.add_route(route.method, route.path, served(route, services))
        if route.method == "GET":
            app.router.add_route("HEAD", route.path, served(route, services))
    add_dashboard(app)
    return app
