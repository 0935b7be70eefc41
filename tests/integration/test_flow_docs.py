"""What docs/flow-control.md shows works as it is printed, and names what there is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from textwrap import indent
from typing import Any

import psycopg
import pytest

import pybatchq
from pybatchq import calls
from pybatchq.api.openapi import path_of
from pybatchq.api.table import TABLE
from pybatchq.cli import main
from pybatchq.types import QueueSettings
from tests.integration.test_cli_docs import plain, run, steps
from tests.support.console import install_command
from tests.support.processes import ROOT

PAGE = (ROOT / "docs" / "flow-control.md").read_text()
SETTINGS = set(QueueSettings.__struct_fields__) - {"queue", "paused_at", "pause_reason"}
DEFAULTS = {
    "max_attempts", "timeout", "lease_for", "backoff", "backoff_base", "backoff_factor",
    "backoff_cap", "backoff_jitter",
}  # fmt: skip


@pytest.mark.timeout(120)
def test_the_page_shows_what_the_commands_print(db: str, tmp_path: Path) -> None:
    path = f"{install_command(tmp_path)}:{os.environ['PATH']}"
    assert len(steps(PAGE)) > 5
    for command, printed in steps(PAGE):
        assert plain(run(command, db, tmp_path, path)) == plain(printed), command


@pytest.mark.parametrize("block", re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))
async def test_the_sql_gives_what_is_written_beside_it(
    block: str, conn: psycopg.AsyncConnection[Any]
) -> None:
    told = 0
    for line in block.splitlines():
        statement, _, expected = line.partition("-- ")
        rows = await (await conn.execute(statement.encode())).fetchall()
        if expected:
            told += 1
            assert rows == [(int(expected),)], statement
    assert told > 0


async def test_the_python_runs(db: str, conn: psycopg.AsyncConnection[Any]) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scope: dict[str, Any] = {"pybatchq": pybatchq, "calls": calls}
    exec(f"async def shown(conn):\n{indent(block, '    ')}", scope)  # the guide's own text
    await calls.set_queue(conn, queue="accounts", group_limit=1)
    await scope["shown"](conn)
    assert await calls.lease(conn, queue="accounts") == []
    (group,) = await calls.list_groups(conn, queue="accounts")
    assert (group.group_key, group.blocked, group.group_limit) == ("ann", 1, 0)


def test_every_limit_is_on_the_page_and_every_name_is_one() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)[` ]", PAGE)) | {"rate", "fair"}
    assert named | {"rate_period"} >= SETTINGS - DEFAULTS
    functions = set(dir(calls))
    others = {"group_key"}
    assert named <= SETTINGS | functions | others


def test_its_paths_and_commands_are_there() -> None:
    paths = {f"{route.method} {path_of(route)}" for route in TABLE}
    assert set(re.findall(r"`((?:GET|PUT|PATCH|POST) [^`]+)`", PAGE)) <= paths
    assert set(re.findall(r"batchq ([a-z]+(?:-[a-z]+)*)", PAGE)) - {"bug"} <= set(main.commands)
