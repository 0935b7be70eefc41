"""Payloads: decoded into what a handler's annotation says, or refused in words."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from pybatchq import payloads
from pybatchq.handlers import Registry
from pybatchq.payloads import PayloadError

T = TypeVar("T")


@dataclasses.dataclass
class Data:
    name: str
    n: int = 0


class Struct(msgspec.Struct):
    n: Annotated[int, msgspec.Meta(ge=0, le=10)]
    inner: Data | None = None


class Typed(TypedDict):
    name: str
    n: NotRequired[int]


class Model(pydantic.BaseModel):
    name: str
    n: int = 0


class Picky(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n == 3:
            raise ValueError("three is too many")


@pytest.mark.parametrize(
    ("annotation", "data", "value"),
    [
        (Any, b'[1, "a"]', [1, "a"]),
        (dict[str, Any], b'{"a": 1}', {"a": 1}),
        (Data, b'{"name": "x", "n": 2, "more": 1}', Data("x", 2)),
        (Struct, b'{"n": 2}', Struct(2)),
        (Typed, b'{"name": "x"}', {"name": "x"}),
        (Model, b'{"name": "x", "n": 2}', Model(name="x", n=2)),
        (list[dt.date], b'["2026-01-02"]', [dt.date(2026, 1, 2)]),
        (T, b"1", 1),
    ],
)
def test_a36_a_payload_becomes_what_the_annotation_says(
    annotation: Any, data: bytes, value: Any
) -> None:
    assert payloads.decoder(annotation)(data) == value


@pytest.mark.parametrize(
    ("annotation", "data", "start"),
    [
        (Data, b"{}", "name: required field is missing"),
        (Data, b'{"name": 1}', "name: Expected `str`, got `int`"),
        (Data, b'{"name": "x", "n": true}', "n: Expected `int`, got `bool`"),
        (Data, b'{"name": "x", "n": "5"}', "n: Expected `int`, got `str`"),
        (Data, b"[]", "payload: Expected `object`, got `array`"),
        (Struct, b'{"n": 11}', "n: Expected `int` <= 10"),
        (Struct, b'{"n": 1, "inner": {}}', "inner.name: required field is missing"),
        (Typed, b'{"n": 1}', "name: required field is missing"),
        (Picky, b'{"n": 3}', "payload: three is too many"),
        (Model, b'{"n": "secret"}', "name: Field required; n: Input should be a valid integer"),
        (Any, b"[" * 20_000 + b"]" * 20_000, "payload: nested too deeply"),
        (list[Any], b"[" * 20_000 + b"]" * 20_000, "payload: "),
    ],
)
def test_a35_what_does_not_fit_is_refused_with_field_and_reason(
    annotation: Any, data: bytes, start: str
) -> None:
    with pytest.raises(PayloadError) as refused:
        payloads.decoder(annotation)(data)
    assert str(refused.value).startswith(start)
    assert "secret" not in str(refused.value)


class NoData:
    pass


@pytest.mark.parametrize("annotation", [NoData, type("Own", (), {})])
def test_what_json_cannot_become_is_refused_before_any_job_comes(annotation: Any) -> None:
    registry = Registry()

    def run(payload: Any) -> None: ...

    run.__annotations__["payload"] = annotation
    registry.handler("k")(run)
    with pytest.raises(TypeError, match="handler of kind 'k': .*give a dataclass"):
        registry.resolve()


def test_an_annotation_that_names_nothing_is_refused_by_name() -> None:
    registry = Registry()

    def run(payload: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    registry.handler("k")(run)
    with pytest.raises(TypeError, match="handler of kind 'k': .*Nowhere"):
        registry.resolve()


def test_the_annotation_of_an_object_with_call_is_found() -> None:
    class Callee:
        async def __call__(self, payload: Data, job: Any) -> None: ...

    assert payloads.annotation_of(Callee()) is Data


def test_a_schema_says_what_a_handler_takes() -> None:
    assert payloads.schema(Any) == {}
    assert payloads.schema(Data)["$ref"] == "#/$defs/Data"
    assert payloads.schema(Model)["required"] == ["name"]
