"""How processes of handlers end: in order, with the worker, or with its death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybatchq import child, child_process, endings
from pybatchq.endings import Ending
from tests.support.families import Saved, family, gone, is_gone, result, started
from tests.support.process_kinds import attempt_of
from tests.support.processes import ROOT


@pytest.fixture
def saved() -> Saved:
    return Saved()


async def test_close_ends_idle_processes_in_order_and_waits_for_the_busy(
    saved: Saved, tmp_path: Path
) -> None:
    door, witness = tmp_path / "door", tmp_path / "witness"
    async with family(saved) as pool:
        busy = started(pool, attempt_of("gate", str(door)))
        pid = await saved.next()
        idle = await result(pool, "writes at exit", str(witness))
        closing = asyncio.ensure_future(pool.close())
        await gone(idle)
        assert witness.read_text() == "left in order"
        assert not closing.done()
        assert await pool.run(attempt_of("pid")) == endings.RELEASED
        door.touch()
        assert (await busy).text == str(pid)
        await closing
        assert is_gone(pid)


@pytest.mark.parametrize("how", ["now", "cancelled"])
async def test_close_can_kill_the_busy_whose_jobs_are_given_back(saved: Saved, how: str) -> None:
    async with family(saved) as pool:
        busy = started(pool, attempt_of("stubborn"))
        pid = await saved.next()
        starting = started(pool, attempt_of("stubborn"))
        await asyncio.sleep(0)
        if how == "now":
            await pool.close(now=True)
        else:
            closing = asyncio.ensure_future(pool.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        assert await busy == endings.RELEASED
        assert await starting == endings.RELEASED
        assert is_gone(pid)
        assert pool.metrics.processes_killed == 0


async def test_a_process_that_does_not_exit_is_killed(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "END_WITHIN_S", -0.9)  # and one more, here
    async with family(saved) as pool:
        pid = await result(pool, "leaves a thread")
        at = time.monotonic()
        await pool.close()
        assert is_gone(pid)
        assert time.monotonic() - at < 4  # long before it would have given up itself


async def test_a_process_ends_at_once_when_its_connection_does(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does where no kernel ends it with its parent."""
    monkeypatch.setattr(child_process, "EXIT_WITHIN_S", 60.0)
    async with family(saved) as pool:
        running = started(pool, attempt_of("stubborn"))
        await saved.next()
        (process,) = pool._all
        assert process._transport is not None
        process._transport.abort()
        at = time.monotonic()
        assert (await running).text == "the handler's process died: exit code 1"
        assert time.monotonic() - at < child.END_WITHIN_S - 1


PARENT = """\
import asyncio, os, sys
from pybatchq import Registry
from pybatchq.children import Children, check
from tests.support.process_kinds import attempt_of, registry

own = Registry()

@own.handler("of the program", runs_in="process")
def of_the_program(payload):
    return [payload, __name__, sys.argv[1:]]

def save(item, text):
    print(text, flush=True)

async def work(kind, handlers):
    for handler in handlers.by_kind.values():
        check(handler)
    children = Children(save)
    print(await children.run(attempt_of(kind, 1, handlers=handlers)), flush=True)
    await children.close()

"""
GUARDED = "if __name__ == '__main__':\n    "
RUN = "asyncio.run(work(sys.argv[1], registry if sys.argv[1] in registry.by_kind else own))\n"


@contextlib.contextmanager
def program(*command: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, text=True, env=environment, **options
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def output_of(*command: str, **options: Any) -> str:
    with program(*command, **options) as running:
        return running.communicate(timeout=30)[0]


@pytest.mark.parametrize("kind", ["gate", "stubborn", "holds the lock"])
async def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path, kind: str) -> None:
    (tmp_path / "program.py").write_text(PARENT + GUARDED + RUN)
    with program(str(tmp_path / "program.py"), kind) as running:
        assert running.stdout is not None
        pid = int(await asyncio.to_thread(running.stdout.readline))
        running.kill()
        await gone(pid)


def test_handlers_of_the_program_itself_can_run_in_processes(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PARENT + GUARDED + RUN)
    expected = repr(Ending("completed", '[1,"__mp_main__",["of the program"]]')) + "\n"
    assert output_of(str(tmp_path / "program.py"), "of the program") == expected
    assert output_of("program.py", "of the program", cwd=tmp_path) == expected
    assert output_of("-m", "program", "of the program", cwd=tmp_path) == expected


def test_a_program_that_works_when_it_is_imported_is_told_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PARENT + RUN)
    said = output_of(str(tmp_path / "program.py"), "of the program")
    assert "handler cannot be loaded in its process: RuntimeError: " in said
    assert "put what it does under `if __name__ == " in said


def test_a_program_without_a_file_is_refused(tmp_path: Path) -> None:
    with program("-c", PARENT + RUN, "of the program", stderr=subprocess.PIPE) as running:
        _, err = running.communicate(timeout=30)
    assert "this program is no file that a process could import" in err
