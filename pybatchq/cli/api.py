"""`batchq api`: what serves jobs over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from pybatchq.cli._common import chosen_dsn, command, dsn_option
from pybatchq.settings import Settings

# Option, metavar, help: each is laid over the variable of its name.
OPTIONS = (
    ("--host", "HOST", "Address to listen on. [default: 127.0.0.1]"),
    ("--port", "PORT", "Port to listen on; 0 is any free one. [default: 8080]"),
    ("--processes", "N", "Processes on that port, under one supervisor. [default: 1]"),
    ("--pool-max", "N", "Database connections of one process. [default: 10]"),
    ("--tls-cert", "FILE", "Serve https with this certificate chain."),
    ("--tls-key", "FILE", "The certificate's key, if it is not in the same file."),
    ("--cors-origins", "A,B", "Origins whose pages may call this API. [default: none]"),
    ("--log-format", "FORMAT", "pretty or json. [default: pretty]"),
    ("--log-level", "LEVEL", "debug, info, warning or error. [default: info]"),
)
# Flag, the variable it switches, its value, help.
FLAGS = (
    ("--open", "BATCHQ_OPEN", "on", "Serve without tokens though not on loopback."),
    ("--read-only", "BATCHQ_READ_ONLY", "on", "Refuse everything that changes something."),
    ("--no-access-log", "BATCHQ_ACCESS_LOG", "off", "Log no line for each request."),
)


def api_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, _, _, text in reversed(FLAGS):
        function = click.option(name, is_flag=True, help=text)(function)
    for name, metavar, text in reversed(OPTIONS):
        function = click.option(name, metavar=metavar, help=text)(function)
    return function


def overlaid(**given: str | bool | None) -> dict[str, str]:
    """Options as the variables they stand for."""
    flags = {flag.removeprefix("--").replace("-", "_"): (v, on) for flag, v, on, _ in FLAGS}
    environ: dict[str, str] = {}
    for name, value in given.items():
        if name in flags:
            variable, on = flags[name]
            if value:
                environ[variable] = on
        elif value is not None:
            environ[f"BATCHQ_{name.upper()}"] = str(value)
    return environ


@command(
    "api",
    "batchq api",
    "batchq api --host 0.0.0.0 --processes 2",
    "batchq api --port 8443 --tls-cert chain.pem --tls-key key.pem",
)
@api_options
@dsn_option
@click.pass_context
def api(ctx: click.Context, /, *, dsn: str | None, **given: Any) -> None:
    """Serve jobs over HTTP until SIGTERM or Ctrl-C.

    Requests that were read are answered first; a second signal ends it at once.

    On 127.0.0.1 it is open until there is a token (batchq token create); on any other address it
    refuses requests until then.

    Every option is also an environment variable: BATCHQ_PORT, BATCHQ_POOL_MAX and so on;
    docs/api.md has them all.
    """
    from pybatchq.api import server

    environ = overlaid(**given)
    settings = Settings.from_env({**os.environ, **environ})
    address = chosen_dsn(dsn)
    if settings.processes > 1:
        ctx.exit(server.run_many({**environ, "DATABASE_URL": address}, settings))
    ctx.exit(server.run(address, settings))
