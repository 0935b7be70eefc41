"""An HTTP client for measuring: many keep-alive connections, each with one request under way.

One thread, one epoll, no event loop. It keeps the latency of every request, from just before it is
sent until its answer is read whole, and the id of every job that was accepted. When the time is
over nothing new is sent, but every answer is waited for: so the ids are all there are.

See processes.py for the protocol; started with its options as JSON. It prints a line more: how long
it took, as soon as that is known.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import select
import socket
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.support.stats import percentile

HOST = "127.0.0.1"
MOST_READ = 262_144
ANSWER_TIMEOUT_S = 30.0
HEAD_END = b"\r\n\r\n"
LENGTH = b"Content-Length: "
SHARES = {"p50": 0.50, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
JOB_ID = b'{"id":'


@dataclass(frozen=True, slots=True)
class Options:
    """seconds: a closed loop for so long; None: one request a connection.

    `{n}` in the path is a number from `numbers`, drawn afresh for each request. ids: a file that
    gets the jobs' ids as 64-bit integers. connect_late: connecting is part of what is timed.
    """

    port: int
    connections: int
    seconds: float | None = None
    method: str = "POST"
    path: str = "/jobs"
    body: str = ""
    numbers: list[int] | None = None
    ids: str | None = None
    connect_late: bool = False


class ClientError(Exception):
    """The server did not answer as it should have; the text says how."""


class Client:
    """Connections to one server. `run` sends and waits for all answers."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._next = _requests(options)
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._sent_at: dict[int, float] = {}
        self._parts: dict[int, bytes] = {}
        self.latencies = array("d")
        self.ids = array("q")
        self.refused: dict[str, int] = {}

    def connect(self) -> None:
        for _ in range(self._options.connections):
            connection = socket.create_connection((HOST, self._options.port), ANSWER_TIMEOUT_S)
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets[connection.fileno()] = connection
            self._poll.register(connection.fileno(), select.EPOLLIN)

    def run(self) -> float:
        """The seconds from the first request to the last answer."""
        began = time.perf_counter()
        if self._options.connect_late:
            self.connect()
        end = began + (self._options.seconds or 0)
        for fd in self._sockets:
            self._send(fd)
        while self._sent_at:
            ready = self._poll.poll(ANSWER_TIMEOUT_S)
            if not ready:
                raise ClientError(f"{len(self._sent_at)} requests got no answer")
            for fd, _ in ready:
                if self._receive(fd) and time.perf_counter() < end:
                    self._send(fd)
        return time.perf_counter() - began

    def _send(self, fd: int) -> None:
        request = self._next()
        self._sent_at[fd] = time.perf_counter()
        if self._sockets[fd].send(request) != len(request):
            raise ClientError("a request did not fit into the socket's buffer")

    def _receive(self, fd: int) -> bool:
        """Whether the answer is whole now."""
        try:
            data = self._sockets[fd].recv(MOST_READ)
        except OSError as error:
            raise ClientError(f"a connection broke: {error}; refused: {self.refused}") from None
        if not data:
            raise ClientError(f"the server closed a connection; refused: {self.refused}")
        if fd in self._parts:
            data = self._parts.pop(fd) + data
        head, found, body = data.partition(HEAD_END)
        if not found or len(body) < _length(head):
            self._parts[fd] = data
            return False
        self.latencies.append(time.perf_counter() - self._sent_at.pop(fd))
        self._note(head, body)
        return True

    def _note(self, head: bytes, body: bytes) -> None:
        if head[9:10] != b"2":
            status = head[9:12].decode()
            self.refused[status] = self.refused.get(status, 0) + 1
        elif self._options.ids is not None:
            start = body.index(JOB_ID) + len(JOB_ID)
            self.ids.append(int(body[start : body.index(b",", start)]))


def _length(head: bytes) -> int:
    at = head.index(LENGTH) + len(LENGTH)
    end = head.find(b"\r", at)
    return int(head[at:] if end < 0 else head[at:end])


def _requests(options: Options) -> Callable[[], bytes]:
    body = options.body.encode()
    tail = f" HTTP/1.1\r\nHost: {HOST}:{options.port}\r\n"
    if body:
        tail += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    end = f"{tail}\r\n".encode() + body
    if options.numbers is None or "{n}" not in options.path:
        whole = f"{options.method} {options.path}".encode() + end
        return lambda: whole
    least, most = options.numbers
    before, _, after = f"{options.method} {options.path}".partition("{n}")
    return lambda: f"{before}{random.randint(least, most)}{after}".encode() + end


def _answer(client: Client, seconds: float, cpu_s: float) -> dict[str, float]:
    """Latencies in ms."""
    return {
        "answers": len(client.latencies),
        "refused": sum(client.refused.values()),
        "seconds": seconds,
        "cpu_s": cpu_s,
        **{name: percentile(client.latencies, share) * 1e3 for name, share in SHARES.items()},
    }


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def main() -> None:
    options = Options(**json.loads(sys.argv[1]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if soft < hard else (soft, hard))
    client = Client(options)
    gc.disable()  # nothing here is circular
    if not options.connect_late:
        client.connect()
    print('{"ready": 1}', flush=True)
    sys.stdin.readline()
    before = _cpu_s()
    seconds = client.run()
    print(json.dumps({"seconds": seconds}), flush=True)
    answer = _answer(client, seconds, _cpu_s() - before)
    if client.refused:
        print(f"refused, by status: {client.refused}", file=sys.stderr)
    if options.ids is not None:
        Path(options.ids).write_bytes(client.ids.tobytes())
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
