"""Many jobs from lines of JSON, in batches that are committed one by one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import select
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
import psycopg
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pybatchq import calls
from pybatchq.cli._common import EXIT_INTERRUPTED, CliError, as_cli_error
from pybatchq.cli._database import Database
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._show import console, is_terminal
from pybatchq.cli._values import checked_json
from pybatchq.errors import BatchqError, InvalidArgumentError
from pybatchq.words import counted

CHUNK = 1 << 18
LONGEST_LINE = 4 << 20
LARGEST_BATCH = 16 << 20
IDLE_S = 0.5
COMMIT_PATIENCE_S = 5.0
_PLACE = re.compile(r" \(job ([0-9]+)\)$")
MISSING = {"invalid kind: null": "kind is missing"}
_OBJECT = dict[str, msgspec.Raw]


class BadLineError(Exception):
    """A line that is no job; the text names it."""

    def __init__(self, number: int, message: str, hint: str | None = None) -> None:
        super().__init__(f"line {number}: {message}")
        self.hint = hint


@dataclass(slots=True)
class Batch:
    """Lines that go into one transaction; `last` counts blank and skipped ones too."""

    last: int
    size: int = 0
    numbers: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """How far it came.

    `lines`: so many are committed. `unsure`: the last line of a batch whose commit is not known.
    """

    lines: int = 0
    new: int = 0
    duplicates: int = 0
    unsure: int | None = None

    def told(self) -> str:
        text = counted(self.new, "new job")
        return f"{text}, {counted(self.duplicates, 'duplicate')}" if self.duplicates else text


def run(dsn: str | None, source: str, *, batch: int, skip: int, as_json: bool) -> None:
    """Enqueue the lines of a file, or of stdin for `-`."""
    tally = Tally(lines=skip)
    ended: CliError | None = None
    with _opened(source) as fd, Database(dsn, autocommit=False) as db:
        try:
            with _Bar(fd) as bar:
                for lines in _batches(fd, size=batch, skip=skip):
                    _store(db, lines, tally)
                    bar.advance(lines, tally)
        except (KeyboardInterrupt, BadLineError, BatchqError, psycopg.Error) as error:
            ended = stopped(error, tally, is_pipe=source == "-")
    if as_json:
        counts = {"lines": tally.lines, "new": tally.new, "duplicates": tally.duplicates}
        click.echo(to_json(counts))
    elif ended is None:
        click.echo(tally.told())
    if ended is not None:
        raise ended


def stopped(error: BaseException, tally: Tally, *, is_pipe: bool = False) -> CliError:
    """Why it stopped, what is in by then, and how to go on."""
    match error:
        case KeyboardInterrupt():
            click.echo(err=True)  # after the ^C of the terminal
            why = CliError("interrupted", exit_code=EXIT_INTERRUPTED)
        case BadLineError():
            why = CliError(str(error), hint=error.hint)
        case InvalidArgumentError():  # of the data, not of the command's own
            why = CliError(f"{error} ({error.code})", hint=error.hint)
        case Exception() if (shown := as_cli_error(error)) is not None:
            why = shown
        case _:
            raise error
    hints = [why.hint, _going_on(tally, is_pipe=is_pipe)]
    return CliError(
        f"{why.message}; {_committed(tally)}",
        hint="; then ".join(filter(None, hints)) or None,
        exit_code=why.exit_code,
    )


def _committed(tally: Tally) -> str:
    if tally.lines == 0 and tally.unsure is None:
        return "nothing was stored"
    told = (
        f"{counted(tally.lines, 'line')} {'was' if tally.lines == 1 else 'were'} committed before"
    )
    if tally.unsure is not None:
        told += f", and perhaps those to {tally.unsure:,}"
    return f"{told} ({tally.told()})"


def _going_on(tally: Tally, *, is_pipe: bool) -> str | None:
    """None where the same command does it."""
    again = "give the same lines again with" if is_pipe else "go on with"
    told = [f"{again} --skip {tally.lines}"] if tally.lines else []
    if tally.unsure is not None:
        told.append(f"{'' if told else again + ' '}--skip {tally.unsure} if these are in")
    return ", or ".join(told) or None


def _store(db: Database, batch: Batch, tally: Tally) -> None:
    jobs = msgspec.Raw(b"[" + b",".join(batch.texts) + b"]")
    try:
        found = db.call(calls.enqueue_many, jobs=jobs) if batch.texts else []
    except InvalidArgumentError as error:
        place = _PLACE.search(str(error))
        if place is None:
            text = f"lines {batch.numbers[0]} to {batch.numbers[-1]}: {error}"
            raise InvalidArgumentError(text, hint=error.hint) from error
        message = str(error)[: place.start()]
        message = MISSING.get(message, message)
        raise BadLineError(batch.numbers[int(place[1]) - 1], message, error.hint) from error

    def committed() -> None:
        tally.unsure = None
        tally.lines = max(batch.last, tally.lines)
        tally.new += sum(job.is_new for job in found)
        tally.duplicates += sum(not job.is_new for job in found)

    tally.unsure = batch.last
    db.call(_commit, committed)


async def _commit(conn: calls.Connection, committed: Callable[[], None]) -> None:
    """Ctrl-C in the middle of a commit waits a moment for its answer, so that it is known."""
    commit = asyncio.ensure_future(conn.commit())
    try:
        await asyncio.shield(commit)
    except asyncio.CancelledError:
        await asyncio.wait({commit}, timeout=COMMIT_PATIENCE_S)
        if commit.done() and commit.exception() is None:
            committed()
        raise
    committed()


@contextlib.contextmanager
def _opened(source: str) -> Iterator[int]:
    if source == "-":
        yield sys.stdin.fileno()
        return
    try:
        if Path(source).is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        fd = os.open(source, os.O_RDONLY)
    except OSError as error:
        raise click.UsageError(f"{source!r} cannot be read: {error.strerror}") from None
    try:
        yield fd
    finally:
        os.close(fd)


def _batches(fd: int, *, size: int, skip: int) -> Iterator[Batch]:
    """Full batches; a smaller one at the end, and when no more lines come for the moment."""
    number = 0
    batch = Batch(last=0)
    for line in _lines(fd):
        if line is not None:
            number += 1
            batch.last = number
            batch.size += len(line) + 1
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901
            if number > skip and line.strip():
                _check(line, number)
                batch.numbers.append(number)
                batch.texts.append(line)
        full = len(batch.texts) >= size or batch.size >= LARGEST_BATCH
        if full or (line is None and batch.texts):
            yield batch
            batch = Batch(last=number)
    if batch.size:
        yield batch


def _check(line: bytes, number: int) -> None:
    if len(line) > LONGEST_LINE:
        raise BadLineError(number, f"longer than {LONGEST_LINE >> 20} MiB")
    try:
        checked_json(line, kind=_OBJECT)
    except InvalidArgumentError as error:
        raise BadLineError(number, str(error), error.hint) from error


def _lines(fd: int) -> Iterator[bytes | None]:
    """Lines without their ends; None when there is nothing to read for a moment."""
    rest = b""
    while True:
        if not select.select([fd], [], [], IDLE_S)[0]:
            yield None
            select.select([fd], [], [])
        chunk = os.read(fd, CHUNK)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        if len(rest) > LONGEST_LINE:
            break
    if rest:
        yield rest


class _Bar:
    """How far it is, on a terminal: by bytes of a file, by jobs of a pipe."""

    def __init__(self, fd: int) -> None:
        self._size = os.fstat(fd).st_size or None
        columns = (
            (BarColumn(bar_width=None), DownloadColumn(), TimeRemainingColumn(compact=True))
            if self._size
            else (SpinnerColumn(), TimeElapsedColumn())
        )
        self._progress = Progress(
            TextColumn("{task.fields[jobs]}"), *columns,
            console=console(err=True), disable=not is_terminal(err=True),
        )  # fmt: skip
        self._task: TaskID | None = None

    def __enter__(self) -> _Bar:
        self._progress.start()
        self._task = self._progress.add_task("", total=self._size, jobs="0 jobs")
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def advance(self, batch: Batch, tally: Tally) -> None:
        if self._task is not None:
            jobs = counted(tally.new + tally.duplicates, "job")
            self._progress.update(self._task, advance=batch.size, jobs=jobs)
