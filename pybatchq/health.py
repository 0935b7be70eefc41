"""Health of a worker over HTTP, for whoever watches over it.

GET /health    200 while the process lives and its event loop turns: restart it when this fails
GET /ready     200 while it can take jobs, else 503 naming what is wrong
GET /metrics   Prometheus text

The server runs in the loop that starts it. That should not be the handlers' loop: one that is
blocked could not tell.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from pybatchq.metrics import CONTENT_TYPE
from pybatchq.settings import SettingsError

DEAD_AFTER_S = 60.0
UNREADY_AFTER_S = 5.0
KEEP_ALIVE_S = 30.0
# A browser may ask, too: nothing of this is to be kept, guessed at or shown in a frame.
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

log = logging.getLogger("pybatchq")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class HealthState:
    """What a worker knows of itself. problems: what else keeps it from taking jobs."""

    connected: bool
    stopping: bool
    loop_blocked_s: float
    problems: tuple[str, ...] = ()


class HealthServer:
    """Answers on one port from start() to close().

    state and metrics are called in this server's loop, at every request for them, and must not
    wait. Port 0 is any free one; see `port`.
    """

    def __init__(
        self,
        port: int,
        *,
        state: Callable[[], HealthState],
        metrics: Callable[[], bytes],
        host: str = "127.0.0.1",
    ) -> None:
        if not 0 <= port <= 65_535:
            raise ValueError(f"port is {port}; give 0 to 65,535")
        self._port = port
        self._host = host
        self._state = state
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        addresses = [] if self._runner is None else self._runner.addresses
        return int(addresses[0][1]) if addresses else self._port

    async def start(self) -> None:
        """Listen. SettingsError if that cannot be done here."""
        app = web.Application(middlewares=[_errors], client_max_size=1024)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        app.router.add_get("/metrics", self._render)
        runner = web.AppRunner(
            app, access_log=None, keepalive_timeout=KEEP_ALIVE_S, shutdown_timeout=1.0
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise _cannot_listen(self._host, self._port, error) from error
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner

    async def close(self) -> None:
        """Stop listening and end open connections, within about a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        problems = _blocked(self._state(), DEAD_AFTER_S)
        if problems:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "not_healthy", problems=problems)
        return web.json_response({"status": "ok"})

    async def _ready(self, _request: web.Request) -> web.Response:
        state = self._state()
        problems = [*state.problems, *_blocked(state, UNREADY_AFTER_S)]
        if not state.connected:
            problems.append("there is no connection to the database")
        if state.stopping:
            problems.append("the worker is stopping")
        if problems:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "not_ready", problems=problems)
        return web.json_response({"status": "ready"})

    async def _render(self, _request: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": CONTENT_TYPE})


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every answer has our headers, and every error our shape."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        response = _error(status, status.phrase.lower().replace(" ", "_"))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
    except Exception:
        log.exception("health request failed", extra={"path": request.path})
        response = _error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error")
    response.headers.update(HEADERS)
    return response


def _error(status: HTTPStatus, name: str, *, problems: list[str] | None = None) -> web.Response:
    """An answer of the shape that all of batchq's errors have."""
    body: dict[str, Any] = {
        "code": f"HTTP{status.value}",
        "name": name,
        "message": "; ".join(problems) if problems else status.phrase.lower(),
    }
    if problems:
        body["problems"] = problems
    headers = {"Retry-After": "5"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
    return web.json_response(body, status=status.value, headers=headers)


def _blocked(state: HealthState, longest_s: float) -> list[str]:
    if state.loop_blocked_s <= longest_s:
        return []
    return [f"a handler has blocked the event loop for {state.loop_blocked_s:.0f} s"]


def _cannot_listen(host: str, port: int, error: OSError) -> SettingsError:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match error.errno:
        case errno.EADDRINUSE:
            setting, why = f"BATCHQ_HEALTH_PORT is {port}", f"{place} is in use; give a free port"
        case errno.EACCES:
            setting, why = f"BATCHQ_HEALTH_PORT is {port}", f"{place} takes more rights than ours"
        case _ if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            setting, why = f"BATCHQ_HEALTH_HOST is {host!r}", "no address of this machine"
        case _:
            setting, why = f"BATCHQ_HEALTH_PORT is {port}", f"cannot listen on {place}: {error}"
    return SettingsError(f"{setting}: {why}")
