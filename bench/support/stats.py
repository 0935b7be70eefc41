"""Medians, percentiles and ratios of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Summary:
    median: float
    low: float
    high: float


def summarise(values: Sequence[float]) -> Summary:
    """Median, least and greatest of at least one value."""
    return Summary(median(values), min(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the least value that at least `share` of them do not exceed."""
    if not values:
        raise ValueError("a percentile of nothing")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Summary:
    """Ratios round by round, so that a slow minute of the machine meets both sides.

    A rival that ran in one round only is compared by its median.
    """
    if len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
    else:
        pairs = zip(ours, [median(theirs)] * len(ours), strict=True)
    return summarise([a / b if b else math.inf for a, b in pairs])
