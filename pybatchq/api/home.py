"""The page at `/`, for people who come with a browser."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from pybatchq.api.answers import page
from pybatchq.api.routes import Call, NoQuery, Route

HTML: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>batchq</title>
<h1>batchq</h1>
<p>This is the HTTP API of batchq, a durable job queue inside PostgreSQL.
<p><a href="/reference">reference</a> · <a href="/jobs">jobs</a> · <a href="/metrics">metrics</a>
· <a href="/health">health</a> · <a href="/ready">ready</a>
</html>
"""


async def home(_call: Call[NoQuery, None]) -> web.Response:
    return page(HTML)


ROUTES = (
    Route(
        method="GET",
        path="/",
        handler=home,
        summary="A page for people",
        scope=None,
        answer_type="text/html",
    ),
)
