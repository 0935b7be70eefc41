"""Running wrk, a client of others, and reading what it prints."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.support.model import BenchError

SCRIPT = """
wrk.method = "POST"
wrk.body = [[{body}]]
wrk.headers["Content-Type"] = "application/json"
done = function(summary, latency, requests)
    local e = summary.errors
    print("BENCH", summary.requests, summary.duration, latency:percentile(50),
        latency:percentile(99), latency.max, e.status, e.connect + e.read + e.write + e.timeout)
end
"""
_FOUND = re.compile(r"^BENCH\s+(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """Its latencies are corrected: an answer that took longer than the mean stands for those that
    could not be sent meanwhile.
    """

    answers: int
    rate: float
    p50_ms: float
    p99_ms: float
    max_ms: float


def run(program: str, url: str, *, connections: int, seconds: float, body: str) -> Found:
    """A closed loop by one thread. BenchError when anything went wrong."""
    with tempfile.TemporaryDirectory(prefix="bench-wrk-") as folder:
        script = Path(folder) / "post.lua"
        script.write_text(SCRIPT.replace("{body}", body))
        command = [program, "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--timeout", "10s",
                   "-s", str(script), url]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _FOUND.search(done.stdout)
    if done.returncode or found is None:
        raise BenchError(f"wrk failed: {(done.stderr or done.stdout).strip()[-200:]}")
    answers, took_us, p50_us, p99_us, max_us, no_2xx, errors = map(float, found[1].split())
    if no_2xx or errors:
        raise BenchError(f"wrk had {no_2xx:g} answers that were no 2xx and {errors:g} errors")
    return Found(int(answers), answers / took_us * 1e6, p50_us / 1e3, p99_us / 1e3, max_us / 1e3)
