"""GET /openapi.json: a sound document that says what the server does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import openapi_spec_validator
import pytest
from msgspec import Struct

from pybatchq.api import described, examples, openapi
from pybatchq.api.decoding import Decoder, descriptions
from pybatchq.api.errors import CATALOGUE, ApiError
from pybatchq.api.models import CancelJobs, NewJob
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.table import TABLE
from tests.support.api import serving

DOCUMENT: dict[str, Any] = openapi.document(TABLE)
WITH_BODY = [route for route in TABLE if route.body is not None]


def operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][openapi.path_of(route)][route.method.lower()]
    return found


def named(route: Route) -> str:
    return f"{route.method} {openapi.path_of(route)}"


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def check(value: Any, schema: dict[str, Any]) -> None:
    """Raise unless the value fits a schema of the document."""
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(whole).validate(value)


async def test_the_document_is_sound_openapi(db: str) -> None:
    async with serving(db) as api:
        answer = await api.get("/openapi.json")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    openapi_spec_validator.validate(answer.json)
    assert answer.json == msgspec.to_builtins(DOCUMENT)
    assert answer.json["openapi"].startswith("3.1")


async def test_the_document_is_made_once(db: str) -> None:
    async with serving(db) as api:
        first = await api.get("/openapi.json")
        made = openapi.encoded.cache_info().misses
        assert (await api.get("/openapi.json")).text == first.text
    assert openapi.encoded.cache_info().misses == made


def test_every_route_is_in_it_and_nothing_else() -> None:
    described_ = {
        (method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods
    }
    assert described_ == {(route.method, openapi.path_of(route)) for route in TABLE}


def test_operation_ids_are_names_and_unique() -> None:
    ids = [operation(route)["operationId"] for route in TABLE]
    assert len(set(ids)) == len(ids)
    assert all(name.isidentifier() for name in ids)


def test_handlers_of_one_name_get_different_operation_ids() -> None:
    def route(module: str, path: str) -> Route:
        async def purge(_call: Call[NoQuery, None]) -> Any:
            raise NotImplementedError

        purge.__module__ = f"pybatchq.api.{module}"
        return Route(method="GET", path=path, handler=purge, summary="s", scope=None)

    jobs, dead = route("jobs", "/a"), route("dead", "/b")
    again = Route(method="GET", path="/c", handler=dead.handler, summary="s", scope=None)
    ids = openapi.operation_ids((jobs, dead, again))
    assert list(ids.values()) == ["purge", "purge_dead", "purge_dead_2"]


def test_no_reference_leads_nowhere() -> None:
    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_no_component_is_useless() -> None:
    used = {reference.rpartition("/")[2] for reference in references(DOCUMENT)}
    assert set(DOCUMENT["components"]["schemas"]) <= used


def test_what_is_written_by_hand_is_of_routes_and_types_there_are() -> None:
    routes = {named(route) for route in TABLE}
    schemas = set(DOCUMENT["components"]["schemas"])
    assert described.MORE.keys() | described.ERRORS.keys() <= routes
    assert described.CHECKS.keys() | examples.REQUESTS.keys() <= schemas
    assert {openapi.tag_of(route) for route in TABLE} == set(described.TAGS)
    queries = {f"{r.query.__name__}.{name}" for r in TABLE for name in r.query.__struct_fields__}
    assert described.QUERIES.keys() <= queries
    parts = {name for route in TABLE for name in re.findall(r"{(\w+)", route.path)}
    assert set(described.PARTS) == parts


@pytest.mark.parametrize("route", TABLE, ids=named)
def test_a_route_says_who_may_and_what_can_go_wrong(route: Route) -> None:
    found = operation(route)
    assert found["summary"] == route.summary
    assert found["security"] == ([] if route.scope is None else [{"bearer": [route.scope]}])
    statuses = {int(status) for status in found["responses"]}
    assert statuses >= {*route.statuses, *(CATALOGUE[code][0] for code in route.errors)}
    assert ({401, 403} <= statuses) == (route.scope is not None)
    assert ({408, 413, 415} <= statuses) == (route.body is not None)
    for status in statuses - set(route.statuses):
        assert found["responses"][str(status)]["$ref"].endswith(f"Error{status}")
        assert str(status) in {code[5:] for code in DOCUMENT["components"]["responses"]}


def test_errors_have_the_one_shape() -> None:
    for response in DOCUMENT["components"]["responses"].values():
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/ErrorBody"}
        check(msgspec.to_builtins(content["example"]), content["schema"])


@pytest.mark.parametrize("route", TABLE, ids=named)
def test_examples_fit_their_schemas(route: Route) -> None:
    found = operation(route)
    contents = [response.get("content", {}) for response in found["responses"].values()]
    contents.append(found.get("requestBody", {}).get("content", {}))
    for content in contents:
        for media in content.values():
            if "example" in media:
                check(media["example"], media["schema"])


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
def test_the_example_of_a_body_is_taken_by_the_type_that_validates(route: Route) -> None:
    assert route.body is not None
    example = operation(route)["requestBody"]["content"]["application/json"]["example"]
    value = Decoder(route.body)(msgspec.json.encode(example))
    if isinstance(value, NewJob):
        value.check()


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
async def test_the_example_of_a_body_is_taken_by_the_server(route: Route, db: str) -> None:
    body = operation(route)["requestBody"]["content"]["application/json"]["example"]
    async with serving(db) as api:
        path = re.sub(r"{(\w+)}", lambda part: str(PATHS[part[1]]), openapi.path_of(route))
        answer = await api.post(path, body, method=route.method)
    assert answer.status in {200, 201, 202, 204, 404, 409}, answer.text


PATHS = {name: part["example"] for name, part in described.PARTS.items()}


def bodies_of(type_: Any) -> list[type[Struct]]:
    return [t for t in openapi.alternatives(type_) if isinstance(t, type) and issubclass(t, Struct)]


@pytest.mark.parametrize("route", WITH_BODY, ids=named)
def test_fields_and_bounds_are_those_that_validate(route: Route) -> None:
    for struct in bodies_of(route.body):
        schema = DOCUMENT["components"]["schemas"][struct.__name__]
        assert list(schema["properties"]) == list(struct.__struct_encode_fields__)
        assert schema["additionalProperties"] is False
        for name, text in descriptions(struct).items():
            assert text in str(schema["properties"][name]), name


BAD_JOBS: list[dict[str, Any]] = [
    {},
    {"queue": "q"},
    {"kind": ""},
    {"kind": "k" * 256},
    {"kind": "k", "payload": None},
    {"kind": "k", "headers": []},
    {"kind": "k", "priority": 40_000},
    {"kind": "k", "priority": 1.5},
    {"kind": "k", "delay": 1, "run_at": "2030-01-31T12:00:00Z"},
    {"kind": "k", "delay": 1, "available_at": "2030-01-31T12:00:00Z"},
    {"kind": "k", "dedupe_scope": "pending"},
    {"kind": "k", "dedupe_for": 5},
    {"kind": "k", "on_duplicate": "return"},
    {"kind": "k", "timeout": 0},
    {"kind": "k", "backoff": "linear"},
    {"kind": "k", "colour": "red"},
]


@pytest.mark.parametrize("job", BAD_JOBS, ids=str)
def test_f091_what_the_server_refuses_the_document_refuses(job: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(job, {"$ref": "#/components/schemas/NewJob"})
    with pytest.raises(ApiError):
        Decoder(NewJob)(msgspec.json.encode(job)).check()


def test_a_filter_is_required_where_a_call_would_mean_every_job() -> None:
    schema = {"$ref": f"#/components/schemas/{CancelJobs.__name__}"}
    check({"queue": "q"}, schema)
    for body in ({}, {"queue": None}, {"dry_run": True}):
        with pytest.raises(jsonschema.ValidationError):
            check(body, schema)


def test_text_that_is_json_of_a_type_has_that_types_schema() -> None:
    schema = DOCUMENT["components"]["schemas"]["Job"]["properties"]["errors"]
    assert schema == {"type": "array", "items": {"$ref": "#/components/schemas/Failure"}}


def test_times_are_said_to_be_times() -> None:
    job = DOCUMENT["components"]["schemas"]["Job"]["properties"]
    assert job["created_at"]["format"] == "date-time"
    assert {"type": "string", "format": "date-time"} in job["started_at"]["anyOf"]


def test_a_parameter_is_never_null_and_says_its_bounds() -> None:
    list_jobs = next(r for r in TABLE if named(r) == "GET /jobs")
    found = {one["name"]: one for one in operation(list_jobs)["parameters"]}
    assert found["limit"] == {
        "name": "limit",
        "in": "query",
        "required": False,
        "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        "description": "a number from 1 to 500",
    }
    assert "null" not in str([one["schema"] for one in found.values()])
    assert None not in found["state"]["schema"]["enum"]


@pytest.mark.parametrize(
    "query", ["status=null", "limit=null", "created_after=0.5", "created_after=1893456000"]
)
async def test_f091_a_parameter_is_read_no_looser_than_the_document_says(
    query: str, db: str
) -> None:
    async with serving(db) as api:
        assert (await api.get(f"/jobs?{query}")).error[:2] == (400, "JQ001")
        assert (await api.get("/jobs?queue=null&kind=NULL")).status == 200


async def test_what_a_job_is_shown_as_fits_its_schema(db: str) -> None:
    async with serving(db) as api:
        job = await api.enqueue("k", payload={"a": [1, None]}, headers={"h": 1})
        one, page = await api.get(f"/jobs/{job}"), await api.get("/jobs")
    check(one.json, {"$ref": "#/components/schemas/Job"})
    check(page.json, {"$ref": "#/components/schemas/JobPage"})
