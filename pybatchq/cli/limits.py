"""`batchq set-queue`, `set-group` and `groups`: what is set for queues and their groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from pybatchq import calls
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import Cell, Column, Rows, cell, note
from pybatchq.cli._values import DURATION, NUMBER, complete_queue, one_of
from pybatchq.types import GroupInfo, QueueSettings
from pybatchq.words import age

C = TypeVar("C", bound=Callable[..., Any])

COLUMNS = (
    Column("GROUP", 10, least=10),
    Column("BLOCKED", 9, justify="right"),
    Column("SEATS", 8, justify="right"),
    Column("LIMIT", 7, justify="right"),
    Column("WEIGHT", 5, justify="right"),
    Column("NEXT WAITS", 6, justify="right"),
)
SETTINGS = set(QueueSettings.__struct_fields__) - {"queue", "paused_at", "pause_reason"}
NOTHING = "Nothing to set: give at least one option."


def _options(*options: Callable[[C], C]) -> Callable[[C], C]:
    """Some options as one decorator, in this order in the help."""

    def decorate(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


queue_argument = click.argument("queue", shell_complete=complete_queue)
limit_options = _options(
    click.option("--max-running", type=int, metavar="N", help="Jobs that run at once; 0 stops."),
    click.option("--rate", type=int, metavar="N", help="Jobs that start in any --rate-period."),
    click.option("--rate-period", type=DURATION, metavar="TIME", help="[default: 1s]"),
    click.option("--group-limit", type=int, metavar="N",
                 help="Jobs of one group at once; 1: one after the other, in order."),
    click.option("--group-rate", type=int, metavar="N",
                 help="Jobs of one group that start in any --group-period."),
    click.option("--group-period", type=DURATION, metavar="TIME", help="[default: 1s]"),
    click.option("--group-retry", metavar="hold|yield", shell_complete=one_of("hold", "yield"),
                 help="Whether a job keeps its place while it waits for its retry."),
    click.option("--fair/--no-fair", "fair", default=None, help="Whether groups take turns."),
    click.option("--age-every", type=DURATION, metavar="TIME",
                 help="A job that waits so long rises by one priority."),
    click.option("--max-depth", type=int, metavar="N", help="Jobs that may be ready or blocked."),
    click.option("--on-full", metavar="refuse|delay", shell_complete=one_of("refuse", "delay"),
                 help="What becomes of more than --max-depth."),
    click.option("--breaker-share", type=NUMBER, metavar="X",
                 help="Hold a kind back when this part of its attempts fails, like 0.5."),
    click.option("--breaker-min", type=int, metavar="N",
                 help="Not before so many ended. [default: 10]"),
    click.option("--breaker-window", type=DURATION, metavar="TIME",
                 help="Of this length of time. [default: 60s]"),
    click.option("--breaker-pause", type=DURATION, metavar="TIME",
                 help="Try one job after so long. [default: 30s]"),
)  # fmt: skip


@command(
    "set-queue",
    "batchq set-queue mail --max-attempts 5 --backoff-base 10s --timeout 2m",
    "batchq set-queue mail --max-running 20 --rate 100",
    "batchq set-queue mail --group-limit 1 --clear rate",
    "batchq set-queue mail --reset",
)
@queue_argument
@click.option("--max-attempts", type=int, metavar="N", help="Of jobs enqueued from now on.")
@click.option("--timeout", type=DURATION, metavar="TIME", help="Of jobs enqueued from now on.")
@click.option(
    "--lease-for",
    "--lease",
    "lease_for",
    type=DURATION,
    metavar="TIME",
    help="Of leases from now on.",
)
@click.option("--backoff", metavar="exponential|fixed", help="The wait before a retry.",
              shell_complete=one_of("exponential", "fixed"))  # fmt: skip
@click.option("--backoff-base", type=DURATION, metavar="TIME", help="The first wait.")
@click.option("--backoff-factor", type=NUMBER, metavar="X", help="How it grows.")
@click.option("--backoff-cap", type=DURATION, metavar="TIME", help="The longest wait.")
@click.option("--backoff-jitter", metavar="full|none", help="Spread the waits.",
              shell_complete=one_of("full", "none"))  # fmt: skip
@limit_options
@click.option("--clear", multiple=True, metavar="NAME", shell_complete=one_of(*sorted(SETTINGS)),
              help="Set this one to none; may be given more than once.")  # fmt: skip
@click.option("--reset", is_flag=True, default=None, help="First set all to none.")
@dsn_option
def set_queue(*, queue: str, clear: tuple[str, ...], dsn: str | None, **settings: Any) -> None:
    """Set limits of a queue, and defaults of its jobs.

    What is not named stays as it was. `batchq queues --settings` shows it.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if clear:
        given["clear"] = [name.replace("-", "_") for name in clear]
    if not given:
        raise click.UsageError(NOTHING)
    with Database(dsn) as db:
        db.call(calls.set_queue, queue=queue, **given)
        click.echo(f"queue {cell(queue).text} is set.")


@command(
    "set-group",
    "batchq set-group mail customer-7 --weight 5",
    "batchq set-group mail customer-8 --group-limit 0",
    "batchq set-group mail customer-8 --reset",
)
@queue_argument
@click.argument("key")
@click.option("--group-limit", type=int, metavar="N",
              help="Jobs of it at once, in place of the queue's limit; 0 stops it.")  # fmt: skip
@click.option("--weight", type=int, metavar="N",
              help="Its share of a round, where groups take turns. [default: 1]")  # fmt: skip
@click.option("--reset", is_flag=True, default=None, help="First set both to none.")
@dsn_option
def set_group(*, queue: str, key: str, dsn: str | None, **settings: Any) -> None:
    """Set what is different for one group of a queue.

    What is not named stays as it was. It counts where the queue limits its groups.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if not given:
        raise click.UsageError(NOTHING)
    with Database(dsn) as db:
        db.call(calls.set_group, queue=queue, group_key=key, **given)
        click.echo(f"group {cell(key).text} of queue {cell(queue).text} is set.")


@command("groups", "batchq groups mail", "batchq groups mail -n 10 --json")
@queue_argument
@click.option("-n", "--limit", type=click.IntRange(1, 10_000), metavar="N",
              help="How many. [default: 100]")  # fmt: skip
@json_option
@dsn_option
def groups(*, queue: str, limit: int | None, as_json: bool, dsn: str | None) -> None:
    """List groups of a queue, those with most blocked jobs first.

    SEATS: jobs that are ready or running, or keep their seat until their retry; LIMIT: how many
    there may be.
    """
    with Database(dsn) as db:
        found = db.call(calls.list_groups, queue=queue, n=limit)
        Rows[GroupInfo](COLUMNS, lambda group: shown(group, db.now()), as_json=as_json).print(found)
        if not found:
            note("no groups")


def shown(group: GroupInfo, now: datetime) -> Sequence[Cell]:
    more = "" if group.is_exact else "+"
    limit = None if group.group_limit is None else f"{group.group_limit:,}"
    waits = group.next_since and age(group.next_since, now)
    return (
        cell(group.group_key), cell(f"{group.blocked:,}{more}", "" if group.blocked else "dim"),
        cell(f"{group.seats:,}", "" if group.seats else "dim"), cell(limit),
        cell(group.weight, "" if group.weight != 1 else "dim"), cell(waits),
    )  # fmt: skip
