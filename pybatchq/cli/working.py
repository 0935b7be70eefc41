"""`batchq worker`, `dev`, `run-once`, `handlers` and `demo`: what runs jobs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from pybatchq import dev as development
from pybatchq.cli._common import (
    EXIT_USAGE,
    CliError,
    chosen_dsn,
    command,
    connect,
    dsn_option,
    json_option,
)
from pybatchq.cli._show import Cell, Column, Rows, cell, note
from pybatchq.handlers import Handler
from pybatchq.settings import Settings, parse_duration

WORKER_EXIT_CODES = """\b
Exit codes:
  0  all its jobs had ended
  1  an error; the message says why
  2  wrong usage: an option, an argument or a setting
  3  the database cannot be reached
  4  the grace or a second signal cut jobs short; they were handed back
  5  handlers did not stop; the leases of their jobs will run out
"""
KINDS = (
    Column("KIND", 10, least=16),
    Column("RUNS IN", 8),
    Column("AT ONCE", 5, justify="right"),
    Column("FUNCTION", 6, least=16),
    Column("PAYLOAD", 4, least=16),
)
# Option, metavar, help: each is laid over the variable of its name.
OPTIONS = (
    ("--handlers", "MODULE,…", "Modules to import that register handlers."),
    ("--queues", "A,B", "In order of preference, or with weights: a=3,b=1. [default: default]"),
    ("--concurrency", "N", "Jobs to run at once in one process. [default: 10]"),
    ("--processes", "N", "Processes under one supervisor. [default: 1]"),
    ("--lease", "TIME", "Length of a lease. [default: the queue's, else 60s]"),
    ("--grace", "TIME", "Wait for running jobs at a stop. [default: 30s]"),
    ("--poll", "TIME", "Longest sleep without a doorbell. [default: 1s]"),
    ("--prefetch", "TIME", "Lease ahead what will start within so long. [default: 20ms]"),
    ("--name", "NAME", "Shown as locked_by. [default: host:pid]"),
    ("--health-port", "PORT", "Serve /health, /ready and /metrics there. [default: none]"),
    ("--log-format", "FORMAT", "pretty or json. [default: pretty]"),
    ("--log-level", "LEVEL", "debug, info, warning or error. [default: info]"),
)
handlers_option = click.option("--handlers", metavar="MODULE,…", help=OPTIONS[0][2])


def worker_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that make a worker; they arrive as keyword arguments for `overlaid`."""
    function = click.option("--no-doorbell", is_flag=True, help="Do not LISTEN: polling alone.")(
        function
    )
    for name, metavar, text in reversed(OPTIONS):
        function = click.option(name, metavar=metavar, help=text)(function)
    return function


def overlaid(*, no_doorbell: bool = False, **given: str | None) -> dict[str, str]:
    """Options as the variables they stand for."""
    environ = {f"BATCHQ_{key.upper()}": value for key, value in given.items() if value is not None}
    if no_doorbell:
        environ["BATCHQ_DOORBELL"] = "off"
    return environ


@command(
    "worker",
    "batchq worker --handlers my_jobs --concurrency 50",
    "batchq worker --handlers my_jobs --queues high,low --grace 2m",
    "batchq worker --handlers my_jobs --processes 4 --health-port 9100",
    exit_codes=WORKER_EXIT_CODES,
)
@worker_options
@dsn_option
@click.pass_context
def worker(ctx: click.Context, /, *, dsn: str | None, **given: Any) -> None:
    """Run jobs until SIGTERM or Ctrl-C.

    A second signal hands running jobs back at once.

    Every option is also an environment variable: BATCHQ_QUEUES, BATCHQ_CONCURRENCY and so on;
    docs/worker.md has them all.
    """
    from pybatchq import service

    environ = overlaid(**given)
    settings = Settings.from_env({**os.environ, **environ})
    address = chosen_dsn(dsn)
    if settings.processes > 1:
        ctx.exit(service.run_workers({**environ, "DATABASE_URL": address}, settings))
    ctx.exit(service.run_worker(address, settings))


@command("dev", "batchq dev --handlers my_jobs", exit_codes=WORKER_EXIT_CODES)
@worker_options
@click.option("--port", metavar="PORT", help="Port of the HTTP API. [default: 8080 if it is free]")
@dsn_option
@click.pass_context
def dev(ctx: click.Context, /, *, dsn: str | None, **given: Any) -> None:
    """Database, API and worker in one terminal.

    Starts an embedded PostgreSQL, whose data stay for the next time, or uses --dsn or DATABASE_URL;
    installs batchq, serves and works until Ctrl-C. Logs every job unless told otherwise.
    """
    from pybatchq import service
    from pybatchq.install import install_dsn

    settings = Settings.from_env({"BATCHQ_LOG_LEVEL": "debug", **os.environ, **overlaid(**given)})
    if settings.processes > 1:
        raise CliError("dev runs one process; batchq worker runs several", exit_code=EXIT_USAGE)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(development.database(dsn or settings.database_url))
        asyncio.run(install_dsn(address))
        os.environ["DATABASE_URL"] = address  # handlers, and the processes they run in, read it
        note(f"other terminals: export DATABASE_URL='{address}'")
        port = stack.enter_context(development.api(address, settings))
        note(f"dashboard and HTTP API: http://{settings.host}:{port}/")
        ctx.exit(service.run_worker(address, settings, before_leaving=stack.close))


@command(
    "run-once",
    "batchq run-once --handlers my_jobs",
    "python -m pdb -m pybatchq run-once --handlers my_jobs --queue mail",
)
@click.argument("queue", default="default")
@handlers_option
@click.option("--lease", default="1h", metavar="TIME", show_default=True,
              help="Nobody else gets the job so long.")  # fmt: skip
@json_option
@dsn_option
def run_once(
    *, queue: str, handlers: str | None, lease: str, as_json: bool, dsn: str | None
) -> None:
    """Run the next job of a queue here, for debugging.

    A plain function runs in the main thread, where breakpoint() works. Without a timeout; Ctrl-C
    hands the job back. Fails if the job does.
    """
    from pybatchq import handlers as registered
    from pybatchq import logs, service
    from pybatchq.run_once import Ran
    from pybatchq.run_once import run_once as run

    settings = Settings.from_env({**os.environ, **overlaid(handlers=handlers)})
    lease_s = parse_duration(lease)
    if lease_s is None or not 1 <= lease_s <= 86_400:
        raise CliError(f"--lease is {lease!r}; give 1s to 24h", exit_code=EXIT_USAGE)
    logs.set_up(fmt=settings.log_format, level=settings.log_level)
    service.load_handlers(settings)

    async def once() -> Ran | None:
        async with await connect(chosen_dsn(dsn)) as conn:
            return await run(
                conn,
                registered.handlers,
                queue=queue,
                lease_for=timedelta(seconds=lease_s),
                started=lambda item: note(
                    f"running job {item.job_id} of kind {item.kind}, attempt {item.attempt}"
                ),
                progress=lambda text: note(f"progress {text}"),
            )

    try:
        ran = asyncio.run(once())
    except LookupError as error:
        hint = "name its module with --handlers"
        raise CliError(f"{error}: it was put back", hint=hint) from error
    if ran is None:
        raise CliError(f"no job is ready in queue {queue!r}")
    _tell(ran.item.job_id, ran.item.kind, ran.ending.event, ran.ending.text, as_json=as_json)
    if ran.reason is not None:
        raise CliError(f"the ending of job {ran.item.job_id} was not taken: {ran.reason}")
    if ran.ending.event == "failed":
        raise CliError(f"job {ran.item.job_id} failed")


def _tell(job_id: int, kind: str, event: str, text: str | None, *, as_json: bool) -> None:
    if as_json:
        is_failure = event == "failed"
        told = {
            "id": job_id,
            "kind": kind,
            "event": event,
            "result": None if is_failure or text is None else msgspec.Raw(text.encode()),
            "error": text if is_failure else None,
        }
        click.echo(msgspec.json.encode(told).decode())
        return
    note(f"job {job_id}: {event}")
    if text is not None:
        click.echo(text)


@command("handlers", "batchq handlers --handlers my_jobs", "batchq handlers --json")
@handlers_option
@json_option
def list_handlers(*, handlers: str | None, as_json: bool) -> None:
    """List the kinds that an application registers.

    With --json: each with the JSON Schema of its payload. Needs no database.
    """
    from pybatchq import handlers as registered
    from pybatchq import service

    settings = Settings.from_env({**os.environ, **overlaid(handlers=handlers)})
    service.load_handlers(settings)
    found = [registered.handlers.by_kind[kind] for kind in sorted(registered.handlers.by_kind)]
    try:
        registered.handlers.resolve()
    except TypeError as error:
        raise CliError(str(error)) from error
    Rows[KindInfo](KINDS, row, as_json=as_json).print([described(one) for one in found])


class KindInfo(msgspec.Struct, frozen=True):
    """What is told of a handler. `schema` is a JSON Schema; `{}` takes anything."""

    kind: str
    function: str
    runs_in: str
    concurrency: int | None
    payload: str
    schema: bytes


def row(info: KindInfo) -> Sequence[Cell]:
    at_once = "" if info.concurrency is None else str(info.concurrency)
    return (
        cell(info.kind), cell(info.runs_in), cell(at_once), cell(info.function),
        cell(info.payload),
    )  # fmt: skip


def described(handler: Handler) -> KindInfo:
    from pybatchq import payloads
    from pybatchq.handlers import name_of

    annotation = payloads.annotation_of(handler.function)
    return KindInfo(
        handler.kind,
        f"{getattr(handler.function, '__module__', '')}.{name_of(handler.function)}",
        handler.runs_in,
        handler.concurrency,
        "any" if annotation is Any else getattr(annotation, "__name__", str(annotation)),
        msgspec.json.encode(payloads.schema(annotation)),
    )


@command("demo", "batchq demo")
@dsn_option
def demo(*, dsn: str | None) -> None:
    """See real jobs run, with a worker killed in the middle.

    Starts an embedded server, or uses --dsn or DATABASE_URL; works in a database of its own,
    batchq_demo, which is made anew.
    """
    from rich.console import Console

    from pybatchq import demo as show

    try:
        fine = asyncio.run(show.run(Console(), dsn or Settings.from_env().database_url))
    except show.DemoError as error:
        raise CliError(str(error)) from error
    if not fine:
        raise CliError("the demo lost jobs or finished some twice: please report this")
