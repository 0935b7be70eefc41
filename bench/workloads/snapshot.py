"""A REPEATABLE READ snapshot held open in another session, as a report or a dump would.

The load is a closed circle: half of the transactions enqueue 10 jobs, half lease 10 and complete
them, so that the backlog stays about where it began. What counts is the second half: its rate
and the time of one lease + complete. First a clean run at saturation, then one with the
snapshot; then both again, throttled to 60 % of the clean rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg

from bench.peers import scripts
from bench.support import fill
from bench.support.context import Bench, Builder
from bench.support.metrics import Meter
from bench.support.model import Case, Contestant, Sample, Target
from bench.support.pgbench import Load, Result, Transaction
from bench.support.stats import percentile

BATCH = 10
CLIENTS = 2
BACKLOG = 50_000
SHARE = 0.6
CLAIM = 1
"""The number of the script that leases and completes; script 0 enqueues."""


@dataclass(frozen=True, slots=True)
class Rival:
    name: str
    template: str
    build: Builder
    enqueue: str
    claim: str


RIVALS = (
    Rival(
        "batchq",
        "batchq",
        fill.install_batchq,
        scripts.batchq_enqueue_many(BATCH),
        scripts.batchq_lease_batch(BATCH),
    ),
    Rival(
        "one-table queue",
        "one_table",
        fill.install_one_table,
        scripts.one_table_insert_many(BATCH),
        scripts.one_table_lease_batch(BATCH),
    ),
)


@dataclass(slots=True)
class Clean:
    """What a rival reached without a snapshot in this round."""

    saturated: dict[str, float] = field(default_factory=dict)


def cases(bench: Bench) -> Iterator[Case]:
    """Rate: the last part with the snapshot to the whole clean run, in the same round."""
    clean = Clean()
    for throttled in (False, True):
        what = f"at {SHARE:.0%} of capacity" if throttled else "at saturation"
        yield Case(
            title=f"snapshot held open for {bench.scale.snapshot_s:g} s, {what}",
            unit="jobs/s in the last part",
            contestants=[_contestant(bench, rival, clean, throttled=throttled) for rival in RIVALS],
            targets=[
                Target("batchq", ">=", 0.95, figure="rate / clean"),
                Target("batchq", "<=", 1.5, figure="p99 / clean"),
            ],
            rounds=bench.scale.snapshot_rounds,
        )


def _contestant(bench: Bench, rival: Rival, clean: Clean, *, throttled: bool) -> Contestant:
    scale = bench.scale

    def run() -> Sample:
        if throttled and rival.name not in clean.saturated:
            clean.saturated[rival.name] = _clean_rate(bench, rival)
        rate = clean.saturated[rival.name] * SHARE if throttled else None
        before, _ = _run(bench, rival, scale.clean_s, rate, held=False)
        claims = _claims(before)
        clean_rate = _rate(claims, before.log)
        clean_p99 = percentile([claim.seconds for claim in claims], 0.99) * 1e3
        if not throttled:
            clean.saturated[rival.name] = clean_rate
        result, meter = _run(bench, rival, scale.snapshot_s, rate, held=True)
        last = [e for e in result.log if e.ended_at >= result.log[-1].ended_at - scale.last_part_s]
        late = [entry for entry in last if entry.script == CLAIM]
        final_rate = _rate(late, last)
        final_p99 = percentile([claim.seconds for claim in late], 0.99) * 1e3
        details = {
            "clean jobs/s": clean_rate,
            "rate / clean": final_rate / clean_rate,
            "clean p99 ms": clean_p99,
            "p99 ms": final_p99,
            "p99 / clean": final_p99 / clean_p99,
        }
        return Sample(final_rate, details, meter.cost(len(_claims(result)) * BATCH))

    return Contestant(rival.name, run)


def _clean_rate(bench: Bench, rival: Rival) -> float:
    result, _ = _run(bench, rival, bench.scale.clean_s, None, held=False)
    return _rate(_claims(result), result.log)


def _run(
    bench: Bench, rival: Rival, seconds: float, rate: float | None, *, held: bool
) -> tuple[Result, Meter]:
    """`rate` in jobs a second; the throttle counts transactions, of which half are claims."""
    load = Load(
        scripts=[rival.enqueue, rival.claim],
        clients=CLIENTS,
        seconds=seconds,
        rate=None if rate is None else rate * 2 / BATCH,
        logged=True,
    )
    with bench.database(rival.template, rival.build) as dsn:
        if rival.name == "batchq":
            fill.fill_batchq(dsn, BACKLOG)
        else:
            fill.fill_one_table(dsn, BACKLOG)
        with psycopg.connect(dsn) as holder:
            if held:
                holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                holder.execute("select count(*) from pg_class")
            with bench.meter(dsn) as meter:
                result = bench.pgbench(dsn, load)
    return result, meter


def _claims(result: Result) -> list[Transaction]:
    return [entry for entry in result.log if entry.script == CLAIM]


def _rate(claims: list[Transaction], among: list[Transaction]) -> float:
    """Jobs a second claimed over the time that `among` spans."""
    return len(claims) * BATCH / (among[-1].ended_at - among[0].ended_at)
