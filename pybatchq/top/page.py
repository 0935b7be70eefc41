"""What every page has: the line of totals, a line for trouble, the keys."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from rich.text import Text
from textual.app import App, ComposeResult
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import Footer, Static

from pybatchq.cli._common import as_cli_error
from pybatchq.top import words
from pybatchq.top.feed import Feed, Picture
from pybatchq.words import visible


class Line(Static):
    """Text of ours and of others, never markup, cut at the end of the line."""

    def __init__(self, id: str) -> None:  # noqa: A002  # as textual has it
        super().__init__("", id=id, markup=False)

    def say(self, text: str | Text) -> None:
        """Nothing to say takes no room."""
        said = Text(text) if isinstance(text, str) else text
        self.display = bool(said.plain)
        self.update(said)


class Page(Screen[None]):
    """Draws the newest picture of its feed when it is told that there is one."""

    def __init__(self, feed: Feed, where: str) -> None:
        super().__init__()
        self.feed = feed
        self.where = where
        self._is_made = False  # textual's is_mounted is true before there is anything inside

    def compose(self) -> ComposeResult:
        yield Line("bar")
        yield Line("trouble")
        yield from self.parts()
        yield Footer(compact=True, show_command_palette=False)

    def parts(self) -> ComposeResult:
        """What is between the head and the keys."""
        raise NotImplementedError

    def draw(self, picture: Picture) -> None:
        raise NotImplementedError

    def changed(self) -> None:
        """There is a new picture, or trouble, or another size."""
        if not self._is_made:
            return
        try:
            self._draw_all()
        except NoMatches:
            # textual takes a page's parts away before the page
            if self.query("#bar"):
                raise

    def _draw_all(self) -> None:
        picture = self.feed.picture
        self.query_one("#bar", Line).say(words.bar(picture, self.where, self.size.width - 2))
        trouble = self.feed.trouble
        since = f"{picture.live.at.astimezone():%H:%M:%S}"
        told = f"{trouble}; shown is {since}" if trouble else ""
        self.query_one("#trouble", Line).say(visible(told))
        self.draw(picture)

    def on_mount(self) -> None:
        """After that of the page itself: textual calls one of each class."""
        self._is_made = True
        self.changed()

    def on_screen_resume(self) -> None:
        self.changed()

    def on_resize(self) -> None:
        self.changed()

    def do(self, work: Callable[[], Coroutine[Any, Any, None]], *, group: str = "doing") -> None:
        """What a key began, of a group the last only; what a user can cause ends as a message."""

        async def told() -> None:
            try:
                with telling(self.app):
                    await work()
            except NoMatches:
                # somebody went back while it was being read
                if self in self.app.screen_stack:
                    raise

        self.run_worker(told(), group=group, exclusive=True)

    def say(self, text: str) -> None:
        self.app.notify(visible(text, lines=True), markup=False)


@contextlib.contextmanager
def telling(app: App[Any]) -> Iterator[None]:
    """Errors a user can cause are shown; those left are bugs."""
    try:
        yield
    except Exception as error:
        shown = as_cli_error(error)
        if shown is None:
            raise
        hint = f"\nhint: {shown.hint}" if shown.hint else ""
        text = visible(shown.message + hint, lines=True)
        app.notify(text, severity="error", timeout=10, markup=False)
