"""One job: how it stands now, and all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import ClassVar

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from pybatchq import calls
from pybatchq.cli._record import Failure, facts, timeline
from pybatchq.cli._show import STYLES, pretty_json, stamp
from pybatchq.top import actions, words
from pybatchq.top.feed import Feed, Picture
from pybatchq.top.page import Page
from pybatchq.types import JobRecord
from pybatchq.words import age, visible

LABEL = 14
# Of a text, and attempts of a job; `batchq job --full` has all.
MOST_LINES = 500
MOST_CHARACTERS = 50_000
MOST_FACT = 200
MOST_ATTEMPTS = 20


class JobPage(Page):
    """Its state is live; the rest is read when it is opened, its status changes, or by `u`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "cancel"),
        Binding("r", "retry", "retry"),
        Binding("u", "read", "read again"),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, feed: Feed, where: str, job_id: int) -> None:
        super().__init__(feed, where)
        self._job_id = job_id
        self._status: str | None = None

    def parts(self) -> ComposeResult:
        yield Static("", markup=False, id="name")
        yield Static("", markup=False, id="gates")
        with VerticalScroll(id="body"):
            yield Static("", markup=False, id="record")

    def on_mount(self) -> None:
        self.feed.watched.add(self._job_id)
        self.query_one("#name", Static).update(f"job {self._job_id}")
        self.query_one("#body").focus()
        self.action_read()

    def on_unmount(self) -> None:
        self.feed.watched.discard(self._job_id)

    def draw(self, picture: Picture) -> None:
        job = picture.job(self._job_id)
        if job is None or self._status is None:
            return
        head = Text.assemble((f"job {job.job_id}  ", "bold"), words.live_line(job, picture.live.at))
        self.query_one("#name", Static).update(head)
        self.query_one("#gates", Static).update(words.gates(job.gates, picture.live.at))
        if job.status != self._status:
            self._status = job.status
            self.action_read()

    def action_read(self) -> None:
        self.do(self._read, group="reading")

    async def _read(self) -> None:
        record = await self.feed.call(calls.get_job, job_id=self._job_id)
        gates = await self.feed.call(calls.explain_job, job_id=self._job_id)
        at = await self.feed.call(calls.now)
        if self._status is None:
            head = Text(f"job {record.id}  ", style="bold")
            self.query_one("#name", Static).update(
                head.append(record.state, STYLES.get(record.status, "bold"))
            )
            self.query_one("#gates", Static).update(words.gates(gates, at))
        self._status = record.status
        self.query_one("#record", Static).update(page_of(record, at))

    def action_cancel(self) -> None:
        self.do(partial(self._then_read, actions.cancel))

    def action_retry(self) -> None:
        self.do(partial(self._then_read, actions.retry))

    async def _then_read(self, action: actions.OfJob) -> None:
        await action(self, self._job_id)
        await self._read()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#body").scroll_relative(y=lines, animate=False)


def page_of(job: JobRecord, now: datetime) -> Text:
    """As `batchq job` shows it."""
    failures = msgspec.json.decode(job.errors, type=list[Failure])
    page = Text()
    for label, value in (("kind", visible(job.kind)), *facts(job, failures, now)):
        short = value if len(value) <= MOST_FACT else f"{value[:MOST_FACT]}…"
        page.append(f"{label:<{LABEL}}", "dim").append(f"{short}\n")
    for title, text in _blocks(job, failures, now):
        page.append(f"\n{title}\n", "bold").append(f"{text}\n")
    return page


def _blocks(job: JobRecord, failures: list[Failure], now: datetime) -> Iterator[tuple[str, str]]:
    yield "payload", _cut(pretty_json(job.payload))
    if job.result is not None:
        yield "result", _cut(pretty_json(job.result))
    for failure in failures[:MOST_ATTEMPTS]:
        by = f" by {visible(failure.worker)}" if failure.worker else ""
        title = f"attempt {failure.attempt} failed {stamp(failure.failed_at)}"
        ago = f", {age(failure.failed_at, now)} ago"
        yield title + ago + by, _cut(visible(failure.error or "", lines=True))
    if len(failures) > MOST_ATTEMPTS:
        yield f"{len(failures) - MOST_ATTEMPTS} more attempts failed", "batchq job has them all"
    events = timeline(job, failures)
    yield "timeline", "\n".join(f"{stamp(at)}  {event}" for at, event in events)


def _cut(text: str) -> str:
    """What a person reads; more of it would make the page slow."""
    lines = text[:MOST_CHARACTERS].split("\n")
    if len(text) <= MOST_CHARACTERS and len(lines) <= MOST_LINES:
        return text
    return "\n".join(lines[:MOST_LINES]) + "\n… cut here: batchq job --full shows all of it"
