"""JSON's edges: what goes out is what PostgreSQL takes, what comes in is decoded or ValueError."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import enum
import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybatchq import jsontext
from pybatchq.errors import InvalidArgumentError
from tests.support.profiles import profile


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@dataclasses.dataclass
class Point:
    x: int
    when: dt.date


class Struct(msgspec.Struct):
    name: str


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, {"a": [math.nan]}, {math.nan: 1}, Point(1, math.inf),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_f059_no_nan_and_no_infinity_leaves(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="no JSON"):
        jsontext.encode(value)


@pytest.mark.parametrize("value", ["\ud800", {"\udce5": 1}, ["a\udfffb"]])
def test_f062_no_lone_surrogate_leaves(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="no JSON"):
        jsontext.encode(value)


@pytest.mark.parametrize("value", ["\0", {"a\0b": 1}, ["x", "\\\0"], "\\\\\0", [{"a": "\\\\\\\0"}]])
def test_no_nul_character_leaves(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="NUL") as caught:
        jsontext.encode(value)
    assert caught.value.hint is not None


@pytest.mark.parametrize("value", ["\\u0000", "a\\\\u0000", {"\\u0000": "\\\\u0000"}])
def test_what_only_looks_like_a_nul_character_does(value: Any) -> None:
    assert json.loads(jsontext.encode(value)) == value


@pytest.mark.parametrize("value", [{1}, frozenset({1}), b"x", bytearray(b"x"), object(), {(1,): 2}])
def test_f086_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="no JSON"):
        jsontext.encode(value)


def test_f086_an_object_that_breaks_while_it_is_read_is_refused() -> None:
    class Broken(dict[str, Any]):
        def items(self) -> Any:
            raise ZeroDivisionError("of its own")

    with pytest.raises(InvalidArgumentError, match="no JSON: of its own"):
        jsontext.encode([Broken(a=1)])


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(InvalidArgumentError):
        jsontext.encode(circle)


def test_dataclasses_structs_dates_and_uuids_are_json() -> None:
    one = uuid.UUID(int=1)
    when = dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC)
    value = [Point(1, when.date()), Struct("ä"), one, when, Colour.RED, (1, 2)]
    assert json.loads(jsontext.encode(value)) == [
        {"x": 1, "when": "2024-02-29"}, {"name": "ä"}, str(one), "2024-02-29T01:02:03Z", "red",
        [1, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [1_000, 6_400, 20_000, 100_000])
def test_f061_a_value_too_deep_is_refused_and_kills_nobody(depth: int) -> None:
    value = nested(depth)
    text = None
    with contextlib.suppress(InvalidArgumentError):  # how deep is too deep, Python decides
        text = jsontext.encode(value)
    assert text in (None, "[" * depth + "]" * depth)
    assert depth < 100_000 or text is None


def test_f061_a_depth_of_100_goes_both_ways() -> None:
    assert jsontext.decode(jsontext.encode(nested(100)).encode()) == nested(100)


@pytest.mark.parametrize("depth", [6_400, 20_000, 100_000])
def test_f061_text_too_deep_for_python_is_a_value_error(depth: int) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        jsontext.decode(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize("text", [b"", b"{", b"[1e400]", b"1" + b"0" * 5000, b'"\xff"', b"NaN"])
def test_whatever_cannot_be_decoded_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        jsontext.decode(text)


@pytest.mark.parametrize(
    "number", [2**53 + 1, 1970670598291982290, 2**64, 10**30, -(10**30), 0.1, 1e300]
)
def test_f060_numbers_keep_all_their_digits(number: float) -> None:
    assert jsontext.decode(jsontext.encode({"n": number}).encode()) == {"n": number}


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | TEXT
    | st.floats(-(2.0**52), 2.0**52),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@pytest.fixture
def raw(db: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(db, autocommit=True) as conn:
        jsontext.raw_json(conn.adapters)
        yield conn


@profile(150, 3000)
@given(value=JSON)
def test_f060_f062_whatever_is_json_goes_through_jsonb_and_comes_back(
    raw: psycopg.Connection[Any], value: Any
) -> None:
    text = jsontext.encode(value)
    for binary in (True, False):
        row = raw.execute("select %s::text::jsonb", (text,), binary=binary).fetchone()
        assert row is not None
        assert jsontext.decode(row[0]) == value
