"""HTTP by hand: what no client library would send."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

TYPE = "Content-Type: application/json\r\n"


def head(
    method: str, path: str, length: int | None = None, *, more: str = "", close: bool = False
) -> bytes:
    """A request up to its body. length: what it says of it; more: lines that end with CRLF."""
    says = "" if length is None else f"Content-Length: {length}\r\n{TYPE}"
    end = "Connection: close\r\n" if close else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{says}{more}{end}\r\n".encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """closed: whether the server closed the connection behind it."""

    status: int
    text: bytes
    closed: bool

    @property
    def code(self) -> str:
        return str(msgspec.json.decode(self.text)["code"])


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await self.writer.drain()

    async def answer(self, within_s: float = 15) -> RawAnswer:
        """The next answer; status 0 if the connection ends without one."""
        async with asyncio.timeout(within_s):
            try:
                text = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return RawAnswer(0, b"", closed=True)
            lines = text.decode().lower().split("\r\n")
            length = next(
                (int(line.split(":")[1]) for line in lines if line.startswith("content-length")), 0
            )
            body = await self.reader.readexactly(length)
        return RawAnswer(int(lines[0].split()[1]), body, "connection: close" in lines)

    async def ended(self, within_s: float = 15) -> None:
        """Wait until the server has closed it."""
        async with asyncio.timeout(within_s):
            with contextlib.suppress(ConnectionError):
                while await self.reader.read(65536):
                    pass

    def pause(self) -> None:
        """Take nothing more from the network."""
        transport = self.writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()

    def abort(self) -> None:
        """Leave without a word."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def wire(port: int) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


async def send_and_leave(port: int, data: bytes, after_s: float) -> None:
    """Send a request, and leave soon without having read an answer."""
    async with wire(port) as one:
        await one.send(data)
        await asyncio.sleep(after_s)
