"""Processes of handlers in a test's own event loop, and ways to see what they do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from pybatchq.attempts import Attempt
from pybatchq.children import Children
from pybatchq.endings import Ending
from pybatchq.types import WorkItem
from tests.support import process_faults  # noqa: F401  # registers its kinds
from tests.support.process_kinds import attempt_of
from tests.support.working import until

Running = asyncio.Task[Ending]


class Saved:
    """The progress of a test's jobs, as the worker would be given it."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any]] = []
        self._came = asyncio.Event()

    def __call__(self, item: WorkItem, text: str) -> None:
        self.rows.append((item.job_id, msgspec.json.decode(text)))
        self._came.set()

    @property
    def values(self) -> list[Any]:
        return [value for _, value in self.rows]

    async def next(self) -> Any:
        """The newest value, once there is one that was not seen yet."""
        async with asyncio.timeout(15):
            await self._came.wait()
        self._came.clear()
        return self.values[-1]


@contextlib.asynccontextmanager
async def family(saved: Saved, **options: Any) -> AsyncIterator[Children]:
    """Children that are gone at the end, by themselves unless the test left jobs running."""
    made = Children(saved, **options)
    try:
        yield made
    finally:
        await made.close(now=True)
        assert (made.running, made.idle) == (0, 0)


def started(pool: Children, attempt: Attempt) -> Running:
    return asyncio.ensure_future(pool.run(attempt))


async def result(pool: Children, kind: str, payload: Any = None, **fields: Any) -> Any:
    ending = await pool.run(attempt_of(kind, payload, **fields))
    assert ending.event == "completed", ending
    return None if ending.text is None else msgspec.json.decode(ending.text)


def is_gone(pid: int) -> bool:
    """Whether the process is dead; as an orphan it may not be reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def gone(pid: int) -> None:
    async def look() -> bool:
        return is_gone(pid)

    await until(look)
