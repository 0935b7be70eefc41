"""The command `batchq` on a terminal of its own, as a person has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.support.processes import ROOT, environment

PATIENCE_S = 20.0
CTRL_C = "\x03"
CTRL_D = "\x04"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[0-9;]*(?:3[0-7]|9[0-7]|38;[0-9;]+)m")
# Makes the terminal the process's own, so that ^C typed there is a signal, then becomes batchq.
START = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A pseudo-terminal with one command on it, and all that came out of it so far."""

    def __init__(
        self, command: Sequence[str], *, env: dict[str, str], cwd: Path = ROOT, columns: int = 80
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *command], cwd=cwd, env=env, stdin=slave,
            stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """It is gone at the end, whatever happens."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What was written, without colours and cursor movement."""
        return CONTROL.sub("", self.raw).replace("\r\n", "\n")

    @property
    def lines(self) -> list[str]:
        """Each line as written, also those that were written over."""
        return re.split(r"[\r\n]+", self.text)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def expect(self, wanted: str, within_s: float = PATIENCE_S) -> None:
        """Read until this was written, since the start."""
        deadline = time.monotonic() + within_s
        while wanted not in self.text:
            if not self._read(deadline - time.monotonic()):
                raise AssertionError(f"{wanted!r} did not come; there is: {self.text}")

    def asked(self, question: str) -> None:
        """Wait for a question, and for the process to sleep on its answer.

        Between the two a ^C would be noted, but not end a read that has not begun.
        """
        self.expect(question)
        stat = Path(f"/proc/{self.process.pid}/stat")
        deadline = time.monotonic() + PATIENCE_S
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline, "it does not read the answer"
            time.sleep(0.01)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + within_s
        while self._read(deadline - time.monotonic()):
            pass
        return self.process.wait(max(deadline - time.monotonic(), 1))

    def _read(self, timeout_s: float) -> bool:
        """Whether anything more came in time."""
        if not select.select([self._master], [], [], max(timeout_s, 0))[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # Linux's way to say that the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def terminal(*arguments: str, dsn: str | None = None, columns: int = 80, **env: str) -> Terminal:
    """`batchq` on a terminal; to be entered, and gone at the end."""
    variables = environment(dsn, **{"TERM": "xterm-256color", **env})
    for name in {"NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"} - set(env):
        variables.pop(name, None)
    command = [sys.executable, "-m", "pybatchq", *arguments]
    return Terminal(command, env=variables, columns=columns)
