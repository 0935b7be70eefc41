"""What runs in a process of `children`: handlers, one job at a time, as told over a socket.

The main thread runs the handlers. A second one listens, so that a handler that computes still
learns that it was cancelled, and the process ends at once when its parent is gone. The socket's
first line is JSON (see Hello); then both sides send frames: four bytes of length and a message. A
Work is followed by so many bytes of payload.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import io
import logging
import os
import pickle
import queue
import runpy
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from time import monotonic
from typing import Any, BinaryIO, Literal, TypedDict

import msgspec

from pybatchq import attempts, endings, logs
from pybatchq.endings import Ending
from pybatchq.handlers import Handler
from pybatchq.job import Job
from pybatchq.types import WorkItem

PROGRESS_EVERY_S = 0.2
END_WITHIN_S = 5.0
PR_SET_PDEATHSIG = 1
UNLOADABLE = "handler cannot be loaded in its process"

log = logging.getLogger("pybatchq")


class Hello(TypedDict):
    """path, argv: of `sys`. parent_main: its module's name or file, to import what it defines."""

    path: list[str]
    argv: list[str]
    parent_main: tuple[Literal["module", "file"], str] | None
    log_format: Literal["pretty", "json", "plain"] | None
    log_levels: dict[str, int]


class Work(msgspec.Struct, frozen=True, tag="work", array_like=True):
    """A job without its payload, which follows in `size` bytes. `handler`: pickled, if it is new.

    The item's timeout is what is left of it.
    """

    item: WorkItem
    uuid: bytes
    size: int
    handler: bytes | None


class Cancel(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """The job is to stop."""


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The process can run jobs."""


class Loaded(msgspec.Struct, frozen=True, tag="loaded", array_like=True):
    """The handler is known from now on, and its job starts."""


class Progress(msgspec.Struct, frozen=True, tag="progress", array_like=True):
    text: str


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    ending: Ending


ToChild = Work | Cancel
FromChild = Ready | Loaded | Progress | Ended

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ToChild).decode


def frame(message: ToChild | FromChild) -> bytes:
    body = _encode(message)
    return len(body).to_bytes(4, "big") + body


def pickled(handler: Handler) -> bytes:
    """A reference to the handler's functions. Whatever pickle raises if it cannot be made."""
    hooks = ([*handler.before[0], *handler.before[1]], [*handler.after[0], *handler.after[1]])
    fields = (handler.kind, handler.function, handler.wants_job, handler.policy, *hooks)
    return pickle.dumps(fields)


def main(link: socket.socket, stream: BinaryIO, hello: Hello) -> None:
    """Run jobs until the parent closes its side of `link`; `stream` reads from it."""
    link.set_inheritable(False)
    _die_with_parent()
    # not SIG_IGN, which programs that a handler starts would inherit
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(Exception):  # without a stderr
        faulthandler.enable()
    sys.argv[:] = hello["argv"]
    _set_up_logs(hello)
    _Child(link, stream, hello).run()


class _Child:
    def __init__(self, link: socket.socket, stream: BinaryIO, hello: Hello) -> None:
        self._link = link
        self._stream = stream
        self._load = _Loader(hello["parent_main"])
        self._sending = threading.Lock()
        self._handlers: dict[str, Handler] = {}
        self._job: Job | None = None
        self._is_busy = False
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()

    def run(self) -> None:
        threading.Thread(target=self._listen, name="batchq-listen", daemon=True).start()
        self._send(Ready())
        while self._do(self._tasks.get()):
            pass

    def _do(self, task: _Task | None) -> bool:
        if task is None:
            return False
        work, job, reporter, data = task
        try:
            ending = self._run(work, job, data)
        except BaseException as error:  # noqa: BLE001  # one job's failure, never the next one's
            ending = Ending("failed", endings.describe(error))
        _flush_output()
        reporter.close()
        self._is_busy = False
        self._send(Ended(ending))
        return True

    def _run(self, work: Work, job: Job, data: bytes) -> Ending:
        if work.handler is not None:
            try:
                self._handlers[job.kind] = self._load(work.handler)
            except BaseException as error:  # noqa: BLE001  # of the user's module: it may even exit
                reason = f"{UNLOADABLE}: {endings.describe(error)}"
                return Ending("failed", endings.clean(reason, endings.MAX_ERROR), what=UNLOADABLE)
            self._send(Loaded())
        if job.cancelled:
            return endings.STOPPED
        return attempts.run_here(self._handlers[job.kind], job, data)

    def _send(self, message: FromChild) -> None:
        try:
            with self._sending:
                self._link.sendall(frame(message))
        except OSError:
            os._exit(1)  # nobody is there to hear it

    def _listen(self) -> None:
        """In a thread of its own: what comes from the parent, and that it is gone."""
        try:
            while True:
                message = _decode(self._read(int.from_bytes(self._read(4), "big")))
                if isinstance(message, Work):
                    reporter = _Reporter(self._send)
                    self._job = Job(
                        message.item, int.from_bytes(message.uuid, "big"), reporter.save
                    )
                    self._is_busy = True
                    self._tasks.put((message, self._job, reporter, self._read(message.size)))
                elif self._job is not None:
                    self._job.cancelled = True
        except (EOFError, OSError):
            pass
        except BaseException:
            log.exception("a process of handlers got what it cannot read")
            os._exit(1)
        if self._is_busy:
            os._exit(1)
        self._tasks.put(None)
        time.sleep(END_WITHIN_S)
        os._exit(1)  # a thread of the user's does not end

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError
        return data


class _Reporter:
    """Sends the progress of one job: the newest value, every so often, from any thread."""

    def __init__(self, send: Callable[[FromChild], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._next_at = 0.0
        self._text: str | None = None
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def save(self, _item: WorkItem, text: str) -> None:
        with self._lock:
            self._text = text
            wait_s = self._next_at - monotonic()
            if wait_s <= 0:
                self._report()
            elif self._timer is None and not self._is_closed:
                self._timer = threading.Timer(wait_s, self._at_last)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """Send what was held back. Threads that the handler left behind report nothing more."""
        with self._lock:
            self._report()
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _at_last(self) -> None:
        with self._lock:
            self._timer = None
            self._report()

    def _report(self) -> None:
        if self._text is not None and not self._is_closed:
            self._send(Progress(self._text))
            self._next_at = monotonic() + PROGRESS_EVERY_S
        self._text = None


_Task = tuple[Work, Job, _Reporter, bytes]


class _Loader:
    """From a pickled reference to the handler."""

    def __init__(self, parent_main: tuple[Literal["module", "file"], str] | None) -> None:
        self._parent_main = parent_main
        self._own_main = sys.modules["__main__"]  # it runs, so it has to stay

    def __call__(self, reference: bytes) -> Handler:
        function: Any
        kind, function, wants_job, policy, before, after = _Unpickler(reference, self).load()
        handler = Handler(
            kind, function, "process", wants_job, policy=policy, before=(before,), after=(after,)
        )
        handler.resolve()
        return handler

    def import_main(self) -> None:
        """Make the parent's program this one's `__main__`, as multiprocessing does."""
        if self._parent_main is None or sys.modules["__main__"] is not self._own_main:
            return
        how, where = self._parent_main
        module = types.ModuleType("__mp_main__")
        _IMPORTING.append(where)
        try:
            if how == "module":
                names = runpy.run_module(where, run_name="__mp_main__", alter_sys=True)
            else:
                names = runpy.run_path(where, run_name="__mp_main__")
        finally:
            _IMPORTING.pop()
        module.__dict__.update(names)
        sys.modules["__main__"] = sys.modules["__mp_main__"] = module


# The parent's program, while it is imported here.
_IMPORTING: list[str] = []


def refuse_while_importing() -> None:
    """RuntimeError if the program that is imported here starts to work as its parent does."""
    if _IMPORTING:
        raise RuntimeError(
            f"{_IMPORTING[0]} starts a worker when it is imported: put what it does"
            " under `if __name__ == '__main__':`"
        )


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, loader: _Loader) -> None:
        super().__init__(io.BytesIO(data))
        self._loader = loader

    def find_class(self, module: str, name: str, /) -> Any:
        if module == "__main__":
            self._loader.import_main()
        return super().find_class(module, name)


def _die_with_parent() -> None:
    """Have the kernel end this process with its parent, also while it runs no Python.

    A regular expression or a sum() holds the interpreter's lock: the listening thread stands still.
    Parent means the thread that started this one: that of the worker's event loop.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _set_up_logs(hello: Hello) -> None:
    match hello["log_format"]:
        case "pretty" | "json" as fmt:
            logs.set_up(fmt=fmt, level="warning")
        case "plain":
            logging.basicConfig()
        case None:
            pass
    for name, level in hello["log_levels"].items():
        logging.getLogger(name).setLevel(level)


def _flush_output() -> None:
    """What a job printed is seen now, not when the process ends."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or replaced by the handler
            stream.flush()
