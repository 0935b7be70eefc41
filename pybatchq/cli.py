"""The command `batchq`. Every command parses, calls and prints; logic lives elsewhere."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import platform
from collections.abc import Callable
from typing import IO, Any, ParamSpec, TypeVar

import click
import psycopg
from psycopg.conninfo import conninfo_to_dict

from pybatchq import __version__
from pybatchq.embedded import EmbeddedError
from pybatchq.errors import BatchqError
from pybatchq.install import InstallError, InstallReport, dump, install, uninstall
from pybatchq.settings import Settings, SettingsError

P = ParamSpec("P")
R = TypeVar("R")

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
CONNECT_TIMEOUT_S = 10

EPILOG = """\b
Exit codes:
  0  done
  1  it failed; the message says why
  2  wrong usage: an option, an argument or a setting
  3  the database cannot be reached
"""
DSN_HELP = "The server, as URL or key=value string; default: the variable DATABASE_URL."
NO_DATABASE_HINT = "`batchq demo` needs no server: it starts an embedded one"


class CliError(click.ClickException):
    """Ends the command with one line on stderr, a hint below it, and an exit code."""

    def __init__(
        self, message: str, *, hint: str | None = None, exit_code: int = EXIT_FAILED
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(f"batchq: {self.message}", err=True, file=file)
        if self.hint is not None:
            click.echo(f"hint: {self.hint}", err=True, file=file)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Errors a user can cause become a CliError; those left are bugs and keep their traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except SettingsError as error:
            raise CliError(str(error), exit_code=EXIT_USAGE) from error
        except BatchqError as error:
            raise CliError(str(error), hint=error.hint) from error
        except InstallError as error:
            raise CliError(str(error), hint=error.hint) from error
        except EmbeddedError as error:
            raise CliError(str(error)) from error
        except psycopg.Error as error:
            raise CliError(_one_line(error), hint=error.diag.message_hint) from error

    return wrapped


async def connect(dsn: str) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """An autocommit connection; CliError with exit code 3 when the server cannot be reached."""
    try:
        timeout = conninfo_to_dict(dsn).get("connect_timeout", CONNECT_TIMEOUT_S)
        return await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=timeout, application_name="batchq"
        )
    except psycopg.ProgrammingError as error:
        message = "this is no connection string (not shown here: it may hold a password)"
        raise CliError(message, exit_code=EXIT_USAGE) from error
    except psycopg.OperationalError as error:
        raise CliError(
            f"the database cannot be reached: {_one_line(error)}",
            hint="is the server running, and is DATABASE_URL (or --dsn) right?",
            exit_code=EXIT_UNREACHABLE,
        ) from error


def chosen_dsn(dsn: str | None) -> str:
    """The option's, else DATABASE_URL; CliError when neither is there."""
    if dsn:
        return dsn
    settings = Settings.from_env()
    if settings.database_url is None:
        message = "DATABASE_URL is not set; it names the PostgreSQL server to use"
        raise CliError(message, hint=NO_DATABASE_HINT, exit_code=EXIT_USAGE)
    return settings.database_url


dsn_option = click.option("--dsn", metavar="DSN", help=DSN_HELP)


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A durable job queue inside PostgreSQL."""


@main.command("install", epilog=EPILOG)
@click.option("--dump", "as_script", is_flag=True, help="Print it as one psql script instead.")
@dsn_option
@plain_errors
def install_command(*, as_script: bool, dsn: str | None) -> None:
    """Install or upgrade the schema `batchq`; running it again is safe.

    `batchq install --dump | psql` does the same without Python at the server's side.
    """
    if as_script:
        click.echo(dump(), nl=False)
        return

    async def run(dsn: str) -> tuple[str, InstallReport]:
        async with await connect(dsn) as conn:
            return conn.info.dbname, await install(conn)

    database, report = asyncio.run(run(chosen_dsn(dsn)))
    applied = ", ".join(report.migrations) or "none needed"
    click.echo(f"batchq is installed in database {database}.")
    click.echo(f"migrations: {applied}; functions: {report.functions}")


@main.command("uninstall", epilog=EPILOG)
@click.option("--yes", is_flag=True, help="Do not ask.")
@dsn_option
@plain_errors
def uninstall_command(*, yes: bool, dsn: str | None) -> None:
    """Remove the schema `batchq` with every job in it."""

    async def run(dsn: str) -> str:
        async with await connect(dsn) as conn:
            name = conn.info.dbname
            if not yes:
                click.confirm(f"Delete batchq and all its jobs from database {name}?", abort=True)
            await uninstall(conn)
            return name

    click.echo(f"batchq is gone from database {asyncio.run(run(chosen_dsn(dsn)))}.")


@main.command("worker", epilog=EPILOG)
@click.option("--queues", metavar="A,B", help="Queues in order of preference. [default: default]")
@click.option("--concurrency", metavar="N", help="Jobs to run at once. [default: 10]")
@click.option("--handlers", metavar="MODULE,…", help="Modules to import that register handlers.")
@click.option("--lease", metavar="TIME", help="Length of a lease. [default: the queue's, else 60s]")
@click.option("--poll", metavar="TIME", help="Longest sleep without a doorbell. [default: 1s]")
@click.option("--grace", metavar="TIME", help="Wait for running jobs at a stop. [default: 30s]")
@click.option("--no-doorbell", is_flag=True, help="Do not LISTEN: polling alone.")
@click.option("--name", help="Shown as locked_by. [default: host:pid]")
@dsn_option
@plain_errors
def worker_command(
    *, name: str | None, no_doorbell: bool, dsn: str | None, **given: str | None
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; a second signal hands running jobs back at once.

    Every option is also an environment variable: BATCHQ_QUEUES, BATCHQ_CONCURRENCY and so on.
    """
    from pybatchq import service

    environ = {f"BATCHQ_{key.upper()}": value for key, value in given.items() if value is not None}
    if no_doorbell:
        environ["BATCHQ_DOORBELL"] = "off"
    settings = Settings.from_env({**os.environ, **environ})
    service.run_worker(chosen_dsn(dsn), settings, name=name)


@main.command("demo", epilog=EPILOG)
@dsn_option
@plain_errors
def demo_command(*, dsn: str | None) -> None:
    """Watch real jobs go through a real PostgreSQL, with a worker killed in the middle.

    Starts an embedded server, or uses --dsn or DATABASE_URL; works in a database of its own,
    batchq_demo, which is made anew.
    """
    from rich.console import Console

    from pybatchq import demo

    try:
        fine = asyncio.run(demo.run(Console(), dsn or Settings.from_env().database_url))
    except demo.DemoError as error:
        raise CliError(str(error)) from error
    if not fine:
        raise CliError("the demo lost jobs or finished some twice: please report this")


@main.command("version", epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def version_command(*, as_json: bool) -> None:
    """Print the versions of this client."""
    versions = {
        "batchq": __version__,
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
    }
    if as_json:
        click.echo(json.dumps(versions))
    else:
        click.echo("\n".join(f"{name} {version}" for name, version in versions.items()))


def _one_line(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or str(error)).split())
