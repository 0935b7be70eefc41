"""What a worker process tells the registry of itself; see beat_worker."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol


class Registered(Protocol):
    """What is asked of a worker."""

    name: str

    @property
    def concurrency(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def is_stopping(self) -> bool: ...


def described(worker: Registered, queues: Sequence[str], kinds: Iterable[str]) -> dict[str, Any]:
    """Arguments of beat_worker, but for worker_id."""
    return {
        "worker": worker.name,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": _version(),
        "queues": queues,
        "kinds": sorted(kinds),
        "concurrency": worker.concurrency,
        "running": worker.running,
        "memory_bytes": _memory_bytes(),
        "stopping": worker.is_stopping,
    }


def _version() -> str:
    from pybatchq import __version__  # noqa: PLC0415  # this module is imported by that one

    return __version__


def _memory_bytes() -> int | None:
    """What this process has in memory now, where the system says so as Linux does."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
