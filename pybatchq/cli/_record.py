"""One job with everything about it, on a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from pybatchq.cli._show import STYLES, console, is_terminal, one_line_json, pretty_json, stamp
from pybatchq.types import JobRecord
from pybatchq.words import age, first_line, span, visible

LABEL = 12
INDENT = 2
MOST_LINES = 30


class Failure(msgspec.Struct, frozen=True):
    """An entry of a job's errors."""

    attempt: int
    failed_at: datetime
    error: str | None = None
    worker: str | None = None


def show(job: JobRecord, now: datetime, *, full: bool, notice: str | None) -> None:
    page = _Page(console(), full=full)
    failures = msgspec.json.decode(job.errors, type=list[Failure])
    status = job.status if job.state in {job.status, "leased"} else f"{job.status} ({job.state})"
    page.line(
        Text.assemble(
            (f"job {job.id}", "bold"), "  ", visible(job.kind), "  ",
            (status, STYLES.get(job.status, "")),
        )
    )  # fmt: skip
    for label, value in facts(job, failures, now):
        page.fact(label, value)
    if notice is not None:
        page.fact("NOTE", visible(notice))
    page.block("payload", pretty_json(job.payload))
    if job.result is not None:
        page.block("result", pretty_json(job.result))
    for failure in failures:
        by = f" by {visible(failure.worker)}" if failure.worker else ""
        when = f"{stamp(failure.failed_at)}, {age(failure.failed_at, now)} ago{by}"
        title = f"attempt {failure.attempt} failed {when}"
        page.block(title, visible(failure.error or "", lines=True))
    page.heading("timeline")
    for at, event in timeline(job, failures):
        page.text(f"{stamp(at)}  {event}")


def facts(job: JobRecord, failures: list[Failure], now: datetime) -> Iterator[tuple[str, str]]:
    yield "uuid", str(job.uuid)
    yield "queue", visible(job.queue)
    yield "priority", str(job.priority)
    yield "attempts", f"{job.attempts} of {job.max_attempts}"
    optional: tuple[tuple[str, Any], ...] = (
        ("group key", job.group_key and visible(job.group_key)),
        ("dedupe key", job.dedupe_key and visible(job.dedupe_key)),
        ("timeout", job.timeout and span(job.timeout)),
        ("headers", job.headers and one_line_json(job.headers)),
        ("locked by", job.locked_by and visible(job.locked_by)),
        ("locked until", job.locked_until and _relative(job.locked_until, now)),
        ("progress", job.progress and one_line_json(job.progress)),
        ("last error", job.last_error and visible(_last_error(job.last_error, failures))),
    )
    yield "created", _relative(job.created_at, now)
    if job.finished_at is None:
        yield "run at", _relative(job.run_at, now)
    yield from ((label, value) for label, value in optional if value)


def _last_error(text: str, failures: list[Failure]) -> str:
    """Its first line where an attempt below has the whole; a reason to cancel is nowhere else."""
    if any(failure.error == text for failure in failures):
        return first_line(text)
    return " ".join(text.split())


def _relative(at: datetime, now: datetime) -> str:
    return f"{stamp(at)} ({f'in {span(at - now)}' if at > now else f'{age(at, now)} ago'})"


def timeline(job: JobRecord, failures: list[Failure]) -> list[tuple[datetime, str]]:
    """What happened when, earliest first."""
    events: list[tuple[datetime | None, str]] = [
        (job.created_at, "created"),
        (job.run_at if job.run_at > job.created_at else None, "due"),
        *((f.failed_at, f"attempt {f.attempt} failed") for f in reversed(failures)),
        (job.started_at, f"attempt {job.attempts} started"),
        (job.cancel_requested_at, "asked to stop"),
        (job.finished_at, job.status),
    ]
    known = [(at, event) for at, event in events if at is not None]
    return sorted(known, key=lambda known_event: known_event[0])


class _Page:
    """Lines that are folded to a terminal's width with their indent, and left alone in a pipe."""

    def __init__(self, screen: Console, *, full: bool) -> None:
        self._console = screen
        self._full = full
        self._folds = is_terminal()

    def line(self, text: Text) -> None:
        if self._folds:
            self._console.print(text)
        else:
            click.echo(text.plain)

    def heading(self, title: str) -> None:
        self.line(Text(f"\n{title}", style="bold"))

    def fact(self, label: str, value: str) -> None:
        first, *others = self._folded(value, LABEL + INDENT)
        self.line(Text.assemble((f"{label:<{LABEL + INDENT}}", "dim"), first))
        for text in others:
            self.line(Text(" " * (LABEL + INDENT) + text))

    def text(self, value: str) -> None:
        for line in self._folded(value, INDENT):
            self.line(Text(" " * INDENT + line))

    def block(self, title: str, value: str) -> None:
        self.heading(title)
        lines = [line for part in value.split("\n") for line in self._folded(part, INDENT)]
        more = 0 if self._full else len(lines) - MOST_LINES
        if more > 1:
            lines = lines[:MOST_LINES]
        self.line(Text(textwrap.indent("\n".join(lines), " " * INDENT)))
        if more > 1:
            self.line(Text(f"{' ' * INDENT}… {more:,} more lines: --full shows them", style="dim"))

    def _folded(self, value: str, indent: int) -> list[str]:
        if not self._folds:
            return [value]
        width = max(self._console.width - indent, 20)
        folded = Text(value, overflow="fold").wrap(self._console, width, tab_size=4)
        return [line.plain.rstrip() for line in folded] or [""]
