"""Everything in one terminal, for development: a database, and an API and a worker on it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

from pybatchq.embedded import Server, default_data_dir
from pybatchq.settings import Settings, SettingsError

DATABASE = "batchq"
DEFAULT_PORT = 8080


@contextlib.contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """The address of a database to develop on, without batchq in it as yet.

    dsn: a server of the user's own; None: an embedded one, whose data stay for the next time.
    """
    if dsn is not None:
        yield dsn
        return
    with Server(default_data_dir() / "dev", settings={"max_connections": 100}) as server:
        server.create_database(DATABASE)
        yield server.dsn(DATABASE)


@contextlib.contextmanager
def api(dsn: str, settings: Settings) -> Iterator[int]:
    """The HTTP API, in a thread; its port. Nobody asked for one that is in use: any free one."""
    from pybatchq.api import server  # noqa: PLC0415  # aiohttp takes 0.3 s to import

    with contextlib.ExitStack() as stack:
        try:
            port = stack.enter_context(server.in_thread(dsn, settings))
        except SettingsError:
            if settings.port != DEFAULT_PORT or os.environ.get("BATCHQ_PORT"):
                raise
            port = stack.enter_context(server.in_thread(dsn, replace(settings, port=0)))
        yield port
