"""The command `batchq`. Every command parses, calls and prints; logic lives elsewhere.

A module a part of the help: `schema`, `api`, `token`, `audit`, `working`, `enqueue`, `jobs`,
`explain`, `bulk`, `queues`, `top`, `throughput`, `limits`, `workers`, `completion`. A new command
is a function in one of them and a place in SECTIONS.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import click

from pybatchq import __version__
from pybatchq.cli import (
    api,
    audit,
    breakers,
    bulk,
    completion,
    enqueue,
    explain,
    jobs,
    limits,
    queues,
    schema,
    throughput,
    token,
    top,
    workers,
    working,
)
from pybatchq.cli._common import (
    ALL_EXIT_CODES,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_PIPE,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    CliError,
    chosen_dsn,
    connect,
    dsn_option,
    plain_errors,
)

__all__ = [
    "EXIT_FAILED",
    "EXIT_UNREACHABLE",
    "EXIT_USAGE",
    "CliError",
    "chosen_dsn",
    "connect",
    "dsn_option",
    "main",
    "plain_errors",
]

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Set up": (schema.install, schema.uninstall, schema.version, completion.completion),
    "Run": (
        api.api, token.token, audit.audit, working.worker, workers.workers, workers.drain_worker,
        working.dev, working.list_handlers, working.run_once, working.demo,
    ),
    "Jobs": (
        enqueue.enqueue, jobs.jobs, jobs.job, explain.explain, jobs.wait, jobs.set_job,
        bulk.cancel, bulk.redrive, bulk.purge,
    ),
    "Queues": (
        queues.queues, queues.stats, top.top, throughput.throughput, limits.set_queue,
        limits.set_group, limits.groups, queues.pause, queues.resume, explain.peek,
        breakers.breakers, breakers.reset_breaker,
    ),
}  # fmt: skip

UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Sections(click.Group):
    """A group whose help has sections, and whose commands end plainly."""

    def make_context(
        self, info_name: str | None, args: list[str], *more: Any, **extra: Any
    ) -> click.Context:
        """Named batchq in its help also as `python -m pybatchq`."""
        with _told_if_unwritten():
            return super().make_context(info_name and "batchq", args, *more, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # as click has it
        return list(self.commands)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        longest = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (
                            (command.name or "").ljust(longest),
                            command.get_short_help_str(formatter.width - longest - 6),
                        )
                        for command in commands
                    ]
                )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.commands, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {name!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        _never_fail_to_print()
        try:
            with _told_if_unwritten():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo(err=True)  # after the ^C of the terminal
            raise CliError("interrupted", exit_code=EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            _drop_output()  # whoever read stdout has left
            ctx.exit(EXIT_PIPE)


@contextlib.contextmanager
def _told_if_unwritten() -> Iterator[None]:
    """A full disk below stdout is a plain line. An error of another file has its name with it."""
    try:
        yield
    except OSError as error:
        if error.errno not in UNWRITTEN or error.filename is not None:
            raise
        _drop_output()
        raise CliError(f"the output cannot be written: {error.strerror}") from error


def _drop_output() -> None:
    """What is still buffered goes nowhere."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _never_fail_to_print() -> None:
    """Print what the locale's encoding does not have as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@click.group(
    cls=Sections, epilog=ALL_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="batchq", message="%(prog)s %(version)s")
def main() -> None:
    """A durable job queue inside PostgreSQL."""


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
