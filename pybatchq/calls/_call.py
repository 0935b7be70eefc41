"""How a function of batchq is called: its arguments' types, its text, its errors."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

import msgspec
import psycopg
import psycopg.rows
from psycopg.types.datetime import TimestamptzBinaryLoader

from pybatchq import jsontext
from pybatchq.errors import InvalidArgumentError, translate

Connection: TypeAlias = psycopg.AsyncConnection[Any]
Ids: TypeAlias = Sequence[int]
S = TypeVar("S", bound=msgspec.Struct)

# Where a value is sent as text and read by the server as this type.
_SENT_AS = {
    "age_every": "interval",
    "backoff_base": "interval",
    "backoff_cap": "interval",
    "backoff_factor": "double precision",
    "breaker_min": "integer",
    "breaker_pause": "interval",
    "breaker_share": "double precision",
    "breaker_window": "interval",
    "concurrency": "integer",
    "created_after": "timestamptz",
    "created_before": "timestamptz",
    "dedupe_for": "interval",
    "delay": "interval",
    "delays": "interval[]",
    "dry_run": "boolean",
    "expires_at": "timestamptz",
    "fair": "boolean",
    "failed_after": "timestamptz",
    "failed_before": "timestamptz",
    "finished_before": "timestamptz",
    "group_limit": "integer",
    "group_period": "interval",
    "group_rate": "integer",
    "headers": "jsonb",
    "jobs": "jsonb",
    "lasts": "interval",
    "lease_for": "interval",
    "max_attempts": "integer",
    "max_depth": "integer",
    "max_running": "integer",
    "memory_bytes": "bigint",
    "n": "integer",
    "over": "interval",
    "payload": "jsonb",
    "per_second": "double precision",
    "permanent": "boolean",
    "permanents": "boolean[]",
    "pid": "integer",
    "priority": "integer",
    "progress": "jsonb",
    "rate": "integer",
    "rate_period": "interval",
    "reset": "boolean",
    "result": "jsonb",
    "results": "text[]::jsonb[]",
    "retry_in": "interval",
    "retry_ins": "interval[]",
    "run_at": "timestamptz",
    "running": "integer",
    "secret_hash": "bytea",
    "secret_hashes": "bytea[]",
    "session_hash": "bytea",
    "since": "interval",
    "step": "interval",
    "stopping": "boolean",
    "timeout": "interval",
    "token_hash": "bytea",
    "weight": "integer",
    "worker_id": "uuid",
}
_BIGINTS = ("job_id", "lease_id", "before_id", "after_id")
_BIGINT_LISTS = (
    "job_ids", "lease_ids", "completed_ids", "completed_leases", "failed_ids", "failed_leases",
    "released_ids", "released_leases",
)  # fmt: skip
_TEXT_LISTS = ("clear", "errors", "kinds", "queues", "scopes")
_SENT_AS.update(dict.fromkeys(_BIGINTS, "bigint"), **dict.fromkeys(_BIGINT_LISTS, "bigint[]"))
# What these take; 1.5 would be rounded, 5 taken for a text, and neither be what was meant.
_TAKES: dict[str, tuple[type, ...]] = {
    "bigint": (int,),
    "boolean": (bool,),
    "bytea": (bytes,),
    "double precision": (int, float),
    "integer": (int,),
    "interval": (timedelta, str),
    "text": (str,),
    "timestamptz": (datetime, str),
    "uuid": (UUID,),
}


async def records(conn: Connection, struct: type[S], function: str, /, **arguments: Any) -> list[S]:
    """The rows of a function as structs, by the names of their fields.

    A schema newer than this client may have more columns.
    """
    found = await rows(conn, function, select=_fields(struct), **arguments)
    return [struct(*row) for row in found]


def records_sync(
    conn: psycopg.Connection[Any], struct: type[S], function: str, /, **arguments: Any
) -> list[S]:
    """As records, for a connection without an event loop."""
    found = rows_sync(conn, function, select=_fields(struct), **arguments)
    return [struct(*row) for row in found]


@lru_cache
def _fields(struct: type[msgspec.Struct]) -> str:
    return ", ".join(struct.__struct_fields__)


async def one(conn: Connection, function: str, **arguments: Any) -> tuple[Any, ...]:
    return (await rows(conn, function, **arguments))[0]


async def rows(
    conn: Connection,
    function: str,
    *,
    select: str = "*",
    sent_as: Mapping[str, str] | None = None,
    **arguments: Any,
) -> list[tuple[Any, ...]]:
    query, values = _statement(function, select, sent_as, arguments)
    cursor = psycopg.AsyncCursor(conn, row_factory=psycopg.rows.tuple_row)
    _adapt(cursor)
    with _translating():
        await cursor.execute(query, values)
        return await cursor.fetchall()


def rows_sync(
    conn: psycopg.Connection[Any], function: str, *, select: str = "*", **arguments: Any
) -> list[tuple[Any, ...]]:
    """As rows, for a connection without an event loop."""
    query, values = _statement(function, select, None, arguments)
    cursor = psycopg.Cursor(conn, row_factory=psycopg.rows.tuple_row)
    _adapt(cursor)
    with _translating():
        return cursor.execute(query, values).fetchall()


def _statement(
    function: str, select: str, sent_as: Mapping[str, str] | None, arguments: Mapping[str, Any]
) -> tuple[bytes, list[Any]]:
    required = _required(function)
    given = {k: v for k, v in arguments.items() if v is not None or k in required}
    for name, value in given.items():
        _check(name, value)
    query = _query(function, select, tuple(given), tuple((sent_as or {}).items()))
    values = [
        _array(value) if name in _BIGINT_LISTS and value is not None else value
        for name, value in given.items()
    ]
    return query, values


def _adapt(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> None:
    cursor.format = psycopg.pq.Format.BINARY
    cursor.adapters.register_loader("timestamptz", _FarTime)
    jsontext.raw_json(cursor.adapters)


class _translating:  # noqa: N801  # quicker than a generator, and every call has one
    """What the database raises comes out as batchq's own error, if it is one."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeEncodeError):
            raise InvalidArgumentError(f"a text is no Unicode text: {error}") from None
        if isinstance(error, psycopg.Error):
            translated = translate(error)
            if translated is not None:
                raise translated from error


@lru_cache(maxsize=1024)
def _query(
    function: str, select: str, names: tuple[str, ...], sent_as: tuple[tuple[str, str], ...]
) -> bytes:
    """The text of a call with these arguments. Every piece is a literal of this module."""
    types = {**_SENT_AS, **dict(sent_as)}
    arguments = ", ".join(
        f"{name} => %s::{types[name]}" if name in types else f"{name} => %s" for name in names
    )
    return f"select {select} from batchq.{function}({arguments})".encode()  # noqa: S608


@lru_cache
def _required(function: str) -> frozenset[str]:
    """Arguments that are sent even when they are None, so that the database refuses them."""
    calls = importlib.import_module("pybatchq.calls")
    parameters = inspect.signature(getattr(calls, function)).parameters.values()
    return frozenset(p.name for p in parameters if p.default is p.empty)


def _check(name: str, value: Any) -> None:
    """InvalidArgumentError if a single value is of another type than its argument takes."""
    takes = _TAKES.get(_SENT_AS.get(name, "text"))
    if takes is None or value is None or name in _TEXT_LISTS:
        return
    if not isinstance(value, takes) or (isinstance(value, bool) and bool not in takes):
        wanted = " or ".join(kind.__name__ for kind in takes)
        raise InvalidArgumentError(f"{name} must be {wanted}, not {type(value).__name__}")
    _check_zone(name, value)


def _check_zone(name: str, value: Any) -> None:
    """A naive datetime would mean another instant in each session."""
    if isinstance(value, datetime) and value.tzinfo is None:
        raise InvalidArgumentError(
            f"{name} has no time zone", hint="datetime.now(UTC) has one; or give delay"
        )


class _FarTime(TimestamptzBinaryLoader):
    """Infinity and what is beyond Python's years 1 to 9999 come as the nearest datetime."""

    def load(self, data: bytes | bytearray | memoryview) -> datetime:
        try:
            return super().load(data)
        except psycopg.DataError:
            is_past = bytes(data)[0] & 0x80
            return (datetime.min if is_past else datetime.max).replace(tzinfo=UTC)  # noqa: DTZ901


def _array(ids: Ids) -> str:
    """An array of integers as text: one parameter type whatever the numbers are."""
    return "{" + ",".join(map(str, ids)) + "}"


def texts(values: Sequence[Any] | None) -> list[str | None] | None:
    if values is None:
        return None
    return [None if value is None else jsontext.encode(value) for value in values]


def spec(job: Mapping[str, Any]) -> dict[str, Any]:
    """An object of enqueue_many: a timedelta is sent as seconds, None as not given."""
    for name, value in job.items():
        _check_zone(name, value)
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in job.items()
        if value is not None
    }
