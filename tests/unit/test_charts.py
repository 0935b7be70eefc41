"""The dashboard's charts: what is in them, in words, and nothing that a strict page refuses."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybatchq.dashboard import charts
from pybatchq.dashboard.chart_scales import (
    LARGEST,
    Unit,
    axis_text,
    duration_text,
    time_ticks,
    value_scale,
    value_text,
)
from pybatchq.dashboard.charts import Chart, Series
from pybatchq.rates import ThroughputPoint

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"
CSS = Path(charts.__file__).parent / "static" / "charts.css"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"' onload='x()' \"><img src=x>",
    "]]> <!-- & &amp; &#0;",
    "\x00\x07\x1b[31m\x7f\x9f\ufffe\ud800\u202e",
    "{} {0} %s",
    "n" * 255,
)
# What the page's Content-Security-Policy refuses, or what would load or run something.
REFUSED = {"style", "script", "link", "image", "a", "use", "foreignObject", "iframe", "animate"}


def chart(
    *lines: Sequence[float | None], unit: Unit = "jobs", step_s: float = 60, title: str = "Jobs"
) -> Chart:
    """Of series s0, s1, …, from noon on."""
    count = max((len(line) for line in lines), default=0)
    at = [NOON + timedelta(seconds=n * step_s) for n in range(count)]
    return Chart(title, unit, at, step_s, [Series(f"s{n}", line) for n, line in enumerate(lines)])


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def refused(root: ET.Element) -> list[str]:
    """Elements and attributes that a strict page refuses."""
    found = [e.tag for e in root.iter() if e.tag.rsplit("}")[-1] in REFUSED]
    for element in root.iter():
        found += [
            name
            for name in element.attrib
            if name.startswith("on") or name.rsplit("}")[-1] in {"style", "href", "src", "id"}
        ]
    return found


def texts(root: ET.Element, group: str) -> list[str]:
    """The labels of an axis, as "x" or "y"."""
    return [
        text.text or ""
        for g in root.iter(f"{SVG}g")
        if g.get("class") == group
        for text in g.iter(f"{SVG}text")
    ]


def titles(root: ET.Element) -> list[str]:
    return [title.text or "" for title in root.iter(f"{SVG}title")]


def lines(root: ET.Element, colour: str = "c1") -> list[str]:
    return [p.get("d", "") for p in root.iter(f"{SVG}path") if p.get("class") == f"line {colour}"]


def dots(root: ET.Element, kind: str = "dot") -> int:
    return sum(kind in c.get("class", "").split() for c in root.iter(f"{SVG}circle"))


def point(minute: int, **changed: object) -> ThroughputPoint:
    fields: dict[str, object] = dict.fromkeys(ThroughputPoint.__struct_fields__)
    fields |= dict.fromkeys(
        ("enqueued", "completed", "cancelled", "failed", "reaped", "retried", "dead_letters"), 0
    )
    fields |= {"at": NOON + timedelta(minutes=minute), **changed}
    return ThroughputPoint(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("unit", ["jobs", "seconds"])
def test_a82_a_chart_has_no_style_script_or_link(unit: Unit, small: bool) -> None:
    drawn = charts.svg(chart([1, 2, None, 4000], [0, 1, 2, 3], unit=unit), small=small)
    root = parsed(drawn)
    assert root.tag == f"{SVG}svg"
    assert refused(root) == []
    assert "http" not in drawn.replace('"http://www.w3.org/2000/svg"', "")
    assert "<!--" not in drawn
    assert "<?" not in drawn


def test_each_step_tells_its_values_where_the_pointer_is() -> None:
    root = parsed(charts.svg(chart([1234, None, 3], [0, 0.25, 60])))
    assert titles(root) == [
        "12:00 UTC\ns0 1,234/min\ns1 0/min",
        "12:01 UTC\ns1 0.25/min",
        "12:02 UTC\ns0 3/min\ns1 60/min",
    ]
    steps = [g for g in root.iter(f"{SVG}g") if g.get("class") == "step"]
    widths = [
        float(r.get("width", "").removesuffix("%")) for g in steps for r in g.iter(f"{SVG}rect")
    ]
    assert len(widths) == 3
    assert sum(widths) == pytest.approx(100, abs=0.1)
    assert dots(root) == 5


def test_a_step_without_values_says_so() -> None:
    root = parsed(charts.svg(chart([1, None, 3], unit="seconds")))
    assert titles(root)[1] == "12:01 UTC\nnothing"


def test_a_long_chart_has_hover_areas_without_dots() -> None:
    root = parsed(charts.svg(chart(range(1, 289), step_s=300)))
    assert len(titles(root)) == 288
    assert titles(root)[-1].startswith("Nov 30 11:55 UTC\n")
    assert dots(root) == 0


def test_the_summary_tells_range_last_and_highest() -> None:
    root = parsed(charts.svg(chart([1, 5000, None], [None, None, None], title="Throughput")))
    assert root.get("role") == "img"
    assert root.get("aria-label") == (
        "Throughput, jobs per minute, Nov 29 12:00 UTC to Nov 29 12:02 UTC: "
        "s0 last 5,000/min, highest 5,000/min; s1 nothing yet"
    )


def test_a_gap_is_a_gap() -> None:
    whole = lines(parsed(charts.svg(chart([1, 2, 3, 4, 5]))))
    assert [d.count("M") for d in whole] == [1]
    assert len(lines(parsed(charts.svg(chart([1, 2, None, 4, 5]))))) == 2


@pytest.mark.parametrize("count", [5, 200])
def test_a_point_between_gaps_is_a_dot_that_is_always_seen(count: int) -> None:
    values = [1.0, 2.0, None, 4.0, None, *[1.0] * (count - 5)]
    root = parsed(charts.svg(chart(values)))
    assert dots(root, "alone") == 1


def test_steps_that_are_missing_are_a_gap() -> None:
    at = [NOON + timedelta(minutes=n) for n in (0, 1, 2, 10, 11)]
    drawn = charts.svg(Chart("Jobs", "jobs", at, 60, [Series("s", [1, 2, 3, 4, 5])]))
    assert len(lines(parsed(drawn))) == 2


def test_values_that_are_missing_at_the_end_are_a_gap() -> None:
    at = [NOON + timedelta(minutes=n) for n in range(3)]
    root = parsed(
        charts.svg(Chart("Jobs", "jobs", at, 60, [Series("s", [1]), Series("t", [2] * 9)]))
    )
    assert [title.split("\n")[1:] for title in titles(root)] == [
        ["s 1/min", "t 2/min"],
        ["t 2/min"],
        ["t 2/min"],
    ]


@pytest.mark.parametrize(
    "empty",
    [
        chart(),
        chart([], []),
        chart([0, 0, 0], [0, -0.0, None]),
        chart([None, None]),
        chart([7]),
        chart([math.nan, math.inf, -math.inf]),
        Chart("Jobs", "jobs", [NOON, NOON], 60, [Series("s", [1, 2])]),
    ],
    ids=["no series", "no points", "zeros", "none", "one point", "not finite", "one time"],
)
@pytest.mark.parametrize("small", [False, True])
def test_nothing_to_show_says_nothing_yet(empty: Chart, small: bool) -> None:
    root = parsed(charts.svg(empty, small=small))
    assert [text.text for text in root.iter(f"{SVG}text")] == ["nothing yet"]
    assert root.get("aria-label") == "Jobs: nothing yet"
    assert refused(root) == []
    assert "nothing yet" in charts.figure(empty, small=small)


@pytest.mark.parametrize("name", HOSTILE)
def test_f090_names_come_out_as_text(name: str) -> None:
    hostile = Chart(name, "jobs", [NOON, NOON + timedelta(minutes=1)], 60, [Series(name, [1, 2])])
    shown = "".join(c if c.isprintable() and c != "\ud800" else "\ufffd" for c in name)
    root = parsed(charts.svg(hostile))
    assert refused(root) == []
    assert titles(root)[0] == f"12:00 UTC\n{shown} 1/min"
    assert (root.get("aria-label") or "").startswith(f"{shown}, jobs per minute, ")
    page = parsed(charts.figure(hostile))
    assert [e for e in page.iter() if e.tag in REFUSED] == []
    assert [li.text for li in page.iter("li")] == [shown]
    assert [s.text for s in page.iter("span") if s.get("class") == "chart-title"] == [shown]
    spark = parsed(charts.sparkline(charts.Series(name, [1, 2]), title=name))
    assert spark.get("aria-label") == f"{shown}: {shown} last 2/min, highest 2/min"
    assert "chart-svg" in charts.svg(Chart(name, "jobs", [], 60, []))


def test_axes_of_an_hour() -> None:
    root = parsed(charts.svg(chart([float(n * 30) for n in range(61)])))
    assert texts(root, "y") == ["0", "500", "1k", "1.5k", "2k"]
    assert texts(root, "x") == ["12:00", "12:15", "12:30", "12:45", "13:00"]


def test_axes_of_a_week_have_days() -> None:
    root = parsed(charts.svg(chart([0.2] * 168, unit="seconds", step_s=3600)))
    assert texts(root, "y") == ["0 s", "50 ms", "100 ms", "150 ms", "200 ms"]
    assert "Dec 1" in texts(root, "x")
    assert not [text for text in texts(root, "x") if ":" in text]


def test_midnight_is_a_day() -> None:
    root = parsed(charts.svg(chart([1.0] * 289, step_s=300)))
    major = [
        text.text
        for text in root.iter(f"{SVG}text")
        if text.get("y") == "100%" and "minor" not in text.get("class", "")
    ]
    assert major == ["12:00", "18:00", "Nov 30", "06:00", "12:00"]


def test_durations_far_apart_have_a_logarithmic_axis_that_says_so() -> None:
    far = parsed(charts.svg(chart([0.02, 0.03], [20, 30], unit="seconds")))
    assert texts(far, "y") == ["10 ms", "100 ms", "1 s", "10 s", "1 min", "log scale"]
    assert ", log scale, " in (far.get("aria-label") or "")
    near = parsed(charts.svg(chart([0.02, 0.03], [0.2, 0.3], unit="seconds")))
    assert "log scale" not in texts(near, "y")
    counts = parsed(charts.svg(chart([1, 1], [100000, 1], unit="jobs")))
    assert "log scale" not in texts(counts, "y")


def test_a_small_chart_has_the_ends_of_its_axes_and_hover() -> None:
    root = parsed(charts.svg(chart([float(n) for n in range(60)]), small=True))
    assert texts(root, "y") == ["0", "60"]
    assert texts(root, "x") == ["12:00", "12:59"]
    assert len(titles(root)) == 60


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.0004, "0.4 ms"), (0.25, "250 ms"), (0.9996, "1 s"), (1.5, "1.5 s"),
        (59.96, "1 min"), (180, "3 min"), (5400, "1.5 h"), (86400 * 12, "12 d"),
        (86400 * 1.25e6, "1.25M d"),
    ],
)  # fmt: skip
def test_a_duration_has_the_unit_people_use(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "axis", "shown"),
    [
        (0, "0", "0/min"), (0.0007, "0.0007", "0.0007/min"), (0.2, "0.2", "0.2/min"),
        (12.34, "12.3", "12.3/min"), (999.7, "1k", "1,000/min"), (1234, "1.23k", "1,234/min"),
        (2.5e6, "2.5M", "2,500,000/min"), (LARGEST, "1000T", "1,000,000,000,000,000/min"),
    ],
)  # fmt: skip
def test_a_number_is_short_on_an_axis_and_whole_on_hover(
    value: float, axis: str, shown: str
) -> None:
    assert axis_text(value, "jobs") == axis
    assert value_text(value, "jobs") == shown


def test_throughput_is_jobs_a_minute() -> None:
    points = [point(n * 5, enqueued=50, completed=40, failed=5, dead_letters=1) for n in range(3)]
    drawn = charts.throughput(points, 300)
    assert [(s.name, list(s.values)) for s in drawn.series] == [
        ("enqueued", [10] * 3),
        ("completed", [8] * 3),
        ("failed", [1] * 3),
        ("dead letters", [0.2] * 3),
    ]
    assert titles(parsed(charts.svg(drawn)))[0].startswith("12:00 UTC\nenqueued 10/min\n")


def test_durations_are_gaps_where_nothing_was_completed() -> None:
    def timed(prefix: str) -> dict[str, timedelta]:
        return {f"{prefix}_p{p}": timedelta(milliseconds=p) for p in (50, 95, 99)}

    points = [point(0, **timed("wait"), **timed("run")), point(1), point(2, **timed("wait"))]
    waits, runs = charts.waits(points, 60), charts.runs(points, 60)
    assert [(s.name, list(s.values)) for s in waits.series] == [
        ("p50", [0.05, None, 0.05]),
        ("p95", [0.095, None, 0.095]),
        ("p99", [0.099, None, 0.099]),
    ]
    assert list(runs.series[0].values) == [0.05, None, None]
    assert dots(parsed(charts.svg(waits)), "alone") == 6


def test_a_table_has_the_newest_first() -> None:
    shown = charts.table(chart([1, None, 3], [4, 5, 6]), most=2)
    assert shown.head == ("time", "s0", "s1")
    assert shown.rows == (("12:02 UTC", "3/min", "6/min"), ("12:01 UTC", "–", "5/min"))
    assert shown.left_out == 1


def test_a_figure_has_everything() -> None:
    page = parsed(charts.figure(chart([1.0] * 100, [2.0] * 100)))
    assert [li.get("class") for li in page.iter("li")] == ["c1", "c2"]
    assert len(list(page.iter(f"{SVG}svg"))) == 2  # the inner one is stretched
    assert len(list(page.iter("tr"))) == 61
    assert [caption.text for caption in page.iter("caption")] == ["the last 60 of 100 steps"]
    assert "<table" not in charts.figure(chart([1, 2]), small=True)


@pytest.mark.parametrize(
    ("values", "told", "d"),
    [
        ([], "nothing yet", "M0 23H100"),
        ([0, 0], "last 0/min, highest 0/min", "M0 23H100"),
        ([2, 4, 2], "last 2/min, highest 4/min", "M0.0 12.0h0L50.0 1.0L100.0 12.0"),
        ([4, None, -4], "last -4/min, highest 4/min", "M0.0 1.0h0M100.0 23.0h0"),
    ],
)
def test_a_sparkline_tells_its_last_and_highest(
    values: list[float | None], told: str, d: str
) -> None:
    root = parsed(charts.sparkline(charts.Series("done", values), title="q"))
    assert titles(root) == [f"q: done {told}"]
    assert lines(root) == [d]
    assert refused(root) == []


def test_the_same_data_is_drawn_once() -> None:
    first = charts.svg(chart([1, 2, 3]))
    assert charts.svg(chart((1, 2, 3))) is first
    assert charts.svg(chart([1, 2, 4])) != first
    assert charts.svg(chart([1, 2, 3]), small=True) != first


def test_a_chart_takes_milliseconds() -> None:
    """About 8 ms and 20 ms on an idle machine; the best of a few stands ten times that."""
    for count, step_s, most_s in ((60, 60, 0.09), (288, 300, 0.2)):
        took = []
        for n in range(5):
            data = chart(*[[float(n + i * k % 97) for i in range(count)] for k in range(1, 5)])
            started = time.perf_counter()
            charts.svg(Chart("Jobs", "jobs", data.at, step_s, data.series))
            took.append(time.perf_counter() - started)
        assert min(took) < most_s


def test_pygal_leaves_no_finder_that_warns_of_each_missing_module() -> None:
    assert [f for f in sys.meta_path if type(f).__module__.startswith("pygal")] == []


def test_the_stylesheet_names_the_classes_and_only_colours_of_the_theme() -> None:
    css = CSS.read_text()
    theme = {"--text", "--muted", "--line", "--surface", *(f"--c{n}" for n in range(1, 7))}
    assert set(re.findall(r"var\((--[\w-]+)\)", css)) == theme
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b|url\(|@import", css) == []
    data = chart(*[[1.0, None, 2.0, 3.0]] * 6, [9000.0] * 4, unit="seconds", title="all")
    shown = charts.figure(data) + charts.figure(data, small=True) + charts.figure(chart())
    used = {name for names in re.findall(r'class="([^"]+)"', shown) for name in names.split()}
    assert {name for name in used if not re.search(rf"\.{name}\b", css)} == {"note", "steps"}


moments = st.integers(0, 2**33).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
values = st.lists(
    st.none() | st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e308]), max_size=12
)


@st.composite
def any_chart(draw: st.DrawFn) -> Chart:
    start, step_s = draw(moments), draw(st.floats(1, 1e6))
    return Chart(
        draw(st.text(max_size=30)),
        draw(st.sampled_from(["jobs", "seconds"])),
        [start + timedelta(seconds=n * step_s) for n in range(draw(st.integers(0, 12)))],
        step_s,
        draw(st.lists(st.builds(Series, st.text(max_size=20), values), max_size=8)),
    )


@given(drawn=any_chart(), small=st.booleans())
def test_any_series_make_a_chart(drawn: Chart, small: bool) -> None:
    root = parsed(charts.svg(drawn, small=small))
    assert refused(root) == []
    assert not re.search(r"nan|inf", " ".join(lines(root)))
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cy", "").removesuffix("%")) <= 100
    parsed(charts.figure(drawn, small=small))
    for series in drawn.series:
        parsed(charts.sparkline(series, title=series.name, unit=drawn.unit))


@given(
    known=st.lists(st.floats(0, LARGEST), min_size=1).filter(lambda known: max(known) > 0),
    unit=st.sampled_from(["jobs", "seconds"]),
)
def test_a_scale_reaches_over_all_values_with_few_labels(known: list[float], unit: Unit) -> None:
    scale = value_scale(known, unit)
    assert scale.top >= max(known) * (1 - 1e-6)
    assert [scale.at(scale.low), scale.at(scale.top)] == [0, 1]
    assert [tick.at for tick in scale.ticks] == sorted({tick.at for tick in scale.ticks})
    assert (scale.ticks[0].at, scale.ticks[-1].at) == (0, 1)
    assert 2 <= len(scale.ticks) <= 7
    labels = [tick.label for tick in scale.ticks]
    assert len(set(labels)) == len(labels)


@given(
    first=moments,
    step_s=st.sampled_from([1, 60, 300, 900, 3600, 86400]),
    count=st.integers(2, 400),
)
def test_times_on_the_axis_are_few_and_round(first: datetime, step_s: int, count: int) -> None:
    ticks = time_ticks(first, first + timedelta(seconds=step_s * (count - 1)), step_s)
    assert sum(not tick.minor for tick in ticks) <= 5
    assert len(ticks) <= 9
    assert all(0 <= tick.at <= 1 for tick in ticks)
    if count >= 12:
        assert sum(not tick.minor for tick in ticks) >= 2
