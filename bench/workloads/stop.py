"""Stopping under load: real `batchq worker` processes, SIGTERM, and what they leave behind.

Jobs of 0 to 3 s, most of them coroutines, some in threads and in processes; one try after the other
in one database, each worker beginning with what the last one handed back. In the end another
worker runs what is left. The witness is a file that the handlers write on their own.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psycopg

from bench.drivers.command import Command, Options
from bench.drivers.kinds import LEDGER_VARIABLE
from bench.support import fill
from bench.support.context import Bench
from bench.support.model import BenchError, Case, Contestant, Sample, Target
from bench.support.query import number

CONCURRENCY = 20
GRACE_S = 1
LONGEST_JOB_S = 3.0
AT_WORK_S = 1.5
QUEUED = 3 * CONCURRENCY
LOADED = 15
"""So many jobs a worker holds before its time begins to run."""
KINDS = ("ledger", "ledger_thread", "ledger_process")
WEIGHTS = (12, 6, 2)
LAST_CONCURRENCY = 200
TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.02
DRAINED, CUT_SHORT = 0, 4
"""The exit codes of a worker that stopped as it should."""

HELD = "select count(*) from batchq.leased l where l.worker = %s"
READY = "select count(*) from batchq.ready"
ENQUEUE = "select array_agg(job_id) from batchq.enqueue_many(%s::jsonb)"
COMPLETED = "select array_agg(o.job_id) from batchq.outcome o where o.state = 'completed'"
LEFT_LEASED, LOST, TWICE = "left leased", "lost", "ended twice"


def cases(bench: Bench) -> Iterator[Case]:
    """A job counts as lost when it is not completed in the end, or no handler came to its end."""
    yield Case(
        title=f"{bench.scale.stop_tries} stops under load, concurrency {CONCURRENCY}, grace 1 s",
        unit="s, the longest",
        contestants=[Contestant("batchq worker", lambda: _run(bench))],
        targets=[
            Target("batchq worker", "<=", GRACE_S + 1),
            *(Target("batchq worker", "<=", 0, figure=name) for name in (LEFT_LEASED, LOST, TWICE)),
        ],
        rounds=1,
    )


@dataclass(slots=True)
class Stops:
    """Workers that are stopped one after the other, and what became of them and their jobs."""

    dsn: str
    conn: psycopg.Connection
    environment: dict[str, str]
    promised: set[int] = field(default_factory=set)
    took_s: list[float] = field(default_factory=list)
    left: int = 0

    def stop_one(self) -> None:
        self._fill_up()
        name = f"worker {len(self.took_s)}"
        options: Options = {"name": name, "concurrency": CONCURRENCY, "grace": f"{GRACE_S}s"}
        with Command(self.dsn, self.environment, **options) as command:
            self._await(lambda: self._held(name) >= LOADED, f"{name} gets no jobs")
            time.sleep(random.uniform(0, AT_WORK_S))
            self.took_s.append(command.stop(DRAINED, CUT_SHORT))
            self.left += self._held(name)

    def finish(self) -> None:
        """Run what is left. What this does not complete in its time is lost."""
        options: Options = {"name": "the last one", "concurrency": LAST_CONCURRENCY}
        with Command(self.dsn, self.environment, **options) as command:
            self._await(lambda: self._completed() >= self.promised, None)
            command.stop(DRAINED, CUT_SHORT)

    def lost(self, ended: Counter[int]) -> int:
        return len(self.promised - (self._completed() & ended.keys()))

    def _fill_up(self) -> None:
        jobs = [
            {"kind": kind, "payload": {"s": random.uniform(0, LONGEST_JOB_S)}}
            for kind in random.choices(KINDS, WEIGHTS, k=max(0, QUEUED - number(self.conn, READY)))
        ]
        if jobs:
            self.promised |= self._ids(ENQUEUE, json.dumps(jobs))

    def _held(self, name: str) -> int:
        return number(self.conn, HELD, (name,))

    def _completed(self) -> set[int]:
        return self._ids(COMPLETED)

    def _await(self, is_so: Callable[[], bool], complaint: str | None) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            if time.monotonic() > deadline:
                if complaint is None:
                    return
                raise BenchError(complaint)
            time.sleep(LOOK_EVERY_S)

    def _ids(self, query: str, *arguments: str) -> set[int]:
        row = self.conn.execute(query.encode(), arguments).fetchone()
        return set(row[0] or ()) if row else set()


def _run(bench: Bench) -> Sample:
    with (
        bench.database("batchq", fill.install_batchq) as dsn,
        tempfile.TemporaryDirectory(prefix="bench-stop-") as folder,
        psycopg.connect(dsn, autocommit=True) as conn,
    ):
        ledger = Path(folder) / "ledger"
        stops = Stops(dsn, conn, {LEDGER_VARIABLE: str(ledger)})
        for tried in range(bench.scale.stop_tries):
            bench.note(f"stop {tried + 1} of {bench.scale.stop_tries}")
            stops.stop_one()
        stops.finish()
        lines = [line.split() for line in ledger.read_text().splitlines()]
        ended = Counter(int(job_id) for event, job_id in lines if event == "end")
        details = {
            "p50": median(stops.took_s),
            LEFT_LEASED: stops.left,
            LOST: stops.lost(ended),
            TWICE: sum(times > 1 for times in ended.values()),
            "jobs": len(stops.promised),
            "runs": sum(event == "start" for event, _ in lines),
        }
        return Sample(max(stops.took_s), details)
