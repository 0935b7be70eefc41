"""`batchq top` without a terminal, by textual's own pilot."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from textual.pilot import Pilot

from pybatchq import calls
from pybatchq.top.app import Top

PATIENCE_S = 20.0


class Shown:
    """What somebody sees who presses keys."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in strips)

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def sees(self, *wanted: str) -> None:
        """Wait until all of it is on the screen at once."""
        await self._until(lambda: all(one in self.text for one in wanted), wanted)

    async def misses(self, unwanted: str) -> None:
        await self._until(lambda: unwanted not in self.text, unwanted)

    async def _until(self, condition: Any, told: object) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited for {told}; there is:\n{self.text}"
            await self._pilot.pause(0.02)


@contextlib.asynccontextmanager
async def shown(
    dsn: str, *, size: tuple[int, int] = (80, 24), every_s: float = 0.2
) -> AsyncIterator[Shown]:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        first = await calls.live(conn)
    app = Top(dsn, first, where="db", every_s=every_s)
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield Shown(app, pilot)
