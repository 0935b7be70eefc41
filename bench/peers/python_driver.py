"""What the Python drivers of products share: the line protocol of drivers/processes.py.

Runs in the virtual environment of the products, so it imports nothing of the bench.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

Work = Callable[[], Awaitable[dict[str, float]]]
Task = Callable[[dict[str, Any]], Awaitable[Work]]


def print_answer(answer: dict[str, float]) -> None:
    print(json.dumps(answer), flush=True)


async def _run(task: Task, options: dict[str, Any]) -> None:
    work = await task(options)
    print_answer({"ready": 1})
    await asyncio.to_thread(sys.stdin.readline)
    print_answer(await work())


def main(tasks: dict[str, Task]) -> None:
    """Started with (task, options as JSON)."""
    name, text = sys.argv[1:3]
    uvloop.run(_run(tasks[name], json.loads(text)))


async def until_zero(count: Callable[[], Awaitable[int]]) -> None:
    """Ask until no unfinished job is left."""
    while await count():  # noqa: ASYNC110 - PostgreSQL is asked
        await asyncio.sleep(0.002)
