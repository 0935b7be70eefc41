"""Metrics of a worker: what is counted is what Prometheus reads."""

from __future__ import annotations

import subprocess
import sys
import threading
import timeit
from typing import Any, get_args

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pybatchq.metrics import BOUNDS, EVENTS, MAX_KINDS, Exposition, Gauge, WorkerMetrics
from tests.support.processes import ROOT

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(exposition: Exposition) -> Samples:
    """What a scrape holds, by name and labels; ValueError if it is no Prometheus text."""
    found: Samples = {}
    for family in text_string_to_metric_families(exposition.render().decode()):
        for one in family.samples:
            key = (one.name, tuple(sorted(one.labels.items())))
            assert key not in found, "a series is there twice"
            found[key] = one.value
    return found


def exposed(metrics: WorkerMetrics, **gauges: Any) -> Exposition:
    return Exposition(metrics, info={"worker": "host:1"}, gauges=gauges)  # type: ignore[arg-type]


def jobs(found: Samples, kind: str) -> dict[str, float]:
    return {
        dict(labels)["event"]: value
        for (name, labels), value in found.items()
        if name == "batchq_worker_jobs_total" and dict(labels)["kind"] == kind
    }


def buckets(found: Samples, kind: str) -> dict[str, float]:
    return {
        dict(labels)["le"]: value
        for (name, labels), value in found.items()
        if name == "batchq_worker_run_seconds_bucket" and dict(labels)["kind"] == kind
    }


def test_b35_attempts_are_counted_by_kind_and_event() -> None:
    metrics = WorkerMetrics()
    for times, event in enumerate(EVENTS, start=1):
        for _ in range(times):
            metrics.ended("send", event, 0.1)
    metrics.ended("resize", "completed", 0.1)
    found = samples(exposed(metrics))
    assert jobs(found, "send") == {"completed": 1, "failed": 2, "released": 3, "dropped": 4}
    assert jobs(found, "resize") == {"completed": 1, "failed": 0, "released": 0, "dropped": 0}


def test_b35_the_histogram_holds_every_run_in_the_bucket_it_belongs_to() -> None:
    metrics = WorkerMetrics()
    runs = [0.0, 0.005, 0.0051, 0.3, 3600.0, 3600.1, 1e9]
    for seconds in runs:
        metrics.ended("k", "completed", seconds)
    found = samples(exposed(metrics))
    by_bound = buckets(found, "k")
    assert [float(bound) for bound in by_bound] == [*BOUNDS, float("inf")]
    for bound, count in by_bound.items():
        assert count == sum(seconds <= float(bound) for seconds in runs), bound
    labels = (("kind", "k"),)
    assert found["batchq_worker_run_seconds_count", labels] == len(runs)
    assert found["batchq_worker_run_seconds_sum", labels] == pytest.approx(sum(runs))
    assert (BOUNDS[0], BOUNDS[-1]) == (0.005, 3600)


def test_b35_plain_counters_gauges_and_the_process_are_there() -> None:
    metrics = WorkerMetrics()
    names = (
        "leased", "leases", "empty_leases", "reconnects", "heartbeats", "lost", "refused",
        "unknown_kinds", "given_up", "processes_killed",
    )  # fmt: skip
    assert all(getattr(metrics, name) == 0 for name in names)
    for value, name in enumerate(names, start=1):
        setattr(metrics, name, value)
    now = {"running": 3}
    exposition = exposed(metrics, running=lambda: now["running"], connected=lambda: True)
    found = samples(exposition)
    for value, name in enumerate(names, start=1):
        assert found[f"batchq_worker_{name}_total", ()] == value
    assert found["batchq_worker_info", (("worker", "host:1"),)] == 1
    assert found["batchq_worker_running", ()] == 3
    assert found["batchq_worker_connected", ()] == 1
    assert ("batchq_worker_slots", ()) not in found
    if sys.platform == "linux":
        assert found["process_open_fds", ()] > 2
    now["running"] = 4
    assert samples(exposition)["batchq_worker_running", ()] == 4


def test_every_gauge_has_a_name_and_no_other_is_taken() -> None:
    for gauge in get_args(Gauge):
        found = samples(exposed(WorkerMetrics(), **{gauge: lambda: 7}))
        assert [name for (name, _), value in found.items() if value == 7 and gauge in name]
    with pytest.raises(ValueError, match="no such gauge: speed"):
        exposed(WorkerMetrics(), speed=lambda: 1)


def test_more_kinds_than_can_be_told_apart_share_one_label() -> None:
    metrics = WorkerMetrics()
    for number in range(MAX_KINDS + 50):
        for _ in range(2):
            metrics.ended(f"kind {number}", "failed", 1)
    found = samples(exposed(metrics))
    kinds = {dict(labels)["kind"] for (name, labels) in found if "jobs_total" in name}
    assert len(kinds) == MAX_KINDS + 1
    assert jobs(found, "other")["failed"] == 100
    assert jobs(found, "kind 0")["failed"] == 2


def test_a_kind_called_other_shares_the_label_of_the_rest() -> None:
    metrics = WorkerMetrics()
    metrics.ended("other", "failed", 1)
    for number in range(MAX_KINDS):
        metrics.ended(f"kind {number}", "failed", 1)
    found = samples(exposed(metrics))
    assert jobs(found, "other")["failed"] == 2
    assert buckets(found, "other")["+Inf"] == 2


def test_f063_kinds_of_any_text_are_labels() -> None:
    kinds = [
        'a"b', "a\\b", "a\nb", "a\\nb", "{le='1'}", "a,b=c} 5", "%s", "'; drop table x; --",
        "ü" * 255, "#", " ", "\t", "\r", "\u2028", "\x1b[2J",
    ]  # fmt: skip
    metrics = WorkerMetrics()
    for kind in [*kinds, "\udce5"]:
        metrics.ended(kind, "completed", 1)
    found = samples(exposed(metrics))
    for kind in [*kinds, "\\udce5"]:
        assert jobs(found, kind)["completed"] == 1, kind


def test_two_workers_of_one_process_have_their_own_numbers() -> None:
    one, two = WorkerMetrics(), WorkerMetrics()
    expositions = exposed(one, running=lambda: 1), exposed(two, running=lambda: 2)
    one.ended("k", "completed", 1)
    one.leased += 1
    first, second = map(samples, expositions)
    assert first["batchq_worker_leased_total", ()] == 1
    assert second["batchq_worker_leased_total", ()] == 0
    assert not jobs(second, "k")
    assert b"batchq" not in prometheus_client.generate_latest()


def test_a_scrape_of_another_thread_is_not_disturbed_by_new_kinds() -> None:
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            metrics = WorkerMetrics()
            ready, done = threading.Event(), threading.Event()
            thread = threading.Thread(target=count_kinds, args=(metrics, ready, done))
            thread.start()
            ready.wait()
            while not done.is_set():
                metrics.rows()
            thread.join()
            assert len(metrics.rows()) == MAX_KINDS
    finally:
        sys.setswitchinterval(switch_s)


def count_kinds(metrics: WorkerMetrics, ready: threading.Event, done: threading.Event) -> None:
    ready.set()
    for number in range(MAX_KINDS):
        metrics.ended(f"k{number}", "completed", 1)
    done.set()


def test_counting_an_attempt_costs_little_of_the_25_us_a_job_may_take() -> None:
    metrics = WorkerMetrics()
    times = timeit.repeat(lambda: metrics.ended("k", "completed", 0.02), number=2_000, repeat=50)
    assert min(times) / 2_000 < 2e-6  # alone on a machine it is 0.2


def test_counting_needs_no_prometheus_client() -> None:
    program = (
        "import sys; from pybatchq.metrics import WorkerMetrics;"
        "WorkerMetrics().ended('k', 'failed', 1); assert 'prometheus_client' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=30, check=True)
