"""Web servers on loopback for tests, real ones, that remember who came."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

Answering = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Site:
    """A server, its port, and what it saw."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.requests: list[web.BaseRequest] = []

    @property
    def here(self) -> str:
        """As a host rule."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", *, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@contextlib.asynccontextmanager
async def serving(answer: Answering, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A server on 127.0.0.1 (and on ::1, where there is one) that answers everything so."""
    site = Site()

    async def noted(request: web.BaseRequest) -> web.StreamResponse:
        site.requests.append(request)
        return await answer(request)

    server = web.Server(noted, access_log=None, handler_cancellation=True)

    def connected() -> asyncio.Protocol:
        site.connections += 1
        return server()

    loop = asyncio.get_running_loop()
    listening = [await loop.create_server(connected, "127.0.0.1", 0, ssl=tls)]
    site.port = listening[0].sockets[0].getsockname()[1]
    with contextlib.suppress(OSError):  # no IPv6 here, or the port is taken there
        listening.append(await loop.create_server(connected, "::1", site.port, ssl=tls))
    try:
        yield site
    finally:
        for one in listening:
            one.close()
        await server.shutdown(0)


@contextlib.asynccontextmanager
async def speaking(data: bytes) -> AsyncIterator[Site]:
    """A server that answers every request with these bytes, whatever they are, and hangs up."""
    site = Site()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as listening:
        site.port = listening.sockets[0].getsockname()[1]
        yield site


def certificate(folder: Path, name: str = "localhost") -> Path:
    """A certificate and its key, signed by nobody else, in one file."""
    path = folder / "certificate.pem"
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1",
        "-keyout", str(path), "-out", str(folder / "public.pem"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + (folder / "public.pem").read_bytes())
    return path
