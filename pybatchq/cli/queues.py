"""`batchq queues`, `stats`, `pause` and `resume`; for settings see `limits`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from pybatchq import calls
from pybatchq.cli import _settings, _workforce
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import STYLES, Cell, Column, Rows, cell, console, is_terminal, note
from pybatchq.cli._values import DURATION, complete_queue
from pybatchq.rates import WatchedQueue, summed, watched
from pybatchq.types import QueueSettings, QueueStats
from pybatchq.words import age, per_second, span

MOST_COUNTED = 100_000
LEAST_INTERVAL = timedelta(seconds=0.1)
COLUMNS = (
    Column("QUEUE", 10, least=10),
    Column("READY", 9, justify="right"),
    Column("SCHEDULED", 7, justify="right"),
    Column("BLOCKED", 2, justify="right"),
    Column("RUNNING", 8, justify="right"),
    Column("DEAD", 8, justify="right"),
    Column("OLDEST", 6, justify="right"),
    Column("NEXT", 3, justify="right"),
    Column("PAUSED", 5, least=8),
)
# beside the others only where these need not be cut for it
WIDE = 100
WIDE_COLUMNS = (
    *COLUMNS, Column("IN/S", 4, justify="right"), Column("OUT/S", 4, justify="right"),
)  # fmt: skip
queue_argument = click.argument("queue", shell_complete=complete_queue)


@command(
    "queues",
    "batchq queues",
    "batchq queues --settings",
    "batchq queues --json | jq 'select(.dead > 0)'",
)
@click.option("--settings", is_flag=True, help="What set-queue has set, instead of depths.")
@json_option
@dsn_option
def queues(*, settings: bool, as_json: bool, dsn: str | None) -> None:
    """List the queues: depths, age of the oldest job, pauses.

    Counts stop at 100,000 a state, shown as 100,000+.
    """
    with Database(dsn) as db:
        if settings:
            Rows[QueueSettings](_settings.COLUMNS, _settings.shown, as_json=as_json).print(
                db.call(calls.list_queues)
            )
            return
        found = watched(db.call(calls.stats), db.call(calls.queue_rates))
        _rows(db, as_json=as_json).print(found)
        if not found:
            note("no queues yet")


@command("stats", "batchq stats mail", "batchq stats --watch", "batchq stats mail --watch 10s")
@click.argument("queue", required=False, shell_complete=complete_queue)
@click.option("--watch", type=DURATION, is_flag=False, flag_value="2s", metavar="[TIME]",
              help="Look again and again, every 2 s or so often; Ctrl-C ends it.")  # fmt: skip
@json_option
@dsn_option
def stats(*, queue: str | None, watch: timedelta | None, as_json: bool, dsn: str | None) -> None:
    """Show the depths of a queue, or of all and their sum.

    IN/S, OUT/S: jobs a second that came, and that are over in any way, in the last whole minute.
    In a pipe, or as JSON, --watch tells the time of each sample in a field `at`.
    """
    if watch is not None and watch < LEAST_INTERVAL:
        raise click.BadParameter("give 100ms or more", param_hint="--watch")
    with Database(dsn) as db:
        if watch is None:
            _rows(db, as_json=as_json).print(_counts(db, queue, as_json=as_json))
            return
        try:
            if is_terminal() and not as_json:
                _watch(db, queue, watch)
            else:
                rows = _rows(db, as_json=as_json, at=db.now)
                while True:
                    rows.print(_counts(db, queue, as_json=as_json))
                    time.sleep(watch.total_seconds())
        except KeyboardInterrupt:
            return


def _rows(
    db: Database, *, as_json: bool, at: Callable[[], datetime] | None = None
) -> Rows[WatchedQueue]:
    if not is_terminal() or console().width < WIDE:
        return Rows(COLUMNS, lambda q: shown(q, db.now()), as_json=as_json, at=at)
    return Rows(WIDE_COLUMNS, lambda q: (*shown(q, db.now()), *_rates(q)), as_json=as_json, at=at)


def _watch(db: Database, queue: str | None, every: timedelta) -> None:
    screen = console()
    with Live(console=screen, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while True:
            found = _counts(db, queue, as_json=False)
            table = _rows(db, as_json=False).table(found, screen.width)
            at = f"{db.now().astimezone():%H:%M:%S}, every {span(every)}; Ctrl-C ends it"
            live.update(Group(table, Text(at, style="dim", no_wrap=True)), refresh=True)
            time.sleep(every.total_seconds())


def _counts(db: Database, queue: str | None, *, as_json: bool) -> list[WatchedQueue]:
    """The queues; where people look at more than one, their sum at the end."""
    found = watched(db.look(calls.stats, queue=queue), db.look(calls.queue_rates))
    if as_json or not is_terminal() or len(found) < 2:
        return found
    return [*found, summed(found)]


def shown(stats: WatchedQueue, now: datetime) -> Sequence[Cell]:
    oldest = stats.oldest_ready_at and age(stats.oldest_ready_at, now)
    due = stats.next_run_at and (
        f"in {span(stats.next_run_at - now)}" if stats.next_run_at > now else "now"
    )
    paused = ""
    if stats.paused_at is not None:
        paused = age(stats.paused_at, now) + (
            f": {stats.pause_reason}" if stats.pause_reason else ""
        )
    return (
        cell(stats.queue), _count(stats.ready, stats), _count(stats.scheduled, stats),
        _count(stats.blocked, stats), _count(stats.leased, stats),
        _count(stats.dead, stats, STYLES["failed"]),
        cell(oldest), cell(due), cell(paused, STYLES["paused"]),
    )  # fmt: skip


def _rates(stats: WatchedQueue) -> Sequence[Cell]:
    return cell(per_second(stats.enqueued_per_s)), cell(per_second(stats.ended_per_s))


def _count(count: int, stats: QueueStats, style: str = "") -> Cell:
    more = "+" if not stats.is_exact and count >= MOST_COUNTED else ""
    return cell(f"{count:,}{more}", style if count else "dim")


@command("pause", "batchq pause mail --reason 'provider is down'")
@queue_argument
@click.option("--reason", metavar="TEXT", help="Shown to people.")
@dsn_option
def pause(*, queue: str, reason: str | None, dsn: str | None) -> None:
    """Stop leasing from a queue.

    Jobs may still be added, and those that run go on.
    """
    with Database(dsn) as db:
        _workforce.tell_if_unused(db, queue)
        db.call(calls.pause, queue=queue, reason=reason)
        click.echo(f"queue {cell(queue).text} is paused.")


@command("resume", "batchq resume mail")
@queue_argument
@dsn_option
def resume(*, queue: str, dsn: str | None) -> None:
    """Lease from a paused queue again."""
    with Database(dsn) as db:
        db.call(calls.resume, queue=queue)
        click.echo(f"queue {cell(queue).text} is open.")
