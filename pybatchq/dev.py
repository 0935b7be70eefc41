"""Everything in one terminal, for development: a database, and a worker on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pybatchq.embedded import Server, default_data_dir

DATABASE = "batchq"


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
