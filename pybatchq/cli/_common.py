"""What every command shares: exit codes, errors of one line, the connection, the shape of help."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import IO, Any, Final, ParamSpec, TypeVar

import click
import psycopg
from psycopg.conninfo import conninfo_to_dict

from pybatchq.embedded import EmbeddedError
from pybatchq.errors import BatchqError, InvalidArgumentError
from pybatchq.install import InstallError
from pybatchq.settings import Settings, SettingsError
from pybatchq.words import visible

P = ParamSpec("P")
R = TypeVar("R")

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_TIMED_OUT: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
CONNECT_TIMEOUT_S = 10

EXIT_CODES = """\b
Exit codes:
  0  done
  1  it failed; the message says why
  2  wrong usage: an option, an argument, a value of one (JQ001), a setting
  3  the database cannot be reached
"""
ALL_EXIT_CODES = (
    EXIT_CODES
    + """\
  4  wait: the time was over; worker, dev: jobs were cut short, handed back
  5  worker, dev: handlers did not stop; the leases of their jobs will run out
  130  Ctrl-C
"""
)
DSN_HELP = "The server, as URL or key=value string; default: the variable DATABASE_URL."
NO_DATABASE_HINT = "`batchq dev` and `batchq demo` need no server: they start an embedded one"
NO_RIGHTS_HINT = (
    "grant this user one of batchq_producer, batchq_worker, batchq_operator, batchq_monitor"
)

INSTALL_HINT = (
    "to install takes the right CREATE on this database (grant create on database ... to ...); to"
    " upgrade or uninstall, the user who installed it, or a superuser"
)


class CliError(click.ClickException):
    """Ends the command with one line on stderr, a hint below it, and an exit code."""

    def __init__(
        self, message: str, *, hint: str | None = None, exit_code: int = EXIT_FAILED
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class

    def show(self, file: IO[str] | None = None) -> None:
        click.echo(visible(f"batchq: {self.message}", lines=True), err=True, file=file)
        if self.hint is not None:
            click.echo(visible(f"hint: {self.hint}", lines=True), err=True, file=file)


def as_cli_error(error: Exception) -> CliError | None:
    """What a user reads of an error that a user can cause; None for a bug of ours."""
    match error:
        case CliError():
            return error
        case SettingsError():
            return CliError(str(error), exit_code=EXIT_USAGE)
        case BatchqError():
            message = f"{without_statement(str(error))} ({error.code})"
            is_usage = isinstance(error, InvalidArgumentError)
            exit_code = EXIT_USAGE if is_usage else EXIT_FAILED
            return CliError(message, hint=error.hint, exit_code=exit_code)
        case InstallError() | EmbeddedError():
            is_refused = isinstance(error.__cause__, psycopg.errors.InsufficientPrivilege)
            hint = INSTALL_HINT if is_refused else None
            return CliError(str(error), hint=getattr(error, "hint", None) or hint)
        case psycopg.Error():
            return _said_by_database(error)
    return None


def _said_by_database(error: psycopg.Error) -> CliError:
    if is_lost(error):
        message = f"the connection to the database was lost: {one_line(error)}"
        return CliError(message, exit_code=EXIT_UNREACHABLE)
    hint = error.diag.message_hint
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = hint or NO_RIGHTS_HINT
    return CliError(one_line(error), hint=hint)


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Errors a user can cause become a CliError; those left are bugs and keep their traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except Exception as error:
            shown = as_cli_error(error)
            if shown is None or shown is error:
                raise
            raise shown from error

    return wrapped


def is_lost(error: psycopg.Error) -> bool:
    """Whether it was the connection that failed, not the statement."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))


async def connect(
    dsn: str, *, autocommit: bool = True, timeout_s: int = CONNECT_TIMEOUT_S
) -> psycopg.AsyncConnection[tuple[Any, ...]]:
    """A connection; CliError with exit code 3 when the server cannot be reached."""
    try:
        timeout = conninfo_to_dict(dsn).get("connect_timeout", timeout_s)
        return await psycopg.AsyncConnection.connect(
            dsn, autocommit=autocommit, connect_timeout=timeout, application_name="batchq"
        )
    except psycopg.ProgrammingError as error:
        message = "this is no connection string (not shown here: it may hold a password)"
        raise CliError(message, exit_code=EXIT_USAGE) from error
    except psycopg.OperationalError as error:
        raise CliError(
            f"the database cannot be reached: {one_line(error)}",
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


def confirm(question: str) -> None:
    """CliError unless the answer is yes. Not for inside an event loop, which takes Ctrl-C away."""
    try:
        yes = click.confirm(question, err=True)
    except click.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        click.echo(err=True)  # Ctrl-D leaves the cursor behind the question
        yes = False
    if not yes:
        raise CliError("nothing was done")


def one_line(error: psycopg.Error) -> str:
    return " ".join((error.diag.message_primary or without_statement(str(error))).split())


def without_statement(message: str) -> str:
    """Without the `LINE 1: …` that psycopg shows below, which is a statement of ours."""
    return message.partition("\nLINE ")[0]


def command(
    name: str, *examples: str, exit_codes: str = EXIT_CODES
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command that reports errors plainly; its help ends with examples and exit codes."""
    shown = "\b\nExamples:\n" + "".join(f"  {line}\n" for line in examples) + "\n"
    epilog = (shown if examples else "") + exit_codes

    def make(function: Callable[..., Any]) -> click.Command:
        return click.command(name, epilog=epilog)(plain_errors(function))

    return make


dsn_option = click.option("--dsn", metavar="DSN", help=DSN_HELP)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
