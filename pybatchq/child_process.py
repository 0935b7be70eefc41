"""One process of `children`, as its parent sees it: started, given jobs, killed, reaped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from time import monotonic
from typing import Literal, cast

import msgspec

from pybatchq import attempts, child, logs
from pybatchq.attempts import Attempt
from pybatchq.endings import Ending
from pybatchq.handlers import Handler
from pybatchq.job import SaveProgress

START_WITHIN_S = 60.0
EXIT_WITHIN_S = 0.5
CHUNK_BYTES = 262_144
MAX_FRAME_BYTES = 4_194_304  # the limit of a result is a quarter of it

# Nothing of batchq can be imported before sys.path is this program's.
_BOOT = """\
import json, socket, sys
link = socket.socket(fileno=int(sys.argv[1]))
stream = link.makefile("rb")
hello = json.loads(stream.readline() or sys.exit(1))
sys.path[:] = hello["path"]
from pybatchq import child
child.main(link, stream, hello)
"""

_decode = msgspec.msgpack.Decoder(child.FromChild).decode

log = logging.getLogger("pybatchq")


class DiedError(Exception):
    """A process is gone, or never came. The text says how; `ran`: its handler had been loaded."""

    def __init__(self, text: str, *, ran: bool = False) -> None:
        super().__init__(text)
        self.ran = ran


class Process(asyncio.Protocol):
    """`gone` is done once it is reaped; `fate` says then how it ended."""

    def __init__(self, save: SaveProgress) -> None:
        self._save = save
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.fate = ""
        self.jobs = 0
        self.idle_since = 0.0
        self.was_killed = False
        self._is_leaving = False
        self._popen: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._kinds: dict[str, Handler] = {}  # what it has loaded
        self._attempt: Attempt | None = None
        self._answer: asyncio.Future[Ending | None] | None = None  # None: it died
        self._is_writing = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._kill_timer: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        return 0 if self._popen is None else self._popen.pid

    def is_alive(self) -> bool:
        return (
            self._popen is not None
            and self._transport is not None
            and not self._transport.is_closing()
            and self._popen.poll() is None
        )

    async def start(self) -> None:
        """Start it and wait until it can work. DiedError if it cannot; cancelled, it is killed."""
        try:
            self._popen, link = _spawn()
        except OSError as error:
            self._over(f"cannot be started: {error}")
            raise DiedError(self.fate) from error
        try:
            await self._loop.create_unix_connection(lambda: self, sock=link)
            self._write(json.dumps(_hello()).encode() + b"\n")
            async with asyncio.timeout(START_WITHIN_S):
                await self._ready
        except TimeoutError:
            self._abandon()
            raise DiedError(f"did not start within {START_WITHIN_S:g} s") from None
        except BaseException:
            self._abandon()
            raise
        if self.gone.done():
            raise DiedError(self.fate)

    async def run(self, attempt: Attempt, reference: bytes) -> Ending:
        """Run one job. DiedError if the process did not live to its end; cancelled, it is killed.

        reference: the pickled handler, sent unless it is known there.
        """
        self._attempt = attempt
        self._answer = self._loop.create_future()
        attempt.on_stop = self._stop
        try:
            await self._hand_over(attempt, reference)
            ending = await self._answer
        except BaseException:
            self.kill()
            raise
        finally:
            attempt.on_stop = None
            self._attempt = None
            if self._kill_timer is not None:
                self._kill_timer.cancel()
        if ending is None:
            raise DiedError(self.fate, ran=self._knows(attempt.handler))
        self.jobs += 1
        return ending

    def end(self) -> None:
        """Let it exit, without a job; it is killed if it does not."""
        if self.is_alive() and self._transport is not None and not self._is_leaving:
            self._is_leaving = True
            self._transport.write_eof()
            self._kill_timer = self._loop.call_later(child.END_WITHIN_S + 1, self.kill)

    def kill(self, *, unless_leaving: bool = False) -> None:
        """Kill it and what its handlers have started."""
        if self._popen is None or self._popen.poll() is not None:
            return
        if not (unless_leaving and self._is_leaving):
            self.was_killed = True
            self._kill_group()

    def look(self) -> None:
        """Notice its death though a process that it forked holds its socket open."""
        if self._popen is None or self._transport is None or self._popen.poll() is None:
            return
        if not self._transport.is_closing():
            self._kill_group()
            self._loop.call_later(0.1, self._transport.abort)  # what it sent is read before

    def _abandon(self) -> None:
        self.kill()
        if self._transport is None:  # whose end would be the sign to reap it
            self._reap(0.0)

    def _knows(self, handler: Handler) -> bool:
        return self._kinds.get(handler.kind) is handler

    async def _hand_over(self, attempt: Attempt, reference: bytes) -> None:
        item, data = attempt.item, attempt.item.payload
        left_s = None
        if item.timeout_s is not None:
            left_s = max(0.0, item.timeout_s - (monotonic() - attempt.since))
        work = child.Work(
            msgspec.structs.replace(item, payload=b"", timeout_s=left_s),
            attempt.job.uuid.bytes,
            len(data),
            None if self._knows(attempt.handler) else reference,
        )
        if len(data) <= CHUNK_BYTES:
            self._write(child.frame(work) + data)
            return
        self._is_writing = True
        self._write(child.frame(work))
        view = memoryview(data)
        for start in range(0, len(data), CHUNK_BYTES):
            await self._writable.wait()
            self._write(view[start : start + CHUNK_BYTES])
        self._is_writing = False
        if attempt.stop is not None:
            self._write(child.frame(child.Cancel()))

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _stop(self) -> None:
        if not self._is_writing:
            self._write(child.frame(child.Cancel()))
        self._kill_timer = self._loop.call_later(attempts.STOP_WITHIN_S, self._kill_stuck)

    def _kill_stuck(self) -> None:
        attempt = self._attempt
        if attempt is not None:
            item = attempt.item
            log.error(
                "process does not stop: it is killed",
                extra={"kind": item.kind, "job_id": item.job_id, "reason": attempt.stop},
            )
            self.kill()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while len(self._buffer) >= 4:
                size = int.from_bytes(self._buffer[:4], "big")
                if size > MAX_FRAME_BYTES:
                    raise msgspec.DecodeError(f"a message of {size} bytes")  # noqa: TRY301
                if len(self._buffer) < size + 4:
                    break
                message = _decode(self._buffer[4 : size + 4])
                del self._buffer[: size + 4]
                self._take(message)
        except msgspec.DecodeError as error:
            self._break(f"sent what is no message ({error})")

    def _take(self, message: child.FromChild) -> None:
        attempt = self._attempt
        if isinstance(message, child.Ready):
            if not self._ready.done():
                self._ready.set_result(None)
        elif attempt is None:
            pass
        elif isinstance(message, child.Ended):
            self._answer_with(message.ending)
        elif isinstance(message, child.Progress):
            self._save(attempt.item, message.text)
        else:
            self._kinds[attempt.item.kind] = attempt.handler

    def _answer_with(self, ending: Ending | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(ending)

    def _break(self, fate: str) -> None:
        """Kill it for what it did to its connection."""
        self.fate = self.fate or fate
        self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._writable.set()
        self._reap(0.0)

    def _reap(self, waited_s: float) -> None:
        """Find out how it ended; it has closed its socket, so it is about to."""
        if self._popen is None:
            return
        if self._popen.poll() is None:
            if waited_s > EXIT_WITHIN_S and not self._is_leaving:
                self._break("closed its connection to the worker")
            pause_s = min(0.1, 0.001 + waited_s)
            self._loop.call_later(pause_s, self._reap, waited_s + pause_s)
            return
        if not self._is_leaving:
            # its number is free by now, but the group keeps it while anything is left in there
            self._kill_group()
        self._over(self.fate or f"died: {_fate(self._popen.returncode)}")

    def _over(self, fate: str) -> None:
        self.fate = fate
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        if not self.gone.done():
            self.gone.set_result(None)
        if not self._ready.done():
            self._ready.set_result(None)
        self._answer_with(None)

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def parent_main() -> tuple[Literal["module", "file"], str] | None:
    """What a process has to import to find what is defined in this program's own module."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return ("module", spec.name)
    path = getattr(main, "__file__", None)
    return None if path is None else ("file", os.path.abspath(path))  # noqa: PTH100


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A new process in a session of its own, so that a terminal's signals do not reach it."""
    ours, theirs = socket.socketpair()
    with theirs:
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001
        number = theirs.fileno()
        try:
            popen = subprocess.Popen(
                [sys.executable, *flags, "-c", _BOOT, str(number)],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    ours.setblocking(False)
    return popen, ours


def _hello() -> child.Hello:
    root = logging.getLogger()
    formatters = [handler.formatter for handler in root.handlers]
    log_format: Literal["pretty", "json", "plain"] | None = "plain" if formatters else None
    if any(isinstance(one, logs.JsonFormatter) for one in formatters):
        log_format = "json"
    elif any(isinstance(one, logs.PrettyFormatter) for one in formatters):
        log_format = "pretty"
    return {
        "path": sys.path,
        "argv": sys.argv,
        "parent_main": parent_main(),
        "log_format": log_format,
        "log_levels": {"": root.level, "pybatchq": log.level},
    }


def _fate(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
