"""batchq for Python: a durable job queue that lives inside PostgreSQL.

Producing, in a transaction of your own:   await pybatchq.enqueue(conn, "send_email", {...})
Working:                                   @pybatchq.handler("send_email"), pybatchq.Worker(dsn)
Everything else:                           pybatchq.calls, one async function an SQL function
"""

from pybatchq.errors import BatchqError, Cancelled, LeaseLostError, PermanentError, RetryIn, Snooze
from pybatchq.handlers import Registry, handler
from pybatchq.job import Job
from pybatchq.produce import enqueue, enqueue_many
from pybatchq.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "BatchqError",
    "Cancelled",
    "Job",
    "LeaseLostError",
    "PermanentError",
    "Registry",
    "RetryIn",
    "Snooze",
    "Worker",
    "enqueue",
    "enqueue_many",
    "handler",
]
