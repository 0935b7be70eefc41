"""Who may: bearer tokens, looked up in the database by the hash of their secret.

While there is no token at all, an API that only this machine can reach is open; any other refuses.
What was looked up holds for a few seconds, so a revoked token ends within these. Under load it is
looked up anew before these are over, so that not all requests at once have to wait for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from typing import Final, Literal, get_args

from aiohttp import web

from pybatchq import calls
from pybatchq.api.errors import ApiError, refused
from pybatchq.api.pool import Database
from pybatchq.api.shared import Shared
from pybatchq.types import Scope, TokenInfo

# Of a token by its secret's hash, or of the token of a session by that of the session's.
Find = Callable[..., Awaitable[TokenInfo | None]]
Openness = Literal["nobody", "this machine", "everybody"]
SCOPES: Final = get_args(Scope)

KNOWN_S: Final = 5.0
RENEW_S: Final = 2.5
MOST_KNOWN: Final = 10_000
# So that a flood of made-up tokens leaves connections to the others.
LOOK_UPS: Final = 2
MOST_SECRET: Final = 200
ANY: Final = b""  # no token's hash: whether there is any
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="batchq"'}
HOW_TO_MAKE_ONE: Final = "make a token: batchq token create NAME --scope produce"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. queues: the only ones it may see or touch; None: all."""

    name: str
    scopes: frozenset[str]
    queues: frozenset[str] | None = None

    @property
    def actor(self) -> str:
        """The name under which what it does is noted."""
        return self.name or "anyone"

    def may_use(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues

    def check_queue(self, queue: str) -> None:
        """ApiError 403 if it may not use this queue."""
        if not self.may_use(queue):
            raise refused(403, "this token is not for that queue", hint=self.hint)

    @property
    def hint(self) -> str:
        return f"it is for {', '.join(sorted(self.queues or ()))}"


ANYONE: Final = Caller("", frozenset(SCOPES))


class Guard:
    """Answers whether a request may go on."""

    def __init__(
        self, database: Database, openness: Openness, *, clock: Callable[[], float] = monotonic
    ) -> None:
        """openness: who may do everything while no token exists."""
        self._database = database
        self._openness = openness
        self._clock = clock
        self._known: dict[tuple[Find, bytes], tuple[float, Caller | None]] = {}
        self._looking = asyncio.Semaphore(LOOK_UPS)
        self._has_tokens = (0.0, True)
        self._shared = Shared()

    async def admit(self, request: web.Request, scope: Scope) -> Caller:
        """The caller; ApiError 401 without a token that is good, 403 without the scope."""
        given = request.headers.get("Authorization")
        caller = await (self._without(request) if given is None else self._with(given))
        # whoever may do anything may look, as in the database
        if scope not in caller.scopes and scope != "monitor":
            hint = f"it has {', '.join(sorted(caller.scopes))}"
            raise refused(403, f"this token has no scope {scope}", hint=hint)
        return caller

    async def session(self, secret: str) -> Caller | None:
        """Who signed in with this secret of a session; None if it is over."""
        return await self._look_up(calls.find_session, digest_of(secret))

    def forget_session(self, secret: str) -> None:
        """It was closed, by this process: look it up anew."""
        self._known.pop((calls.find_session, digest_of(secret)), None)

    async def _with(self, given: str) -> Caller:
        scheme, _, secret = given.partition(" ")
        secret = secret.strip()
        if scheme.lower() != "bearer" or not secret or len(secret) > MOST_SECRET:
            raise _unauthorized("this is no bearer token", "Authorization: Bearer bq_…")
        caller = await self._look_up(calls.find_token, digest_of(secret))
        if caller is None:
            raise _unauthorized("this token is unknown or revoked", "see: batchq token list")
        return caller

    async def _look_up(self, find: Find, digest: bytes) -> Caller | None:
        what = (find, digest)
        until, caller = self._known.get(what, (0.0, None))
        now = self._clock()
        if until <= now:
            return await self._shared(what, lambda: self._find(find, digest))
        if until - now < RENEW_S and caller is not None:
            self._shared.begin(what, lambda: self._find(find, digest))
        return caller

    async def _find(self, find: Find, digest: bytes) -> Caller | None:
        async with self._looking:
            token = await self._database(find, secret_hash=digest)
        caller = None
        if token is not None:
            queues = None if token.queues is None else frozenset(token.queues)
            caller = Caller(token.name, frozenset(token.scopes), queues)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[find, digest] = (self._clock() + KNOWN_S, caller)
        return caller

    async def _without(self, request: web.Request) -> Caller:
        until, has_tokens = self._has_tokens
        now = self._clock()
        if until <= now:
            has_tokens = await self._shared(ANY, self._look_for_tokens)
        elif until - now < RENEW_S:
            self._shared.begin(ANY, self._look_for_tokens)
        if has_tokens:
            raise _unauthorized("a token is required", "Authorization: Bearer bq_…")
        if self._openness == "nobody":
            raise _unauthorized(
                "this API listens beyond this machine and there is no token yet", HOW_TO_MAKE_ONE
            )
        if self._openness == "this machine" and not _is_own(
            request.headers.get("Host", "localhost")
        ):
            # a page whose name leads here must not become an operator
            raise refused(403, "without tokens only localhost is served", hint=HOW_TO_MAKE_ONE)
        return ANYONE

    async def _look_for_tokens(self) -> bool:
        has_tokens = await self._database(calls.has_tokens)
        self._has_tokens = (self._clock() + KNOWN_S, has_tokens)
        return has_tokens


def digest_of(secret: str) -> bytes:
    """What is compared: the hash, whose bytes a guesser cannot choose."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=64)
def _is_own(host: str) -> bool:
    """Whether a Host header has no name but this machine's own: an address is nobody's name."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _unauthorized(message: str, hint: str) -> ApiError:
    return refused(401, message, hint=hint, headers=CHALLENGE)
