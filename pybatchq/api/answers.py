"""Answers: JSON bytes with the headers that all of them have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from pybatchq.api.errors import ApiError

# Nothing of this is to be kept, guessed at, shown in a frame or run.
HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Server": "batchq",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_JSON: Final = CIMultiDict({**HEADERS, "Content-Type": "application/json"})

encode: Final = msgspec.json.Encoder().encode


def answer(value: Any, status: int = 200) -> web.Response:
    """A struct, or anything msgspec encodes, as JSON."""
    return web.Response(body=encode(value), status=status, headers=_JSON)


def page(html: str, policy: str = "default-src 'none'; frame-ancestors 'none'") -> web.Response:
    """HTML; policy: its Content-Security-Policy."""
    headers = {
        **HEADERS,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
    }
    return web.Response(body=html.encode(), headers=headers)


def text(body: bytes, content_type: str) -> web.Response:
    """Something else, such as Prometheus text."""
    return web.Response(body=body, headers={**HEADERS, "Content-Type": content_type})


def error_answer(error: ApiError) -> web.Response:
    response = answer(error.body, error.status)
    add(response, error.headers)
    return response


def add(response: web.StreamResponse, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        response.headers[name] = value
