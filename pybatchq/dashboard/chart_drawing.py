"""A chart as SVG for a page without inline styles and scripts: pygal's drawing, laid out anew.

pygal gives lines, guides and labels in one coordinate system, in which texts shrink with the
picture. Here the lines stand in an inner `<svg>` that is stretched to any width, and texts, dots
and hover areas beside it at percentages, so that they keep their size on a phone. Labels stand
outside the outer `<svg>`, in its margins (see static/charts.css).

Each step of time is one hover area over the whole height, whose `<title>` has all its values.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pygal

from pybatchq.dashboard.chart_scales import Tick

# pygal leaves a finder there for its maps, which are not used here, that answers each failed import
# of the process with an ImportWarning (Python 3.11).
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("pygal")]

_COLOURS = 6
_WIDTH, _HEIGHT = 1000, 240  # of the lines, before they are stretched
_MOST_DOTTED = 150  # steps; dots of more would touch each other, and are most of the time it takes
_LONG_FRACTION = re.compile(r"(\.\d)\d+")


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything from 0 to 1, left to right and upwards; texts without control characters.

    `steps`: where each is, and the text shown over it. `lines`: for each series its value at each
    step. `breaks`: the steps before which some are missing.
    """

    summary: str
    steps: tuple[tuple[float, str], ...]
    lines: tuple[tuple[float | None, ...], ...]
    breaks: frozenset[int]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    is_small: bool
    note: str = ""


def draw(drawing: Drawing) -> str:
    chart: Any = pygal.XY(
        width=_WIDTH,
        height=_HEIGHT,
        margin=0,
        css=(),
        js=(),
        xrange=(0, 1),
        range=(0, 1),
        show_x_labels=False,
        show_y_labels=False,
        show_legend=False,
        show_dots=False,
        allow_interruptions=True,
        disable_xml_declaration=True,
        strict=True,
    )
    for line in drawing.lines:
        chart.add("", _points(drawing, line))
    chart.add_xml_filter(_laid_out(chart, drawing))
    text: str = chart.render(is_unicode=True)
    return text


def _points(drawing: Drawing, line: Sequence[float | None]) -> list[tuple[float, float | None]]:
    points: list[tuple[float, float | None]] = []
    for n, ((at, _), value) in enumerate(zip(drawing.steps, line, strict=True)):
        if n in drawing.breaks:
            points.append((at, None))
        points.append((at, value))
    return points


def _laid_out(chart: Any, drawing: Drawing) -> Callable[[Any], Any]:
    """The filter that makes our picture of pygal's; it runs while `chart` still has its state."""

    def laid_out(root: Any) -> Any:
        paths = [
            (index, path.get("d"))
            for index in range(len(drawing.lines))
            for series in chart.nodes["plot"].iter("g")
            if f"serie-{index}" in series.get("class", "").split()
            for path in series.iter("path")
        ]
        for child in list(root):
            root.remove(child)
        for name in ("id", "viewBox"):
            root.attrib.pop(name, None)
        root.set("class", "chart-svg small" if drawing.is_small else "chart-svg")
        root.set("role", "img")
        root.set("aria-label", drawing.summary)
        _axes(chart, drawing)
        stretched = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "preserveAspectRatio": "none"}
        inner = chart.svg.node(root, "svg", stretched, class_="lines", width="100%", height="100%")
        for index, d in paths:
            path = _LONG_FRACTION.sub(r"\1", d)
            chart.svg.node(inner, "path", class_=f"line {colour(index)}", d=path)
        _steps(chart, drawing)
        return root

    return laid_out


def _axes(chart: Any, drawing: Drawing) -> None:
    node = chart.svg.node
    axis = node(None, "g", class_="y")
    for tick in drawing.y_ticks:
        y = _percent(chart.view.y(tick.at) / _HEIGHT)
        node(axis, "line", class_="guide" if tick.at else "base", x1="0", x2="100%", y1=y, y2=y)
        node(axis, "text", x="-8", y=y, dy="0.32em").text = tick.label
    if drawing.note:
        node(axis, "text", class_="note", x="100%", y="0", dy="-0.3em").text = drawing.note
    axis = node(None, "g", class_="x")
    for tick in drawing.x_ticks:
        x = _percent(chart.view.x(tick.at) / _WIDTH)
        classes = "minor" if tick.minor else ""
        if drawing.is_small:  # both ends only, without margins for half a label
            classes = "first" if tick.at < 0.5 else "last"
        node(axis, "text", class_=classes, x=x, y="100%", dy="1.4em").text = tick.label


def _steps(chart: Any, drawing: Drawing) -> None:
    """Hover areas, each from half-way after the last step to half-way before the next."""
    node, view = chart.svg.node, chart.view
    group = node(None, "g", class_="steps")
    places = [view.x(at) / _WIDTH for at, _ in drawing.steps]
    borders = [0.0, *((a + b) / 2 for a, b in pairwise(places)), 1.0]
    dotted = len(places) <= _MOST_DOTTED
    for n, (_, text) in enumerate(drawing.steps):
        step = node(group, "g", class_="step")
        node(step, "title").text = text
        width = _percent(borders[n + 1] - borders[n])
        node(step, "rect", x=_percent(borders[n]), y="0", width=width, height="100%")
        for index, line in enumerate(drawing.lines):
            value, alone = line[n], _is_alone(drawing, line, n)
            if value is not None and (dotted or alone):
                look = f"dot {'alone ' if alone else ''}{colour(index)}"
                cx, cy = _percent(places[n]), _percent(view.y(value) / _HEIGHT)
                node(step, "circle", class_=look, cx=cx, cy=cy, r="3.5")


def _is_alone(drawing: Drawing, line: Sequence[float | None], n: int) -> bool:
    """Whether no line goes to the step's point, so that nothing but a dot shows it."""
    before = n > 0 and n not in drawing.breaks and line[n - 1] is not None
    after = n + 1 < len(line) and n + 1 not in drawing.breaks and line[n + 1] is not None
    return not before and not after


def colour(index: int) -> str:
    """The class of a series; more than there are begin anew."""
    return f"c{index % _COLOURS + 1}"


def _percent(part: float) -> str:
    return f"{part * 100:.2f}%"
