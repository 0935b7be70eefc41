"""Servers, databases and connections for every test; see tests/support/servers.py."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest

from pybatchq.embedded import Server
from tests.support import servers
from tests.support.servers import Databases, UnavailableError

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Connect = Callable[..., Awaitable[Connection]]

POSTGRES_HELP = (
    "the server to test on: a folder of PostgreSQL programs, or docker:17; "
    "default: DATABASE_URL, else the embedded server"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--postgres", metavar="BIN|docker:TAG", help=POSTGRES_HELP)
    parser.addoption(
        "--update-isolation", action="store_true", help="rewrite tests/isolation/expected"
    )


def pytest_configure(config: pytest.Config) -> None:
    option = config.getoption("postgres")
    if option is not None:
        try:
            servers.check_option(option)
        except UnavailableError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """The server under test."""
    option = request.config.getoption("postgres")
    try:
        with servers.chosen(option, os.environ.get("DATABASE_URL")) as databases:
            yield databases
    except UnavailableError as error:
        pytest.exit(f"no server to test on: {error}", returncode=4)


@pytest.fixture(scope="session")
def template(server: Databases) -> Iterator[str]:
    """The name of a database with batchq installed; connect to copies of it only."""
    name = server.installed()
    yield name
    server.drop(name)


@pytest.fixture
def db(server: Databases, template: str) -> Iterator[str]:
    """The connection string of a fresh database with batchq installed."""
    with server.fresh(template) as dsn:
        yield dsn


@pytest.fixture
def empty_db(server: Databases) -> Iterator[str]:
    """The connection string of a fresh database without batchq."""
    with server.fresh() as dsn:
        yield dsn


@pytest.fixture
async def connect(db: str) -> AsyncIterator[Connect]:
    """Opens sessions on `db`, autocommit unless told otherwise; all are closed at the end."""
    opened: list[Connection] = []

    async def open_session(**options: Any) -> Connection:
        conn: Connection = await psycopg.AsyncConnection.connect(
            db, **{"autocommit": True, **options}
        )
        opened.append(conn)
        return conn

    yield open_session
    for conn in opened:
        await conn.close()


@pytest.fixture
async def conn(connect: Connect) -> Connection:
    """One autocommit session on `db`."""
    return await connect()


@pytest.fixture(scope="session")
def debian_server() -> Iterator[Server]:
    """A second server, Debian's, which can have pgTAP and plpgsql_check."""
    bin_dir = servers.debian_bin_dir()
    if bin_dir is None:
        pytest.skip("needs Debian's packages postgresql-15, postgresql-15-pgtap")
    with servers.running(bin_dir) as server:
        yield server


@pytest.fixture(scope="session")
def debian_template(debian_server: Server) -> Iterator[tuple[Databases, str]]:
    """The Debian server's databases, and the name of one with batchq and pgTAP to copy."""
    databases = Databases(debian_server.dsn(), debian_server.bin_dir)
    name = databases.installed()
    with psycopg.connect(databases.dsn(name), autocommit=True) as conn:
        conn.execute("create schema pgtap")
        conn.execute("create extension pgtap schema pgtap")
        found = conn.execute(
            "select 1 from pg_available_extensions where name = 'plpgsql_check'"
        ).fetchone()
        if found is not None:
            conn.execute("create extension plpgsql_check schema pgtap")
    yield databases, name
    databases.drop(name)
