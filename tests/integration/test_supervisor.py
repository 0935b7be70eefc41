"""The supervisor as a process, with tiny real children, and once with real workers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from pybatchq import calls, supervisor
from pybatchq.testing import Ledger
from tests.conftest import Connection
from tests.support.processes import KINDS, ROOT, environment
from tests.support.working import all_completed, until

PARENT = """
import json, sys
from pybatchq import logs, supervisor
logs.set_up(fmt="pretty", level="info")
options = json.loads(sys.argv[1])
sys.exit(supervisor.run(env_for=lambda number: {"NUMBER": str(number)}, **options))
"""

CHILD = """
import os, signal, sys, time
number = int(os.environ["NUMBER"])
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""
LOYAL = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
say("up", number, os.getpid())
while True:
    signal.pause()
"""


class Supervised:
    """A supervisor with children that run a piece of Python; what they say and what it logs."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def said(self) -> IO[bytes]:
        assert self.popen.stdout is not None
        return self.popen.stdout

    def lines(self, count: int) -> list[str]:
        """The next lines the children write, sorted; waits for them."""
        return sorted(self.said.readline().decode().rstrip("\n") for _ in range(count))

    def pids(self, count: int) -> dict[str, int]:
        """Processes by number, from the next lines `up NUMBER PID`."""
        found = [line.split() for line in self.lines(count)]
        assert all(up == "up" for up, _, _ in found)
        return {number: int(pid) for _, number, pid in found}

    def signal(self, signum: signal.Signals) -> None:
        self.popen.send_signal(signum)

    def ended(self) -> int:
        return self.popen.wait(30)

    def logged(self, message: str) -> list[dict[str, str]]:
        """The fields of all records with this message."""
        lines = [line for line in self.log.splitlines() if f" {message}" in line]
        return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines]


@contextlib.contextmanager
def supervised(
    tmp_path: Path,
    program: str,
    *,
    before: tuple[str, ...] = (),
    environ: dict[str, str] | None = None,
    prelude: str = "",
    **options: object,
) -> Iterator[Supervised]:
    given = {"processes": 2, "command": [sys.executable, "-c", CHILD + program], **options}
    log = tmp_path / "supervisor.log"
    command = [*before, sys.executable, "-c", prelude + PARENT, json.dumps(given)]
    with (
        log.open("ab") as err,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**environment(None), "STATE": str(tmp_path), **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=err,
        ) as popen,
    ):
        try:
            yield Supervised(popen, log)
        finally:
            # signals of one kind can become one on their way: ask until it kills its children
            patience = time.monotonic() + 10
            while popen.poll() is None and time.monotonic() < patience:
                popen.terminate()
                time.sleep(0.02)
            popen.kill()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a37_a_signal_stops_all_and_is_waited_for(tmp_path: Path, signum: signal.Signals) -> None:
    with supervised(tmp_path, LOYAL, processes=3) as it:
        pids = it.pids(3)
        assert list(pids) == ["0", "1", "2"]
        it.signal(signum)
        assert it.ended() == 0
        assert it.said.read() == b""
    assert it.logged("stopping") == [{"reason": signum.name, "processes": "3"}]
    assert len(it.logged("process ended")) == 3


def test_the_exit_code_is_the_worst_of_all(tmp_path: Path) -> None:
    program = LOYAL.replace("sys.exit(0)", "sys.exit([3, 0, 9, 1][number])")
    with supervised(tmp_path, program, processes=4) as it:
        it.pids(4)
        it.signal(signal.SIGTERM)
        assert it.ended() == 9


def test_f085_a_second_signal_is_passed_on_too(tmp_path: Path) -> None:
    program = """
times = 0
def stop(*_):
    global times
    times += 1
    say("asked", times)
    if times == 2:
        sys.exit(4)
signal.signal(signal.SIGTERM, stop)
say("up", number, os.getpid())
while True:
    signal.pause()
"""
    with supervised(tmp_path, program) as it:
        it.pids(2)
        it.signal(signal.SIGTERM)
        assert it.lines(2) == ["asked 1", "asked 1"]
        it.signal(signal.SIGINT)
        assert it.lines(2) == ["asked 2", "asked 2"]
        assert it.ended() == 4


def test_f084_a_third_signal_kills_what_does_not_end(tmp_path: Path) -> None:
    program = LOYAL.replace("sys.exit(0)", 'say("no")')
    with supervised(tmp_path, program) as it:
        it.pids(2)
        for _ in range(2):
            it.signal(signal.SIGTERM)
            assert it.lines(2) == ["no", "no"]
        it.signal(signal.SIGTERM)
        assert it.ended() == 128 + signal.SIGKILL
    assert it.logged("killing what still runs")


def test_a_stop_before_the_children_can_listen_is_no_failure(tmp_path: Path) -> None:
    with supervised(tmp_path, LOYAL, processes=4) as it:
        while "process started" not in it.log:
            time.sleep(0.001)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0


def test_one_crash_is_made_good_and_takes_nothing_else_along(tmp_path: Path) -> None:
    program = (
        """
signal.signal(signal.SIGUSR1, lambda *_: say("here", number, os.getpid()))
"""
        + LOYAL
    )
    with supervised(tmp_path, program, first_pause_s=0.05) as it:
        pids = it.pids(2)
        os.kill(pids["1"], signal.SIGKILL)
        again = it.pids(1)
        assert list(again) == ["1"]
        assert again["1"] != pids["1"]
        os.kill(pids["0"], signal.SIGUSR1)
        assert it.lines(1) == [f"here 0 {pids['0']}"]
        it.signal(signal.SIGTERM)
        assert it.ended() == 0
    (record,) = it.logged("process ended by itself: starting another")
    assert (record["number"], record["signal"]) == ("1", "SIGKILL")


def test_f045_what_ends_again_and_again_is_started_ever_later(tmp_path: Path) -> None:
    program = 'say("up"); sys.exit(number)'
    with supervised(tmp_path, program, first_pause_s=0.02, longest_pause_s=0.1) as it:
        it.lines(16)
        it.signal(signal.SIGTERM)
        it.ended()
    records = it.logged("process ended by itself: starting another")
    for number in ("0", "1"):  # an end without an error is an end all the same
        pauses = [float(r["pause_s"]) for r in records if r["number"] == number]
        assert len(pauses) >= 6
        for pause, bound in zip(pauses, [0.02, 0.04, 0.08, *[0.1] * 100], strict=False):
            assert 0.75 * bound - 0.005 <= pause <= bound + 0.005


def test_the_default_pauses_double_from_half_a_second_to_half_a_minute() -> None:
    found = (supervisor.FIRST_PAUSE_S, supervisor.LONGEST_PAUSE_S, supervisor.STEADY_S)
    assert found == (0.5, 30, 60)


def test_what_ran_for_long_is_started_again_after_the_shortest_pause(tmp_path: Path) -> None:
    program = 'say("up"); sys.exit(1)'
    with supervised(tmp_path, program, processes=1, first_pause_s=0.02, steady_s=0) as it:
        it.lines(6)
        it.signal(signal.SIGTERM)
        it.ended()
    records = it.logged("process ended by itself: starting another")
    assert len(records) >= 5
    assert all(float(record["pause_s"]) <= 0.02 for record in records)


def test_a_stop_during_a_pause_ends_at_once_with_the_last_code(tmp_path: Path) -> None:
    with supervised(
        tmp_path, 'say("up"); sys.exit(7)', first_pause_s=300, longest_pause_s=300
    ) as it:
        it.lines(2)
        while len(it.logged("process ended by itself")) < 2:
            time.sleep(0.01)
        it.signal(signal.SIGTERM)
        assert it.ended() == 7


def test_f065_wrong_usage_at_the_first_start_ends_them_all(tmp_path: Path) -> None:
    program = "if number == 1: sys.exit(2)\n" + LOYAL
    with supervised(tmp_path, program, processes=3) as it:
        assert it.ended() == 2
    assert it.logged("process refused to start: stopping all")
    assert not it.logged("process ended by itself")


NTH_START = """
from pathlib import Path
counter = Path(os.environ["STATE"], f"starts-{number}")
nth = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(nth))
"""


def test_wrong_usage_at_a_later_start_is_a_failure_as_any_other(tmp_path: Path) -> None:
    program = NTH_START + "if nth < 3: sys.exit(nth)\n" + LOYAL
    with supervised(tmp_path, program, processes=1, first_pause_s=0.02) as it:
        it.pids(1)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0
    codes = [r["exit_code"] for r in it.logged("process ended by itself: starting another")]
    assert codes == ["1", "2"]


def test_a_process_that_asks_for_its_replacement_gets_it_at_once(tmp_path: Path) -> None:
    program = (
        NTH_START
        + f"""
if nth == 1:
    time.sleep({supervisor.RECYCLE_AFTER_S + 0.1})
    sys.exit({supervisor.RECYCLE})
"""
        + LOYAL
    )
    # with a pause this would never end
    with supervised(tmp_path, program, processes=1, first_pause_s=300, longest_pause_s=300) as it:
        it.pids(1)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0
    assert len(it.logged("process asked for its replacement: starting another")) == 1


def test_replacements_asked_for_at_every_start_do_not_make_it_spin(tmp_path: Path) -> None:
    program = f'say("up"); sys.exit({supervisor.RECYCLE})'
    with supervised(tmp_path, program, processes=1, first_pause_s=0.2) as it:
        it.lines(1)
        at = time.monotonic()
        it.lines(4)
        assert time.monotonic() - at > 4 * 0.2 * 0.9
        it.signal(signal.SIGTERM)
        it.ended()


def test_a_command_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    command = [str(tmp_path / "batchq"), "-c", CHILD + LOYAL]
    with supervised(tmp_path, "", command=command, processes=1, first_pause_s=0.05) as it:
        while len(it.logged("process cannot be started: trying again")) < 2:
            time.sleep(0.01)
        (tmp_path / "batchq").symlink_to(sys.executable)
        it.pids(1)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0


WATCHING = """
import asyncio
from pybatchq import supervisor
async def main():
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    def gone():
        say("gone", number)
        stopped.set()
    fd = int(os.environ[supervisor.FD_VARIABLE])
    watched = supervisor.watch_supervisor(gone)
    say("up", number, watched, supervisor.FD_VARIABLE in os.environ, os.get_inheritable(fd))
    await stopped.wait()
asyncio.run(main())
"""


def test_no_child_outlives_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    with supervised(tmp_path, WATCHING) as it:
        assert it.lines(2) == ["up 0 True False False", "up 1 True False False"]
        it.signal(signal.SIGKILL)
        # all of it: the end comes when the last process that could write has ended
        assert sorted(it.said.read().decode().splitlines()) == ["gone 0", "gone 1"]


def test_a_supervisor_that_lives_or_stops_well_is_not_gone(tmp_path: Path) -> None:
    with supervised(tmp_path, WATCHING) as it:
        it.lines(2)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0
        assert it.said.read() == b""


async def test_where_there_is_no_supervisor_none_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> None:
        raise AssertionError("nothing to watch")

    monkeypatch.delenv(supervisor.FD_VARIABLE, raising=False)
    assert not supervisor.watch_supervisor(gone)
    with (tmp_path / "file").open("w") as file:
        for value in ("", "x", "-1", "99999", str(file.fileno())):
            monkeypatch.setenv(supervisor.FD_VARIABLE, value)
            assert not supervisor.watch_supervisor(gone)
            assert supervisor.FD_VARIABLE not in os.environ


def test_children_are_out_of_reach_of_the_terminals_ctrl_c(tmp_path: Path) -> None:
    with supervised(tmp_path, LOYAL) as it:
        for pid in it.pids(2).values():
            assert os.getpgid(pid) == pid
        it.signal(signal.SIGTERM)
        assert it.ended() == 0


ORPHANING = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if os.fork() == 0:
    if os.fork() == 0:
        while os.getppid() != int(os.environ["PARENT"]):
            time.sleep(0.001)
        say("orphan", os.getpid())
        signal.pause()
    os._exit(0)
os.wait()
while True:
    signal.pause()
"""
SUBREAPER = """
import ctypes, os
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
os.environ["PARENT"] = str(os.getpid())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans short of PID 1 is Linux's")
def test_f085_it_reaps_processes_it_did_not_start(tmp_path: Path) -> None:
    with supervised(tmp_path, ORPHANING, processes=1, prelude=SUBREAPER) as it:
        (line,) = it.lines(1)
        orphan = int(line.split()[1])
        os.kill(orphan, signal.SIGKILL)
        while Path(f"/proc/{orphan}").exists():  # a zombie is there until it was waited for
            time.sleep(0.01)
        it.signal(signal.SIGTERM)
        assert it.ended() == 0
    assert "orphan" not in it.log
    assert not it.logged("process ended by itself")


NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def may_be_pid_1() -> bool:
    with contextlib.suppress(OSError):
        return (
            subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
        )
    return False


def test_f085_it_works_as_pid_1(tmp_path: Path) -> None:
    if not may_be_pid_1():
        pytest.skip("needs the right to make a PID namespace")
    program = LOYAL.replace("os.getpid()", "os.getppid()")
    with supervised(tmp_path, program, before=NAMESPACE) as it:
        assert it.lines(2) == ["up 0 1", "up 1 1"]
        children = Path(f"/proc/{it.popen.pid}/task/{it.popen.pid}/children").read_text()
        os.kill(int(children), signal.SIGTERM)
        assert it.ended() == 0


def test_systemd_is_told_and_the_children_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    inherited = '[name for name in os.environ if name.startswith(("NOTIFY", "WATCHDOG"))]'
    program = LOYAL.replace("number, os.getpid()", inherited)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(20)
        manager.bind(path)
        environ = {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000"}
        with supervised(tmp_path, program, environ=environ) as it:
            assert it.lines(2) == ["up []", "up []"]
            assert manager.recv(1000) == b"READY=1\nSTATUS=supervising 2 processes"
            for _ in range(3):
                assert manager.recv(1000) == b"WATCHDOG=1"
            it.signal(signal.SIGTERM)
            while (message := manager.recv(1000)) == b"WATCHDOG=1":
                pass
            assert message == b"STOPPING=1"
            assert it.ended() == 0


def test_no_processes_make_no_sense() -> None:
    with pytest.raises(ValueError, match="processes is 0"):
        supervisor.run(["true"], processes=0)


async def test_real_workers_work_are_replaced_and_stop(
    db: str, conn: Connection, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "pybatchq", "worker", "--handlers", KINDS]
    environ = {"DATABASE_URL": db, "BATCHQ_LEASE": "2s", "BATCHQ_CONCURRENCY": "1"}
    await calls.set_queue(conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(0))
    async with Ledger(db):
        with supervised(tmp_path, "", command=command, environ=environ, first_pause_s=0.05) as it:

            async def started(count: int) -> bool:
                return it.log.count("worker started") == count

            await until(lambda: started(2), 30)
            jobs = [{"kind": "ledger", "payload": {"ms": 50}}] * 10
            await calls.enqueue_many(conn, jobs=jobs)
            for record in it.logged("process started"):
                os.kill(int(record["pid"]), signal.SIGKILL)
            await until(lambda: started(4), 30)
            await all_completed(conn, 10, 30)
            await calls.enqueue_many(conn, jobs=jobs)
            await all_completed(conn, 20, 30)
            it.signal(signal.SIGTERM)
            assert await asyncio.to_thread(it.ended) == 0
    assert it.log.count("worker stopped") == 2
