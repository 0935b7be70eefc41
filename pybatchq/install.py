"""Installing batchq's schema: the same files psql would run, in one transaction."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.pq import TransactionStatus

from pybatchq.manifest import If, ManifestError, Query, RunSql, Step, expand, parse, truth

ATTEMPTS = 5
FIRST_PAUSE_S = 0.25


class InstallError(Exception):
    """The schema could not be installed or removed; nothing was changed.

    `file` and `line` say which statement failed, where one did; the database's own error
    is the cause, and `hint` what it advises.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message if file is None else f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.hint = hint


@dataclass(frozen=True, slots=True)
class InstallReport:
    """What one run did: the migrations it applied, by name, and how many functions it loaded."""

    migrations: tuple[str, ...]
    functions: int


@dataclass(slots=True)
class _Run:
    conn: psycopg.AsyncConnection[object]
    variables: dict[str, str] = field(default_factory=dict)
    files: dict[str, None] = field(default_factory=dict)

    async def steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case RunSql():
                    await self._execute(step)
                    self.files[step.file] = None
                case Query():
                    await self._query(step)
                case If():
                    if truth(self.variables.get(step.name, ""), step):
                        await self.steps(step.body)

    async def _execute(self, step: RunSql | Query) -> psycopg.AsyncCursor[object]:
        """By the simple protocol, so that `%` means nothing and nothing is prepared."""
        try:
            return await self.conn.execute(step.text.encode(), prepare=False)
        except psycopg.Error as error:
            if self.conn.broken or isinstance(error, _RETRIED):
                raise
            message = error.diag.message_primary or str(error).strip()
            line = step.line + _lines_before(step.text, error.diag.statement_position)
            hint = error.diag.message_hint
            raise InstallError(message, file=step.file, line=line, hint=hint) from error

    async def _query(self, step: Query) -> None:
        cursor = await self._execute(step)
        if cursor.pgresult is None or cursor.pgresult.ntuples != 1:
            raise InstallError("\\gset needs exactly one row", file=step.file, line=step.line)
        for column in range(cursor.pgresult.nfields):
            name, value = cursor.pgresult.fname(column), cursor.pgresult.get_value(0, column)
            if name is not None and value is not None:
                self.variables[name.decode()] = value.decode()

    def report(self) -> InstallReport:
        return InstallReport(
            migrations=tuple(Path(f).stem for f in self.files if f.startswith("migrations/")),
            functions=sum(f.startswith("functions/") for f in self.files),
        )


_RETRIED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


def sql_dir() -> Path:
    """The folder of SQL files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "sql", package.parent / "sql"):
        if (folder / "install.sql").is_file():
            return folder
    raise InstallError("batchq's SQL files are missing; reinstall the package pybatchq")


async def install(conn: psycopg.AsyncConnection[object]) -> InstallReport:
    """Install or upgrade, in one transaction on an idle connection. Running it twice is safe.

    Waits its turn behind another installation, and tries again when a lock is not to be had.
    """
    return await _run_manifest(conn, sql_dir() / "install.sql")


async def install_dsn(dsn: str) -> InstallReport:
    """Install or upgrade over a connection of its own."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        return await install(conn)


async def uninstall(conn: psycopg.AsyncConnection[object]) -> None:
    """Remove the schema with every job in it, in one transaction on an idle connection."""
    await _run_manifest(conn, sql_dir() / "uninstall.sql")


def dump() -> str:
    """The whole installation as one script for psql; it needs no other file."""
    return "\\set ON_ERROR_STOP on\n" + expand(sql_dir() / "install.sql")


async def _run_manifest(conn: psycopg.AsyncConnection[object], manifest: Path) -> InstallReport:
    if conn.info.transaction_status != TransactionStatus.IDLE:
        raise InstallError("the connection is in the middle of a transaction; end it first")
    try:
        steps = parse(manifest)
        for attempt in range(ATTEMPTS):
            try:
                return await _run_once(conn, steps)
            except _RETRIED as error:
                last = error
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))
    except ManifestError as error:
        raise InstallError(str(error)) from error
    message = "another session holds batchq's tables or functions locked; try again when it ends"
    raise InstallError(f"{message} ({last.diag.message_primary})") from last


async def _run_once(
    conn: psycopg.AsyncConnection[object], steps: tuple[Step, ...]
) -> InstallReport:
    run = _Run(conn)
    async with conn.transaction():
        # whatever the session's defaults: what was awaited must be seen afterwards
        await conn.execute("set transaction isolation level read committed, read write")
        await run.steps(steps)
    return run.report()


def _lines_before(text: str, position: str | None) -> int:
    return 0 if position is None else text.count("\n", 0, int(position) - 1)
