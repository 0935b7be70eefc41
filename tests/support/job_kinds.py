"""Handlers for worker processes of the tests; loaded by name, as a user's own are."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from pybatchq import Job, handler
from pybatchq.testing import Ledger

_ledgers: list[Ledger] = []
_opening = asyncio.Lock()


async def _ledger() -> Ledger:
    """Opened at first use; it ends with the process."""
    async with _opening:
        if not _ledgers:
            ledger = Ledger(os.environ["DATABASE_URL"], worker=str(os.getpid()))
            _ledgers.append(await ledger.__aenter__())
        return _ledgers[0]


@handler("ledger")
async def ledger(payload: dict[str, Any], job: Job) -> None:
    witness = await _ledger()
    await witness.note("start", job)
    await asyncio.sleep(payload.get("ms", 0) / 1000)
    await witness.note("end", job)


@handler("stubborn")
async def stubborn(payload: dict[str, Any]) -> None:
    """Swallows every cancellation."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@handler("stubborn thread")
def stubborn_thread(payload: dict[str, Any]) -> None:
    time.sleep(60)
