"""`batchq enqueue`: one job from arguments, or many from lines of JSON."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec

from pybatchq import calls
from pybatchq.cli import _import, _workforce
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._show import note
from pybatchq.cli._values import DURATION, JSON, MOMENT, NUMBER, complete_queue, one_of
from pybatchq.errors import InvalidArgumentError
from pybatchq.types import EnqueuedJob
from pybatchq.words import iso

IMPORT_ONLY = "goes with --from"
JOB_ONLY = "goes with a KIND; with --from each line says what it has"


@command(
    "enqueue",
    """batchq enqueue send_email '{"to": "ada@example.org"}'""",
    "batchq enqueue report @data.json --queue slow --delay 10m --max-attempts 5",
    "batchq enqueue bill --run-at 2030-01-31T09:00+02:00 --dedupe-key 2030-01",
    "batchq enqueue --from jobs.ndjson",
    """jq -c '{kind: "index", payload: .}' docs.json | batchq enqueue --from -""",
)
@click.argument("kind", required=False)
@click.argument("payload", required=False, type=JSON, metavar="[PAYLOAD]")
@click.option("--queue", metavar="NAME", shell_complete=complete_queue, help="[default: default]")
@click.option("--priority", type=int, metavar="N", help="Higher first. [default: 0]")
@click.option("--run-at", type=MOMENT, metavar="WHEN", help="Not before this time.")
@click.option("--delay", type=DURATION, metavar="TIME", help="Not before so long from now.")
@click.option("--max-attempts", type=int, metavar="N", help="[default: the queue's, else 3]")
@click.option("--timeout", type=DURATION, metavar="TIME", help="The longest one attempt may run.")
@click.option("--dedupe-key", metavar="KEY", help="While another job holds it, add none.")
@click.option(
    "--dedupe-scope", metavar="unfinished|pending", help="Which other jobs count.",
    shell_complete=one_of("unfinished", "pending"),
)  # fmt: skip
@click.option("--dedupe-for", type=DURATION, metavar="TIME", help="Hold the key at least so long.")
@click.option(
    "--on-duplicate", metavar="return|replace", help="replace: give the pending job this payload.",
    shell_complete=one_of("return", "replace"),
)  # fmt: skip
@click.option(
    "--backoff", metavar="exponential|fixed", help="The wait before a retry.",
    shell_complete=one_of("exponential", "fixed"),
)  # fmt: skip
@click.option("--backoff-base", type=DURATION, metavar="TIME", help="The first wait.")
@click.option("--backoff-factor", type=NUMBER, metavar="X", help="How it grows.")
@click.option("--backoff-cap", type=DURATION, metavar="TIME", help="The longest wait.")
@click.option(
    "--backoff-jitter", metavar="full|none", help="Spread the waits.",
    shell_complete=one_of("full", "none"),
)  # fmt: skip
@click.option("--group-key", metavar="KEY", help="Jobs with it share the queue's group limits.")
@click.option("--headers", type=JSON, metavar="JSON", help="An object that travels with the job.")
@click.option("--from", "source", metavar="FILE|-", help="Lines of JSON, one job each.")
@click.option("--batch", type=click.IntRange(1, 100_000), metavar="N",
              help="With --from: lines a transaction. [default: 1000]")  # fmt: skip
@click.option("--skip", type=click.IntRange(0), metavar="N",
              help="With --from: leave out the first N lines.")  # fmt: skip
@json_option
@dsn_option
def enqueue(
    *,
    kind: str | None,
    source: str | None,
    batch: int | None,
    skip: int | None,
    as_json: bool,
    dsn: str | None,
    **options: Any,
) -> None:
    """Add a job and print its id, or many from a file.

    PAYLOAD is JSON, @FILE or - for stdin. Where another job holds the dedupe key, the id is that
    job's, and stderr says so.

    With --from each line is one JSON object with the names of the options (dedupe_key, run_at, ...)
    and kind and payload; times without a zone are UTC, durations numbers of seconds or texts like
    "5 min". They are committed in batches: at a bad line or Ctrl-C you are told how many lines are
    in, and --skip goes on after them.
    """
    if source is not None:
        if kind is not None:
            raise click.UsageError("give a KIND or --from, not both: each line says its own.")
        _refuse(options, JOB_ONLY)
        _import.run(dsn, source, batch=batch or 1000, skip=skip or 0, as_json=as_json)
        return
    _refuse({"batch": batch, "skip": skip}, IMPORT_ONLY)
    if kind is None:
        raise click.UsageError("Missing argument 'KIND', or --from.")
    job = _one(dsn, {"kind": kind, **options})
    if as_json:
        click.echo(to_json({"job_id": job.job_id, "is_new": job.is_new}))
        return
    click.echo(job.job_id)
    if not job.is_new:
        note("duplicate: this job holds the dedupe key, no other was made")


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} {why}.")


def _one(dsn: str | None, options: dict[str, Any]) -> EnqueuedJob:
    """By enqueue_many, which tells a new job from a duplicate."""
    spec = {name: _sent(value) for name, value in options.items() if value is not None}
    try:
        jobs = msgspec.Raw(msgspec.json.encode([spec]))
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"a text is no Unicode text: {error}") from None
    with Database(dsn) as db:
        try:
            (job,) = db.call(calls.enqueue_many, jobs=jobs)
        except InvalidArgumentError as error:
            message = re.sub(r" \(job 1\)$", "", str(error))
            raise InvalidArgumentError(message, hint=error.hint) from error
        if job.is_new:
            _workforce.tell_if_unknown(db, options["kind"])
    return job


def _sent(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return iso(value) if isinstance(value, datetime) else value
