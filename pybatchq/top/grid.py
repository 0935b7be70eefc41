"""A table of which one row is chosen. Only lines that are seen are drawn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pybatchq.cli._show import GAP, Cell, Column, fit

MARK = "▸"
BOLD = Style(bold=True)
DIM = Style(dim=True)
REVERSE = Style(reverse=True)


class Row(NamedTuple):
    """`key`: by which it is known again in the next picture."""

    key: Hashable
    cells: Sequence[Cell]


class Grid(ScrollView, can_focus=True):
    """Columns are cut and left out as in the tables that commands print; see Rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "open"),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-1_000_000)", show=False),
        Binding("end,G", "move(1_000_000)", show=False),
    ]

    class Chosen(Message):
        """A row was opened."""

        def __init__(self, grid: Grid, key: Hashable) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> Grid:
            return self.grid

    def __init__(self, columns: Sequence[Column], *, empty: str, id: str) -> None:  # noqa: A002
        """empty: said where there are no rows."""
        super().__init__(id=id)
        self._columns = list(columns)
        self._shown = self._columns
        self._empty = empty
        self._rows: Sequence[Row] = ()
        self._cursor = 0
        self._natural: list[int] = []
        self._measure()

    @property
    def chosen(self) -> Hashable | None:
        """The key of the row under the cursor."""
        return self._rows[self._cursor].key if self._rows else None

    def show(
        self, rows: Sequence[Row], *, sorted_by: int | None = None, falling: bool = False
    ) -> None:
        """The cursor stays on its row; at the first line it stays there."""
        key = self.chosen if self._cursor else None
        is_as_long = len(rows) == len(self._rows)
        self._rows = rows
        place = next((i for i, row in enumerate(rows) if row.key == key), self._cursor)
        self._cursor = max(min(place, len(rows) - 1), 0)
        self._shown = [
            replace(c, title=c.title + ("▼" if falling else "▲")) if i == sorted_by else c
            for i, c in enumerate(self._columns)
        ]
        self._measure()
        self.virtual_size = Size(self.size.width, len(rows) + 1)
        self._reveal()
        self.refresh(layout=not is_as_long)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return max(len(self._rows), 1) + 1

    def render_line(self, y: int) -> Strip:
        index = y - 1 + self.scroll_offset.y
        base = self.rich_style
        if y == 0:
            titles = [Cell(column.title) for column in self._shown]
            return self._strip(" ", titles, base + BOLD)
        if index < len(self._rows):
            is_here = index == self._cursor
            # where another table has the keys, the mark alone tells the row
            style = base + REVERSE if is_here and self.has_focus else base
            return self._strip(MARK if is_here else " ", self._rows[index].cells, style)
        text = f" {self._empty}" if index == 0 else ""
        return self._whole([Segment(text, base + DIM)], base)

    def on_resize(self) -> None:
        self._natural = []
        self._measure()
        self._reveal()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        index = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and index < len(self._rows):
            self.action_move(index - self._cursor)
            if event.chain == 2:
                self.action_choose()

    def action_move(self, lines: int) -> None:
        self._cursor = max(min(self._cursor + lines, len(self._rows) - 1), 0)
        self._reveal()
        self.refresh()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 2, 1))

    def action_choose(self) -> None:
        if self.chosen is not None:
            self.post_message(self.Chosen(self, self.chosen))

    def _reveal(self) -> None:
        lines = max(self.size.height - 1, 1)
        top = self.scroll_offset.y
        if self._cursor < top:
            self.scroll_to(y=self._cursor, animate=False, force=True)
        elif self._cursor >= top + lines:
            self.scroll_to(y=self._cursor - lines + 1, animate=False, force=True)

    def _measure(self) -> None:
        """Columns do not become narrower from picture to picture, or they would never rest."""
        lengths = [cell_len(column.title) for column in self._shown]
        for row in self._rows:
            lengths = [max(n, cell_len(c.text)) for n, c in zip(lengths, row.cells, strict=True)]
        before = self._natural or lengths
        self._natural = [max(pair) for pair in zip(before, lengths, strict=True)]

    def _strip(self, mark: str, cells: Sequence[Cell], base: Style) -> Strip:
        segments = [Segment(mark, base)]
        for index, width in fit(self._shown, self._natural, max(self.size.width - 1, 1)):
            if len(segments) > 1:
                segments.append(Segment(" " * GAP, base))
            text, style = cells[index]
            is_right = self._shown[index].justify == "right"
            segments.append(Segment(cut(text, width, is_right=is_right), base + Style.parse(style)))
        return self._whole(segments, base)

    def _whole(self, segments: list[Segment], base: Style) -> Strip:
        return Strip(segments).adjust_cell_length(self.size.width, base)


def cut(text: str, width: int, *, is_right: bool = False) -> str:
    """Exactly so wide, with an ellipsis where something is missing."""
    spare = width - cell_len(text)
    if spare < 0:
        return set_cell_size(text, width - 1) + "…"
    return " " * spare + text if is_right else text + " " * spare
