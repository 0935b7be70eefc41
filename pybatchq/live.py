"""What a live view shows, all of one moment: the answer of batchq.live and batchq.list_alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from pybatchq.rates import QueueRate
from pybatchq.types import (
    Gate,
    JobCounters,
    JobId,
    JobRecord,
    QueueStats,
    State,
    Status,
    WorkerInfo,
)

Severity = Literal["critical", "warning", "notice"]


class Alert(Struct, frozen=True):
    """What an operator should know. `says`: one sentence. `queue`: None where it is about all.

    `critical`: jobs wait and will not run; `notice`: it is as it was set up. `data`: the numbers,
    ids and times of the sentence.
    """

    alert: str
    severity: Severity
    queue: str | None
    since: datetime | None
    says: str
    data: dict[str, Any]


class LiveGate(Struct, frozen=True):
    """As Gate, with its data decoded."""

    gate: str
    holds: bool
    says: str
    until: datetime | None
    data: dict[str, Any]


class LiveJob(Struct, frozen=True):
    """How a job stands, without what never changes and what may be large.

    `progress` is JSON, not decoded: it may be nested deeper than Python can walk. `null` is none.
    """

    job_id: JobId
    queue: str
    status: Status
    state: State
    attempts: int
    max_attempts: int
    priority: int
    run_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    locked_by: str | None
    locked_until: datetime | None
    cancel_requested_at: datetime | None
    progress: Raw
    last_error: str | None
    gates: list[LiveGate]


class Live(Struct, frozen=True):
    """`jobs`: those that were asked for and exist. `admitted`: as hex, of the hashes given."""

    at: datetime
    has_tokens: bool
    admitted: list[str]
    queues: list[QueueStats]
    rates: list[QueueRate]
    counters: JobCounters
    alerts: list[Alert]
    workers: list[WorkerInfo]
    jobs: list[LiveJob]


def live_gate(gate: Gate) -> LiveGate:
    return LiveGate(gate.gate, gate.holds, gate.says, gate.until, msgspec.json.decode(gate.data))


def live_job(record: JobRecord, gates: Sequence[Gate]) -> LiveJob:
    """What batchq.live would say of a job, from what get_job and explain_job said."""
    return LiveJob(
        job_id=record.id,
        progress=Raw(record.progress or b"null"),
        gates=[live_gate(gate) for gate in gates],
        **{name: getattr(record, name) for name in _SAME},
    )


_SAME = tuple(set(LiveJob.__struct_fields__) & set(JobRecord.__struct_fields__) - {"progress"})
