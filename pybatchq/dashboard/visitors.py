"""Who looks at a page: signed in with a token of the API, or anybody while there is none.

A browser holds the secret of a session in a cookie that no script can read, never the token. Every
form carries a mark made from that cookie, which a page of somebody else's cannot know. A request
with a bearer token needs neither, as no browser sends one by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from pybatchq import calls
from pybatchq.api.auth import Caller, digest_of
from pybatchq.api.errors import refused
from pybatchq.api.services import Services

COOKIE: Final = "batchq_session"
MARK: Final = "mark"
LEAST_SECRET: Final = 20
MOST_SECRET: Final = 200
SESSION_S: Final = 12 * 3600


@dataclass(frozen=True, slots=True)
class Visitor:
    """secret: what the cookie holds, or is to hold; None: a bearer token came instead.

    is_new: the cookie has to be set. proof: the hash of the secret of the session or token that
    admits; None: there is no token at all.
    """

    caller: Caller
    secret: str | None
    is_new: bool = False
    proof: bytes | None = None

    @property
    def is_signed_in(self) -> bool:
        return self.proof is not None

    @property
    def mark(self) -> str:
        """What this visitor's forms carry."""
        if self.secret is None:
            return ""
        return hmac.new(self.secret.encode(), b"batchq form", hashlib.sha256).hexdigest()

    def check_mark(self, given: str) -> None:
        """ApiError 403 for a form that is not from a page this visitor was shown."""
        if self.secret is None:
            return
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.mark.encode()):
            hint = "open the page anew and try again"
            raise refused(403, "this form is not from a page of this session", hint=hint)


async def visitor_of(request: web.Request, services: Services) -> Visitor:
    """ApiError 401 where somebody has to sign in first."""
    if "Authorization" in request.headers:
        caller = await services.guard.admit(request, "monitor")
        token = request.headers["Authorization"].partition(" ")[2].strip()
        return Visitor(caller, None, proof=digest_of(token))
    secret, is_new = _cookie(request)
    if not is_new:
        found = await services.guard.session(secret)
        if found is not None:
            return Visitor(found, secret, proof=digest_of(secret))
    return Visitor(await services.guard.admit(request, "monitor"), secret, is_new)


async def stranger(request: web.Request, _services: Services) -> Visitor:
    """Whoever may see no more than how to sign in."""
    return Visitor(Caller("", frozenset()), *_cookie(request))


def _cookie(request: web.Request) -> tuple[str, bool]:
    """The secret of the cookie, or a new one, and which of the two it is."""
    secret = request.cookies.get(COOKIE, "")
    is_new = not (secret.isascii() and LEAST_SECRET <= len(secret) <= MOST_SECRET)
    return (new_secret() if is_new else secret), is_new


async def open_session(services: Services, token: str) -> str | None:
    """The secret of a new session; None if the token is not good."""
    secret = new_secret()
    ends_at = await services.db(
        calls.open_session, token_hash=digest_of(token), session_hash=digest_of(secret)
    )
    return None if ends_at is None else secret


async def close_session(services: Services, secret: str) -> None:
    await services.db(calls.close_session, secret_hash=digest_of(secret))
    services.guard.forget_session(secret)


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def set_cookie(request: web.Request, response: web.StreamResponse, secret: str) -> None:
    """For this browser's session; a proxy that ended TLS says so in X-Forwarded-Proto."""
    is_secure = request.secure or request.headers.get("X-Forwarded-Proto") == "https"
    response.set_cookie(
        COOKIE, secret, path="/", httponly=True, samesite="Lax", secure=is_secure,
        max_age=SESSION_S,
    )  # fmt: skip
