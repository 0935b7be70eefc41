"""The API as a process of its own: sockets, TLS, signals, and clients that are slow on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, cast

from aiohttp import web

from pybatchq import logs, supervisor, systemd
from pybatchq.api import accesslog
from pybatchq.api.answers import encode, error_answer
from pybatchq.api.app import make_app
from pybatchq.api.errors import refused
from pybatchq.api.services import SERVICES
from pybatchq.settings import Settings, SettingsError

BACKLOG: Final = 4096
# A connection that sends no complete head for so long is closed, new or not. Longer than what
# proxies keep theirs open for, so that it is they who close.
KEEP_ALIVE_S: Final = 75.0
# What is left of a body nobody wants is read for so long, so that its sender sees the answer.
LINGER_S: Final = 2.0
# A client that takes nothing of its answer for so long is cut off.
UNREAD_S: Final = 20.0
MOST_HEADER: Final = 8190
MOST_HEADERS: Final = 64
# Requests that still run so long after the signal are cut off.
STOP_S: Final = 4.0
MOST_FILES: Final = 65_536
# What is left of the limit on open files for everything but clients.
OTHER_FILES: Final = 200

log = logging.getLogger("pybatchq")


class Server:
    """One listening application, from start() to close(). Port 0 is any free one; see `port`."""

    def __init__(
        self, app: web.Application, settings: Settings, *, shares_port: bool = False
    ) -> None:
        self._services = app[SERVICES]
        self._settings = settings
        self._shares_port = self._services.shares_port = shares_port
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_S)
        self._listeners: list[asyncio.Server] = []
        self.connections = 0  # clients that are connected
        self.most_connections = max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_FILES, 1)

    @property
    def port(self) -> int:
        return int(self._listeners[0].sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Listen. SettingsError if that cannot be done here."""
        context = tls_context(self._settings)
        await self._runner.setup()
        try:
            listener = await asyncio.get_running_loop().create_server(
                self._connection,
                self._settings.host,
                self._settings.port,
                ssl=context,
                backlog=BACKLOG,
                reuse_address=True,
                reuse_port=self._shares_port or None,
            )
        except OSError as error:
            await self._runner.cleanup()
            raise _cannot_listen(self._settings, error) from error
        except BaseException:
            await self._runner.cleanup()
            raise
        self._listeners.append(listener)

    async def close(self) -> None:
        """Accept nothing more, answer what was read, close. Takes STOP_S at most, and a bit."""
        self._services.stop()
        for listener in self._listeners:
            listener.close()
        await self._runner.cleanup()

    def _connection(self) -> web.RequestHandler:
        return _Connection(
            self,
            self._runner.server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=LINGER_S,
            max_line_size=MOST_HEADER,
            max_field_size=MOST_HEADER,
            max_headers=MOST_HEADERS,
            auto_decompress=False,
            access_log=None,
        )


class _Connection(web.RequestHandler):
    """A client. One that does not read its answers is cut off; what is no HTTP gets our error."""

    __slots__ = ("_ours", "_unread")

    def __init__(self, ours: Server, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ours = ours
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ours.connections += 1
        if self._ours.connections > self._ours.most_connections:
            refusing = cast("asyncio.WriteTransport", transport)
            refusing.write(_TOO_MANY)
            refusing.close()
        else:
            super().connection_made(transport)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.transport is not None:
            self._unread = self._loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._ours.connections -= 1
        self._stop_waiting()
        super().connection_lost(exc)

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002  # as aiohttp has it
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What aiohttp's parser refuses, and what no middleware saw."""
        if status >= 500:
            log.error("request failed", exc_info=exc, extra={"status": status})
            message = "internal error"
        response = error_answer(refused(status, message or "this is no HTTP request"))
        response.force_close()
        return response


def _too_many() -> bytes:
    body = encode(refused(503, "too many clients are connected").body)
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


_TOO_MANY: Final = _too_many()


def run(dsn: str, settings: Settings) -> int:
    """Serve until a signal; the exit code. SettingsError if it cannot listen."""
    logs.set_up(fmt=settings.log_format, level=settings.log_level)
    _allow_many_files()
    _collect_seldom()
    return asyncio.run(_until_signalled(dsn, settings))


def run_many(environ: Mapping[str, str], settings: Settings) -> int:
    """Several such processes on one port, under a supervisor; the worst of their exit codes.

    environ: the variables that say what settings say.
    """
    logs.set_up(fmt=settings.log_format, level=settings.log_level)
    with _reserved(settings) as port:
        env = {**environ, "BATCHQ_PROCESSES": "1", "BATCHQ_PORT": str(port)}
        command = [sys.executable, "-m", "pybatchq", "api"]
        return supervisor.run(command, processes=settings.processes, env_for=lambda _number: env)


@contextlib.contextmanager
def in_thread(dsn: str, settings: Settings) -> Iterator[int]:
    """The API beside whatever else this process does; its port. SettingsError as for run()."""
    began: Future[tuple[int, Callable[[], object]]] = Future()

    async def serve() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = Server(make_app(settings, dsn), settings)
        try:
            await server.start()
        except BaseException as error:  # noqa: BLE001  # it is for whoever started this
            began.set_exception(error)
            return
        began.set_result((server.port, partial(loop.call_soon_threadsafe, stopping.set)))
        await stopping.wait()
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="batchq-api", daemon=True)
    thread.start()
    port, stop = began.result()
    try:
        yield port
    finally:
        stop()
        thread.join(2 * STOP_S)


async def _until_signalled(dsn: str, settings: Settings) -> int:
    shares_port = supervisor.FD_VARIABLE in os.environ
    stopping = asyncio.Event()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            os._exit(4)
        log.info("stopping")
        systemd.notify("STOPPING=1")
        stopping.set()

    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop)
    supervisor.watch_supervisor(stop)
    server = Server(make_app(settings, dsn), settings, shares_port=shares_port)
    await server.start()
    log.info("listening", extra={"host": settings.host, "port": server.port})
    feeding = asyncio.ensure_future(_tell_systemd())
    lines = accesslog.install(settings.log_format)
    try:
        await stopping.wait()
    finally:
        feeding.cancel()
        await server.close()
        accesslog.remove(lines)
    log.info("stopped")
    return 0


async def _tell_systemd() -> None:
    """Ready as soon as it listens; then feed the watchdog, from the loop that it watches."""
    systemd.notify("READY=1")
    interval_s = systemd.watchdog_interval_s()
    while interval_s is not None:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(interval_s)


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """None without a certificate. SettingsError if the files cannot be used."""
    if settings.tls_cert is None:
        if settings.tls_key is not None:
            raise SettingsError("BATCHQ_TLS_KEY is set and BATCHQ_TLS_CERT is not")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:  # SSLError is one
        raise SettingsError(
            f"BATCHQ_TLS_CERT is '{settings.tls_cert}': it cannot be used: {error}"
        ) from error
    return context


@contextlib.contextmanager
def _reserved(settings: Settings) -> Iterator[int]:
    """The port, held for processes that are to share it. SettingsError if others have it."""
    family, kind, proto, _, address = _resolved(settings)
    with socket.socket(family, kind, proto) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            holder.bind(address)  # without listening: it is sent no connections
        except OSError as error:
            raise _cannot_listen(settings, error) from error
        yield int(holder.getsockname()[1])


def _resolved(settings: Settings) -> Any:
    try:
        return socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise _cannot_listen(settings, error) from error


def _cannot_listen(settings: Settings, error: OSError) -> SettingsError:
    host, port = settings.host, settings.port
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    match error.errno:
        case errno.EADDRINUSE:
            return SettingsError(f"BATCHQ_PORT is {port}: {place} is in use; give a free port")
        case errno.EACCES:
            return SettingsError(f"BATCHQ_PORT is {port}: {place} takes more rights than ours")
        case _ if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            return SettingsError(f"BATCHQ_HOST is {host!r}: no address of this machine")
    return SettingsError(f"BATCHQ_PORT is {port}: cannot listen on {place}: {error}")


def _collect_seldom() -> None:
    """Spare the garbage collector what stays anyway: a fifth of what a request costs otherwise."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _allow_many_files() -> None:
    """A connection is an open file, and the usual first limit is 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
