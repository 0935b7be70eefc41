"""Programs that judge our files, and what our files name."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT


def tool(name: str) -> str:
    """The path of a program that comes with the test dependencies; skips where it does not."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin")
    if found is None:
        pytest.skip(f"needs {name}, which pip installs where its wheel exists")
    return found


def promtool(*arguments: str, cwd: Path = ROOT) -> str:
    """What Prometheus's own tool says, all being well."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    done = subprocess.run(
        [program, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def variables_read() -> set[str]:
    """The variables that some module of ours asks for."""
    texts = [path.read_text() for path in (ROOT / "pybatchq").rglob("*.py")]
    return set(re.findall(r"\"(BATCHQ_[A-Z_]+|DATABASE_URL)\"", "\n".join(texts)))
