"""A TCP proxy in front of the server under test that can go silent without closing anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Proxy:
    """`dsn` leads through it."""

    def __init__(self, server_dsn: str) -> None:
        self._server = {k: str(v) for k, v in conninfo_to_dict(server_dsn).items()}
        self._server_dsn = server_dsn
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = 0
        self._silenced = 0
        self.dsn = ""

    def silence(self) -> int:
        """From now on the connections that are there carry nothing; new ones do. How many more."""
        before, self._silenced = self._silenced, self._connections
        return self._silenced - before

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        self.dsn = make_conninfo(self._server_dsn, host="127.0.0.1", port=port)
        try:
            yield self
        finally:
            listening.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        host, port = self._server.get("host", ""), self._server.get("port", "5432")
        if host.startswith("/"):
            path = str(Path(host) / f".s.PGSQL.{port}")
            there = await asyncio.open_unix_connection(path)
        else:
            there = await asyncio.open_connection(host, int(port))
        number = self._connections
        self._connections += 1
        with contextlib.suppress(asyncio.CancelledError):  # at the end
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(number, reader, there[1]))
                both.create_task(self._carry(number, there[0], writer))
        writer.close()
        there[1].close()

    async def _carry(
        self, number: int, source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if number >= self._silenced:
                    target.write(data)
                    await target.drain()
        if number >= self._silenced:  # else nobody learns that it ended
            target.close()
