"""The HTTP API on a real socket: in a test's own event loop, or as a process."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from pybatchq.api.app import make_app
from pybatchq.api.server import Server
from pybatchq.settings import Settings
from tests.support.processes import ROOT, environment
from tests.support.working import until

JSON = {"Content-Type": "application/json"}
QUIET = {"BATCHQ_PORT": "0", "BATCHQ_ACCESS_LOG": "off"}


@dataclass(frozen=True, slots=True)
class Answer:
    """text: the body as it came; json: what it says."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.text)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, code and message of an error, which has the one shape and shows no internals."""
        body = self.json
        assert set(body) == {"code", "name", "message", "detail", "hint"}, body
        for hidden in ("select ", "batchq.", "Traceback", 'File "', "psycopg", "PL/pgSQL"):
            assert hidden not in self.text, self.text
        return self.status, body["code"], body["message"]


class Api:
    """An API that answers, and a client of it with keep-alive connections."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def ask(self, method: str, path: str, **options: Any) -> Answer:
        async with self.session.request(
            method, self.url + path, allow_redirects=False, **options
        ) as response:
            text = (await response.read()).decode()
            return Answer(response.status, response.headers, text)

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.ask("GET", path, **options)

    async def post(
        self,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> Answer:
        """body: bytes or text as they are, None for none, anything else as JSON."""
        data: Any = body if isinstance(body, bytes | str | None) else msgspec.json.encode(body)
        if data is not None and len(data) > 1024 * 1024:
            data = io.BytesIO(data.encode() if isinstance(data, str) else data)
        sent = {**({} if body is None else JSON), **(headers or {})}
        return await self.ask(method, path, data=data, headers=sent)

    async def enqueue(self, kind: str = "k", **more: Any) -> int:
        """The id of a new job."""
        answer = await self.post("/jobs", {"kind": kind, **more})
        assert answer.status == 201, answer.text
        return int(answer.json["id"])


@contextlib.asynccontextmanager
async def client(url: str) -> AsyncIterator[Api]:
    """A client of an API that runs elsewhere."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Api(url, session)


@contextlib.asynccontextmanager
async def running(dsn: str, **settings: str) -> AsyncIterator[tuple[web.Application, Server]]:
    """An API in this event loop. settings: variables, like BATCHQ_MAX_BODY="2KiB"."""
    chosen = Settings.from_env({**QUIET, **settings})
    app = make_app(chosen, dsn)
    server = Server(app, chosen)
    await server.start()
    try:
        yield app, server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def serving(dsn: str, **settings: str) -> AsyncIterator[Api]:
    """The same, and a client of it."""
    async with running(dsn, **settings) as (_, server), client(url_of(server)) as api:
        yield api


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


class ApiProcess:
    """One `batchq api` and what it wrote."""

    def __init__(self, dsn: str | None, log: Path, *options: str, **settings: str) -> None:
        self._log = log
        command = [sys.executable, "-m", "pybatchq", "api", *options]
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                command, cwd=ROOT, env=environment(dsn, **{**QUIET, **settings}), stdout=out,
                stderr=out,
            )  # fmt: skip

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def port(self) -> int:
        """Where it listens, once it does."""

        async def look() -> bool:
            return " port=" in self.log or self.popen.poll() is not None

        await until(look)
        assert " port=" in self.log, self.log
        return int(self.log.partition(" port=")[2].split()[0])

    async def ended(self, within_s: float = 10) -> int:
        """Wait for its end; its exit code."""

        async def look() -> bool:
            return self.popen.poll() is not None

        await until(look, within_s)
        return int(self.popen.returncode)


@contextlib.contextmanager
def api_process(
    dsn: str | None, folder: Path, *options: str, **settings: str
) -> Iterator[ApiProcess]:
    """A `batchq api` that is gone at the end, whatever happens."""
    process = ApiProcess(
        dsn, folder / f"api-{len(list(folder.iterdir()))}.log", *options, **settings
    )
    try:
        yield process
    finally:
        process.popen.kill()
        process.popen.wait()
