"""Processes of handlers that crash or cannot start."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybatchq import child_process, children, endings
from pybatchq.attempts import Attempt
from pybatchq.children import Children
from pybatchq.handlers import Registry
from tests.support import process_kinds
from tests.support.families import Saved, family, gone, result, started
from tests.support.process_kinds import attempt_of
from tests.support.working import until


@pytest.fixture
def saved() -> Saved:
    return Saved()


@pytest.fixture
async def pool(saved: Saved) -> AsyncIterator[Children]:
    async with family(saved) as made:
        yield made


DEATHS = [
    ("dies", 0, "died: exit code 0"),
    ("dies", 3, "died: exit code 3"),
    ("dies", -signal.SIGKILL, "died: killed by SIGKILL (out of memory?)"),
    ("dies", -signal.SIGTERM, "died: killed by SIGTERM"),
    ("dies", -signal.SIGRTMIN - 1, f"died: killed by signal {signal.SIGRTMIN + 1}"),
    ("crashes", None, "died: killed by SIGSEGV"),
    ("closes all", None, "died: exit code 1"),
    ("becomes a program", None, "closed its connection to the worker"),
    ("talks nonsense", "ab" * 4, "sent what is no message (a message of 1633837410 bytes)"),
    ("talks nonsense", "\0\0\0\1x", "sent what is no message"),
]


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: f"{death[0]} {death[2]}"[:40])
async def test_f086_a_process_that_dies_fails_its_own_attempt_only(
    saved: Saved, death: tuple[str, Any, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kind, payload, fate = death
    async with family(saved) as pool:
        door = tmp_path / "door"
        neighbour = started(pool, attempt_of("gate", str(door), job_id=1))
        pid = await saved.next()
        ending = await pool.run(attempt_of(kind, payload))
        assert (ending.event, ending.permanent, ending.wait_s) == ("failed", False, None)
        assert (ending.text or "").startswith(f"the handler's process {fate}")
        (record,) = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert record.getMessage() == "handler's process died"
        assert vars(record).items() >= {"kind": kind, "job_id": 7}.items()
        assert await result(pool, "echo", "the next") == "the next"
        door.touch()
        assert (await neighbour).text == str(pid)


async def test_a_process_that_dies_with_a_fork_that_holds_its_socket_is_noticed(
    saved: Saved, pool: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "LOOK_EVERY_S", 0.05)
    ending = await pool.run(attempt_of("forks and dies"))
    assert ending.text == "the handler's process died: exit code 5"
    await gone(saved.values[-1])


async def test_a_process_that_dies_while_it_is_idle_harms_no_job(
    pool: Children, caplog: pytest.LogCaptureFixture
) -> None:
    pid = await result(pool, "pid")
    os.kill(pid, signal.SIGKILL)
    # the loop must not hear of it before the next job comes
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    assert await result(pool, "pid") != pid
    assert "idle" not in caplog.text
    os.kill(await result(pool, "pid"), signal.SIGKILL)

    async def look() -> bool:
        return pool.idle == 0

    await until(look)
    assert "an idle process of handlers died" in caplog.text
    assert pool.metrics.processes_killed == 0


nameless = lambda _payload: None  # noqa: E731  # not under this name, as a process would look


def _unreachable() -> dict[str, Any]:
    """Functions and a class that no other process can find."""

    def inside(_payload: Any, _job: Any) -> None: ...

    class InsideError(Exception): ...

    return {
        "lambda": {"function": nameless},
        "backoff": {"backoff": inside},
        "before": {"before": inside},
        "after": {"after": inside},
        "exception": {"permanent": [InsideError]},
    }


@pytest.mark.parametrize("what", _unreachable())
async def test_a_handler_that_cannot_be_sent_is_refused_with_its_reason(
    pool: Children, what: str
) -> None:
    registry = Registry()
    options = {"function": process_kinds.echo, **_unreachable()[what]}
    function = options.pop("function")
    registry.handler("bad", runs_in="process", **options)(function)
    with pytest.raises(TypeError, match="'bad': runs_in='process' needs functions at the top of a"):
        children.check(registry.by_kind["bad"])
    ending = await pool.run(attempt_of("bad", handlers=registry))
    assert (ending.event, ending.permanent) == ("failed", False)
    assert "needs functions at the top of a module: " in (ending.text or "")
    assert (pool.running, pool.idle) == (0, 0)


def test_a_function_inside_a_function_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="is inside a function"):
        Registry().handler("bad", runs_in="process")(lambda _payload: None)


def test_handlers_that_can_be_sent_or_need_not_be_pass_the_check() -> None:
    for handler in process_kinds.registry.by_kind.values():
        children.check(handler)
    registry = Registry()
    registry.handler("in a thread")(lambda _payload: None)
    children.check(registry.by_kind["in a thread"])


MODULE = """\
import os
import time
from pybatchq import Registry

registry = Registry()

@registry.handler("of a module", runs_in="process")
def run(payload):
    return payload

if os.getpid() != {pid}:
    with open({log!r}, "a") as log:
        print(os.getpid(), time.monotonic(), file=log)
    {fault}
"""


class Module:
    """Handlers in a module that can be imported here but not in a process."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._log = path / f"{name}.log"

    def fails_with(self, fault: str) -> None:
        source = MODULE.format(pid=os.getpid(), log=str(self._log), fault=fault)
        (self._path / f"{self._name}.py").write_text(source)

    def attempt(self) -> Attempt:
        registry: Registry = __import__(self._name).registry
        return attempt_of("of a module", 1, handlers=registry)

    @property
    def imports(self) -> list[tuple[int, float]]:
        """Processes that imported it, and when."""
        lines = self._log.read_text().splitlines()
        return [(int(pid), float(at)) for pid, at in map(str.split, lines)]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"handlers_{tmp_path.name}"
    yield Module(tmp_path, name)
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit('not here')", "SystemExit: not here"),
        ("del run", "AttributeError: "),
    ],
)
async def test_a_module_that_cannot_be_imported_fails_the_attempt_and_keeps_the_process(
    pool: Children, module: Module, fault: str, reason: str
) -> None:
    module.fails_with(fault)
    pid = await result(pool, "pid")
    for _ in range(2):
        ending = await pool.run(module.attempt())
        assert (ending.event, ending.permanent) == ("failed", False)
        expected = f"handler cannot be loaded in its process: {reason}"
        assert (ending.text or "").startswith(expected)
    assert await result(pool, "pid") == pid
    if fault != "del run":
        module.fails_with("pass")
        assert (await pool.run(module.attempt())).text == "1"  # the import is tried anew
        assert await result(pool, "pid") == pid


class LongPauses:
    """Half as long again each time, from 0.4 s, without jitter."""

    def __init__(self) -> None:
        self._next_s = 0.4

    def next_s(self) -> float:
        self._next_s *= 1.5
        return self._next_s / 1.5

    def worked(self) -> None:
        self._next_s = 0.4


async def test_processes_that_die_while_they_load_are_started_with_growing_pauses(
    pool: Children, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_pauses", LongPauses())
    module.fails_with("os._exit(5)")
    for _ in range(4):
        ending = await pool.run(module.attempt())
        assert ending.text == "the handler's process died: exit code 5"
    at = [moment for _, moment in module.imports]
    pauses = [b - a for a, b in itertools.pairwise(at)]
    assert pauses[0] >= 0.4
    assert pauses[1] >= 0.6
    assert pauses[2] >= 0.9
    # an attempt that waits for a start is stopped at once
    attempt = module.attempt()
    waiting = started(pool, attempt)
    await asyncio.sleep(0)
    attempt.cancel("cancelled")
    assert await waiting == endings.STOPPED
    assert len(module.imports) == 4
    # and one that works ends the pauses
    assert await result(pool, "echo", 1) == 1
    assert pool._start_at == 0.0


async def test_while_processes_fail_to_start_they_are_started_one_at_a_time(
    pool: Children, module: Module
) -> None:
    module.fails_with("os._exit(5)")
    await pool.run(module.attempt())
    at = time.monotonic()
    await asyncio.gather(*(pool.run(module.attempt()) for _ in range(4)))
    assert len(module.imports) == 5
    # 0.1 and 0.2 and 0.4 and 0.8 s, less a little jitter
    assert time.monotonic() - at >= 1.25


async def test_a_python_that_cannot_be_started_fails_the_attempt_with_its_reason(
    pool: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    ending = await pool.run(attempt_of("pid"))
    assert ending.event == "failed"
    assert (ending.text or "").startswith(
        "the handler's process cannot be started: [Errno 2] No such file or directory"
    )
    false = tmp_path / "false"
    false.write_text("#!/bin/sh\nexit 4\n")
    false.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(false))
    ending = await pool.run(attempt_of("pid"))
    assert ending.text == "the handler's process died: exit code 4"
    monkeypatch.undo()
    await result(pool, "pid")


async def test_a_process_that_does_not_come_up_is_killed(
    pool: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeper = tmp_path / "sleeper"
    sleeper.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    sleeper.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(sleeper))
    monkeypatch.setattr(child_process, "START_WITHIN_S", 1.0)
    ending = await pool.run(attempt_of("pid"))
    assert ending.text == "the handler's process did not start within 1 s"
    await gone(int((tmp_path / "pid").read_text()))
