"""For whoever watches over this process: does it live, and can it serve."""

from __future__ import annotations

from typing import Final

import psycopg
from aiohttp import web
from msgspec import Struct

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.errors import ApiError, refused
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.calls import Connection
from pybatchq.connections import check_version
from pybatchq.errors import BatchqError

READY_S: Final = 2.0


class Health(Struct, frozen=True):
    status: str


async def health(_call: Call[NoQuery, None]) -> web.Response:
    """Never touches the database: a database that is away is no reason to restart this."""
    return answer(Health("ok"))


async def ready(call: Call[NoQuery, None]) -> web.Response:
    problem = await _problem(call)
    if problem is not None:
        raise refused(503, problem, name="not_ready")
    return answer(Health("ready"))


async def _problem(call: Call[NoQuery, None]) -> str | None:
    if call.services.is_stopping:
        return "the API is shutting down"
    try:
        return await call.services.db.run(_look, within_s=READY_S)
    except ApiError as error:
        return error.body.message
    except BatchqError as error:
        return f"{error}: {error.hint}" if error.hint else str(error)
    except psycopg.Error:
        return "the database cannot be used"


async def _look(conn: Connection) -> str | None:
    await check_version(conn)
    if not await calls.is_writable(conn):
        return "the database is read-only"
    return None


ROUTES = (
    Route(
        method="GET",
        path="/health",
        handler=health,
        summary="200 while this process lives; never touches the database",
        scope=None,
        answer=Health,
    ),
    Route(
        method="GET",
        path="/ready",
        handler=ready,
        summary="200 while the database is there, writable and fits, and this is not shutting down",
        scope=None,
        answer=Health,
    ),
)
