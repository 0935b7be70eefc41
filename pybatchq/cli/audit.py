"""`batchq audit`: what operators did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from pybatchq import calls
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import Cell, Column, Rows, cell, note
from pybatchq.types import AuditEntry
from pybatchq.words import age

COLUMNS = (
    Column("AGO", 10, justify="right"),
    Column("ACTOR", 8, least=8),
    Column("ACTION", 9),
    Column("TARGET", 7, least=10),
    Column("DETAILS", 5, least=12),
)


@command(
    "audit",
    "batchq audit",
    "batchq audit --target 'queue mail' -n 20",
    "batchq audit --json | jq 'select(.action == \"purge\")'",
)
@click.option("--target", metavar="TARGET", help="Of one: 'queue mail', 'job 7', 'token shop'.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=100, metavar="N",
              help="How many. [default: 100]")  # fmt: skip
@click.option("--before", type=click.IntRange(1), metavar="ID", help="The next page: older ones.")
@json_option
@dsn_option
def audit(
    *, target: str | None, limit: int, before: int | None, as_json: bool, dsn: str | None
) -> None:
    """List what operators did in the last 90 days, newest first.

    ACTOR: the token, of what was done over HTTP; else the database's user.
    """
    with Database(dsn) as db:
        found = db.call(calls.list_audit, n=limit, before_id=before, target=target)
        Rows[AuditEntry](COLUMNS, lambda entry: row(entry, db.now()), as_json=as_json).print(found)
        if not found:
            note("nothing was done")
        elif len(found) == limit and not as_json:
            note(f"more: batchq audit --before {found[-1].audit_id}")


def row(entry: AuditEntry, now: datetime) -> Sequence[Cell]:
    details = None if entry.details is None else entry.details.decode()
    return (
        cell(age(entry.at, now)), cell(entry.actor), cell(entry.action), cell(entry.target),
        cell(details),
    )  # fmt: skip
