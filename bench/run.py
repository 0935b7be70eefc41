"""The benchmark in one command: `python bench/run.py --help`. Method: bench/README.md."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.support import machine, report
from bench.support.context import BENCH, REPOSITORY, SETTINGS, Bench
from bench.support.model import BenchError, Case
from bench.support.runner import Outcome, reason_of, run_case
from bench.support.scale import LONG, QUICK, SHORT, Scale
from bench.workloads import LONG_ONLY, WORKLOADS, Workload
from pybatchq.embedded import EmbeddedError, Server

WIDTH = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--list", "listing", is_flag=True, help="Name the workloads and stop.")
@click.option("--long", "long", is_flag=True, help="The full sizes and times (hours).")
@click.option("--quick", is_flag=True, help="Tiny sizes: does everything run? No result.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds of every case.")
@click.option("--seconds", type=click.FloatRange(min=1), help="How long each load of http lasts.")
@click.option("--clients", type=click.IntRange(min=1), help="How many clients http has.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Where the result goes.")
@click.option(
    "--postgres",
    "bin_dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A PostgreSQL bin folder instead of the embedded server's.",
)
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=BENCH / ".cache",
    show_default="bench/.cache",
    help="Where rival products are installed.",
)
def main(  # noqa: PLR0917 - click passes them by name
    names: tuple[str, ...],
    listing: bool,
    long: bool,
    quick: bool,
    rounds: int | None,
    seconds: float | None,
    clients: int | None,
    file: Path | None,
    bin_dir: Path | None,
    cache: Path,
) -> None:
    """Measure batchq beside its rivals, on a server of the bench's own.

    Without a NAME all workloads run, in their short form (about an hour). The result is printed
    and written as JSON, by default into bench/results. Ends with status 1 when a cell fell short.
    """
    if listing:
        for name, workload in {**WORKLOADS, **LONG_ONLY}.items():
            summary = (sys.modules[workload.__module__].__doc__ or "").strip().splitlines()[0]
            click.echo(f"{name:16} {summary}")
        return
    scale = QUICK if quick else LONG if long else SHORT
    scale = replace(
        scale, http_s=seconds or scale.http_s, http_clients=clients or scale.http_clients
    )
    chosen = _chosen(names, everything=long)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    keep = file or not quick
    path = file or _result_path(scale)
    outcomes: dict[str, list[Outcome]] = {}
    failures: dict[str, str] = {}
    try:
        with _server(bin_dir) as server:
            facts = machine.describe(server.dsn(), REPOSITORY)
            bench = Bench(server, scale, cache.absolute())
            for name, found in _run_all(console, bench, chosen, rounds):
                if isinstance(found, str):
                    failures[name] = found
                else:
                    outcomes[name] = found
                if keep:  # after each workload: an interrupted night is not lost
                    report.write_json(
                        path, scale.name, facts, SETTINGS, outcomes=outcomes, failures=failures
                    )
    except (EmbeddedError, BenchError) as error:
        raise click.ClickException(str(error)) from error
    if keep:
        console.print(f"written: {path}")
    words = [v.word for found in outcomes.values() for o in found for v in o.verdicts()]
    words += ["FAILED"] * len(failures)
    counted = [word for word in report.WORD_STYLE if word != "ratio"]
    console.print(", ".join(f"{words.count(word)} {word}" for word in counted))
    sys.exit(1 if {"SHORT", "FAILED"} & {*words} else 0)


def _chosen(names: tuple[str, ...], *, everything: bool) -> dict[str, Workload]:
    known = {**WORKLOADS, **LONG_ONLY}
    for name in names:
        if name not in known:
            raise click.UsageError(f"no workload {name!r}; see --list")
    if names:
        return {name: known[name] for name in names}
    return known if everything else WORKLOADS


@contextlib.contextmanager
def _server(bin_dir: Path | None) -> Iterator[Server]:
    """A server in a folder of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="batchq-bench-") as scratch:
        folder = Path(scratch) / "server"
        with Server(folder, bin_dir=bin_dir, settings=SETTINGS, delete=True) as server:
            yield server


@dataclass(slots=True)
class Runner:
    """Runs workloads one after the other, with bars for how far it is."""

    console: Console
    bench: Bench
    rounds: int | None
    progress: Progress
    current: TaskID

    def workload(self, workload: Workload) -> list[Outcome]:
        """Every case; what its set-up cannot do is the workload's failure, not the run's."""
        outcomes = []
        for case in workload(self.bench):
            outcome = self._case(case)
            outcomes.append(outcome)
            report.print_outcome(self.console, outcome)
        return outcomes

    def _case(self, case: Case) -> Outcome:
        default = self.bench.scale.rounds
        rounds = self.rounds or min(default, case.rounds or default)
        self.progress.reset(self.current, total=rounds * len(case.contestants))

        def step(contestant: str, number: int) -> None:
            text = f"{contestant}, round {number} of {rounds}"
            self.progress.update(self.current, description=text, advance=1)

        return run_case(case, rounds, step)


def _run_all(
    console: Console, bench: Bench, chosen: dict[str, Workload], rounds: int | None
) -> Iterator[tuple[str, list[Outcome] | str]]:
    """Each workload's name with its outcomes, or with the reason why it could not be set up."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        overall = progress.add_task("workloads", total=len(chosen))
        current = progress.add_task("", total=None)
        bench.note = lambda text: progress.update(current, description=text)
        runner = Runner(console, bench, rounds, progress, current)
        for name, workload in chosen.items():
            progress.update(overall, description=name)
            try:
                found: list[Outcome] | str = runner.workload(workload)
            except Exception as error:  # noqa: BLE001 - the other workloads still count
                found = reason_of(error)
                console.print(f"[bold red]FAILED[/] {name}: {escape(found)}")
            yield name, found
            progress.advance(overall)


def _result_path(scale: Scale) -> Path:
    stamp = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%M%SZ")
    return BENCH / "results" / f"{stamp}-{scale.name}.json"


if __name__ == "__main__":
    main()
