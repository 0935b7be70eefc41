"""Real products: where they are installed, and how their drivers are started.

They live in the bench's cache folder, pinned, and are installed when a workload first asks for
one. A product that cannot be had is reported as not run.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psycopg.conninfo import conninfo_to_dict

from bench.drivers.processes import Driver
from bench.support.context import BENCH, REPOSITORY, Bench
from bench.support.model import NotRunError

NODE_NEEDED = (22, 18)
NODE_PACKAGES = ("node@22.23.3", "pg@8.23.1", "graphile-worker@0.18.0", "pg-boss@12.38.0")
PYTHON_PACKAGES = (
    "pgqueuer==1.6.0",
    "procrastinate==3.10.0",
    "asyncpg==0.32.0",
    "psycopg[binary,pool]==3.3.9",
    "uvloop==0.23.0",
)


@dataclass(frozen=True, slots=True)
class Product:
    name: str
    language: Literal["node", "python"]
    program: str
    slow: bool = False
    """Drained with fewer jobs, in one round."""
    local_queue: int = 0
    """graphile-worker's number of jobs taken at once."""

    def driver(self, bench: Bench, task: str, dsn: str, **options: float) -> Driver:
        """A task of the product's driver. NotRunError when the product cannot be installed."""
        connection = _connection(dsn)
        tuning = {"local_queue": self.local_queue}
        text = json.dumps({"connection": connection, "dsn": dsn, **tuning, **options})
        program = str(BENCH / "peers" / self.program)
        if self.language == "node":
            modules = node_modules(bench.cache)
            environment = {"BENCH_NODE_MODULES": str(modules)}
            return Driver([node(modules), program, task, text], environment)
        return Driver([python(bench.cache), program, task, text], {"PYTHONPATH": str(REPOSITORY)})


# Its performance page measures with 500; for no-op jobs 2,000 is faster here.
GRAPHILE = Product("graphile-worker", "node", "graphile_worker.mjs", local_queue=500)
GRAPHILE_TUNED = Product("graphile-worker, tuned", "node", "graphile_worker.mjs", local_queue=2_000)
PGBOSS = Product("pg-boss", "node", "pg_boss.mjs")
PGQUEUER = Product("pgqueuer", "python", "pgqueuer_driver.py")
PROCRASTINATE = Product("procrastinate", "python", "procrastinate_driver.py", slow=True)
ALL = (GRAPHILE, GRAPHILE_TUNED, PGBOSS, PGQUEUER, PROCRASTINATE)
BY_NAME = {product.name: product for product in ALL}


@functools.cache
def node_modules(cache: Path) -> Path:
    """The folder `node_modules` with the pinned packages in it, installed if need be."""
    folder = cache / "node"
    if not _is_done(folder, NODE_PACKAGES):
        npm = shutil.which("npm")
        if npm is None:
            raise NotRunError("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        _install([*command, *NODE_PACKAGES], folder, NODE_PACKAGES)
    return folder / "node_modules"


@functools.cache
def node(modules: Path) -> str:
    """A Node.js new enough for both products: the packaged one, else the machine's."""
    for candidate in (str(modules / ".bin" / "node"), shutil.which("node")):
        if candidate is None or not Path(candidate).exists():
            continue
        done = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
        found = re.match(r"v(\d+)\.(\d+)", done.stdout)
        if found and (int(found[1]), int(found[2])) >= NODE_NEEDED:
            return candidate
    raise NotRunError(f"needs Node.js {NODE_NEEDED[0]}.{NODE_NEEDED[1]} or newer")


@functools.cache
def python(cache: Path) -> str:
    """The interpreter of a virtual environment with the pinned packages in it."""
    folder = cache / "python"
    program = folder / "bin" / "python"
    if not _is_done(folder, PYTHON_PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        command = [str(program), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES]
        _install(command, folder, PYTHON_PACKAGES)
    return str(program)


def _stamp(folder: Path) -> Path:
    return folder / "installed.json"


def _is_done(folder: Path, packages: Sequence[str]) -> bool:
    stamp = _stamp(folder)
    return stamp.exists() and json.loads(stamp.read_text()) == list(packages)


def _install(command: list[str], folder: Path, packages: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotRunError(f"cannot be installed: {last}")
    _stamp(folder).write_text(json.dumps(list(packages)))


def _connection(dsn: str) -> dict[str, str | int]:
    """Host, port, user and database under the names that both languages' drivers take."""
    found = conninfo_to_dict(dsn)
    return {
        "host": str(found["host"]),
        "port": int(found.get("port") or 5432),
        "user": str(found["user"]),
        "database": str(found["dbname"]),
    }
