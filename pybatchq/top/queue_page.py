"""One queue: why its jobs do not run, what is set, its dead letters by error, its newest jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from pybatchq import calls
from pybatchq.cli import jobs
from pybatchq.top import actions, words
from pybatchq.top.feed import Feed, Picture
from pybatchq.top.grid import Grid, Row
from pybatchq.top.job_page import JobPage
from pybatchq.top.page import Line, Page
from pybatchq.types import DeadError
from pybatchq.words import visible

JOBS = 50
ERRORS = 50
JOB_COLUMNS = tuple(column for column in jobs.COLUMNS if column.title != "QUEUE")


class QueuePage(Page):
    """Its depths are live; the rest is read when it is opened, changed, or by `u`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause/resume"),
        Binding("r", "redrive", "redrive error"),
        Binding("u", "read", "read again"),
    ]

    def __init__(self, feed: Feed, where: str, queue: str) -> None:
        super().__init__(feed, where)
        self._queue = queue
        self._errors: list[DeadError] = []

    def parts(self) -> ComposeResult:
        yield Static("", markup=False, id="name")
        yield Line("depths")
        yield Static("", markup=False, id="gates")
        yield Line("set")
        yield Grid(words.ERRORS, empty="no dead letters", id="errors")
        yield Line("others")
        yield Grid(JOB_COLUMNS, empty="no jobs", id="jobs")

    def on_mount(self) -> None:
        self.query_one("#jobs").focus()
        self.action_read()

    def draw(self, picture: Picture) -> None:
        name = self.query_one("#name", Static)
        name.update(f"queue {visible(self._queue)}")
        queue = picture.queue(self._queue)
        depths = self.query_one("#depths", Line)
        if queue is None:
            depths.say("there is nothing of it now")
            return
        row = words.queue_row(queue, picture)
        told = zip(words.QUEUES[1:-1], row[1:-1], strict=True)
        # what is not known is not said
        text = "  ".join(f"{c.title.lower()} {one.text}" for c, one in told if one.text.strip("-"))
        depths.say(f"{row[-1].text}  {text}" if row[-1].text else text)
        depths.set_class(queue.paused_at is not None, "paused")

    def action_read(self) -> None:
        self.do(self._read, group="reading")

    async def _read(self) -> None:
        feed, queue = self.feed, self._queue
        gates = await feed.call(calls.explain_queue, queue=queue)
        settings = await feed.call(calls.get_queue, queue=queue)
        errors = await feed.call(calls.list_errors, queue=queue, n=ERRORS)
        found = await feed.call(calls.list_jobs, queue=queue, n=JOBS)
        at = await feed.call(calls.now)
        self.query_one("#gates", Static).update(words.gates(gates, at))
        self.query_one("#set", Line).say(words.settings_line(settings))
        self._errors = list(errors)
        rows = [Row(i, words.error_row(error, at)) for i, error in enumerate(errors)]
        self.query_one("#errors", Grid).show(rows)
        others = f"{errors.others:,} more dead letters were not looked at" if errors.others else ""
        self.query_one("#others", Line).say(others)
        shown = [jobs.shown(job, at) for job in found]
        place = [column.title for column in jobs.COLUMNS].index("QUEUE")
        cut = [(*cells[:place], *cells[place + 1 :]) for cells in shown]
        rows = [Row(job.id, cells) for job, cells in zip(found, cut, strict=True)]
        self.query_one("#jobs", Grid).show(rows)

    def on_grid_chosen(self, event: Grid.Chosen) -> None:
        if isinstance(key := event.key, int):
            job_id = key if event.grid.id == "jobs" else int(self._errors[key].job_ids[0])
            self.app.push_screen(JobPage(self.feed, self.where, job_id))

    def action_pause(self) -> None:
        self.do(partial(self._then_read, partial(actions.pause_or_resume, self, self._queue)))

    def action_redrive(self) -> None:
        chosen = self.query_one("#errors", Grid).chosen
        if isinstance(chosen, int):
            redrive = partial(actions.redrive, self, self._errors[chosen])
            self.do(partial(self._then_read, redrive))
        else:
            self.say("there are no dead letters here")

    async def _then_read(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await action()
        await self._read()
