"""Handlers for queues of scenery.py: what failed there works here, as if a bug was mended."""

from __future__ import annotations

from typing import Any

from pybatchq import handler


@handler("charge_card")
async def charge_card(payload: dict[str, Any]) -> dict[str, Any]:
    return {"charged": payload.get("amount_cents")}


@handler("send_email")
async def send_email(payload: dict[str, Any]) -> None:
    return None
