"""The demo, run whole, as a newcomer does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.processes import ROOT, environment


@pytest.mark.timeout(120)
def test_a67_the_demo_ends_well_and_proves_that_nothing_was_lost(
    empty_db: str, tmp_path: Path
) -> None:
    admin = make_conninfo(empty_db, dbname="postgres")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pybatchq", "demo"],
            cwd=ROOT,
            env=environment(admin, BATCHQ_DATA=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
    finally:
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute("drop database if exists batchq_demo with (force)")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "by the handlers' own ledger: lost 0, finished twice 0" in done.stdout
    assert re.search(r"found \d{4,} functions and \d{4,} classes", done.stdout)
    assert "Traceback" not in done.stderr
