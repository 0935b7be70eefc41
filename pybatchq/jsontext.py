"""JSON on its way into and out of the database: its edges are the same everywhere.

Out: text that PostgreSQL takes as jsonb, or InvalidArgumentError: no NaN or infinity, no NUL, no
lone surrogate, no structure deeper than Python can walk. In: bytes, decoded where they are used.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

from pybatchq.errors import InvalidArgumentError

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
NUL_HINT = "PostgreSQL stores no NUL character; remove it or encode the text"


def encode(value: Any) -> str:
    """JSON text of a value made of JSON's types, dataclasses, msgspec structs, dates and UUIDs.

    A msgspec.Raw is JSON text already and stays as it is, digits and all.
    """
    try:
        if isinstance(value, msgspec.Raw):
            text = bytes(value).decode()
        else:
            text = json.dumps(
                value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_builtins
            )
        text.encode()
    except RecursionError:
        raise InvalidArgumentError("the value is nested too deeply for JSON") from None
    except Exception as error:  # noqa: BLE001
        # mostly TypeError and ValueError, but a class of the caller's can raise anything
        raise InvalidArgumentError(f"the value is no JSON: {error}") from None
    if "\\u0000" in text and _NUL.search(text):
        raise InvalidArgumentError("the value holds a NUL character", hint=NUL_HINT)
    return text


def decode(data: bytes) -> Any:
    """The value of JSON that came from the database. ValueError if Python cannot hold it."""
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def raw_json(adapters: AdaptersMap) -> None:
    """Make a connection or cursor hand out json and jsonb as bytes."""
    for loader in (_RawText, _RawBinary):
        adapters.register_loader("json", loader)
        adapters.register_loader("jsonb", loader)


class _RawText(Loader):
    def load(self, data: bytes | bytearray | memoryview) -> bytes:
        return bytes(data)


class _RawBinary(Loader):
    format = Format.BINARY

    def load(self, data: bytes | bytearray | memoryview) -> bytes:
        """Jsonb starts with a version byte, 1; json does not."""
        text = bytes(data)
        return text[1:] if text[:1] == b"\x01" else text


def _builtins(value: Any) -> Any:
    if isinstance(value, set | frozenset | bytes | bytearray | memoryview):
        raise TypeError(f"{type(value).__name__} is not a JSON type")
    dump = getattr(value, "model_dump", None)  # a pydantic model
    return msgspec.to_builtins(value) if dump is None else dump(mode="json")
