"""What the pages say, as texts for a terminal: safe, and never only by colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.text import Text

from pybatchq.cli import _settings, queues, workers
from pybatchq.cli._show import STYLES, Cell, Column, cell, one_line_json
from pybatchq.live import Alert, LiveGate, LiveJob
from pybatchq.rates import WatchedQueue
from pybatchq.top.feed import Picture
from pybatchq.types import DeadError, Gate, QueueSettings, WorkerInfo
from pybatchq.words import age, per_second, span, visible

SEVERITIES = {"critical": "bold red", "warning": "yellow", "notice": "cyan"}
# What an alert of a queue is called beside it; a pause has its reason there.
STATES = {
    "worker": "no worker", "kind": "kind without worker", "breaker": "breaker open",
    "cap": "at its cap", "rate": "at its rate", "full": "full", "dead": "new dead letters",
    "depth": "nearly full",
}  # fmt: skip
MOST_PROGRESS = 200
QUEUES = (
    Column("QUEUE", 12, least=10),
    Column("READY", 11, justify="right"),
    Column("SCHED", 4, justify="right"),
    Column("BLOCKED", 5, justify="right"),
    Column("RUN", 9, justify="right"),
    Column("DEAD", 10, justify="right"),
    Column("IN/S", 7, justify="right"),
    Column("OUT/S", 7, justify="right"),
    Column("OLDEST", 6, justify="right"),
    Column("DRAIN", 3, justify="right"),
    Column("STATE", 8, least=6),
)
# where a worker is says more here than what it works on
WORKERS = tuple(
    replace(column, keep=7, least=10) if column.title == "HOST" else column
    for column in workers.COLUMNS
)
ERRORS = (
    Column("JOBS", 10, justify="right"),
    Column("KIND", 7, least=8),
    Column("LAST", 6, justify="right"),
    Column("ERROR", 9, least=20),
)


def bar(picture: Picture, where: str, width: int) -> str:
    """The totals in a line; what does not fit is left out from the least important on."""
    total = picture.total
    alive = sum(worker.is_alive for worker in picture.live.workers)
    at = f"{picture.live.at.astimezone():%H:%M:%S}"
    waiting = 0 if total is None else total.ready + total.scheduled + total.blocked
    more = "" if total is None or total.is_exact else "+"
    parts = [
        (9, f"pending {waiting:,}{more}"),
        (8, f"running {total.leased if total else 0:,}"),
        (7, f"dead {total.dead if total else 0:,}{more}"),
        (5, f"in {per_second(total.enqueued_per_s if total else None)}/s"),
        (6, f"out {per_second(total.ended_per_s if total else None)}/s"),
        (4, f"{alive:,} worker{'' if alive == 1 else 's'}"),
        (1, visible(where)),
        (2, at),
    ]
    while len(parts) > 1 and cell_len(_joined(parts)) > width:
        parts.remove(min(parts))
    return _joined(parts)


def _joined(parts: Iterable[tuple[int, str]]) -> str:
    return "  ".join(text for _, text in parts)


def alert_line(alert: Alert, now: datetime) -> Text:
    since = "" if alert.since is None else f" (for {age(alert.since, now)})"
    return Text.assemble(
        (f"{alert.severity.upper():<8}", SEVERITIES[alert.severity]),
        f"  {visible(alert.says)}{since}",
    )


def queue_row(queue: WatchedQueue, picture: Picture) -> Sequence[Cell]:
    name, ready, scheduled, blocked, running, dead, oldest, *_ = queues.shown(
        queue, picture.live.at
    )
    drain = "-" if queue.drain_s is None else span(timedelta(seconds=queue.drain_s))
    return (
        name, ready, scheduled, blocked, running, dead, cell(per_second(queue.enqueued_per_s)),
        cell(per_second(queue.ended_per_s)), oldest, cell(drain), queue_state(queue, picture),
    )  # fmt: skip


def queue_state(queue: WatchedQueue, picture: Picture) -> Cell:
    """Whether it is paused and why, then what else is known of it."""
    found = [
        STATES.get(alert.alert, alert.alert)
        for alert in picture.live.alerts
        if alert.queue == queue.queue and alert.alert != "paused"
    ]
    if queue.paused_at is not None:
        reason = f": {queue.pause_reason}" if queue.pause_reason else ""
        found.insert(0, f"paused {age(queue.paused_at, picture.live.at)}{reason}")
    return cell(", ".join(dict.fromkeys(found)), STYLES["paused"])


def worker_row(worker: WorkerInfo, now: datetime) -> Sequence[Cell]:
    return workers.row(worker, now)


def error_row(error: DeadError, now: datetime) -> Sequence[Cell]:
    return (
        cell(f"{error.jobs:,}", STYLES["failed"]), cell(error.kind),
        cell(age(error.last_at, now)), cell(error.error or "(no text)"),
    )  # fmt: skip


def settings_line(settings: QueueSettings) -> str:
    """Those that are set, by the names of `batchq queues --settings`."""
    told = [
        f"{column.title.lower()} {one.text}"
        for column, one in zip(_settings.COLUMNS, _settings.shown(settings), strict=True)
        if one.text and column.title != "QUEUE"
    ]
    return "set: " + ("  ".join(told) or "nothing")


def gates(found: Sequence[Gate | LiveGate], now: datetime) -> str:
    """What holds it back, the nearest first, then what else is to be known."""
    holding = [gate for gate in found if gate.holds]
    others = [gate for gate in found if not gate.holds]
    return "\n".join(_gate(gate, now) for gate in (*holding, *others))


def _gate(gate: Gate | LiveGate, now: datetime) -> str:
    told = gate.says
    if gate.holds and gate.until is not None:
        told = f"{told} (in {span(gate.until - now)})"
    return ("held: " if gate.holds else "") + visible(told)


def live_line(job: LiveJob, now: datetime) -> Text:
    """How a job stands now."""
    parts = [f"attempt {job.attempts} of {job.max_attempts}"]
    if job.locked_by:
        parts.append(f"by {job.locked_by}")
    if job.started_at is not None and job.finished_at is None:
        parts.append(f"for {age(job.started_at, now)}")
    if job.locked_until is not None:
        parts.append(f"lease for another {span(job.locked_until - now)}")
    if job.cancel_requested_at is not None:
        parts.append("asked to stop")
    progress = one_line_json(bytes(job.progress))
    if progress != "null":
        parts.append(f"progress {progress[:MOST_PROGRESS]}")
    return Text.assemble(
        (job.state, STYLES.get(job.status, "bold")), "  ", visible("  ".join(parts))
    )
