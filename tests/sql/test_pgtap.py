"""Runs tests/sql/<folder>/<function>.sql, the pgTAP test of the function of that path.

Each file runs in a database of its own with batchq and pgTAP in it, as superuser, with the
search path `batchq, pgtap, public`, and begins a transaction that it rolls back.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.servers import Databases

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*.sql"))
TIMEOUT_S = 50

_PLAN = re.compile(r"1\.\.(\d+)")
_RESULT = re.compile(r"(not )?ok \d+(?: - (.*))?")


@dataclass(frozen=True, slots=True)
class Tap:
    """What a file reported: its plan, how many results came, and the text of the bad ones."""

    planned: int | None
    ran: int
    failures: tuple[str, ...]


def parse_tap(output: str) -> Tap:
    """A failure's text is its `not ok` line and the `#` lines below it. TODO is no failure."""
    planned: int | None = None
    ran = 0
    failures: list[str] = []
    failing = False
    for line in output.splitlines():
        if plan := _PLAN.fullmatch(line):
            planned = int(plan[1])
        elif result := _RESULT.fullmatch(line):
            ran += 1
            failing = result[1] is not None and "# TODO" not in line
            if failing:
                failures.append(line)
        elif failing and line.startswith("#"):
            failures[-1] += f"\n{line}"
    return Tap(planned, ran, tuple(failures))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_pgtap(file: Path, debian_template: tuple[Databases, str]) -> None:
    databases, template = debian_template
    with databases.fresh(template) as dsn:
        done = subprocess.run(
            [databases.bin_dir / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", file, dsn],
            env={**os.environ, "PGOPTIONS": "-c search_path=batchq,pgtap,public"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    tap = parse_tap(done.stdout)
    problems = list(tap.failures)
    if done.returncode != 0:
        problems.append(done.stderr.strip())
    if tap.planned is None:
        problems.append("no plan")
    elif tap.planned != tap.ran:
        problems.append(f"planned {tap.planned} tests, ran {tap.ran}")
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


def test_tap_is_understood() -> None:
    output = "1..4\nok 1 - fine\nnot ok 2 - bad\n# Failed test 2\n#   have: 1\nok 3\n# note\n"
    assert parse_tap(output + "not ok 4 - later # TODO soon\n") == Tap(
        planned=4, ran=4, failures=("not ok 2 - bad\n# Failed test 2\n#   have: 1",)
    )
