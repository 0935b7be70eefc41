"""How many jobs are changed at once: counted first, asked for, then in steps."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from pybatchq.cli._common import EXIT_INTERRUPTED, CliError, confirm
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._show import console, is_terminal
from pybatchq.words import counted

STEP = 1000
LARGEST_STEP = 10_000
QUICK_S = 0.2
MOST_COUNTED = 100_000
DEFERRED = "deferred"

Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Stepped:
    """How many jobs a step changed, by word. `last_id`: go on after it; None: that was all."""

    counts: Counts
    last_id: int | None


@dataclass(frozen=True, slots=True)
class Action:
    """`step(n, dry_run, after_id)` changes at most n jobs beyond an id, or counts them.

    `left`: why some of the named jobs are left alone; `is_refusal`: that is a failure.
    """

    name: str
    done: str
    described: str
    step: Callable[[int, bool, int | None], Stepped]
    left: str = ""
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class How:
    """`named`: how many jobs were named; 0 for all that match."""

    named: int
    dry_run: bool
    yes: bool
    per_second: float | None
    as_json: bool


def run(action: Action, how: How) -> None:
    if how.dry_run:
        _tell_matched(action, how, _matched(action))
    elif how.named:
        _named(action, how)
    else:
        _matching(action, how)


def _named(action: Action, how: How) -> None:
    counts = action.step(how.named, False, None).counts
    left = how.named - _moved(counts)
    if how.as_json:
        click.echo(to_json(dict(counts)))
    if left and action.is_refusal:
        raise CliError(f"{left} of {counted(how.named, 'job')} left alone: {action.left}")
    if not how.as_json:
        rest = f"; {left} left alone: {action.left}" if left else ""
        click.echo(f"{_told(action, counts)}{rest}")


def _matching(action: Action, how: How) -> None:
    matched = _matched(action)
    if matched == 0:
        if how.as_json:
            click.echo(to_json({action.done: 0}))
        else:
            click.echo("no jobs match")
        return
    if not how.yes:
        confirm(f"{action.name.capitalize()} {_at_least(matched)} ({action.described})?")
    done: Counter[str] = Counter({action.done: 0})
    total = matched if matched < MOST_COUNTED else None
    try:
        with _bar(action, total) as bar:
            task = bar.add_task("", total=total)
            _steps(action.step, total, how.per_second, done, lambda n: bar.update(task, advance=n))
    except KeyboardInterrupt:
        click.echo(err=True)
        told = f"interrupted; at least {_told(action, done)} before"
        raise CliError(told, exit_code=EXIT_INTERRUPTED) from None
    if how.as_json:
        click.echo(to_json({word.replace(" ", "_"): count for word, count in done.items()}))
        return
    click.echo(_told(action, done))
    if done[DEFERRED]:
        click.echo(
            f"{counted(done[DEFERRED], 'job')} held by others just then: run it again for those"
        )


def _matched(action: Action) -> int:
    """How many match, counted to a limit."""
    matched = 0
    after_id = None
    while matched < MOST_COUNTED:
        stepped = action.step(MOST_COUNTED - matched, True, after_id)
        matched += _moved(stepped.counts)
        after_id = stepped.last_id
        if after_id is None:
            break
    return matched


def _steps(
    step: Callable[[int, bool, int | None], Stepped],
    total: int | None,
    per_second: float | None,
    done: Counter[str],
    told: Callable[[int], None],
) -> None:
    """Until nothing is left, or as many are done as were counted. Larger while they are quick."""
    size = STEP if per_second is None else max(1, min(STEP, round(per_second)))
    started = time.monotonic()
    moved = 0
    after_id = None
    while total is None or moved < total:
        n = size if total is None else min(size, total - moved)
        begun = time.monotonic()
        stepped = step(n, False, after_id)
        if per_second is None and time.monotonic() - begun < QUICK_S:
            size = min(size * 2, LARGEST_STEP)
        done.update(stepped.counts)
        moved += _moved(stepped.counts)
        told(_moved(stepped.counts))
        after_id = stepped.last_id
        if after_id is None:
            break
        if per_second is not None and moved != total:
            time.sleep(max(started + moved / per_second - time.monotonic(), 0))


def _moved(counts: Counts) -> int:
    return sum(count for word, count in counts.items() if word != DEFERRED)


def _tell_matched(action: Action, how: How, matched: int) -> None:
    if how.as_json:
        click.echo(to_json({"matched": matched, "is_exact": matched < MOST_COUNTED}))
    else:
        click.echo(f"{_at_least(matched)} would be {action.done} ({action.described})")


def _at_least(count: int) -> str:
    return counted(count, "job") if count < MOST_COUNTED else f"{count:,} jobs or more"


def _told(action: Action, counts: Counts) -> str:
    """`3 cancelled, 1 asked to stop`."""
    told = [f"{n:,} {word}" for word, n in counts.items() if n and word != DEFERRED]
    return ", ".join(told) or f"0 {action.done}"


def _bar(action: Action, total: int | None) -> Progress:
    of = f" of {total:,}" if total else ""
    return Progress(
        TextColumn(action.done), BarColumn(), TextColumn("{task.completed:,.0f}" + of),
        TimeRemainingColumn(compact=True),
        console=console(err=True), disable=not is_terminal(err=True),
    )  # fmt: skip
