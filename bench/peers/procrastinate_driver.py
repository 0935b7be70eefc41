# mypy: disable-error-code="import-not-found,untyped-decorator"
"""procrastinate over a psycopg pool, 20 jobs at once. It has no batch form of taking jobs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.python_driver import Work, main, until_zero

CONCURRENCY = 20
POOL = 10
FILL_CHUNK = 5_000
LEFT = "select count(*) as left from procrastinate_jobs where status in ('todo', 'doing')"


async def drain(options: dict[str, Any]) -> Work:
    jobs: int = options["jobs"]
    left = jobs
    done = asyncio.Event()
    app = App(connector=PsycopgConnector(conninfo=options["dsn"], max_size=POOL))

    @app.task(name="noop")
    async def noop(m: int) -> None:  # noqa: ARG001 - given by name
        nonlocal left
        left -= 1
        if not left:
            done.set()

    await app.open_async()
    await app.schema_manager.apply_schema_async()
    for first in range(0, jobs, FILL_CHUNK):
        chunk = range(first, min(first + FILL_CHUNK, jobs))
        await noop.batch_defer_async(*({"m": number} for number in chunk))

    async def count() -> int:
        row = await app.connector.execute_query_one_async(LEFT)
        return int(row["left"])

    async def work() -> dict[str, float]:
        began = time.monotonic()
        running = asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )
        await done.wait()
        await until_zero(count)
        seconds = time.monotonic() - began
        running.cancel()
        await asyncio.wait([running])
        return {"seconds": seconds}

    return work


main({"drain": drain})
