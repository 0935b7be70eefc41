"""The workloads, in the order in which a full run takes them.

A workload is a module with one function `cases(bench)` that yields its cases one by one; what
it sets up for a case lives until the next one is asked for. `LONG_ONLY` is the place for those
that make sense in a long run alone (chaos).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.support.context import Bench
from bench.support.model import Case
from bench.workloads import (
    backlog,
    chaos,
    cold_plan,
    drain,
    enqueue_many,
    enqueue_single,
    handlers,
    heartbeats,
    http,
    idle,
    latency,
    lease_complete,
    limits,
    pages,
    processes,
    round_trips,
    snapshot,
    stop,
)

Workload = Callable[[Bench], Iterator[Case]]

WORKLOADS: dict[str, Workload] = {
    "enqueue_single": enqueue_single.cases,
    "enqueue_many": enqueue_many.cases,
    "lease_complete": lease_complete.cases,
    "round_trips": round_trips.cases,
    "drain": drain.cases,
    "processes": processes.cases,
    "handlers": handlers.cases,
    "latency": latency.cases,
    "http": http.cases,
    "snapshot": snapshot.cases,
    "backlog": backlog.cases,
    "cold_plan": cold_plan.cases,
    "idle": idle.cases,
    "heartbeats": heartbeats.cases,
    "stop": stop.cases,
    "limits": limits.cases,
    "pages": pages.cases,
}
LONG_ONLY: dict[str, Workload] = {"chaos": chaos.cases}
