"""`batchq top`: the queues live in a terminal."""

from __future__ import annotations

import sys

import click
import msgspec

from pybatchq import calls
from pybatchq.cli._common import EXIT_USAGE, CliError, chosen_dsn, command, dsn_option
from pybatchq.cli._database import Database
from pybatchq.live import Live

NO_TEXTUAL_HINT = "install it with: pip install 'pybatchq[top]'"
NO_TERMINAL_HINT = "in a pipe, use batchq stats, or batchq queues --json"


@command("top", "batchq top", "batchq top --every 5")
@click.option("--every", type=click.IntRange(1, 60), metavar="SECONDS", default=1,
              show_default=True, help="How often to look, 1 to 60.")  # fmt: skip
@dsn_option
def top(*, every: int, dsn: str | None) -> None:
    """Watch the queues live, and pause, redrive, cancel.

    Alerts, depths, rates and workers, kept up to date; a queue or a job opens with Enter. What the
    keys do is at the bottom, ? tells them all. Needs textual: pip install 'pybatchq[top]'.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        message = "top needs a terminal, for input and output"
        raise CliError(message, hint=NO_TERMINAL_HINT, exit_code=EXIT_USAGE)
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError as error:
        message = "top needs the package textual, which is not installed"
        raise CliError(message, hint=NO_TEXTUAL_HINT, exit_code=EXIT_USAGE) from error
    from pybatchq.top.app import Top

    # what is wrong from the start is said plainly, before the screen is taken
    with Database(dsn) as db:
        first, where = _first(db), db.name
    app = Top(chosen_dsn(dsn), first, where=where, every_s=every)
    app.run()
    if app.return_code:
        raise CliError("top ended by an error of its own, see above", exit_code=app.return_code)


def _first(db: Database) -> Live:
    try:
        return db.call(calls.live)
    except msgspec.ValidationError as error:
        message = "the schema does not fit this client"
        raise CliError(message, hint="run `batchq install` on this database") from error
