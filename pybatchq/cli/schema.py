"""`batchq install`, `uninstall` and `version`."""

from __future__ import annotations

import platform
from typing import Any

import click
import psycopg

from pybatchq import __version__, calls
from pybatchq import install as installer
from pybatchq.cli._common import (
    EXIT_UNREACHABLE,
    CliError,
    command,
    confirm,
    dsn_option,
    json_option,
)
from pybatchq.cli._database import Database
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._show import note
from pybatchq.errors import VersionMismatchError
from pybatchq.settings import Settings

VERSION_TIMEOUT_S = 3


@command(
    "install",
    "batchq install --dsn postgresql://localhost/app",
    'batchq install --dump | psql "$DATABASE_URL"',
)
@click.option("--dump", "as_script", is_flag=True, help="Print it as one psql script instead.")
@dsn_option
def install(*, as_script: bool, dsn: str | None) -> None:
    """Install or upgrade the schema `batchq`; safe to run again.

    `batchq install --dump | psql` does the same without Python at the server's side.
    """
    if as_script:
        click.echo(installer.dump(), nl=False)
        return
    with Database(dsn) as db:
        report = db.call(installer.install)
        applied = ", ".join(report.migrations) or "none needed"
        click.echo(f"batchq is installed in database {db.name}.")
        click.echo(f"migrations: {applied}; functions: {report.functions}")


@command("uninstall", "batchq uninstall", "batchq uninstall --yes")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dsn_option
def uninstall(*, yes: bool, dsn: str | None) -> None:
    """Remove the schema `batchq` with every job in it."""
    with Database(dsn) as db:
        if not yes:
            confirm(f"Delete batchq and all its jobs from database {db.name}?")
        db.call(installer.uninstall)
        click.echo(f"batchq is gone from database {db.name}.")


@command("version", "batchq version", "batchq version --json | jq .database")
@json_option
@dsn_option
def version(*, as_json: bool, dsn: str | None) -> None:
    """Print the versions of this client and its database."""
    versions: dict[str, Any] = {
        "batchq": __version__,
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
    }
    address = dsn or Settings.from_env().database_url
    if address is not None:
        try:
            versions["database"] = _of_database(address)
        except CliError as error:
            if dsn or error.exit_code != EXIT_UNREACHABLE:
                raise
            note(f"batchq: {error.message}")
    if as_json:
        click.echo(to_json(versions))
        return
    database = versions.pop("database", {})
    lines = [f"{name} {value}" for name, value in versions.items()]
    lines += [f"database: {name} {value}" for name, value in database.items()]
    click.echo("\n".join(lines))


def _of_database(dsn: str) -> dict[str, Any]:
    with Database(dsn, connect_timeout_s=VERSION_TIMEOUT_S) as db:
        found: dict[str, Any] = {"postgresql": db.conn.info.parameter_status("server_version")}
        try:
            installed = db.call(calls.version)
        except VersionMismatchError as error:
            note(f"batchq: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))
            return found
        return found | {"batchq": installed.version, "migration": installed.migration}
