"""What the API is measured against over HTTP: plain aiohttp servers with POST /jobs.

`insert` is a reconstruction from its description of the system that batchq takes over from: one
INSERT a request, committed before the answer, over a pool of 20 connections. `nothing` stores
nothing, and shows what aiohttp itself costs. Neither checks anything, writes an access log or
answers with more headers than it must.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
from collections.abc import AsyncIterator
from itertools import count

import msgspec
from aiohttp import web
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

HOST = "127.0.0.1"
BACKLOG = 4096
CONNECTIONS = 20
INSERT = "insert into one_table.job (kind, payload) values (%s, %s::jsonb) returning id"

Pool = AsyncConnectionPool[AsyncConnection[TupleRow]]
POOL = web.AppKey("pool", Pool)
JSON = {"Content-Type": "application/json"}


class NewJob(msgspec.Struct):
    kind: str
    payload: msgspec.Raw


class Accepted(msgspec.Struct):
    id: int
    duplicate: bool = False


_decode = msgspec.json.Decoder(NewJob).decode
_encode = msgspec.json.Encoder().encode
_numbers = count(1)


async def pool(app: web.Application) -> AsyncIterator[None]:
    opened: Pool = AsyncConnectionPool(
        os.environ["DATABASE_URL"],
        min_size=CONNECTIONS,
        max_size=CONNECTIONS,
        kwargs={"autocommit": True, "prepare_threshold": 0},
        timeout=60,
        open=False,
    )
    await opened.open(wait=True)
    app[POOL] = opened
    yield
    await opened.close()


async def insert(request: web.Request) -> web.Response:
    job = _decode(await request.read())
    async with request.app[POOL].connection() as conn:
        row = await (await conn.execute(INSERT, (job.kind, bytes(job.payload).decode()))).fetchone()
    assert row is not None
    return web.Response(body=_encode(Accepted(row[0])), status=201, headers=JSON)


async def nothing(request: web.Request) -> web.Response:
    _decode(await request.read())
    return web.Response(body=_encode(Accepted(next(_numbers))), status=201, headers=JSON)


async def ready(_request: web.Request) -> web.Response:
    return web.Response()


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)  # as our API has it
    app = web.Application()
    app.router.add_get("/ready", ready)
    if sys.argv[1] == "insert":
        app.cleanup_ctx.append(pool)
        app.router.add_post("/jobs", insert)
    else:
        app.router.add_post("/jobs", nothing)
    port = int(os.environ["BATCHQ_PORT"])
    web.run_app(
        app, host=HOST, port=port, access_log=None, backlog=BACKLOG, print=None,
        loop=asyncio.new_event_loop(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
