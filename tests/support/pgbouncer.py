"""Debian's PgBouncer in front of the server under test."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

Mode = Literal["transaction", "session"]

START_TIMEOUT_S = 10.0
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Pooler:
    """One running PgBouncer; `dsn` leads through it to the database it was made for."""

    dsn: str
    mode: Mode
    log: Path


@contextlib.contextmanager
def pooler(dsn: str, mode: Mode, *, pool_size: int = 4) -> Iterator[Pooler]:
    """A PgBouncer on a free port in front of this database; skips the test if there is none.

    pool_size: how many sessions of the server its clients share, far fewer than they are.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("needs Debian's package pgbouncer")
    server = {k: str(v) for k, v in conninfo_to_dict(dsn).items()}
    account = _account(server.get("host", ""))
    # not pytest's tmp_path: its folders are closed to other accounts
    folder = Path(tempfile.mkdtemp(prefix="batchq-pooler-"))
    try:
        port = _free_port()
        (folder / "pooler.ini").write_text(_settings(server, mode, port, pool_size))
        (folder / "log").touch()
        if account is not None:
            for path in (folder, *folder.iterdir()):
                os.chown(path, account.pw_uid, account.pw_gid)
        client = make_conninfo(
            host="127.0.0.1", port=port, user=server.get("user"), dbname=server["dbname"]
        )
        with _running(program, folder, account) as process:
            _await_answer(client, process, folder / "log")
            yield Pooler(client, mode, folder / "log")
    finally:
        shutil.rmtree(folder)


def _account(host: str) -> pwd.struct_passwd | None:
    """Whom to run as: it refuses to be root, and a socket's folder is closed to all but its owner.

    None: as ourselves.
    """
    if os.geteuid() != 0:
        return None
    owner = Path(host).stat().st_uid if host.startswith("/") else 0
    return pwd.getpwuid(owner) if owner else pwd.getpwnam(NOBODY)


def _settings(server: dict[str, str], mode: Mode, port: int, pool_size: int) -> str:
    target = " ".join(
        f"{name}={server[name]}"
        for name in ("host", "port", "dbname", "user", "password")
        if name in server
    )
    return f"""
[databases]
{server["dbname"]} = {target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {pool_size}
max_client_conn = 500
ignore_startup_parameters = extra_float_digits,options
"""


@contextlib.contextmanager
def _running(
    program: str, folder: Path, account: pwd.struct_passwd | None
) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [program, str(folder / "pooler.ini")],
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_answer(dsn: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            psycopg.connect(dsn, connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PgBouncer does not answer: {log.read_text()}") from error
            time.sleep(0.02)
        else:
            return
