"""A worker as a process of its own: handlers, signals, logs, and what its end is called."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from pybatchq import builtin, handlers, logs, supervisor, systemd
from pybatchq.settings import Settings, SettingsError
from pybatchq.worker import End, Worker

# 2 and 3 are wrong usage and an unreachable database, as for every command.
EXIT_CODES: dict[End, int] = {
    "drained": 0,
    "cut short": 4,
    "left behind": 5,
    "recycle": supervisor.RECYCLE,
}

log = logging.getLogger("pybatchq")


def run_worker(
    dsn: str, settings: Settings, *, before_leaving: Callable[[], None] = lambda: None
) -> int:
    """Work until a signal; the exit code. SettingsError if handlers cannot be imported or work.

    before_leaving: called before the process ends at once, as it does when handlers do not stop.
    """
    logs.set_up(fmt=settings.log_format, level=settings.log_level)
    load_handlers(settings)
    if not handlers.handlers.by_kind:
        log.warning("no handlers are registered: name their modules with --handlers")
    worker = make_worker(dsn, settings)
    try:
        asyncio.run(_until_signalled(worker, before_leaving))
    except handlers.HandlerError as error:
        raise SettingsError(str(error)) from error
    return EXIT_CODES[worker.end]


def run_workers(environ: Mapping[str, str], settings: Settings) -> int:
    """Several such processes under a supervisor; the worst of their exit codes.

    environ: the variables that say what settings say. Each process has a health port of its own.
    """
    logs.set_up(fmt=settings.log_format, level=settings.log_level)

    def env_for(number: int) -> dict[str, str]:
        env = {**environ, "BATCHQ_PROCESSES": "1"}
        if settings.health_port:
            env["BATCHQ_HEALTH_PORT"] = str(settings.health_port + number)
        if settings.name:
            env["BATCHQ_NAME"] = f"{settings.name}-{number + 1}"
        return env

    command = [sys.executable, "-m", "pybatchq", "worker"]
    return supervisor.run(command, processes=settings.processes, env_for=env_for)


def load_handlers(settings: Settings) -> None:
    """Import the modules of handlers, then add the built-in kinds that are not taken.

    SettingsError if one cannot be imported.
    """
    sys.path.insert(0, str(Path.cwd()))
    for module in settings.handlers:
        try:
            handlers.load([module])
        except (Exception, SystemExit) as error:
            place = _place(error, module)
            message = f"BATCHQ_HANDLERS: module {module} cannot be imported: {place}{error}"
            raise SettingsError(message) from error
    if settings.builtin:
        builtin.register(
            handlers.handlers, allow=settings.http_get_allow, deny=settings.http_get_deny
        )


def _place(error: BaseException, module: str) -> str:
    """Where in the user's own code an import failed: file and line, and the exception's type."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: SyntaxError: "
    ours = str(Path(__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith((ours, "<")) and "importlib" not in frame.filename:
            return f"{frame.filename}:{frame.lineno}: {type(error).__name__}: "
    is_plain = isinstance(error, ModuleNotFoundError) and error.name == module
    return "" if is_plain else f"{type(error).__name__}: "


def make_worker(dsn: str, settings: Settings) -> Worker:
    return Worker(
        dsn,
        queues=settings.queues,
        concurrency=settings.concurrency,
        name=settings.name,
        lease_s=settings.lease_s,
        poll_s=settings.poll_s,
        doorbell=settings.doorbell,
        reap_every_s=settings.reap_every_s,
        lease_timeout_s=settings.lease_timeout_s,
        grace_s=settings.grace_s,
        prefetch_s=settings.prefetch_s,
        process_slots=settings.process_slots,
        jobs_per_process=settings.jobs_per_process,
        prepare=settings.prepare,
        listen_dsn=settings.listen_url,
        health_port=settings.health_port,
        health_host=settings.health_host,
        recycle=supervisor.FD_VARIABLE in os.environ,
    )


async def _until_signalled(worker: Worker, before_leaving: Callable[[], None]) -> None:
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        log.info("stopping" if asked == 1 else "stopping now", extra={"running": worker.running})
        systemd.notify("STOPPING=1")
        worker.stop(now=asked > 1)

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop)
    supervisor.watch_supervisor(stop)
    telling = asyncio.ensure_future(_tell_systemd(worker))
    try:
        await worker.run()
    finally:
        telling.cancel()
    if worker.running:
        # what does not end would hold up this loop's and the interpreter's end; leases run out
        log.warning("leaving running jobs behind", extra={"handlers": worker.running})
        before_leaving()
        logging.shutdown()
        os._exit(EXIT_CODES["recycle" if worker.end == "recycle" else "left behind"])


async def _tell_systemd(worker: Worker) -> None:
    """Ready once there is a connection; then feed the watchdog, from the loop that it watches."""
    while not worker.is_connected:  # noqa: ASYNC110  # nothing rings
        await asyncio.sleep(0.1)
    systemd.notify("READY=1")
    interval_s = systemd.watchdog_interval_s()
    while interval_s is not None:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)
