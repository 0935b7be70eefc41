"""The first page: all queues, what is wrong, who works."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from pybatchq import calls
from pybatchq.rates import WatchedQueue
from pybatchq.top import actions, words
from pybatchq.top.dialogs import Ask, Reader
from pybatchq.top.feed import Feed, Picture
from pybatchq.top.grid import Grid, Row
from pybatchq.top.job_page import JobPage
from pybatchq.top.page import Line, Page
from pybatchq.top.queue_page import QueuePage

# Of the screen's lines, one in so many at most is of alerts, of workers.
ALERTS_SHARE = 6
WORKERS_SHARE = 4
LEAST_FOR_WORKERS = 14


def _oldest(queue: WatchedQueue, at: datetime) -> float:
    return 0.0 if queue.oldest_ready_at is None else (at - queue.oldest_ready_at).total_seconds()


# By the columns' places; all but the name have the most first.
ORDERS: tuple[Callable[[WatchedQueue, datetime], Any], ...] = (
    lambda queue, _: queue.queue,
    lambda queue, _: queue.ready,
    lambda queue, _: queue.scheduled,
    lambda queue, _: queue.blocked,
    lambda queue, _: queue.leased,
    lambda queue, _: queue.dead,
    lambda queue, _: queue.enqueued_per_s or 0.0,
    lambda queue, _: queue.ended_per_s or 0.0,
    _oldest,
    # one that grows is never empty
    lambda queue, _: float("inf") if queue.drain_s is None else queue.drain_s,
)


class Overview(Page):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause/resume"),
        Binding("s", "sort(1)", "sort"),
        Binding("S", "sort(-1)", show=False),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("a", "alerts", "alerts"),
        Binding("o", "job", "open job"),
        Binding("escape", "unfilter", show=False),
    ]

    def __init__(self, feed: Feed, where: str) -> None:
        super().__init__(feed, where)
        self._sorted_by = 0
        self._part = ""

    def parts(self) -> ComposeResult:
        yield Line("alerts")
        yield Grid(words.QUEUES, empty="no queues", id="queues")
        yield Grid(words.WORKERS, empty="no workers", id="workers")
        yield Input(placeholder="part of a queue's name", id="filter", compact=True)

    def on_mount(self) -> None:
        self.query_one("#filter").display = False
        self.query_one("#queues").focus()

    def draw(self, picture: Picture) -> None:
        at = picture.live.at
        self.query_one("#alerts", Line).say(self._alerts(picture))
        queues = [q for q in picture.queues if self._part in q.queue.casefold()]
        order = ORDERS[self._sorted_by]
        is_falling = self._sorted_by > 0
        queues.sort(key=lambda queue: queue.queue)
        queues.sort(key=lambda queue: order(queue, at), reverse=is_falling)
        rows = [Row(queue.queue, words.queue_row(queue, picture)) for queue in queues]
        grid = self.query_one("#queues", Grid)
        grid.show(rows, sorted_by=self._sorted_by, falling=is_falling)
        workers = self.query_one("#workers", Grid)
        workers.display = self.size.height >= LEAST_FOR_WORKERS
        workers.styles.max_height = max(self.size.height // WORKERS_SHARE, 3)
        workers.show([Row(w.worker_id, words.worker_row(w, at)) for w in picture.live.workers])

    def _alerts(self, picture: Picture) -> Text:
        """Those there is room for, the worst first, and how many there are besides."""
        alerts = picture.live.alerts
        room = max(self.size.height // ALERTS_SHARE, 2)
        shown = alerts if len(alerts) <= room else alerts[: room - 1]
        lines = [words.alert_line(alert, picture.live.at) for alert in shown]
        if len(shown) < len(alerts):
            lines.append(Text(f"{'':<10}{len(alerts) - len(shown)} more alerts: a", style="dim"))
        return Text("\n").join(lines)

    def on_grid_chosen(self, event: Grid.Chosen) -> None:
        if event.grid.id == "queues":
            self.app.push_screen(QueuePage(self.feed, self.where, str(event.key)))

    def action_pause(self) -> None:
        queue = self.query_one("#queues", Grid).chosen
        if queue is not None:
            self.do(partial(actions.pause_or_resume, self, str(queue)))

    def action_sort(self, places: int) -> None:
        self._sorted_by = (self._sorted_by + places) % len(ORDERS)
        self.changed()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_unfilter(self) -> None:
        """Also what Escape does in the field."""
        self.query_one("#filter", Input).value = ""
        self._leave_field()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._part = event.value.casefold()
        self.changed()

    def on_input_submitted(self) -> None:
        self._leave_field()

    def _leave_field(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = bool(field.value)
        self.query_one("#queues").focus()

    def action_alerts(self) -> None:
        picture = self.feed.picture
        lines = [words.alert_line(alert, picture.live.at) for alert in picture.live.alerts]
        text = Text("\n").join(lines or [Text("none")])
        self.app.push_screen(Reader("Alerts", text))

    def action_job(self) -> None:
        self.do(self._open_job)

    async def _open_job(self) -> None:
        asked = Ask("Which job?", "open", field="its number or UUID")
        named = await self.app.push_screen_wait(asked)
        if named:
            job_id = await self.feed.call(calls.job_id, job=named)
            await self.feed.call(calls.get_job, job_id=job_id)  # JobNotFoundError
            await self.app.push_screen(JobPage(self.feed, self.where, job_id))
