"""`batchq token create`, `list` and `revoke`: who may use the HTTP API."""

from __future__ import annotations

import hashlib
import secrets
import typing
from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from pybatchq import calls
from pybatchq.cli._common import EXIT_CODES, CliError, command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import Cell, Column, Rows, cell, note
from pybatchq.cli._values import DURATION
from pybatchq.types import Scope, TokenInfo
from pybatchq.words import age, span

PREFIX = "bq_"
SCOPES = typing.get_args(Scope)
COLUMNS = (
    Column("TOKEN", 10, least=12),
    Column("SCOPES", 9),
    Column("QUEUES", 8, least=12),
    Column("CREATED", 3, justify="right"),
    Column("EXPIRES", 5, justify="right"),
)


EPILOG = (
    """\b
Examples:
  batchq token create shop --scope produce
  batchq token list

"""
    + EXIT_CODES
)


@click.group(epilog=EPILOG)
def token() -> None:
    """Make, list and revoke tokens of the HTTP API.

    An API on 127.0.0.1 is open until there is one; any other refuses until then.
    """


@command(
    "create",
    "batchq token create shop --scope produce --queue mail",
    "batchq token create dashboard --scope monitor --scope operate --expires 90d",
)
@click.argument("name")
@click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, required=True,
              help="What it is for; may be given several times.")  # fmt: skip
@click.option("--queue", "queues", metavar="QUEUE", multiple=True,
              help="The only queues it is for. [default: all]")  # fmt: skip
@click.option("--expires", type=DURATION, metavar="TIME", help="When it ends. [default: never]")
@dsn_option
def create(
    *,
    name: str,
    scopes: tuple[Scope, ...],
    queues: tuple[str, ...],
    expires: timedelta | None,
    dsn: str | None,
) -> None:
    """Make a token and print its secret, this once.

    produce: add and cancel jobs. work: lease and settle. operate: retry, redrive, purge, pause, set
    queues. monitor: look, which the others may, too.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    with Database(dsn) as db:
        db.call(
            calls.create_token,
            name=name,
            secret_hash=hashlib.sha256(secret.encode()).digest(),
            scopes=list(dict.fromkeys(scopes)),
            queues=list(dict.fromkeys(queues)) or None,
            expires_at=None if expires is None else db.now() + expires,
        )
    click.echo(secret)
    note("keep it: the database knows its hash only")


@command("list", "batchq token list", "batchq token list --json")
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those revoked lately.")
@json_option
@dsn_option
def list_tokens(*, everyone: bool, as_json: bool, dsn: str | None) -> None:
    """List the tokens."""
    with Database(dsn) as db:
        found = [one for one in db.call(calls.list_tokens) if everyone or one.revoked_at is None]
        if found:
            Rows[TokenInfo](COLUMNS, lambda t: row(t, db.now()), as_json=as_json).print(found)
        else:
            note("no tokens")


@command("revoke", "batchq token revoke shop")
@click.argument("name")
@dsn_option
def revoke(*, name: str, dsn: str | None) -> None:
    """End a token for good.

    An API that has just asked for it may take it for 5 s more.
    """
    with Database(dsn) as db:
        if not db.call(calls.revoke_token, name=name):
            raise CliError(f"there is no token {cell(name).text}", hint="see: batchq token list")
    click.echo(f"token {cell(name).text} is revoked.")


def row(info: TokenInfo, now: datetime) -> Sequence[Cell]:
    ends, style = "", ""
    if info.revoked_at is not None:
        ends, style = "revoked", "dim"
    elif info.expires_at is not None:
        left = info.expires_at - now
        ends = f"in {span(left)}" if left > timedelta() else "expired"
        style = "" if left > timedelta() else "red"
    return (
        cell(info.name), cell(",".join(info.scopes)), cell(",".join(info.queues or ())),
        cell(age(info.created_at, now)), cell(ends, style),
    )  # fmt: skip


for _command in (create, list_tokens, revoke):
    token.add_command(_command)
