"""Which server the tests run on, and fresh databases on it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pybatchq.embedded import EmbeddedError, Server, wheel_bin_dir
from pybatchq.install import install_dsn

SETTINGS: dict[str, str | int] = {
    "fsync": "off",
    "synchronous_commit": "on",
    "max_connections": 200,
    "max_prepared_transactions": 50,
    "shared_buffers": "256MB",
    "autovacuum": "on",
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "log_min_messages": "error",
}
START_TIMEOUT_S = 60.0
DEBIAN = Path("/usr/lib/postgresql")


class UnavailableError(Exception):
    """The server asked for is not to be had; the text is for whoever ran the tests."""


@dataclass(slots=True)
class Databases:
    """Makes databases on one server. `admin` is a superuser's connection string.

    `bin_dir` has psql and pg_dump that fit the server.
    """

    admin: str
    bin_dir: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def dsn(self, name: str) -> str:
        return make_conninfo(self.admin, dbname=name)

    def create(self, template: str | None = None) -> str:
        """A database of a new name, empty or a copy of `template`; returns the name."""
        name = f"batchq_test_{os.getpid()}_{next(self._numbers)}"
        source = sql.Identifier(template or "template0")
        self._run(sql.SQL("create database {} template {}").format(sql.Identifier(name), source))
        return name

    def drop(self, name: str) -> None:
        self._run(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    @contextlib.contextmanager
    def fresh(self, template: str | None = None) -> Iterator[str]:
        """The connection string of a database that goes at the end, whoever is in it."""
        name = self.create(template)
        try:
            yield self.dsn(name)
        finally:
            self.drop(name)

    def installed(self) -> str:
        """A database with batchq in it, to be copied; returns the name."""
        name = self.create()
        asyncio.run(install_dsn(self.dsn(name)))
        return name

    def _run(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin, autocommit=True) as conn:
            conn.execute(statement)


@contextlib.contextmanager
def running(bin_dir: Path | None, **settings: str | int) -> Iterator[Server]:
    """A server in a temporary folder of its own, gone at the end."""
    # not pytest's tmp_path: its folders are closed to the server's account
    folder = Path(tempfile.mkdtemp(prefix="batchq-test-"))
    with Server(folder, bin_dir=bin_dir, settings={**SETTINGS, **settings}, delete=True) as server:
        yield server


@contextlib.contextmanager
def chosen(option: str | None, environ: str | None) -> Iterator[Databases]:
    """The server of `--postgres`, else of DATABASE_URL, else the wheel's.

    UnavailableError when it cannot be had.
    """
    if option is None and environ:
        yield Databases(environ, wheel_bin_dir())
    elif option is not None and option.startswith("docker:"):
        with _container(option.removeprefix("docker:")) as admin:
            yield Databases(admin, wheel_bin_dir())
    else:
        try:
            with running(None if option is None else Path(option)) as server:
                yield Databases(server.dsn(), server.bin_dir)
        except EmbeddedError as error:
            raise UnavailableError(str(error)) from error


def check_option(option: str) -> None:
    """Raises UnavailableError at once when `--postgres` cannot work."""
    if option.startswith("docker:"):
        _docker("version")
    elif not (Path(option) / "initdb").exists():
        raise UnavailableError(f"--postgres={option}: no PostgreSQL server programs there")


def debian_bin_dir() -> Path | None:
    """The newest of Debian's servers that has pgTAP."""
    return _newest(
        DEBIAN.glob("*/bin/postgres"),
        lambda path: Path(f"/usr/share/postgresql/{_version(path)}/extension/pgtap.control"),
    )


def isolationtester() -> Path | None:
    """Debian's newest isolationtester."""
    pattern = "*/lib/pgxs/src/test/isolation/isolationtester"
    found = _newest(DEBIAN.glob(pattern), lambda path: path)
    return None if found is None else found / "isolationtester"


def _newest(found: Iterator[Path], needs: Callable[[Path], Path]) -> Path | None:
    usable = [path for path in found if needs(path).exists()]
    return max(usable, key=_version).parent if usable else None


def _version(path: Path) -> int:
    match = re.match(rf"{DEBIAN}/(\d+)/", str(path))
    return int(match[1]) if match else 0


def _docker(*arguments: str) -> str:
    """Run Docker's command; UnavailableError with what it said when it fails."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UnavailableError("--postgres=docker:… needs Docker, and it is not here") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise UnavailableError(f"--postgres=docker:… needs a Docker engine: {said}")
    return done.stdout.strip()


@contextlib.contextmanager
def _container(tag: str) -> Iterator[str]:
    """The superuser's connection string of PostgreSQL's own image, gone at the end."""
    arguments = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    trust = ("--env", "POSTGRES_HOST_AUTH_METHOD=trust")
    started = ("run", "--detach", "--rm", "--publish", "127.0.0.1::5432", *trust)
    container = _docker(*started, f"postgres:{tag}", *arguments)
    try:
        port = _docker("port", container, "5432/tcp").splitlines()[0].rpartition(":")[2]
        admin = make_conninfo(host="127.0.0.1", port=port, user="postgres", dbname="postgres")
        _await_answer(admin, START_TIMEOUT_S)
        yield admin
    finally:
        _docker("rm", "--force", "--volumes", container)


def _await_answer(dsn: str, timeout_s: float) -> None:
    """The image opens its port only after its first, private start is over."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            psycopg.connect(dsn, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline:
                raise UnavailableError(f"the container does not answer: {error}") from error
            time.sleep(0.2)
        else:
            return
