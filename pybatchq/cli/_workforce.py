"""Whether anybody is there for a job: notes, never errors."""

from __future__ import annotations

from pybatchq import calls
from pybatchq.cli._database import Database
from pybatchq.cli._show import note
from pybatchq.errors import QueueNotFoundError
from pybatchq.types import JobRecord, WorkerInfo

MOST = 10_000


def why_pending(db: Database, job: JobRecord) -> str | None:
    """Why no worker that is alive would run this job; None if one would."""
    serving = [worker for worker in _alive(db) if job.queue in worker.queues]
    if not serving:
        return f"no live worker serves queue {job.queue}"
    if not _is_known(job.kind, serving):
        return f"no live worker of queue {job.queue} has a handler for kind {job.kind}"
    return None


def tell_if_unknown(db: Database, kind: str) -> None:
    """A typo in a kind shows where workers are alive; where none is, it may be all right."""
    alive = _alive(db)
    if alive and not _is_known(kind, alive):
        note(f"no live worker has a handler for kind {kind}")


def tell_if_unused(db: Database, queue: str | None) -> None:
    """A typo in the name of a queue."""
    if queue is None:
        return
    try:
        db.call(calls.stats, queue=queue)
    except QueueNotFoundError:
        note(f"queue {queue} was never used until now")


def _alive(db: Database) -> list[WorkerInfo]:
    return [worker for worker in db.call(calls.list_workers, n=MOST) if worker.is_alive]


def _is_known(kind: str, workers: list[WorkerInfo]) -> bool:
    return any(kind in worker.kinds for worker in workers)
