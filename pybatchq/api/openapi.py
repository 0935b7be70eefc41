"""GET /openapi.json: the API, described by its routes and by the types that validate requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
from aiohttp import web
from msgspec import inspect

import pybatchq
from pybatchq.api import bodies, described, examples
from pybatchq.api.answers import encode, text
from pybatchq.api.described import SCHEMA, Json
from pybatchq.api.errors import CATALOGUE, ErrorBody, refused
from pybatchq.api.models import NewJob, StreamAccepted
from pybatchq.api.routes import ROUTES as ALL_ROUTES
from pybatchq.api.routes import Call, NoQuery, Route

_PART = re.compile(r"{(\w+)(?::[^}]*)?}")


async def openapi(call: Call[NoQuery, None]) -> web.Response:
    return text(encoded(call.request.app[ALL_ROUTES]), bodies.JSON)


@lru_cache(maxsize=4)
def encoded(routes: tuple[Route, ...]) -> bytes:
    """The document as JSON text, made once."""
    return encode(document(routes))


def document(routes: tuple[Route, ...]) -> Json:
    """The OpenAPI 3.1 document of some routes."""
    schemas = Schemas(routes)
    paths: dict[str, Json] = {}
    for route, name in operation_ids(routes).items():
        paths.setdefault(path_of(route), {})[route.method.lower()] = _operation(
            route, name, schemas
        )
    used = dict.fromkeys(tag_of(route) for route in routes)
    tags = [tag for tag in described.TAGS if tag in used]
    tags += [tag for tag in used if tag not in described.TAGS]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "batchq",
            "version": pybatchq.__version__,
            "summary": "A durable job queue inside PostgreSQL",
            "description": described.ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag, "description": described.TAGS.get(tag, tag)} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {f"Error{status}": _error(status) for status in described.WHY},
            "headers": described.HEADERS,
            "securitySchemes": {"bearer": described.SECURITY},
        },
    }


def operation_ids(routes: Iterable[Route]) -> dict[Route, str]:
    """Each route's name: that of its handler, and where two have it, of its module or a number."""
    ids: dict[Route, str] = {}
    owners: dict[str, Any] = {}
    for route in routes:
        name = base = route.handler.__name__
        if owners.setdefault(base, route.handler) is not route.handler:
            name = base = f"{base}_{route.handler.__module__.rpartition('.')[2]}"
        number = 1
        while name in ids.values():
            number += 1
            name = f"{base}_{number}"
        ids[route] = name
    return ids


def path_of(route: Route) -> str:
    """Its path without the patterns of its parts."""
    return _PART.sub(r"{\1}", route.path)


def tag_of(route: Route) -> str:
    first = re.split(r"[/:]", route.path)[1]
    return described.TAG_OF.get(first, first)


def errors_of(route: Route) -> dict[int, list[str]]:
    """The statuses of a route's errors, with the codes of batchq's functions that have them."""
    found: dict[int, list[str]] = {400: [], 500: []}
    found |= {status: [] for status in described.ERRORS.get(f"{route.method} {path_of(route)}", ())}
    if route.scope is not None:
        found |= {401: [], 403: [], 503: []}
    if route.body is not None:
        found |= {408: [], 413: [], 415: []}
    for code in route.errors:
        found.setdefault(CATALOGUE[code][0], []).append(code)
    return dict(sorted(found.items()))


class Schemas:
    """The schemas of all types that the routes take and give."""

    def __init__(self, routes: Iterable[Route]) -> None:
        types: dict[Any, None] = dict.fromkeys((ErrorBody, NewJob, StreamAccepted))
        for route in routes:
            for type_ in (route.query, route.body, route.answer):
                types |= dict.fromkeys(alternatives(type_))
        structs = list(_structs(types))
        types |= {of: None for struct in structs for of in _inside(struct) if of is not None}
        refs, found = msgspec.json.schema_components(types, ref_template=SCHEMA + "{name}")
        self._refs = dict(zip(types, refs, strict=True))
        for struct in structs:
            schemas = found[struct.cls.__name__]["properties"]
            for field, of in zip(struct.fields, _inside(struct), strict=True):
                if of is not None:
                    schemas[field.encode_name] = self._refs[of]
                _add_format(field.type, schemas[field.encode_name])
        for name in described.CHECKS.keys() & found.keys():
            merge(found[name], described.CHECKS[name])
        self._all: Json = found
        hidden = {route.query.__name__ for route in routes}
        self.components = {name: found[name] for name in sorted(found) if name not in hidden}

    def of(self, type_: Any) -> Json:
        """A type's schema, which is a reference where it is a struct."""
        found: list[Json] = [self._refs[one] for one in alternatives(type_)]
        return found[0] if len(found) == 1 else {"anyOf": found}

    def parameters(self, query: type[msgspec.Struct]) -> list[Json]:
        schema = examples.resolved(self.of(query), self._all)
        required = schema.get("required", [])
        return [
            _parameter(f"{query.__name__}.{name}", field, required=name in required)
            for name, field in schema["properties"].items()
        ]

    def request(self, type_: Any) -> Json:
        """A body's schema with an example."""
        schema = self.of(type_)
        return {"schema": schema, "example": examples.request(schema, self._all)}

    def answer(self, type_: Any) -> Json:
        """An answer's schema with an example."""
        schema = self.of(type_)
        return {"schema": schema, "example": examples.answer(schema, self._all)}


def alternatives(type_: Any) -> tuple[Any, ...]:
    """The types of a union, which msgspec takes no two structs of; of any other the type itself."""
    if type_ is None:
        return ()
    return get_args(type_) if get_origin(type_) in {Union, UnionType} else (type_,)


def _structs(types: Iterable[Any]) -> Iterator[inspect.StructType]:
    """All structs in some types, each once."""
    seen: set[type] = set()
    left = list(inspect.multi_type_info(types))
    while left:
        match left.pop():
            case inspect.StructType() as struct if struct.cls not in seen:
                seen.add(struct.cls)
                left += [field.type for field in struct.fields]
                left += inspect.multi_type_info(of for of in _inside(struct) if of is not None)
                yield struct
            case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
                left.append(inner)
            case inspect.UnionType(types=alternatives):
                left += alternatives


def _inside(struct: inspect.StructType) -> list[Any]:
    """For each field the type of the JSON text that it is, where it says so; else None."""
    infos = [field.type for field in struct.fields]
    extras = [info.extra or {} if isinstance(info, inspect.Metadata) else {} for info in infos]
    return [extra.get("schema_of") for extra in extras]


def _add_format(info: inspect.Type, schema: Json) -> None:
    """The format of times: msgspec gives it to those that must have a zone; all of ours have."""
    match info:
        case inspect.Metadata(type=inner):
            _add_format(inner, schema)
        case inspect.UnionType(types=alternatives):
            for alternative, inner_schema in zip(
                alternatives, schema.get("anyOf", ()), strict=False
            ):
                _add_format(alternative, inner_schema)
        case inspect.DateTimeType():
            schema["format"] = "date-time"


def merge(into: Json, more: Mapping[str, Any]) -> None:
    """Add to a tree: objects key by key, lists to the end, anything else and references instead."""
    for name, value in more.items():
        old = into.get(name)
        if isinstance(old, dict) and isinstance(value, Mapping) and "$ref" not in old:
            merge(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            into[name] = [*old, *value]
        else:
            into[name] = value


def _operation(route: Route, name: str, schemas: Schemas) -> Json:
    operation: Json = {
        "operationId": name,
        "summary": route.summary,
        "tags": [tag_of(route)],
        "security": [] if route.scope is None else [{"bearer": [route.scope]}],
        "parameters": [*_parts(route), *schemas.parameters(route.query)],
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": not route.body_may_be_empty,
            "content": {bodies.JSON: schemas.request(route.body)},
        }
    operation["responses"] = {
        **{str(status): _success(route, status, schemas) for status in route.statuses},
        **{str(status): _refusal(status, codes) for status, codes in errors_of(route).items()},
    }
    operation = msgspec.to_builtins(operation)  # a copy: what is shared must not be added to
    merge(operation, described.MORE.get(f"{route.method} {path_of(route)}", {}))
    return operation


def _parts(route: Route) -> Iterator[Json]:
    """The parts of its path that are named."""
    for name in _PART.findall(route.path):
        known = described.PARTS.get(name, {"schema": {"type": "string", "minLength": 1}})
        yield {"name": name, "in": "path", "required": True, **known}


def _parameter(path: str, field: Mapping[str, Any], *, required: bool) -> Json:
    """A field of a query, `ListQuery.limit`; nothing in a query is null."""
    schema = dict(field)
    default = schema.pop("default", None)
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        schema = dict(kinds[0])
    if None in schema.get("enum", ()):
        schema["enum"] = [value for value in schema["enum"] if value is not None]
    if default is not None:
        schema["default"] = default
    schema |= described.QUERIES.get(path, {})
    parameter = {
        "name": path.partition(".")[2],
        "in": "query",
        "required": required,
        "schema": schema,
    }
    if "description" in schema:
        parameter["description"] = schema.pop("description")
    return parameter


def _success(route: Route, status: int, schemas: Schemas) -> Json:
    response: Json = {"description": HTTPStatus(status).phrase, "headers": _headers(status)}
    if route.answer is not None:
        response["content"] = {route.answer_type: schemas.answer(route.answer)}
    elif status != HTTPStatus.NO_CONTENT:
        kind = "object" if route.answer_type == bodies.JSON else "string"
        response["content"] = {route.answer_type: {"schema": {"type": kind}}}
    return response


def _refusal(status: int, codes: Iterable[str]) -> Json:
    """A reference to the error of a status, saying which codes it has here."""
    names = ", ".join(f"{code} {CATALOGUE[code][1]}" for code in codes)
    why = described.WHY[status]
    return {
        "$ref": f"#/components/responses/Error{status}",
        "description": f"{why}: {names}" if names else why,
    }


def _error(status: int) -> Json:
    example = described.ERROR_EXAMPLES.get(status) or refused(status, described.WHY[status]).body
    return {
        "description": described.WHY[status],
        "headers": _headers(status),
        "content": {bodies.JSON: {"schema": {"$ref": SCHEMA + "ErrorBody"}, "example": example}},
    }


def _headers(status: int) -> Json:
    names = [name for name, of in described.HEADER_OF.items() if not of or status in of]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        handler=openapi,
        summary="This API as an OpenAPI 3.1 document",
        scope=None,
    ),
)
