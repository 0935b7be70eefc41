"""The same job as coroutine, in a thread and in a process: what each way costs, when it pays.

First a job that does nothing: all that is measured is the way there and back. Then one that uses
the processor for a millisecond: threads share one interpreter lock, processes do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from bench.support.context import Bench
from bench.support.model import Case, Contestant, Sample, Target
from bench.workloads.drain import SPLIT, drain

PROCESS_SLOTS = 2
NOOPS = {"async": "noop", "thread": "noop_thread", "process": "noop_process"}
WORKS = {"thread": "work_thread", "process": "work_process"}
CONCURRENCIES = (2, 50)
FIGURES = {**SPLIT, "processes' cpu µs/job": "children_cpu_s"}


def cases(bench: Bench) -> Iterator[Case]:
    """Nothing is promised; a worker of default settings but for its slots."""
    many, fewer = bench.scale.handler_jobs, bench.scale.work_jobs
    for concurrency in CONCURRENCIES:
        yield Case(
            title=f"{many:,} no-op jobs, concurrency {concurrency}, {PROCESS_SLOTS} process slots",
            unit="jobs/s",
            contestants=[
                Contestant(name, _run(bench, many, kind, concurrency))
                for name, kind in NOOPS.items()
            ],
            targets=[Target(name, ">=", None, rival="async") for name in ("thread", "process")],
        )
    yield Case(
        title=f"{fewer:,} jobs of 1 ms of processor time, concurrency {PROCESS_SLOTS}",
        unit="jobs/s",
        contestants=[
            Contestant(name, _run(bench, fewer, kind, PROCESS_SLOTS))
            for name, kind in WORKS.items()
        ],
        targets=[Target("process", ">=", None, rival="thread")],
    )


def _run(bench: Bench, jobs: int, kind: str, concurrency: int) -> Callable[[], Sample]:
    def run() -> Sample:
        sample = drain(
            bench, jobs, kind, FIGURES, concurrency=concurrency, process_slots=PROCESS_SLOTS
        )
        return replace(sample, details={"wall µs/job": 1e6 / sample.value, **sample.details})

    return run
