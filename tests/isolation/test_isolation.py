"""Runs each spec of tests/isolation/specs through PostgreSQL's isolationtester.

What it prints must equal tests/isolation/expected/<name>.out; `--update-isolation` rewrites
those files. A spec prints nothing that depends on the time or on earlier runs. What the specs
share is in support.sql.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import isolationtester

HERE = Path(__file__).parent
SPECS = sorted((HERE / "specs").glob("*.spec"))
# isolationtester itself waits for minutes when the next step belongs to a session still blocked
TIMEOUT_S = 30


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_isolation(spec: Path, db: str, request: pytest.FixtureRequest) -> None:
    tester = isolationtester()
    if tester is None:
        pytest.skip("needs isolationtester, of Debian's package postgresql-15")
    with psycopg.connect(db) as conn:
        conn.execute((HERE / "support.sql").read_bytes())
    output = run_spec(tester, spec, db)
    expected = HERE / "expected" / f"{spec.stem}.out"
    if request.config.getoption("update_isolation"):
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(output)
    before = expected.read_text() if expected.exists() else ""
    if before != output:
        lines = (before.splitlines(), output.splitlines())
        difference = difflib.unified_diff(*lines, str(expected.name), "now", lineterm="")
        pytest.fail("\n".join(difference), pytrace=False)


def run_spec(tester: Path, spec: Path, dsn: str) -> str:
    """What isolationtester prints; the test fails when it fails or hangs."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    with spec.open() as script:
        try:
            done = subprocess.run(
                [tester, dsn],
                stdin=script,
                env={**environment, "PGTZ": "UTC", "PGDATESTYLE": "ISO"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            pytest.fail(f"it hangs after:\n{(error.stdout or b'').decode()}", pytrace=False)
    output = done.stdout.decode()
    if done.returncode != 0:
        pytest.fail(output, pytrace=False)
    return output
