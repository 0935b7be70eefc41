"""A worker as a process of its own: handlers, signals, logging."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from pybatchq import handlers
from pybatchq.settings import Settings, SettingsError
from pybatchq.worker import Worker

STANDARD_FIELDS = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}

log = logging.getLogger("pybatchq")


class FieldsFormatter(logging.Formatter):
    """Event-like lines: time, level, message, then the record's own fields as key=value."""

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        fields = {k: v for k, v in record.__dict__.items() if k not in STANDARD_FIELDS}
        return line + "".join(f" {key}={value!r}" for key, value in fields.items())


def run_worker(dsn: str, settings: Settings, *, name: str | None = None) -> None:
    """Work until a signal. SettingsError if a module of handlers cannot be imported."""
    _log_to_stderr()
    sys.path.insert(0, str(Path.cwd()))
    for module in settings.handlers:
        try:
            handlers.load([module])
        except ImportError as error:
            message = f"BATCHQ_HANDLERS: module {module} cannot be imported: {error}"
            raise SettingsError(message) from error
    if not handlers.handlers.by_kind:
        log.warning("no handlers are registered: name their modules with --handlers")
    worker = Worker(
        dsn,
        queues=settings.queues,
        concurrency=settings.concurrency,
        name=name,
        lease_s=settings.lease_s,
        poll_s=settings.poll_s,
        doorbell=settings.doorbell,
        reap_every_s=settings.reap_every_s,
        lease_timeout_s=settings.lease_timeout_s,
        grace_s=settings.grace_s,
    )
    asyncio.run(_until_signalled(worker))


async def _until_signalled(worker: Worker) -> None:
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        log.info("stopping" if asked == 1 else "stopping now", extra={"running": worker.running})
        worker.stop(now=asked > 1)

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop)
    await worker.run()
    if worker.running:
        # what does not end would hold up this loop's and the interpreter's end; leases run out
        log.warning("leaving running jobs behind", extra={"jobs": worker.running})
        logging.shutdown()
        os._exit(1)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(FieldsFormatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
