"""The command `batchq` without a terminal: in this process, and as one of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import psycopg

from pybatchq.cli import main
from tests.support.processes import ROOT, environment

PATIENCE_S = 30
LOOK_EVERY_S = 0.02
ADD = "select job_id from batchq.enqueue_many(%s)"
FAIL = "select batchq.fail(l.job_id, l.lease_id, %s, permanent => true) from batchq.lease(%s) l"


def batchq(
    *arguments: object, dsn: str | None = None, answer: str | bytes | None = None
) -> click.testing.Result:
    """Run it here; what is no ordinary end, a traceback, is raised."""
    result = click.testing.CliRunner().invoke(
        main, [str(a) for a in arguments], input=answer, env={"DATABASE_URL": dsn}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def done(*arguments: object, dsn: str, answer: str | bytes | None = None) -> str:
    """What it prints on stdout when it ends well."""
    result = batchq(*arguments, dsn=dsn, answer=answer)
    assert result.exit_code == 0, result.output
    return result.stdout


def records(text: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


def fields(text: str) -> list[dict[str, str]]:
    """Tab-separated lines below their header."""
    header, *lines = (line.split("\t") for line in text.splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


def query(dsn: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return conn.execute(sql.encode(), values or None).fetchall()


def add(dsn: str, kind: str = "k", n: int = 1, **more: Any) -> list[int]:
    """Add jobs; their ids."""
    jobs = json.dumps([{"kind": kind, **more}] * n)
    return [job_id for (job_id,) in query(dsn, ADD, jobs)]


def complete(dsn: str, queue: str = "default") -> None:
    """Lease a job and complete it."""
    query(dsn, "select batchq.complete(job_id, lease_id) from batchq.lease(%s)", queue)


def fail(dsn: str, error: str, queue: str = "default") -> None:
    """Lease a job and make a dead letter of it."""
    query(dsn, FAIL, error, queue)


def dead(dsn: str, n: int = 1, queue: str = "default", error: str = "boom") -> list[int]:
    """Dead letters."""
    ids = add(dsn, n=n, queue=queue)
    for _ in ids:
        fail(dsn, error, queue)
    return ids


def count(dsn: str) -> int:
    """How many jobs there are."""
    return int(query(dsn, "select count(*) from batchq.jobs")[0][0])


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(LOOK_EVERY_S)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pybatchq", *map(str, arguments)]


def install_command(folder: Path) -> Path:
    """A folder for PATH with a program `batchq` in it."""
    script = folder / "bin" / "batchq"
    script.parent.mkdir()
    call = "from pybatchq.cli import main; main(prog_name='batchq')"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{call}" "$@"\n')
    script.chmod(0o755)
    return script.parent


def process(
    *arguments: object, dsn: str | None = None, answer: bytes = b"", **env: str
) -> subprocess.CompletedProcess[bytes]:
    """Run it as a process, in pipes, to its end."""
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment(dsn, **env), input=answer,
        capture_output=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def started(*arguments: object, dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with pipes on all sides; it is gone at the end, whatever happens."""
    popen = subprocess.Popen(
        command(*arguments), cwd=ROOT, env=environment(dsn, PYTHONUNBUFFERED="1"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield popen
    finally:
        popen.kill()
        popen.communicate()
