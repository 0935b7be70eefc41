"""The demo's handler: one Python source file a job, and a ledger of its own as the witness.

`start` rows commit at once. The `finish` row, the handler's own result and the job's completion are
one transaction on the handler's own connection, so a worker that is killed in between leaves all of
them or none: this is how a job that may run twice takes effect once.
"""

from __future__ import annotations

import ast
import hashlib
import os
import threading
import warnings
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pybatchq.handlers import handler
from pybatchq.job import Job

SCHEMA = """
create table file (
    path text primary key, functions integer not null, classes integer not null,
    bytes integer not null, sha256 text not null, note text);
create table ledger (
    at timestamptz not null default clock_timestamp(), event text not null,
    job_id bigint not null, attempt integer not null, process integer not null);
"""
LEDGER = "insert into ledger (event, job_id, attempt, process) values (%s, %s, %s, %s)"
FILE = "insert into file values (%s, %s, %s, %s, %s, %s)"

_local = threading.local()


@handler("count_definitions")
def count_definitions(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Parse one file and count what it defines. Fails as often as its payload asks for."""
    conn = _connection()
    conn.execute(LEDGER, ("start", job.id, job.attempt, os.getpid()))
    if job.attempt <= payload.get("fail_first", 0):
        raise ValueError(f"told to fail {payload['fail_first']} times")
    result = measure(Path(payload["path"]))
    with conn.transaction():
        conn.execute(FILE, (payload["path"], *result.values()))
        conn.execute(LEDGER, ("finish", job.id, job.attempt, os.getpid()))
        conn.execute("select batchq.complete(%s, %s, %s)", (job.id, job.lease_id, Jsonb(result)))
    return result


def measure(path: Path) -> dict[str, Any]:
    """Functions, classes, size and SHA-256 of a source file; a note if it is no valid Python."""
    source = path.read_bytes()
    functions = classes = 0
    note = None
    try:
        with warnings.catch_warnings():  # old test files are full of odd escapes
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        for node in ast.walk(tree):
            functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            classes += isinstance(node, ast.ClassDef)
    except (SyntaxError, ValueError) as error:
        note = f"not valid Python: {type(error).__name__}"
    return {
        "functions": functions,
        "classes": classes,
        "bytes": len(source),
        "sha256": hashlib.sha256(source).hexdigest(),
        "note": note,
    }


def _connection() -> psycopg.Connection[Any]:
    """One connection a thread, apart from the worker's own."""
    conn: psycopg.Connection[Any] | None = getattr(_local, "conn", None)
    if conn is None or conn.closed:
        conn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        _local.conn = conn
    return conn
