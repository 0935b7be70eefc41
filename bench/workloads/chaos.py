"""The tests of what must never happen, in their long form: how many of them failed."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.support.context import Bench
from bench.support.model import BenchError, Case, Contestant, Sample, Target

ROOT = Path(__file__).resolve().parents[2]
# what → (tests, variable that asks for the long form, its value, limit of one test in seconds)
LONG_FORMS = {
    "100 SIGKILLs of workers": ("tests/chaos/test_kills.py", "BATCHQ_KILLS", "100", 1200),
    "20 SIGKILLs of the server": (
        "tests/chaos/test_server_crash.py", "BATCHQ_CRASH_ROUNDS", "20", 1200,
    ),
    "floor under stress, 120 s": (
        "tests/integration/test_floor.py", "BATCHQ_STRESS_SECONDS", "120", 600,
    ),
    "state machine, 3,000 examples": (
        "tests/property/test_machine.py", "BATCHQ_HYPOTHESIS", "long", 7200,
    ),
}  # fmt: skip


def cases(_bench: Bench) -> Iterator[Case]:
    """One case a long form. Each test has a witness of its own; see the tests."""
    for title, form in LONG_FORMS.items():
        yield Case(
            title=title,
            unit="tests that failed",
            contestants=[Contestant("batchq", functools.partial(_run, *form))],
            targets=[Target("batchq", "<=", 0)],
            rounds=1,
        )


def _run(tests: str, variable: str, value: str, limit_s: int) -> Sample:
    command = [sys.executable, "-m", "pytest", "-q", f"--timeout={limit_s}", tests]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {variable: value}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    if not counts.get("passed") and not counts.get("failed"):
        raise BenchError(f"pytest ran no test: {done.stdout[-500:]}{done.stderr[-500:]}")
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return Sample(failed, {"passed": counts.get("passed", 0)})
