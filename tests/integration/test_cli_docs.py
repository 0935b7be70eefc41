"""What docs/cli.md shows is what the commands print."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pybatchq import PermanentError
from pybatchq.handlers import Registry
from pybatchq.testing import drain
from tests.support.console import install_command
from tests.support.processes import ROOT, environment
from tests.support.terminal import Terminal

PAGE = (ROOT / "docs" / "cli.md").read_text()
WORKER = "<!-- a worker runs -->"
# What differs from run to run, as one word each.
VARIES = {
    r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}": "<time>",
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f-]{17}\b": "<uuid>",
    r"\b[0-9]+(?:ms|s|m|h|d)(?: [0-9]+(?:s|m|h))?(?=$| |:|\))": "<span>",
    r"ago by \S+": "ago by <worker>",
    r'"job_id":[0-9]+': '"job_id":<id>',
    r"max_attempts, .*?;": "max_attempts, ...;",
    r"\s+": " ",
}


def plain(text: str) -> list[str]:
    """The lines, with what varies left out."""
    lines = []
    for line in text.splitlines():
        for pattern, word in VARIES.items():
            line = re.sub(pattern, word, line)  # noqa: PLW2901
        lines.append(line.strip())
    return [line for line in lines if line]


def steps(page: str = PAGE) -> list[tuple[str, str]]:
    """Each command and what is printed, in order; the worker's turn is a step too."""
    found: list[tuple[str, str]] = []
    for match in re.finditer(rf"```console\n(.*?)```|{WORKER}", page, re.DOTALL):
        if match[1] is None:
            found.append((WORKER, ""))
            continue
        for part in re.split(r"^\$ ", match[1], flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append((command, printed))
    return found


def registry() -> Registry:
    registry = Registry()

    @registry.handler("send_email")
    async def send_email(payload: Any) -> None:
        pass

    @registry.handler("index")
    async def index(payload: Any) -> None:
        pass

    @registry.handler("report")
    async def report(payload: Any) -> None:
        raise PermanentError("no data")

    return registry


def run(command: str, dsn: str, folder: Path, path: str) -> str:
    """Its stdout on a terminal, then its stderr."""
    env = environment(dsn, NO_COLOR="1", PATH=path, PYTHONPATH=str(ROOT))
    with Terminal(["sh", "-c", f"exec 2>errors; {command}"], env=env, cwd=folder) as screen:
        screen.ended()
    return screen.text + (folder / "errors").read_text()


@pytest.mark.timeout(240)
def test_the_page_shows_what_is_printed(db: str, tmp_path: Path) -> None:
    path = f"{install_command(tmp_path)}:{os.environ['PATH']}"
    assert len(steps()) > 20
    for command, printed in steps():
        if command == WORKER:
            asyncio.run(drain(db, registry(), queues=["default", "slow"]))
            continue
        assert plain(run(command, db, tmp_path, path)) == plain(printed), command


def test_every_command_is_on_the_page() -> None:
    from pybatchq.cli import main

    told = {"uninstall", "demo", "version"}
    missing = [name for name in main.commands if f"batchq {name}" not in PAGE]
    assert set(missing) <= told


@pytest.mark.parametrize("block", re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
def test_the_other_blocks_are_shell(block: str) -> None:
    subprocess.run(["sh", "-n", "-c", block], check=True)
