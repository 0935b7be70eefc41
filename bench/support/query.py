"""Asking PostgreSQL for one number."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from bench.support.model import BenchError


def number(conn: psycopg.Connection, query: str, arguments: Sequence[object] = ()) -> int:
    """The one number that a query gives. BenchError if it gives none."""
    row = conn.execute(query.encode(), arguments or None).fetchone()
    if row is None or row[0] is None:
        raise BenchError(f"no answer to {query}")
    return int(row[0])


def scalar(dsn: str, query: str) -> int:
    """The same over a connection of its own."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        return number(conn, query)
