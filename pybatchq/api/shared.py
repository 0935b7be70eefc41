"""One look-up for all who need the same at the same time.

A lock would hand it on from one to the next, each of them a turn of the event loop later: with a
thousand requests in every turn the last would wait for seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

R = TypeVar("R")


class Shared:
    """Look-ups that are under way, by what they look for."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Any]] = {}
        self._begun: set[asyncio.Task[Any]] = set()

    async def __call__(self, what: Hashable, look_up: Callable[[], Awaitable[R]]) -> R:
        """What the look-up under way finds or raises; without one, of this one.

        If whoever began it is cancelled, the next one who waits looks.
        """
        while (others := self._under_way.get(what)) is not None:
            await asyncio.wait((others,))
            if not others.cancelled():
                found: R = others.result()
                return found
        ours = self._under_way[what] = asyncio.get_running_loop().create_future()
        try:
            found = await look_up()
        except asyncio.CancelledError:
            ours.cancel()
            raise
        except BaseException as error:
            ours.set_exception(error)
            ours.exception()  # there may be nobody else
            raise
        else:
            ours.set_result(found)
            return found
        finally:
            del self._under_way[what]

    def begin(self, what: Hashable, look_up: Callable[[], Awaitable[object]]) -> None:
        """Look, unless somebody does, and let nobody wait for it. Errors are for the next one."""
        if what not in self._under_way:
            task = asyncio.ensure_future(self(what, look_up))
            self._begun.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled():
            task.exception()
