"""Where the axes of a chart have their labels, and how values and times are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, assert_never

Unit = Literal["jobs", "seconds"]

LARGEST = 1e15  # beyond it values are cut: more says nothing, and floats would overflow
_SMALLEST_TOP = 1e-3  # of an axis: a job a day is 0.0007 a minute
_LOG_FROM = 50.0  # the longest duration to the shortest, from which an axis is logarithmic
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0

_DURATION_STEPS = (
    *(m * 10.0**e for e in (-4, -3, -2, -1) for m in (1, 2, 5)),
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(m * _MINUTE for m in (1, 2, 5, 10, 15, 30)),
    *(m * _HOUR for m in (1, 2, 3, 6, 12)),
    *(m * 10.0**e * _DAY for e in range(12) for m in (1, 2, 5)),
)
_LOG_TICKS = (
    *(0.001, 0.01, 0.1, 1.0, 10.0),
    *(_MINUTE, 10 * _MINUTE, _HOUR, 10 * _HOUR),
    *(10.0**e * _DAY for e in range(12)),
)
# Each at most twice the one before, so that two of them are in what four of them cover.
_TIME_STEPS = (
    *(1, 2, 3, 5, 10, 15, 30),
    *(m * 60 for m in (1, 2, 3, 5, 10, 15, 30)),
    *(m * 3600 for m in (1, 2, 3, 6, 12)),
    *(m * 86400 for m in (1, 2, 4)),
    *(7 * 2**e * 86400 for e in range(20)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A label, and how far along the axis it is, from 0 to 1.

    `minor`: not shown where there is little room.
    """

    at: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class ValueScale:
    """The y axis: linear from 0, or logarithmic from `low`, which is then more than 0."""

    low: float
    top: float
    ticks: tuple[Tick, ...]

    @property
    def is_log(self) -> bool:
        return self.low > 0

    def at(self, value: float) -> float:
        """How far up the value is; one below the axis is drawn on it."""
        if not self.is_log:
            return min(max(value / self.top, 0.0), 1.0)
        if value <= self.low:
            return 0.0
        return min(math.log(value / self.low) / math.log(self.top / self.low), 1.0)


def value_scale(values: Sequence[float], unit: Unit) -> ValueScale:
    """Of values of which at least one is more than 0."""
    top = max(_SMALLEST_TOP, *values)
    positive = [value for value in values if value > 0]
    if unit == "seconds" and top / max(min(positive), _LOG_TICKS[0]) > _LOG_FROM:
        return _log_scale(max(min(positive), _LOG_TICKS[0]), top)
    step = _value_step(top, unit)
    steps = math.ceil(top / step - 1e-9)
    ticks = tuple(Tick(n / steps, axis_text(n * step, unit)) for n in range(steps + 1))
    return ValueScale(0.0, steps * step, ticks)


def _value_step(top: float, unit: Unit) -> float:
    """A round one, of which up to four reach the top."""
    match unit:
        case "seconds":
            return next(step for step in _DURATION_STEPS if step * 4 >= top)
        case "jobs":
            power = 10.0 ** math.floor(math.log10(top / 4))
            return next(m * power for m in (1, 2, 5, 10, 20) if m * power * 4 >= top)
        case _:
            assert_never(unit)


def _log_scale(low: float, top: float) -> ValueScale:
    first = max(n for n, tick in enumerate(_LOG_TICKS) if tick <= low)
    last = min(n for n, tick in enumerate(_LOG_TICKS) if tick >= top)
    scale = ValueScale(_LOG_TICKS[first], _LOG_TICKS[last], ())
    every = math.ceil((last - first) / 5)
    shown = sorted({*range(last, first, -every), first})
    ticks = tuple(Tick(scale.at(_LOG_TICKS[n]), axis_text(_LOG_TICKS[n], "seconds")) for n in shown)
    return ValueScale(scale.low, scale.top, ticks)


def time_ticks(first: datetime, last: datetime, step_s: float) -> tuple[Tick, ...]:
    """Round times in UTC, not nearer to each other than the chart's steps.

    Up to five are not minor, which is what 220 px have room for; with the minor ones up to nine.
    """
    start, span = first.timestamp(), (last - first).total_seconds()
    least = max(span / 4, min(step_s, span / 2))
    major = next((step for step in _TIME_STEPS if step >= least), _TIME_STEPS[-1])
    step = next(m for m in _TIME_STEPS if major % m == 0 and (m * 8 >= span or m == major))
    if step < step_s:
        step = major
    ticks = []
    for n in range(math.ceil(start / step), math.floor((start + span) / step) + 1):
        at = datetime.fromtimestamp(n * step, UTC)
        ticks.append(Tick((n * step - start) / span, _tick_text(at, step), n * step % major != 0))
    return tuple(ticks)


def _tick_text(at: datetime, step: int) -> str:
    if step >= 200 * _DAY:
        return f"{at:%b} {at.year}"
    if at.hour == at.minute == at.second == 0:
        return f"{at:%b} {at.day}"
    return f"{at:%H:%M}" if step >= _MINUTE else f"{at:%H:%M:%S}"


def time_text(at: datetime, *, with_day: bool, with_seconds: bool = False) -> str:
    """`12:40 UTC`, or `Nov 29 12:40 UTC`."""
    at = at.astimezone(UTC)
    clock = f"{at:%H:%M:%S} UTC" if with_seconds else f"{at:%H:%M} UTC"
    return f"{at:%b} {at.day} {clock}" if with_day else clock


def axis_text(value: float, unit: Unit) -> str:
    """`1.2k`, `250 ms`, `3 min`: three digits, which is what an axis has room for."""
    return duration_text(value) if unit == "seconds" else _short(value)


def value_text(value: float, unit: Unit) -> str:
    """`1,234/min`, or `250 ms`."""
    if unit == "seconds":
        return duration_text(value)
    places = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    if 0 < abs(value) < 0.1:
        return f"{_digits(value)}/min"
    text = f"{value:,.{places}f}"
    return f"{text.rstrip('0').rstrip('.') if places else text}/min"


def duration_text(seconds: float) -> str:
    """`250 ms`, `1.5 s`, `3 min`, `2.5 h`, `12 d`: three digits of the largest unit."""
    seconds = float(f"{seconds:.3g}")  # 59.96 s are 1 min, not 60 s
    size = abs(seconds)
    if size == 0:
        return "0 s"
    if size < 1:
        return f"{_digits(seconds * 1000)} ms"
    if size < _MINUTE:
        return f"{_digits(seconds)} s"
    if size < _HOUR:
        return f"{_digits(seconds / _MINUTE)} min"
    if size < _DAY:
        return f"{_digits(seconds / _HOUR)} h"
    return f"{_short(seconds / _DAY)} d"


def _short(value: float) -> str:
    value = float(f"{value:.3g}")
    for size, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{_digits(value / size)}{suffix}"
    return _digits(value)


def _digits(value: float) -> str:
    """At most three significant digits, without an exponent and without -0."""
    value = float(f"{value:.3g}")
    if abs(value) < 1e-6:
        return "0"
    text = f"{value:.8f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
