"""The dashboard's charts: throughput and durations over time, as SVG to be put into a page.

A template needs `figure`, which is everything; or `svg`, `legend` and `table` one by one. They need
static/charts.css and the colours of the theme: --text, --muted, --line, --surface, --c1 to --c6.
Names may hold anything: they come out as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from markupsafe import Markup

from pybatchq.dashboard.chart_drawing import Drawing, colour, draw
from pybatchq.dashboard.chart_scales import (
    LARGEST,
    Tick,
    Unit,
    ValueScale,
    time_text,
    time_ticks,
    value_scale,
    value_text,
)
from pybatchq.rates import ThroughputPoint

NOTHING = "nothing yet"
_KEPT = 64  # pictures, of up to 100 kB: those of a few pages
_MOST_ROWS = 60  # of a table under a chart

# What XML 1.0 cannot hold, and what would turn the direction of the page's text.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class Series:
    """A value for each time of the chart; None, and what is not finite, is a gap."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """`at`: when each step begins, oldest first. `unit`: jobs a minute, or seconds.

    Values that are missing at the end are gaps; those beyond the last time are left out.
    """

    title: str
    unit: Unit
    at: Sequence[datetime]
    step_s: float
    series: Sequence[Series]


@dataclass(frozen=True, slots=True)
class Table:
    """The chart in words: `rows` newest first, each a time and a text for each series."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int


def throughput(points: Sequence[ThroughputPoint], step_s: float) -> Chart:
    """Jobs a minute."""

    def series(name: str, count: Callable[[ThroughputPoint], int]) -> Series:
        return Series(name, tuple(count(point) * 60 / step_s for point in points))

    return Chart(
        "Throughput",
        "jobs",
        tuple(point.at for point in points),
        step_s,
        (
            series("enqueued", lambda point: point.enqueued),
            series("completed", lambda point: point.completed),
            series("failed", lambda point: point.failed),
            series("dead letters", lambda point: point.dead_letters),
        ),
    )


def waits(points: Sequence[ThroughputPoint], step_s: float) -> Chart:
    """From due to leased, of jobs that their first attempt completed."""
    percentiles = ((p.wait_p50, p.wait_p95, p.wait_p99) for p in points)
    return _durations("Waiting time", points, step_s, percentiles)


def runs(points: Sequence[ThroughputPoint], step_s: float) -> Chart:
    """How long completed attempts took."""
    percentiles = ((p.run_p50, p.run_p95, p.run_p99) for p in points)
    return _durations("Run time", points, step_s, percentiles)


def _durations(
    title: str,
    points: Sequence[ThroughputPoint],
    step_s: float,
    percentiles: Iterable[tuple[timedelta | None, ...]],
) -> Chart:
    rows = [tuple(None if d is None else d.total_seconds() for d in row) for row in percentiles]
    series = tuple(
        Series(name, tuple(row[n] for row in rows)) for n, name in enumerate(("p50", "p95", "p99"))
    )
    return Chart(title, "seconds", tuple(point.at for point in points), step_s, series)


def svg(chart: Chart, *, small: bool = False) -> Markup:
    """The picture without heading and legend; `small`: as high as a row, labels at the ends only.

    Takes milliseconds to tens of them once for the same data, which is kept, then nothing.
    """
    return _drawn(_cleaned(chart), small)


def figure(chart: Chart, *, small: bool = False) -> Markup:
    """Heading, legend, picture and, if not small, a table that can be unfolded."""
    clean = _cleaned(chart)
    head = Markup('<span class="chart-title">{}</span>').format(clean.title)
    if clean.unit == "jobs":  # a duration says its unit with each value
        head += Markup('<span class="chart-unit">jobs per minute</span>')
    return Markup(
        '<figure class="chart"><figcaption>{}{}</figcaption>'
        '<div class="chart-plot">{}</div>{}</figure>'
    ).format(head, legend(clean), _drawn(clean, small), "" if small else _details(clean))


def legend(chart: Chart) -> Markup:
    items = Markup("").join(
        Markup('<li class="{}">{}</li>').format(colour(n), _text(series.name))
        for n, series in enumerate(chart.series)
    )
    return Markup('<ul class="chart-legend">{}</ul>').format(items)


def table(chart: Chart, *, most: int = _MOST_ROWS) -> Table:
    """The newest `most` steps."""
    chart = _cleaned(chart)
    texts = _step_texts(chart)
    rows = [
        (text, *(_value_or_dash(series.values[n], chart.unit) for series in chart.series))
        for n, text in enumerate(texts)
    ]
    shown = tuple(reversed(rows[max(len(rows) - most, 0) :]))
    head = ("time", *(series.name for series in chart.series))
    return Table(head, shown, len(rows) - len(shown))


def sparkline(*series: Series, title: str, unit: Unit = "jobs") -> Markup:
    """Lines for a cell, from 0 to the highest value of all; its title tells last and highest.

    Drawn without pygal: a page has hundreds.
    """
    numbers = [[_number(value) for value in one.values] for one in series]
    top = max((value for one in numbers for value in one if value is not None), default=0.0)
    told = "; ".join(
        f"{_text(one.name)} {_last_and_highest(values, unit)}"
        for one, values in zip(series, numbers, strict=True)
    )
    lines = Markup("").join(
        Markup('<path class="line {}" d="{}"/>').format(
            colour(n), _spark_path(values, top) if top > 0 else "M0 23H100"
        )
        for n, values in enumerate(numbers)
    )
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="spark" role="img" aria-label="{0}"'
        ' viewBox="0 0 100 24" preserveAspectRatio="none"><title>{0}</title>{1}</svg>'
    ).format(f"{_text(title)}: {told}", lines)


def _spark_path(numbers: Sequence[float | None], top: float) -> str:
    step = 100 / max(len(numbers) - 1, 1)
    path, drawing = [], False
    for n, value in enumerate(numbers):
        if value is not None:
            y = 23 - 22 * max(value, 0) / top
            # `h0`: a lone point is a dot, with a round cap
            path.append(f"{'L' if drawing else 'M'}{n * step:.1f} {y:.1f}{'' if drawing else 'h0'}")
        drawing = value is not None
    return "".join(path)


@lru_cache(maxsize=_KEPT)
def _drawn(chart: Chart, small: bool) -> Markup:
    known = [value for series in chart.series for value in series.values if value is not None]
    span = (chart.at[-1] - chart.at[0]).total_seconds() if chart.at else 0.0
    if span <= 0 or max(known, default=0.0) <= 0:
        return _nothing(chart, small=small)
    first, last = chart.at[0], chart.at[-1]
    scale = value_scale(known, chart.unit)
    places = [(at - first).total_seconds() / span for at in chart.at]
    drawing = Drawing(
        summary=_summary(chart, scale),
        steps=tuple(zip(places, _hover_texts(chart), strict=True)),
        lines=tuple(
            tuple(None if value is None else scale.at(value) for value in series.values)
            for series in chart.series
        ),
        breaks=frozenset(
            n
            for n, (before, after) in enumerate(pairwise(chart.at), start=1)
            if (after - before).total_seconds() > 1.5 * chart.step_s
        ),
        x_ticks=_ends(chart) if small else time_ticks(first, last, chart.step_s),
        y_ticks=(scale.ticks[0], scale.ticks[-1]) if small else scale.ticks,
        is_small=small,
        note="log scale" if scale.is_log and not small else "",
    )
    return Markup(draw(drawing))  # noqa: S704 - pygal's XML writer has escaped it


def _ends(chart: Chart) -> tuple[Tick, ...]:
    with_day = _is_long(chart)
    return tuple(
        Tick(at, time_text(when, with_day=with_day).removesuffix(" UTC"))
        for at, when in ((0.0, chart.at[0]), (1.0, chart.at[-1]))
    )


def _nothing(chart: Chart, *, small: bool) -> Markup:
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="chart-svg{}" role="img" aria-label="{}">'
        '<line class="base" x1="0" x2="100%" y1="98%" y2="98%"/>'
        '<text class="nothing" x="50%" y="50%" dy="0.32em">{}</text></svg>'
    ).format(" small" if small else "", f"{chart.title}: {NOTHING}", NOTHING)


def _details(chart: Chart) -> Markup:
    shown = table(chart)
    if not shown.rows:
        return Markup("")
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(text) for text in shown.head)
    rows = Markup("").join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row[0], Markup("").join(Markup("<td>{}</td>").format(text) for text in row[1:])
        )
        for row in shown.rows
    )
    count = len(shown.rows)
    caption = Markup("")
    if shown.left_out:
        whole = count + shown.left_out
        caption = Markup("<caption>the last {} of {} steps</caption>").format(count, whole)
    return Markup(
        '<details><summary>Table<span class="chart-hidden"> of {}</span></summary>'
        '<div class="chart-table" tabindex="0" role="region" aria-label="Table of {}">'
        "<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
        "</div></details>"
    ).format(chart.title, chart.title, caption, head, rows)


def _summary(chart: Chart, scale: ValueScale) -> str:
    """The chart for those who do not see it: what, from when to when, last and highest values."""
    first, last = (time_text(at, with_day=True) for at in (chart.at[0], chart.at[-1]))
    series = "; ".join(
        f"{one.name} {_last_and_highest(one.values, chart.unit)}" for one in chart.series
    )
    unit = ", jobs per minute" if chart.unit == "jobs" else ""
    log = ", log scale" if scale.is_log else ""
    return f"{chart.title}{unit}{log}, {first} to {last}: {series}"


def _last_and_highest(values: Sequence[float | None], unit: Unit) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    return f"last {value_text(known[-1], unit)}, highest {value_text(max(known), unit)}"


def _hover_texts(chart: Chart) -> list[str]:
    """The time, and a line for each series, such as `completed 1,234/min`."""
    texts = []
    for n, text in enumerate(_step_texts(chart)):
        values = [
            f"{series.name} {value_text(value, chart.unit)}"
            for series in chart.series
            if (value := series.values[n]) is not None
        ]
        texts.append("\n".join((text, *(values or ["nothing"]))))
    return texts


def _step_texts(chart: Chart) -> list[str]:
    with_day, with_seconds = _is_long(chart), chart.step_s < 60
    return [time_text(at, with_day=with_day, with_seconds=with_seconds) for at in chart.at]


def _is_long(chart: Chart) -> bool:
    """Whether a clock's time alone could be that of two days."""
    return bool(chart.at) and chart.at[0].date() != chart.at[-1].date()


def _value_or_dash(value: float | None, unit: Unit) -> str:
    return "–" if value is None else value_text(value, unit)


def _cleaned(chart: Chart) -> Chart:
    """The same as tuples, which can be a key, with as many values as times, and texts to show."""
    count = len(chart.at)
    series = tuple(
        Series(
            _text(one.name),
            (
                *(_number(value) for value in one.values[:count]),
                *[None] * (count - len(one.values)),
            ),
        )
        for one in chart.series
    )
    at = tuple(at.astimezone(UTC) for at in chart.at)
    return Chart(_text(chart.title), chart.unit, at, chart.step_s, series)


def _number(value: float | None) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return min(max(value, -LARGEST), LARGEST) + 0.0  # -0.0 becomes 0.0


def _text(text: str) -> str:
    return _UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
