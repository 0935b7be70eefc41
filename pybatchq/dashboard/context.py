"""What the dashboard owns in one application: its templates and its hub."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from pybatchq.dashboard.live import Hub
from pybatchq.dashboard.rendering import Renderer

RENDERER: Final = web.AppKey("renderer", Renderer)
HUB: Final = web.AppKey("hub", Hub)
