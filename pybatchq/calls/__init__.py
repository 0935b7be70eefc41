"""The functions of batchq, one async function each: the only place with SQL.

A module a folder of `sql/functions`. Connection first, then the SQL function's own arguments by
their own names; one that is None is not sent, so its default is the database's. Nothing here
commits, retries or opens a transaction: a call is part of whatever the caller's connection is in.
JSON goes in as Python values and comes out as bytes; a time beyond Python's years comes out as the
nearest datetime. Errors are those of `pybatchq.errors`; whatever else the database says is left as
it is.
"""

from pybatchq.calls._call import Connection
from pybatchq.calls.monitor import (
    errors,
    get_job,
    job_id,
    job_uuid,
    list_jobs,
    stats,
    version,
)
from pybatchq.calls.operator import (
    maintain,
    pause,
    purge,
    reap,
    redrive,
    resume,
    set_queue,
)
from pybatchq.calls.producer import (
    cancel,
    enqueue,
    enqueue_many,
)
from pybatchq.calls.worker import (
    assert_lease,
    bell_pending,
    complete,
    complete_many,
    extend,
    fail,
    fail_many,
    lease,
    lease_from,
    listen,
    next_due,
    park,
    progress,
    progress_many,
    release,
    release_many,
    settle_and_lease,
    snooze,
    snooze_many,
    unpark,
)

__all__ = [
    "Connection",
    "assert_lease",
    "bell_pending",
    "cancel",
    "complete",
    "complete_many",
    "enqueue",
    "enqueue_many",
    "errors",
    "extend",
    "fail",
    "fail_many",
    "get_job",
    "job_id",
    "job_uuid",
    "lease",
    "lease_from",
    "list_jobs",
    "listen",
    "maintain",
    "next_due",
    "park",
    "pause",
    "progress",
    "progress_many",
    "purge",
    "reap",
    "redrive",
    "release",
    "release_many",
    "resume",
    "set_queue",
    "settle_and_lease",
    "snooze",
    "snooze_many",
    "stats",
    "unpark",
    "version",
]
