"""GET /reference: the OpenAPI document for people: one page, no script, nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import jinja2
from aiohttp import web
from markupsafe import Markup, escape

from pybatchq.api import bodies, described, examples, openapi
from pybatchq.api.answers import page
from pybatchq.api.described import SCHEMA
from pybatchq.api.routes import ROUTES as ALL_ROUTES
from pybatchq.api.routes import Call, NoQuery, Route

Schema = Mapping[str, Any]

HERE: Final = "http://localhost:8080"
PLACES: Final = {"path": "In the path", "query": "Query parameters", "header": "Headers"}
# JSON Schema's keywords for bounds; what has a description says its bounds in words.
BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} of them",
    "maxItems": "at most {} of them",
}

_CODE = re.compile(r"`([^`]+)`")


async def reference(call: Call[NoQuery, None]) -> web.Response:
    return page(*rendered(call.request.app[ALL_ROUTES]))


@lru_cache(maxsize=4)
def rendered(routes: tuple[Route, ...]) -> tuple[str, str]:
    """The page, made once, and its Content-Security-Policy."""
    templates = files("pybatchq.api") / "templates"
    css = (templates / "reference.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["prose"] = prose
    template = environment.from_string((templates / "reference.html").read_text(encoding="utf-8"))
    shown = _Shown(openapi.document(routes))
    html = template.render(
        css=css,
        version=shown.info["version"],
        about=shown.info["description"].split("\n\n"),
        groups=shown.groups(),
        types=list(shown.types()),
        errors=described.WHY,
    )
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    return html.lstrip(), policy


def prose(text: str) -> Markup:
    """Text as HTML, with what stands in backticks as code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704  # it is escaped


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a type's name; type_name: the type it leads to."""

    text: str
    type_name: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: list[Part]
    takes: str
    default: str | None
    is_required: bool


@dataclass(frozen=True, slots=True)
class Body:
    """also: other media types than JSON."""

    kind: list[Part]
    about: str
    fields: list[Field]
    also: list[str]
    is_required: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a success its status, text and type; of an error its status and codes."""

    status: str
    text: str
    kind: list[Part]


@dataclass(frozen=True, slots=True)
class ShownRoute:
    """parameters: by where they are. example: of the usual answer."""

    name: str
    method: str
    path: str
    summary: str
    scope: str | None
    parameters: dict[str, list[Field]]
    body: Body | None
    curl: str
    answers: list[Answer]
    errors: list[Answer]
    example: str | None


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    about: str
    routes: list[ShownRoute]


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    about: str
    fields: list[Field]


class _Shown:
    """An OpenAPI document of ours in the pieces that the page shows."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._schemas: Mapping[str, Schema] = document["components"]["schemas"]
        self.info: Mapping[str, Any] = document["info"]

    def groups(self) -> list[Group]:
        found: dict[str, list[ShownRoute]] = {tag["name"]: [] for tag in self._document["tags"]}
        for path, methods in self._document["paths"].items():
            for method, operation in methods.items():
                found[operation["tags"][0]].append(self._route(method.upper(), path, operation))
        about = {tag["name"]: tag["description"] for tag in self._document["tags"]}
        return [Group(name, about[name], routes) for name, routes in found.items()]

    def types(self) -> Iterator[Type]:
        for name, schema in self._schemas.items():
            yield Type(name, schema.get("description", ""), self._fields(schema))

    def _route(self, method: str, path: str, operation: Mapping[str, Any]) -> ShownRoute:
        parameters: dict[str, list[Field]] = {}
        for one in operation["parameters"]:
            field = self._field(
                one["name"], {**one["schema"], **_described(one)}, one.get("required", False)
            )
            parameters.setdefault(PLACES[one["in"]], []).append(field)
        responses = list(operation["responses"].items())
        usual = responses[0][1]
        content = usual.get("content", {}).get(bodies.JSON, {})
        scopes = [scope for way in operation["security"] for scope in way["bearer"]]
        return ShownRoute(
            name=operation["operationId"],
            method=method,
            path=path,
            summary=operation["summary"],
            scope=scopes[0] if scopes else None,
            parameters=parameters,
            body=self._body(operation.get("requestBody")),
            curl=curl(method, path, operation),
            answers=[self._answer(*item) for item in responses if "$ref" not in item[1]],
            errors=[self._error(*item) for item in responses if "$ref" in item[1]],
            example=json.dumps(content["example"], indent=2) if "example" in content else None,
        )

    def _body(self, given: Mapping[str, Any] | None) -> Body | None:
        if given is None:
            return None
        schema = given["content"][bodies.JSON]["schema"]
        first = examples.resolved(schema.get("anyOf", [schema])[0], self._schemas)
        return Body(
            kind=self._kind(schema),
            about=first.get("description", ""),
            fields=self._fields(first),
            also=[kind for kind in given["content"] if kind != bodies.JSON],
            is_required=given["required"],
        )

    def _answer(self, status: str, response: Mapping[str, Any]) -> Answer:
        schemas = [one["schema"] for one in response.get("content", {}).values()]
        return Answer(status, response["description"], self._kind(schemas[0]) if schemas else [])

    def _error(self, status: str, response: Mapping[str, Any]) -> Answer:
        codes = response["description"].removeprefix(described.WHY[int(status)])
        return Answer(status, codes.removeprefix(": "), [])

    def _fields(self, schema: Schema) -> list[Field]:
        required = schema.get("required", ())
        fields = schema.get("properties", {}).items()
        return [self._field(name, field, name in required) for name, field in fields]

    def _field(self, name: str, schema: Schema, is_required: bool) -> Field:
        default = schema.get("default")
        inner = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
        takes = schema.get("description") or inner[0].get("description") or _bounds(inner[0])
        return Field(
            name=name,
            kind=self._kind(schema),
            takes=takes,
            default=None if default is None else json.dumps(default),
            is_required=is_required,
        )

    def _kind(self, schema: Schema) -> list[Part]:
        """What a schema is, in words."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(SCHEMA)
            return [Part(name, name)]
        if "anyOf" in schema and "type" not in schema:
            parts: list[Part] = []
            for kind in schema["anyOf"]:
                parts += [Part(" or ")] * bool(parts) + self._kind(kind)
            return parts
        if "enum" in schema:
            return [Part(", ".join(json.dumps(value) for value in schema["enum"]))]
        if schema.get("type") == "array":
            return [Part("list of "), *self._kind(schema.get("items", {}))]
        kind = {"date-time": "time", "uuid": "UUID"}.get(schema.get("format", ""))
        return [Part(kind or schema.get("type", "any JSON"))]


def curl(method: str, path: str, operation: Mapping[str, Any]) -> str:
    """How to ask from a shell, with the document's examples."""
    for one in operation["parameters"]:
        if one["in"] == "path":
            value = one.get("example", examples.answer(one["schema"], {}))
            path = path.replace(f"{{{one['name']}}}", str(value))
    words = ["curl"] if method in {"GET", "POST"} else ["curl", "-X", method]
    lines = [shlex.join([*words, HERE + path])]
    if operation["security"]:
        lines.append('-H "Authorization: Bearer $BATCHQ_TOKEN"')
    if "requestBody" in operation:
        body = json.dumps(operation["requestBody"]["content"][bodies.JSON]["example"])
        lines += [shlex.join(["-H", f"Content-Type: {bodies.JSON}"]), shlex.join(["-d", body])]
    elif method == "POST":
        lines[0] = shlex.join(["curl", "-X", "POST", HERE + path])
    return " \\\n  ".join(lines)


def _described(given: Mapping[str, Any]) -> dict[str, str]:
    return {"description": given["description"]} if "description" in given else {}


def _bounds(schema: Schema) -> str:
    return ", ".join(text.format(schema[word]) for word, text in BOUNDS.items() if word in schema)


ROUTES = (
    Route(
        method="GET",
        path="/reference",
        handler=reference,
        summary="This API for people",
        scope=None,
        answer_type="text/html",
    ),
)
