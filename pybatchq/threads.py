"""Something asynchronous in a thread with an event loop of its own, for programs without one."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any


@contextlib.contextmanager
def in_thread(
    entered: AbstractAsyncContextManager[Any],
    until_over: Callable[[], Awaitable[object]],
    stop: Callable[[], None],
    name: str,
) -> Iterator[None]:
    """`entered` is entered there, and left when until_over() is. What is raised comes out here.

    Entering waits until it is entered, or has failed. stop: called from this thread at the end.
    """
    begun = threading.Event()
    failure: list[BaseException] = []

    async def work() -> None:
        async with entered:
            begun.set()
            await until_over()

    def thread() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:  # noqa: BLE001  # raised below
            failure.append(error)
        finally:
            begun.set()

    runner = threading.Thread(target=thread, name=name)
    try:
        runner.start()  # it runs before this is over: Ctrl-C may come in between
        begun.wait()
        if not failure:
            yield
    finally:
        stop()
        if runner.ident is not None:
            runner.join()
    if failure:
        raise failure[0]
