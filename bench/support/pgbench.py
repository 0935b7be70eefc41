"""Running pgbench with a script of ours and reading what it prints and logs."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.support.model import BenchError

_PROCESSED = re.compile(r"^number of transactions actually processed: (\d+)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: (\d+)", re.MULTILINE)
_TPS = re.compile(r"^tps = ([0-9.]+) \(without", re.MULTILINE)
_LATENCY = re.compile(r"^latency average = ([0-9.]+) ms", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of pgbench's log. `seconds` runs from its real start, not the scheduled one."""

    script: int
    ended_at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    transactions: int
    tps: float
    """Transactions a second, the making of connections left out."""
    latency_ms: float
    log: list[Transaction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Load:
    """A pgbench run: so many clients for a time, or for a number of transactions each.

    `rate` throttles the sum of all clients to transactions a second. Several scripts are
    drawn from at random, each as often as the others.
    """

    scripts: Sequence[str]
    clients: int
    seconds: float | None = None
    each: int | None = None
    rate: float | None = None
    mode: str = "prepared"
    variables: Mapping[str, str] = field(default_factory=dict)
    logged: bool = False


def run(bin_dir: Path, dsn: str, load: Load) -> Result:
    """Run to the end. BenchError when any transaction failed or any client gave up."""
    with tempfile.TemporaryDirectory(prefix="bench-pgbench-") as scratch:
        folder = Path(scratch)
        done = subprocess.run(
            _command(bin_dir, dsn, load, folder),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
        if done.returncode != 0 or "error" in done.stderr.lower():
            raise BenchError(f"pgbench failed: {_first_error(done.stderr)}")
        failed = _FAILED.search(done.stdout)
        if failed and int(failed[1]):
            raise BenchError(f"{failed[1]} transactions of pgbench failed")
        return Result(
            transactions=int(_number(_PROCESSED, done.stdout)),
            tps=_number(_TPS, done.stdout),
            latency_ms=_number(_LATENCY, done.stdout),
            log=_read_log(folder, throttled=load.rate is not None) if load.logged else [],
        )


def _first_error(text: str) -> str:
    """The server's own words where there are any: pgbench puts the whole statement around them."""
    found = re.search(r"ERROR: .*", text) or re.search(r"error: .*", text)
    return found[0] if found else text.strip()[-200:]


def _command(bin_dir: Path, dsn: str, load: Load, folder: Path) -> list[str]:
    threads = min(load.clients, os.cpu_count() or 1)
    command = [str(bin_dir / "pgbench"), "-n", "-M", load.mode]
    command += ["-c", str(load.clients), "-j", str(threads)]
    if load.seconds is not None:
        command += ["-T", str(max(1, round(load.seconds)))]
    if load.each is not None:
        command += ["-t", str(load.each)]
    if load.rate is not None:
        command += ["-R", f"{load.rate:.3f}"]
    for name, value in load.variables.items():
        command += ["-D", f"{name}={value}"]
    if load.logged:
        command += ["-l", f"--log-prefix={folder / 'log'}"]
    for number, script in enumerate(load.scripts):
        path = folder / f"script{number}.sql"
        path.write_text(script)
        command += ["-f", str(path)]
    return [*command, dsn]


def _number(pattern: re.Pattern[str], text: str) -> float:
    found = pattern.search(text)
    if found is None:
        raise BenchError(f"pgbench printed something else than expected:\n{text[-2000:]}")
    return float(found[1])


def _read_log(folder: Path, *, throttled: bool) -> list[Transaction]:
    """Columns: client, number, microseconds, script, epoch, its microseconds[, schedule lag]."""
    entries = []
    for path in folder.glob("log.*"):
        for line in path.read_text().splitlines():
            columns = line.split()
            took = int(columns[2]) - (int(columns[6]) if throttled else 0)
            ended = int(columns[4]) + int(columns[5]) / 1e6
            entries.append(Transaction(int(columns[3]), ended, took / 1e6))
    entries.sort(key=lambda entry: entry.ended_at)
    return entries
