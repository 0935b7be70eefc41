"""The API is what its OpenAPI document says, for whatever the document lets one send, and more.

schemathesis asks a real process over a socket: the examples, every bound and omission, made-up
values, and chains of calls that use what the answers say.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.support.api import api_process
from tests.support.processes import ROOT
from tests.support.profiles import LONG

CONFIG = """
hooks = "tests.support.schemathesis_hooks"
color = false
headers = {{ Authorization = "Bearer {token}" }}
[generation]
allow-x00 = false        # PostgreSQL stores none; test_fuzz and test_api_jobs have them
database = "none"
deterministic = {deterministic}
max-examples = {examples}
[output.truncation]
enabled = false
[checks]
allow_header_conformance.enabled = false        # GET /jobs/bulk is GET /jobs/{{id}} to the router
positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 413, 429]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 413, 415]
[[operations]]
include-path = ["/jobs/bulk", "/jobs/cancel", "/jobs/redrive"]
checks.unsupported_method.enabled = false        # so they take GET: 400, invalid job id
"""
TOKEN = "bq_all"
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
SEED = """
select setval('batchq.position', 4700), setval('batchq.lease_number', 9000);
select batchq.create_token('all', sha256('{token}'), '{{produce,work,operate,monitor}}');
select batchq.enqueue('send_email') from generate_series(1, 20);
select batchq.enqueue('send_email', delay => '1 day') from generate_series(1, 5);
select batchq.enqueue('send_email', queue => 'q', max_attempts => 1) from generate_series(1, 10);
select batchq.lease(n => 12, worker => 'w');
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('q', 10) l
"""


@pytest.mark.timeout(1800 if LONG else 240)
def test_the_api_conforms_to_its_document(db: str, tmp_path: Path) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        for statement in SEED.format(token=TOKEN).split(";"):
            conn.execute(statement.encode())
    examples, deterministic = (150, "false") if LONG else (5, "true")
    config = CONFIG.format(token=TOKEN, examples=examples, deterministic=deterministic)
    (tmp_path / "schemathesis.toml").write_text(config)
    with api_process(db, tmp_path) as process:
        url = f"http://127.0.0.1:{asyncio.run(process.port())}"
        command = [SCHEMATHESIS, "run", f"{url}/openapi.json"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "request failed" not in process.log
