"""How big the workloads are: `--quick` to see that everything runs, short, `--long`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes; times in seconds."""

    name: str
    rounds: int
    seconds: float
    bulk_jobs: int
    move_jobs: int
    single_jobs: int
    batch_jobs: int
    drain_jobs: int
    drain_jobs_slow: int
    latency_samples: int
    clean_s: float
    snapshot_s: float
    last_part_s: float
    snapshot_rounds: int
    backlog_base: int
    backlog_jobs: int
    cold_jobs: int
    idle_s: float
    handler_jobs: int
    work_jobs: int
    beats_s: float
    blocked_s: float
    blocked_lease_s: float
    stop_tries: int
    http_s: float
    http_clients: int
    bursts: int
    tenant_jobs: int
    turns_s: float
    audited_starts: int


QUICK = Scale(
    name="quick",
    rounds=1,
    seconds=1,
    bulk_jobs=20_000,
    move_jobs=10_000,
    single_jobs=1_000,
    batch_jobs=4_000,
    drain_jobs=5_000,
    drain_jobs_slow=300,
    latency_samples=20,
    clean_s=2,
    snapshot_s=3,
    last_part_s=1,
    snapshot_rounds=1,
    backlog_base=10_000,
    backlog_jobs=20_000,
    cold_jobs=20_000,
    idle_s=6,
    handler_jobs=1_000,
    work_jobs=200,
    beats_s=5,
    blocked_s=5,
    blocked_lease_s=1,
    stop_tries=2,
    http_s=5,
    http_clients=1_000,
    bursts=2,
    tenant_jobs=20_000,
    turns_s=4,
    audited_starts=10_000,
)
SHORT = Scale(
    name="short",
    rounds=3,
    seconds=8,
    bulk_jobs=400_000,
    move_jobs=300_000,
    single_jobs=20_000,
    batch_jobs=150_000,
    drain_jobs=200_000,
    drain_jobs_slow=5_000,
    latency_samples=500,
    clean_s=30,
    snapshot_s=60,
    last_part_s=10,
    snapshot_rounds=1,
    backlog_base=10_000,
    backlog_jobs=1_000_000,
    cold_jobs=400_000,
    idle_s=60,
    handler_jobs=20_000,
    work_jobs=4_000,
    beats_s=20,
    blocked_s=20,
    blocked_lease_s=5,
    stop_tries=10,
    http_s=20,
    http_clients=1_000,
    bursts=10,
    tenant_jobs=1_000_000,
    turns_s=12,
    audited_starts=200_000,
)
LONG = Scale(
    name="long",
    rounds=5,
    seconds=20,
    bulk_jobs=1_000_000,
    move_jobs=600_000,
    single_jobs=60_000,
    batch_jobs=300_000,
    drain_jobs=200_000,
    drain_jobs_slow=10_000,
    latency_samples=1_000,
    clean_s=60,
    snapshot_s=600,
    last_part_s=60,
    snapshot_rounds=1,
    backlog_base=10_000,
    backlog_jobs=1_000_000,
    cold_jobs=400_000,
    idle_s=60,
    handler_jobs=50_000,
    work_jobs=10_000,
    beats_s=60,
    blocked_s=150,
    blocked_lease_s=60,
    stop_tries=100,
    http_s=60,
    http_clients=1_000,
    bursts=30,
    tenant_jobs=1_000_000,
    turns_s=12,
    audited_starts=1_000_000,
)
