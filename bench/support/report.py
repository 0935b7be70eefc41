"""The table of a case, and the JSON of a whole run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.support.runner import Outcome, Verdict
from bench.support.stats import Summary, summarise

WORD_STYLE = {
    "ok": "green",
    "SHORT": "bold red",
    "FAILED": "bold red",
    "not run": "yellow",
    "ratio": "dim",
}
REASON_WIDTH = 100


def number(value: float) -> str:
    """Three or more digits: 12,345 or 123 or 1.23 or 0.012."""
    if not math.isfinite(value):
        return str(value)
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def span(summary: Summary) -> str:
    return f"{number(summary.low)}–{number(summary.high)}"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """What everybody reached and spent, then the promises and whether they were kept."""
    table = Table(title=f"{outcome.case.title} ({outcome.case.unit})", title_justify="left")
    table.add_column("contestant", no_wrap=True)
    for heading in ("median", "min–max", "cpu µs/job", "WAL B/job", "dead/job"):
        table.add_column(heading, justify="right")
    table.add_column("beside it")
    for contestant in outcome.case.contestants:
        table.add_row(contestant.name, *_cells(outcome, contestant.name))
    console.print(table)
    for word, reasons in (("not run", outcome.not_run), ("FAILED", outcome.failed)):
        for name, reason in reasons.items():
            shown = escape(" ".join(reason.split())[:REASON_WIDTH])
            console.print(f"  [{WORD_STYLE[word]}]{word}[/]  {name}: {shown}")
    for verdict in outcome.verdicts():
        console.print(_verdict_line(verdict))
    console.print()


def _cells(outcome: Outcome, name: str) -> list[str]:
    samples = outcome.samples.get(name, [])
    if not samples:
        return ["—"]
    values = summarise([sample.value for sample in samples])
    costs = [sample.cost for sample in samples if sample.cost is not None]
    spent = ["", "", ""]
    if costs:
        spent = [
            number(summarise([cost.cpu_us_per_job for cost in costs]).median),
            number(summarise([cost.wal_bytes_per_job for cost in costs]).median),
            number(summarise([cost.dead_tuples_per_job for cost in costs]).median),
        ]
    beside = [
        f"{key} {number(summarise([s.details[key] for s in samples]).median)}"
        for key in samples[0].details
    ]
    return [number(values.median), span(values), *spent, ", ".join(beside)]


def _verdict_line(verdict: Verdict) -> str:
    word = f"[{WORD_STYLE[verdict.word]}]{verdict.word}[/]"
    line = f"  {word}  {verdict.target.subject}: {verdict.target.text()}"
    if verdict.measured is None:
        return line
    return f"{line} — measured {number(verdict.measured.median)} ({span(verdict.measured)})"


def as_json(outcome: Outcome) -> dict[str, object]:
    """Every raw sample, and the verdicts."""
    return {
        "title": outcome.case.title,
        "unit": outcome.case.unit,
        "contestants": {
            contestant.name: {
                "samples": [asdict(s) for s in outcome.samples.get(contestant.name, [])],
                "not_run": outcome.not_run.get(contestant.name),
                "failed": outcome.failed.get(contestant.name),
            }
            for contestant in outcome.case.contestants
        },
        "targets": [
            {
                "subject": verdict.target.subject,
                "target": verdict.target.text(),
                "measured": asdict(verdict.measured) if verdict.measured else None,
                "verdict": verdict.word,
            }
            for verdict in outcome.verdicts()
        ],
    }


def write_json(
    path: Path,
    form: str,
    facts: Mapping[str, object],
    settings: Mapping[str, object],
    *,
    outcomes: Mapping[str, list[Outcome]],
    failures: Mapping[str, str],
) -> None:
    """A whole run. `form` is the name of its scale."""
    run = {
        "form": form,
        "machine": facts,
        "settings": dict(settings),
        "workloads": {name: [as_json(o) for o in found] for name, found in outcomes.items()},
        "failures": dict(failures),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1, ensure_ascii=False) + "\n")
