"""What an API process counts of itself, and the families that Prometheus reads of it.

Counting is a dictionary and a list, since a process may answer 12,000 requests a second; all else
happens when somebody asks. The event loop counts; any thread may read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from pybatchq.api.middleware import Seen

# Seconds and jobs, up to and including; whatever is more is in a last bucket of its own.
SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
BATCHES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
# What a client may make up is no label: it would be a series each.
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
OTHER_METHOD: Final = "other"
NO_ROUTE: Final = "none"

Key = tuple[str, str, int]


class Histogram:
    """Values by size."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> int:
        """Hand the values over; how many they are."""
        total = 0
        buckets: list[tuple[str, float]] = []
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        for name, count in zip(names, self._counts[:], strict=True):
            total += count
            buckets.append((name, total))
        family.add_metric(labels, buckets, self._sum)
        return total


class Observed:
    """Requests by method, route and status, and the sizes of batches that were gathered."""

    def __init__(self) -> None:
        self._requests: dict[Key, Histogram] = {}
        self._batches = Histogram(BATCHES)

    def request(self, seen: Seen) -> None:
        """A request was answered."""
        key = (seen.method, seen.route, seen.status)
        row = self._requests.get(key) or self._new(key)
        row.add(seen.took_s)

    def batch(self, jobs: int) -> None:
        """Jobs of so many requests were sent together."""
        self._batches.add(jobs)

    def _new(self, key: Key) -> Histogram:
        method, route, status = key
        method = method if method in METHODS else OTHER_METHOD
        return self._requests.setdefault((method, route, status), Histogram(SECONDS))

    def families(self) -> Iterator[Metric]:
        names = ("method", "route", "status")
        requests = CounterMetricFamily(
            "batchq_http_requests",
            "Requests that were answered; 499: the client left",
            labels=names,
        )
        took = HistogramMetricFamily(
            "batchq_http_request_seconds", "From a request's head to its answer", labels=names
        )
        for (method, route, status), row in sorted(self._requests.copy().items()):
            labels = (method, route or NO_ROUTE, str(status))
            requests.add_metric(labels, row.add_to(took, labels))
        yield requests
        yield took
        batches = HistogramMetricFamily(
            "batchq_gathered_jobs", "Jobs that arrived together and were stored by one call"
        )
        self._batches.add_to(batches, ())
        yield batches


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
