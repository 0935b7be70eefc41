"""The kind http_get: one GET, kept away from addresses that are not public.

The name is looked up once, every address is judged (see addresses), and the connection goes to one
of those: a name that resolves to something else a moment later gains nothing. The same holds for
each redirect. What is stored as an error names the host and what happened, and never the rest of
the URL: errors of the HTTP client, whose texts hold it, do not leave this module.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import random
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Annotated

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Meta, Struct
from yarl import URL

from pybatchq import __version__
from pybatchq.addresses import Address, Host, Rules, read_host
from pybatchq.errors import PermanentError, RetryIn
from pybatchq.job import Job

MAX_BODY = 10 * 1024 * 1024
MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
BACKOFF_BASE_S = 10.0  # of a job that says nothing else
BACKOFF_CAP_S = 3600.0
HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": f"batchq/{__version__}"}

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Lookup = Callable[[str, int], Awaitable[list[Address]]]

# not the loop's own threads: a name server that is silent must not keep them from others
_lookups = ThreadPoolExecutor(32, thread_name_prefix="http_get lookup")


class HttpGet(Struct, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=8192)]
    timeout_ms: Annotated[int, Meta(ge=1, le=300_000)] = 3000


class Answer(Struct, frozen=True):
    """`sha256` and `bytes` are of the body as it came, `truncated` if there was more of it."""

    status: int
    url: str
    content_type: str | None
    bytes: int
    truncated: bool
    sha256: str
    elapsed_ms: int


class RequestError(RetryIn):
    """The attempt failed, and another may not. The text is fit to be stored, and is all there is.

    A RetryIn without a time of its own: the wait is the job's backoff.
    """

    def __init__(self, message: str) -> None:
        super().__init__(None, message)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request goes. `label` is what errors may name: host and port, if one was given."""

    url: URL
    host: Host
    port: int
    label: str


async def look_up(name: str, port: int) -> list[Address]:
    """All addresses of a name, as the system's resolver has them. OSError if there are none."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(
        _lookups, lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    )
    return [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


@dataclass(frozen=True, slots=True)
class Client:
    """The handler and what it needs. `tls`: None for the system's certificates."""

    rules: Rules
    look_up: Lookup = look_up
    tls: ssl.SSLContext | None = None

    async def http_get(self, payload: HttpGet, job: Job) -> Answer:
        """GET the URL, follow redirects, hash the body. See Answer for what is kept."""
        started = time.monotonic()
        place = _place(payload.url)
        authorization = _authorization(payload.url)
        try:
            async with asyncio.timeout(payload.timeout_ms / 1000):
                for _ in range(MAX_REDIRECTS + 1):
                    async with self._request(place, authorization) as response:
                        if response.status not in REDIRECTS:
                            return await _answer(response, place, job.attempt, started)
                        target = _redirect(response, place)
                    if target.url.origin() != place.url.origin():
                        authorization = None
                    place = target
        except TimeoutError:
            raise RequestError(f"{place.label}: timeout after {payload.timeout_ms} ms") from None
        raise PermanentError(f"{place.label}: more than {MAX_REDIRECTS} redirects")

    @contextlib.asynccontextmanager
    async def _request(
        self, place: Place, authorization: str | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Judge the place, connect to what was judged, and wait for the answer's head."""
        with _plain_errors(place.label):
            addresses = await self._addresses(place)
            connector = aiohttp.TCPConnector(
                resolver=_Known(addresses), use_dns_cache=False, ssl=self.tls or True
            )
            headers = (
                HEADERS if authorization is None else HEADERS | {"Authorization": authorization}
            )
            async with (
                aiohttp.ClientSession(
                    connector=connector,
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,  # a small body may unpack to a huge one
                    timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
                    trust_env=False,
                ) as session,
                session.get(place.url, headers=headers, allow_redirects=False) as response,
            ):
                try:
                    yield response
                finally:
                    _hang_up(response)

    async def _addresses(self, place: Place) -> list[Address]:
        """Where to connect to. PermanentError if that is not allowed."""
        host, port = place.host, place.port
        if isinstance(host, str):
            refusal = self.rules.refusal(host, port, ())
            addresses = [] if refusal else await self.look_up(host, port)
        else:
            refusal, addresses = None, [host]
        refusal = refusal or self.rules.refusal(host, port, addresses)
        if refusal is not None:
            raise PermanentError(f"{place.label}: not allowed: {refusal}")
        if not addresses:
            raise RequestError(f"{place.label}: name lookup failed: no addresses")
        return addresses


class _Known(AbstractResolver):
    """Hands the connector the addresses that were judged. It looks nothing up."""

    def __init__(self, addresses: list[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        pass


def _place(text: str, base: URL | None = None) -> Place:
    """Read a URL. PermanentError, without the URL in it, if it names no place for a GET."""
    try:
        if _CONTROL.search(text):
            raise ValueError  # noqa: TRY301
        url = URL(text) if base is None else base.join(URL(text))
        host, port = url.raw_host, url.port
    except ValueError:
        raise PermanentError("the URL cannot be read") from None
    if url.scheme not in {"http", "https"}:
        raise PermanentError("not allowed: only http and https URLs are")
    if not host or not port:
        raise PermanentError("the URL names no host")
    try:
        read = read_host(host)
    except ValueError:
        raise PermanentError(
            "not allowed: the URL's host is no name and no plain address"
        ) from None
    url = url.with_user(None).with_fragment(None)
    if not isinstance(read, str):
        url = url.with_host(str(read))  # so that the client cannot read it in another way
    label = f"[{read}]" if not isinstance(read, str) and read.version == 6 else str(read)
    if url.explicit_port is not None:
        label = f"{label}:{url.explicit_port}"
    return Place(url, read, port, label)


def _authorization(text: str) -> str | None:
    """The header that stands for the URL's user and password."""
    url = URL(text)
    if url.user is None and url.password is None:
        return None
    pair = f"{url.user or ''}:{url.password or ''}".encode("utf-8", "replace")
    return f"Basic {base64.b64encode(pair).decode()}"


def _redirect(response: aiohttp.ClientResponse, place: Place) -> Place:
    """Where a redirect leads. A user and password in it are left out."""
    target = response.headers.get("Location", "").strip()
    if not target:
        raise PermanentError(f"{place.label}: answered {response.status} without a target")
    try:
        return _place(target, place.url)
    except PermanentError as error:
        raise PermanentError(f"{place.label}: redirects: {error}") from None


async def _answer(
    response: aiohttp.ClientResponse, place: Place, attempt: int, started: float
) -> Answer:
    """The result of a good answer; the right exception for any other."""
    status = response.status
    problem = f"{place.label}: answered {status}"
    if status in {408, 429} or status >= 500:
        wait_s = retry_after_s(response.headers.get("Retry-After", ""), datetime.now(UTC))
        if wait_s > 0:
            raise RetryIn(backoff_s(attempt, wait_s), problem)
        raise RequestError(problem)
    if status >= 300:
        raise PermanentError(problem)
    if status < 200:
        raise RequestError(problem)
    content_type = response.content_type if "Content-Type" in response.headers else None
    digest, size, truncated = hashlib.sha256(), 0, False
    async for data in response.content.iter_any():
        kept = data[: MAX_BODY - size]
        digest.update(kept)
        size += len(kept)
        if len(kept) < len(data):
            truncated = True
            break
    return Answer(
        status=status,
        url=str(place.url),
        content_type=content_type and content_type.encode("ascii", "replace").decode(),
        bytes=size,
        truncated=truncated,
        sha256=digest.hexdigest(),
        elapsed_ms=round((time.monotonic() - started) * 1000),
    )


def retry_after_s(value: str, now: datetime) -> float:
    """Seconds of a Retry-After header, a number or a date (RFC 9110, 10.2.3); 0 for no such."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return 0.0
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())


def backoff_s(attempt: int, least_s: float) -> float:
    """The wait that batchq's own backoff would give, but at least so long, up to its cap.

    A wait of a handler takes the place of the job's backoff, which a handler does not know; without
    this, a server that always asks for a second would use up the attempts in seconds.
    """
    bound_s = min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2.0 ** min(attempt - 1, 20))
    return max(random.uniform(0, bound_s), min(least_s, BACKOFF_CAP_S))


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Drop what is left of the connection; TLS would wait for the other side's goodbye."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


@contextlib.contextmanager
def _plain_errors(label: str) -> Iterator[None]:
    """Let errors of sockets, TLS and HTTP out as RequestError only."""
    try:
        yield
    except (PermanentError, RetryIn):
        raise
    except Exception as error:  # noqa: BLE001  # the text of any other may hold the URL
        raise RequestError(f"{label}: {_explained(error)}") from None


def _explained(error: Exception) -> str:
    """What happened, in words of this module or of the system."""
    match error:
        case socket.gaierror():
            text = f"name lookup failed: {error.strerror}"
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "bad certificate")
            text = f"TLS error: {why}"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            text = f"TLS error: {getattr(error, 'reason', None) or 'handshake failed'}"
        case aiohttp.ServerDisconnectedError():
            text = "connection closed without an answer"
        case aiohttp.ClientPayloadError():
            text = "connection closed in the middle of the answer"
        case aiohttp.ClientResponseError():
            text = "the answer is not HTTP"
        case OSError(errno=int(number)):
            text = f"connection failed: {os.strerror(number)}"
        case OSError():
            text = "connection failed"
        case _:
            text = f"request failed: {type(error).__name__}"
    return text
