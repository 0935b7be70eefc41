"""JSON and query parameters into structs, with errors that name the field and what it takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from pybatchq.api.errors import ApiError, invalid, refused
from pybatchq.jsontext import NUL_HINT

T = TypeVar("T")

MOST_DEPTH = 128

_PATH = re.compile(r"(?P<reason>.*) - at `\$(?P<path>.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)
_PLACE = re.compile(r"(?:\.jobs)?\[(\d+)\]")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Decoder(Generic[T]):
    """JSON text into one type, strictly. What is Raw in it is known to be sound JSON."""

    def __init__(self, type_: type[T], *, of: type[msgspec.Struct] | None = None) -> None:
        """of: the struct whose fields errors name, where that is not the type itself."""
        self._decode = msgspec.json.Decoder(type_).decode
        self._struct = of or type_

    def __call__(self, data: bytes) -> T:
        """ApiError 400 saying what is wrong where."""
        try:
            value = self._decode(data)
            data.decode()  # what is Raw was not looked at so closely
        except msgspec.ValidationError as error:
            raise explained(error, self._struct) from None
        except msgspec.DecodeError as error:
            raise _no_json(f"the body is no JSON: {_plain(str(error))}") from None
        except UnicodeDecodeError as error:
            raise _no_json(f"the body is no UTF-8 (byte {error.start})") from None
        except RecursionError:
            raise _too_deep() from None
        if b"\\u0000" in data and _NUL.search(data):
            raise invalid("the body holds a NUL character", hint=NUL_HINT)
        return value


def check_depth(data: bytes) -> None:
    """ApiError 400 if sound JSON is nested deeper than MOST_DEPTH."""
    if data.count(b"[") + data.count(b"{") <= MOST_DEPTH:
        return
    depth = 0
    for found in _TOKEN.finditer(data):
        token = found[0]
        if token in b"[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise _too_deep()
        elif token in b"]}":
            depth -= 1


def parameters(given: Mapping[str, str], struct: type[T]) -> T:
    """Query parameters as a struct; ApiError 400 for one that is unknown or does not fit."""
    try:
        found = msgspec.convert(given, struct, strict=False)
    except msgspec.ValidationError as error:
        raise explained(error, struct, "parameter") from None
    for name, text in given.items():
        value = getattr(found, name)
        # what msgspec reads out of a text as well: null, and seconds since 1970
        if value is None or (isinstance(value, datetime) and ":" not in text):
            takes = descriptions(struct).get(name)
            raise invalid(f"{name}: it is {text[:80]}", hint=takes and f"give {takes}")
    return found


def explained(error: msgspec.ValidationError, struct: Any, what: str = "field") -> ApiError:
    """`Expected …, got … - at `$.a`` as `a: expected …, got …`, with what a takes as the hint."""
    found = _PATH.fullmatch(str(error))
    reason: str = str(error) if found is None else found["reason"]
    path: str = "" if found is None else found["path"]
    place = _PLACE.match(path)
    detail = None
    if place is not None:
        detail = f"job {int(place[1]) + 1}"
        path = path[place.end() :]
    path = path.removeprefix(".")
    unknown, missing = _UNKNOWN.fullmatch(reason), _MISSING.fullmatch(reason)
    if unknown is not None:
        hint = f"{what}s are {', '.join(getattr(struct, '__struct_encode_fields__', ()))}"
        return invalid(f"unknown {what}: {unknown['field'][:80]}", hint=hint, detail=detail)
    if missing is not None:
        path = f"{path}.{missing['field']}".removeprefix(".")
        reason = f"this {what} is required"
    takes = descriptions(struct).get(path) if isinstance(struct, type) else None
    reason = reason[:1].lower() + reason[1:].replace("`", "")
    return invalid(f"{path or 'the body'}: {reason}", hint=takes and f"give {takes}", detail=detail)


def descriptions(struct: type) -> dict[str, str]:
    """What the fields of a struct take, in words: the description of each one's Meta."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        for part in (hint, *getattr(hint, "__args__", ())):
            for meta in getattr(part, "__metadata__", ()):
                if isinstance(meta, msgspec.Meta) and meta.description:
                    found[name] = meta.description
    return found


def _no_json(message: str) -> ApiError:
    return refused(400, message, name="malformed_json", hint="send one JSON value in UTF-8")


def _plain(text: str) -> str:
    text = text.removeprefix("JSON is malformed: ")
    return {"Input data was truncated": "it breaks off"}.get(text, text)


def _too_deep() -> ApiError:
    return invalid(f"the JSON is nested deeper than {MOST_DEPTH} levels", hint="nest it less")
