# mypy: disable-error-code="import-not-found,untyped-decorator"
"""pgqueuer over asyncpg, leasing and logging in batches of 1,000, all tables logged."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.python_driver import Work, main, until_zero

BATCH = 1_000
FILL_CHUNK = 10_000
LEFT = "select count(*) from pgqueuer where status in ('queued', 'picked')"


async def _connect(options: dict[str, Any]) -> asyncpg.Connection:
    return await asyncpg.connect(**options["connection"])


async def drain(options: dict[str, Any]) -> Work:
    jobs: int = options["jobs"]
    filler = await _connect(options)
    queries = Queries.from_asyncpg_connection(filler)
    await queries.install()
    for first in range(0, jobs, FILL_CHUNK):
        chunk = range(first, min(first + FILL_CHUNK, jobs))
        payloads: list[bytes | None] = [b'{"m": %d}' % number for number in chunk]
        await queries.enqueue(["noop"] * len(chunk), payloads, [0] * len(chunk))

    async def work() -> dict[str, float]:
        left = jobs
        done = asyncio.Event()
        began = time.monotonic()
        queuer = PgQueuer.from_asyncpg_connection(await _connect(options))

        @queuer.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        running = asyncio.create_task(
            queuer.qm.run(dequeue_timeout=timedelta(seconds=1), batch_size=BATCH)
        )
        await done.wait()
        await until_zero(lambda: filler.fetchval(LEFT))
        seconds = time.monotonic() - began
        queuer.shutdown.set()
        await running
        return {"seconds": seconds}

    return work


main({"drain": drain})
