"""Payloads: from the JSON of a job to what its handler's annotation asks for.

A dataclass, msgspec Struct, TypedDict, pydantic model or any type msgspec knows is decoded into,
strictly: `"5"` is no int, and unknown fields are ignored. No annotation means plain JSON values.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import msgspec

from pybatchq import jsontext

Decode = Callable[[bytes], Any]

_PATH = re.compile(r"(?P<reason>.*) - at `(?P<path>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`", re.DOTALL)


class PayloadError(ValueError):
    """A payload does not fit its handler. The text is `<field>: <reason>`."""


def annotation_of(function: Callable[..., Any]) -> Any:
    """What the first parameter of a handler is annotated with; Any where there is nothing.

    NameError if it names what cannot be found.
    """
    plain: Any = function if inspect.isroutine(function) else type(function).__call__
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.annotation is first.empty:
        return Any
    # only this one: what a handler returns may be named by what is not there at run time
    only = types.SimpleNamespace(__annotations__={first.name: first.annotation})
    names = getattr(inspect.unwrap(plain), "__globals__", {})
    return typing.get_type_hints(only, globalns=names, include_extras=True)[first.name]


def decoder(annotation: Any) -> Decode:
    """A function from JSON to such a value. It raises PayloadError; this one TypeError."""
    if annotation in {Any, object, None, type(None)} or isinstance(annotation, typing.TypeVar):
        return _plain
    validate = getattr(annotation, "model_validate_json", None)
    if validate is not None:
        return _pydantic(validate)
    try:
        if isinstance(msgspec.inspect.type_info(annotation), msgspec.inspect.CustomType):
            raise TypeError  # noqa: TRY301
        decode = msgspec.json.Decoder(annotation).decode
    except (TypeError, RecursionError) as error:
        raise TypeError(
            f"a payload cannot be decoded into {annotation!r}: give a dataclass, a TypedDict, "
            "a msgspec Struct, a pydantic model or a type of JSON"
        ) from error
    return _typed(decode)


def schema(annotation: Any) -> dict[str, Any]:
    """JSON Schema of what such a handler takes; `{}` takes anything."""
    if annotation in {Any, object, None, type(None)}:
        return {}
    made = getattr(annotation, "model_json_schema", None)
    if made is not None:
        return dict(made())
    return msgspec.json.schema(annotation)


def _plain(data: bytes) -> Any:
    try:
        return jsontext.decode(data)
    except ValueError as error:
        raise PayloadError(f"payload: {error}") from None


def _typed(decode: Decode) -> Decode:
    def typed(data: bytes) -> Any:
        try:
            return decode(data)
        except msgspec.DecodeError as error:  # ValidationError is one
            raise PayloadError(_explained(str(error))) from None
        except RecursionError:
            raise PayloadError("payload: nested too deeply") from None
        except Exception as error:  # noqa: BLE001  # __post_init__ is the user's own code
            raise PayloadError(f"payload: {type(error).__name__}: {error}") from None

    return typed


def _pydantic(validate: Decode) -> Decode:
    def typed(data: bytes) -> Any:
        try:
            return validate(data)
        except Exception as error:  # noqa: BLE001  # validators are the user's own code
            details = getattr(error, "errors", None)
            if details is None:
                raise PayloadError(f"payload: {type(error).__name__}: {error}") from None
            # the input itself is left out: it may be secret
            found = [
                f"{'.'.join(map(str, one['loc'])) or 'payload'}: {one['msg']}"
                for one in details(include_url=False, include_input=False, include_context=False)
            ]
            raise PayloadError("; ".join(found)) from None

    return typed


def _explained(text: str) -> str:
    """`Expected …, got … - at `$.a`` as `a: Expected …, got …`."""
    path = ""
    found = _PATH.fullmatch(text)
    if found is not None:
        text, path = found["reason"], found["path"].removeprefix("$").removeprefix(".")
    missing = _MISSING.fullmatch(text)
    if missing is not None:
        path = f"{path}.{missing['field']}" if path else missing["field"]
        text = "required field is missing"
    return f"{path or 'payload'}: {text}"
