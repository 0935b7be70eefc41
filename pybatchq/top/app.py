"""The application of `batchq top`."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from pybatchq.live import Live
from pybatchq.top.dialogs import Reader
from pybatchq.top.feed import Feed
from pybatchq.top.overview import Overview
from pybatchq.top.page import Page

HELP = """\
arrows, j, k     move; PgUp, PgDn, Home, End, g, G as well
Tab              to the next table
Enter            open the queue, the job, the newest job of an error
q, Escape        back; q on the first page ends
Ctrl-C           end, wherever you are

first page
  /              only queues with this in their name; Escape shows all again
  s, S           sort by the next column, the column before
  a              all alerts, whole
  o              open a job by its number or UUID
  p              pause the queue, or resume it
a queue
  p              pause it, or resume it
  r              redrive the dead letters of an error
  u              read its errors and jobs again
a job
  c              cancel it, or ask it to stop
  r              retry it: a dead letter becomes pending again
  u              read it again

Depths, rates, alerts, workers and the state of the job you look at are asked for once a \
second, or as --every says. DRAIN: how long until the queue is empty, as things go now. IN/S, \
OUT/S: jobs a second that came, and that are over in any way, in the last whole minute."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Top(App[None]):
    """Shows `first` at once, then what the feed brings. `where`: the database, in a word."""

    CSS_PATH = "top.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        # also where a field is typed in, which would take it for copying
        Binding("ctrl+c", "quit", show=False, priority=True),
        # after those of the page
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("q", "out", "back/quit"),
        Binding("escape", "out_of_page", show=False),
    ]

    def __init__(self, dsn: str, first: Live, *, where: str, every_s: float) -> None:
        # the terminal's own colours: readable on dark ones and on light ones
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.feed = Feed(dsn, first, every_s=every_s, changed=self._changed)
        self._where = where
        # what is written to stderr would be drawn over
        for name in ("pybatchq", "psycopg"):
            logging.getLogger(name).addHandler(logging.NullHandler())

    async def on_mount(self) -> None:
        await self.push_screen(Overview(self.feed, self._where))
        self.run_worker(self.feed.run(), group="feed")
        if not self.is_headless:
            for number in SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self.exit)

    def _changed(self) -> None:
        """Pages below are drawn when they come back."""
        pages = [screen for screen in self.screen_stack if isinstance(screen, Page)]
        if pages:
            pages[-1].changed()

    def action_out(self) -> None:
        """From the first page there is no way back but out."""
        if isinstance(self.screen, Overview):
            self.exit()
        else:
            self.screen.dismiss()

    def action_out_of_page(self) -> None:
        if not isinstance(self.screen, Overview):
            self.screen.dismiss()

    def action_help(self) -> None:
        self.push_screen(Reader("Keys", Text(HELP)))
