"""What people write on the command line: durations, times, jobs, JSON."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from click.shell_completion import CompletionItem

from pybatchq import calls
from pybatchq.cli._common import CliError, plain_errors
from pybatchq.cli._database import Database
from pybatchq.errors import InvalidArgumentError
from pybatchq.jsontext import encode
from pybatchq.types import JobSummary

_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) *(ms|s|m|h|d)")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNIT = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_ID = re.compile(r"[0-9]{1,18}")
DURATION_RULE = "write it like 500ms, 30s, 10m, 1h30m or 2d"
MOMENT_RULE = "write it with its zone, like 2030-01-31T09:00Z or 2030-01-31T09:00+02:00"
Completion = Callable[[click.Context, click.Parameter, str], list[str] | list[CompletionItem]]


def parse_duration(text: str) -> timedelta | None:
    """`30s`, `1h30m` or `45`, which is seconds; None for anything else."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        text += "s"
    parts = _PART.findall(text)
    if not parts or "".join(text.split()) != "".join(number + unit for number, unit in parts):
        return None
    try:
        return sum((timedelta(**{_UNIT[u]: float(n)}) for n, u in parts), timedelta())
    except OverflowError:
        return None


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        parsed = parse_duration(value)
        if parsed is None:
            self.fail(f"{value!r} is no length of time; {DURATION_RULE}", param, ctx)
        return parsed


class Number(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A number from `least` to `most`, neither infinite nor NaN."""

    name = "number"

    def __init__(self, least: float = -math.inf, most: float = math.inf) -> None:
        self.least = least
        self.most = most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number", param, ctx)
        if not self.least <= number <= self.most:
            self.fail(f"give a number from {self.least:g} to {self.most:,.0f}", param, ctx)
        return number


class Moment(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A point in time with its zone; with `ago` also a duration, which is that long ago."""

    name = "when"

    def __init__(self, *, ago: bool = False) -> None:
        self.ago = ago

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        if isinstance(value, datetime | timedelta):
            return value
        if self.ago and (duration := parse_duration(value)) is not None:
            return duration
        also = ", or how long ago, like 2h" if self.ago else ""
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            self.fail(f"{value!r} is no time; {MOMENT_RULE}{also}", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; {MOMENT_RULE}{also}", param, ctx)
        return moment


class Json(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """JSON text, kept as it is written; `@file` reads a file and `-` stdin."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> msgspec.Raw:
        if isinstance(value, msgspec.Raw):
            return value
        try:
            return checked_json(_read(value))
        except OSError as error:
            self.fail(f"{value[1:]!r} cannot be read: {error.strerror}", param, ctx)
        except InvalidArgumentError as error:
            hint = "" if value.startswith(("@", "-")) else """; quote it, like '{"to": "ada"}'"""
            self.fail(f"{error}{hint}", param, ctx)


def _read(value: str) -> bytes:
    if value == "-":
        return sys.stdin.buffer.read()
    if value.startswith("@"):
        with open(value[1:], "rb") as file:  # noqa: PTH123  # a path as the shell gave it
            return file.read()
    return value.encode("utf-8", "surrogateescape")


def checked_json(data: bytes, *, kind: Any = msgspec.Raw) -> msgspec.Raw:
    """JSON that PostgreSQL takes, unchanged; InvalidArgumentError says what is wrong with it."""
    try:
        data.decode()
        msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"this is no UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise InvalidArgumentError("the value is nested too deeply for JSON") from None
    except msgspec.ValidationError:
        raise InvalidArgumentError("this is JSON, but no object") from None
    except msgspec.DecodeError as error:
        raise InvalidArgumentError(f"this is no JSON: {error}") from None
    raw = msgspec.Raw(data)
    encode(raw)
    return raw


def job_ids(db: Database, jobs: Sequence[str]) -> list[int]:
    """The ids of jobs given by number or UUID, each once, in their order."""
    ids = (int(job) if _ID.fullmatch(job) else db.look(calls.job_id, job=job) for job in jobs)
    return list(dict.fromkeys(ids))


def summary(db: Database, job_id: int) -> JobSummary:
    """Where a job stands, without its payload; JobNotFoundError if there is none."""
    for job in db.look(calls.list_jobs, before_id=job_id + 1, n=1):
        if job.id == job_id:
            return job
    db.look(calls.get_job, job_id=job_id)
    raise CliError(f"job {job_id} cannot be seen")


def one_of(*values: str) -> Completion:
    """Completes to these values; whether one is right is for the database to say."""

    def complete(
        _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(value) for value in values if value.startswith(incomplete)]

    return complete


def complete_queue(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes to the names of queues, if the database tells them at once."""
    try:
        with Database(ctx.params.get("dsn"), connect_timeout_s=2) as db:
            queues = plain_errors(db.call)(calls.stats)
    except click.ClickException:
        return []
    return [CompletionItem(q.queue) for q in queues if q.queue.startswith(incomplete)]


STATUSES = ("pending", "running", "completed", "failed", "cancelled")
STATES = ("scheduled", "ready", "blocked", "leased", "completed", "failed", "cancelled")
DURATION = Duration()
MOMENT = Moment()
SINCE = Moment(ago=True)
JSON = Json()
NUMBER = Number()
queue_option = click.option(
    "--queue", metavar="NAME", shell_complete=complete_queue, help="Of this queue."
)
kind_option = click.option("--kind", metavar="KIND", help="Of this kind.")
