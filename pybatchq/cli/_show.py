"""How things are printed: tables for people, tab-separated lines in a pipe, JSON for programs.

Nothing that comes out of the database reaches a terminal raw: control characters are escaped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import click
import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pybatchq.words import iso, visible

T = TypeVar("T", bound=msgspec.Struct)

GAP = 2
STYLES = {
    "running": "yellow", "completed": "green", "failed": "bold red", "cancelled": "dim",
    "paused": "yellow",
}  # fmt: skip


def is_terminal(*, err: bool = False) -> bool:
    return (sys.stderr if err else sys.stdout).isatty()


def console(*, err: bool = False) -> Console:
    """Colours, cursor movement and cutting to width on a terminal only."""
    return Console(
        file=sys.stderr if err else sys.stdout,
        force_terminal=is_terminal(err=err),
        # rich's own NO_COLOR leaves bold and dim
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        markup=False,
        highlight=False,
        emoji=False,
    )


def note(text: str) -> None:
    """A line on stderr, beside what was asked for."""
    click.echo(visible(text, lines=True), err=True)


def stamp(at: datetime) -> str:
    """Local time for people, ISO in UTC for programs."""
    if not is_terminal():
        return iso(at)
    try:
        return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError):
        return iso(at)


def plain(value: Any) -> Any:
    """As JSON: times as ISO text in UTC, durations as seconds, stored JSON as it is stored."""
    match value:
        case datetime():
            return iso(value)
        case timedelta():
            seconds = value.total_seconds()
            return int(seconds) if seconds.is_integer() else seconds
        case bytes():
            return msgspec.Raw(value)
        case msgspec.Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return value


def as_json(value: Any) -> str:
    """One line of JSON of a struct or a dict."""
    fields = {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else plain(value)
    return visible(msgspec.json.encode(fields).decode())


def pretty_json(data: bytes) -> str:
    """Stored JSON over several lines, its numbers digit by digit as they are stored."""
    return visible(_formatted(data, 2).decode(), lines=True)


def one_line_json(data: bytes) -> str:
    return visible(_formatted(data, 0).decode())


def _formatted(data: bytes, indent: int) -> bytes:
    """As it is stored where it is nested too deeply to be laid out."""
    try:
        return msgspec.json.format(data, indent=indent)
    except RecursionError:
        return data


@dataclass(frozen=True, slots=True)
class Column:
    """`keep`: on a narrow terminal the column of the lowest goes first.

    `least`: it may be cut to this width; None: it is shown whole or not at all.
    """

    title: str
    keep: int
    least: int | None = None
    justify: Literal["left", "right"] = "left"


class Cell(NamedTuple):
    text: str
    style: str = ""


def cell(value: object, style: str = "") -> Cell:
    return Cell("" if value is None else visible(str(value)), style)


class Rows(Generic[T]):
    """Prints records as they come, page after page: a table, tab-separated lines or JSON lines.

    A table's columns keep the widths of its first page unless a later one needs more. `at`: for
    programs, a field `at` comes first, with the time at which a page was printed.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        shown: Callable[[T], Sequence[Cell]],
        *,
        as_json: bool,
        at: Callable[[], datetime] | None = None,
    ) -> None:
        self._columns = columns
        self._shown = shown
        self._as_json = as_json
        self._at = at
        self._natural = [cell_len(column.title) for column in columns]
        self._begun = False

    def print(self, records: Sequence[T]) -> None:
        if self._as_json:
            first = self._first()
            for record in records:
                click.echo(as_json(first | msgspec.structs.asdict(record)))
        elif is_terminal():
            if records or not self._begun:
                screen = console()
                screen.print(self.table(records, screen.width))
        elif records:
            self._print_lines(records)
        self._begun = True

    def _print_lines(self, records: Sequence[T]) -> None:
        first = self._first()
        if not self._begun:
            click.echo("\t".join([*first, *records[0].__struct_fields__]))
        for record in records:
            values = first | msgspec.structs.asdict(record)
            click.echo("\t".join(map(_field, values.values())))

    def _first(self) -> dict[str, Any]:
        return {} if self._at is None else {"at": self._at()}

    def table(self, records: Sequence[T], width: int) -> Table:
        rows = [self._shown(record) for record in records]
        for row in rows:
            lengths = (cell_len(one.text) for one in row)
            self._natural = [max(pair) for pair in zip(self._natural, lengths, strict=True)]
        widths = fit(self._columns, self._natural, width)
        table = Table(
            box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=not self._begun,
            header_style="bold",
        )  # fmt: skip
        for index, size in widths:
            column = self._columns[index]
            table.add_column(
                column.title, justify=column.justify, width=size, no_wrap=True, overflow="ellipsis"
            )
        for row in rows:
            table.add_row(*(Text(row[i].text, style=row[i].style) for i, _ in widths))
        return table


def fit(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[tuple[int, int]]:
    """Which columns fit into this width, by place, and how wide each is. `natural`: uncut."""
    least = [
        n if column.least is None else min(n, max(column.least, len(column.title)))
        for n, column in zip(natural, columns, strict=True)
    ]
    kept = sorted(range(len(columns)), key=lambda i: -columns[i].keep)
    while len(kept) > 1 and _total(least[i] for i in kept) > width:
        kept.pop()
    sizes = {i: least[i] for i in kept}
    spare = width - _total(sizes.values())
    while spare > 0 and (cut := [i for i in kept if sizes[i] < natural[i]]):
        for i in cut[:spare]:
            sizes[i] += 1
        spare -= len(cut)
    return sorted(sizes.items())


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + GAP * (len(sizes) - 1)


def _field(value: Any) -> str:
    """A value in a line of a pipe: whole, and without a tab or line end of its own."""
    match value:
        case None:
            text = ""
        case list() | tuple():
            text = ",".join(map(_field, value))
        case bool():
            text = str(value).lower()
        case bytes():
            text = value.decode()
        case _:
            text = str(plain(value))
    return visible(text)
