"""An independent ledger of starts and ends: how many jobs were ever held at once.

Each process leases and completes over a connection of its own and writes down, by the clock that
all processes of a machine share, when it had a job (after lease came back) and when it was about
to give it up (before complete is sent). Those times lie inside the true ones, so whatever the
ledger shows at once was at once. batchq's own counters are not asked.
"""

from __future__ import annotations

import multiprocessing
import time
from array import array
from dataclasses import dataclass

import psycopg

CAP = 50
PROCESSES = 4
BATCH = 20


@dataclass(frozen=True, slots=True)
class Seen:
    starts: int
    most_at_once: int
    took_s: float


def run(dsn: str) -> Seen:
    """Lease and complete what there is, by several processes."""
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        ledgers = pool.map(_work, [dsn] * PROCESSES)
    took_s = time.monotonic() - began
    changes = [(at, n) for ledger in ledgers for at, n in zip(ledger[0], ledger[1], strict=True)]
    changes.sort()  # of one moment, ends first: they were sent before
    held = most = 0
    for _, n in changes:
        held += n
        most = max(most, held)
    return Seen(sum(n for _, n in changes if n > 0), most, took_s)


def _work(dsn: str) -> tuple[array[float], array[int]]:
    """One process: times and changes of what it holds, two batches at times. Ends when the queue
    stays empty."""
    times, changes = array("d"), array("i")
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=1) as conn:
        held: list[tuple[int, int]] = []
        idle_since = time.monotonic()
        while held or time.monotonic() - idle_since < 1:
            leased = conn.execute(
                "select job_id, lease_id from batchq.lease('default', %s)", (BATCH,)
            ).fetchall()
            now = time.monotonic()
            if leased:
                idle_since = now
                times.append(now)
                changes.append(len(leased))
            if held:
                times.append(time.monotonic())
                changes.append(-len(held))
                ids, leases = zip(*held, strict=True)
                conn.execute(
                    "select count(*) from batchq.complete_many(%s, %s)", (list(ids), list(leases))
                )
            held = leased
    return times, changes
