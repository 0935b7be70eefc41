"""Values of the types that batchq's functions take, as text that PostgreSQL can cast.

Sane values mostly pass the checks of a function, so that odd ones of its other arguments get
deep into it. Values PostgreSQL itself refuses, before a function is entered, are not made.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

Text = st.SearchStrategy[str]


def noise(length: int) -> str:
    """Text that does not compress: an index entry or a row stays as long as it looks."""
    return random.Random(length).randbytes(length // 2 + 1).hex()[:length]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


# what UTF-8 can write and PostgreSQL stores: all but surrogates and NUL
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
ODD_TEXTS = [
    "", " ", "\n", "%s", "%", "a/b", 'My"Queue', "a';drop table x;--", "\\", "{}", "null",
    "NULL", "$1", "Ünïcödé", "очередь", "队列", "قائمة", "🐘👩‍👩‍👧", "e\u0301", "\u202e", "\ufffe",
    "x" * 255, "x" * 256, "я" * 255, "😀" * 256, "x" * 1024, "x" * 1025, "я" * 512,
    "x" + "я" * 512, noise(3000), noise(10_000), "x" * 1_100_000,
    "infinity", "9" * 18, "9" * 19, "-1", "1.5",
    "00000000-0000-8000-8000-000000000001", "ffffffff-ffff-8fff-bfff-ffffffffffff",
]  # fmt: skip
ODD_JSON = [
    "null", "{}", "[]", "[null]", '[{"kind": "k"}]', "1e400", "9" * 40, '""',
    nested(1000), '{"a":' * 500 + "1" + "}" * 500,
    json.dumps("x" * 1_100_000), json.dumps({"a": noise(70_000)}),
    json.dumps(list(range(20_000))), json.dumps({str(n): n for n in range(5000)}),
]  # fmt: skip
ODD_NUMBERS = ["1e400", "-1e400", "1e-400", "1e131071", "9" * 40, "-" + "9" * 40, "9" * 5000, "-0"]
ODD_INTEGERS = [
    0, 1, -1, 500, 501, 10_000, 10_001, 32_767, 32_768, -32_768, -32_769, 100_001,
    2**31 - 1, -(2**31),
]  # fmt: skip
ODD_BIGINTS = [0, -1, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1, -(2**63)]
ODD_DOUBLES = [
    "NaN", "Infinity", "-Infinity", "0", "-0", "1", "-1", "1e308", "-1e308", "5e-324", "1e-300"
]  # fmt: skip
ODD_INTERVALS = [
    "0", "-0.000001 s", "1 us", "1 s", "-5 s", "0.1 s", "1 day", "1 mon", "10 years",
    "10 years 1 us", "365 days", "366 days", "-10 years",
    "178000000 years", "-178000000 years", "2147483647 days", "-2147483648 days",
    "2562047788:00:54.775807", "-2562047788:00:54.775807",
    "178956970 years 7 mons 2147483647 days 2562047788:00:54.775807",
    # fields that cancel out when intervals are compared, and do not when one is added to a time
    "5000000 years -1800000000 days", "-5000000 years 1800000000 days", "1 mon -30 days",
    "5000000 years -1800000000 days 1 min", "-5000000 years 1800000000 days 1 min",
    "-1 year 360 days", "1 year -360 days 1 s", "-1 mon 30 days 1 s",
    "250000 years -90000000 days 1 min", "-200000 years 1728000000:00:00",
]  # fmt: skip
ENDLESS = ["infinity", "-infinity"]  # intervals, from PostgreSQL 17 on
ODD_TIMES = [
    "infinity", "-infinity", "4713-01-01 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00",
    "0001-01-01 00:00:00+00", "0001-01-02 00:00:00+00", "9999-12-30 00:00:00+00",
    "9999-12-31 23:59:59+00", "20000-01-01 00:00:00+00", "1970-01-01 00:00:00+00",
    "2024-02-29 12:00:00+14", "2300-01-01 00:00:00.000001+00",
]  # fmt: skip
ODD_BYTES = [
    "",
    "\\x",
    "\\x00",
    "\\x" + "ff" * 31,
    "\\x" + "ab" * 32,
    "\\x" + "00" * 33,
    "\\x" + "5a" * 5000,
]
ODD_UUIDS = [
    "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
    "00000000-0000-8000-8000-000000000001",
]  # fmt: skip

any_text: Text = st.one_of(st.sampled_from(ODD_TEXTS), st.text(characters, max_size=30))
json_scalars: Text = st.one_of(
    st.sampled_from(["null", "true", "false", *ODD_NUMBERS]),
    st.integers().map(str),
    any_text.map(lambda value: json.dumps(value, ensure_ascii=False)),
)


def json_object(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(k)}: {v}" for k, v in fields.items()) + "}"


def json_array(items: list[str]) -> str:
    return "[" + ",".join(items) + "]"


json_values: Text = st.one_of(
    st.sampled_from(ODD_JSON),
    st.recursive(
        json_scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(json_array),
            st.dictionaries(st.text(characters, max_size=8), inner, max_size=4).map(json_object),
        ),
        max_leaves=12,
    ),
)
integers: Text = st.one_of(st.sampled_from(ODD_INTEGERS), st.integers(-(2**31), 2**31 - 1)).map(str)
bigints: Text = st.one_of(integers, st.sampled_from(ODD_BIGINTS).map(str))
doubles: Text = st.one_of(st.sampled_from(ODD_DOUBLES), st.floats(0.001, 1000).map(str))
intervals: Text = st.sampled_from(ODD_INTERVALS)
times: Text = st.sampled_from(ODD_TIMES)
booleans: Text = st.sampled_from(["true", "false"])
uuids: Text = st.one_of(st.sampled_from(ODD_UUIDS), st.uuids().map(str))

byte_strings: Text = st.one_of(
    st.sampled_from(ODD_BYTES), st.binary(max_size=40).map(lambda value: "\\x" + value.hex())
)

CONSTANTS: dict[str, list[str]] = {
    "text": ODD_TEXTS,
    "jsonb": ODD_JSON,
    "integer": [str(value) for value in ODD_INTEGERS],
    "bigint": [str(value) for value in ODD_BIGINTS],
    "double precision": ODD_DOUBLES,
    "interval": ODD_INTERVALS,
    "timestamp with time zone": ODD_TIMES,
    "boolean": ["true", "false"],
    "uuid": ODD_UUIDS,
    "bytea": ODD_BYTES,
}
ODD: dict[str, Text] = {
    "text": any_text,
    "jsonb": json_values,
    "integer": integers,
    "bigint": bigints,
    "double precision": doubles,
    "interval": intervals,
    "timestamp with time zone": times,
    "boolean": booleans,
    "uuid": uuids,
    "bytea": byte_strings,
}
# ids of the jobs and leases that the test has put there
SANE: dict[str, Text] = {
    "text": st.sampled_from(["default", "other", "k", "w", "failed", "pending"]),
    "jsonb": st.sampled_from(["{}", '{"a": 1}', "[1]", '"x"', '[{"kind": "k"}, {"kind": "l"}]']),
    "integer": st.integers(1, 9).map(str),
    "bigint": st.integers(1, 12).map(str),
    "double precision": st.sampled_from(["1", "2", "10"]),
    "interval": st.sampled_from(["0.1 s", "1 s", "1 min", "1 day"]),
    "timestamp with time zone": st.sampled_from(["2020-01-01 00:00+00", "2100-01-01 00:00+00"]),
    "boolean": booleans,
    "uuid": st.just("00000000-0000-4000-8000-000000000001"),
    "bytea": st.sampled_from(["\\x" + "ab" * 32, "\\x" + "cd" * 32]),
}
SANE_BY_NAME: dict[str, Text] = {
    "kind": st.just("k"),
    "dedupe_scope": st.sampled_from(["unfinished", "pending"]),
    "on_duplicate": st.sampled_from(["return", "replace"]),
    "backoff": st.sampled_from(["exponential", "fixed"]),
    "backoff_jitter": st.sampled_from(["full", "none"]),
    "status": st.sampled_from(["failed", "completed", "cancelled"]),
    "state": st.sampled_from(["failed", "ready", "leased", "scheduled", "pending", "running"]),
    "job": st.sampled_from(["1", "12"]),
    "headers": st.just('{"trace": "1"}'),
    "scopes": st.sampled_from(["produce", "work", "operate", "monitor"]),
    "expires_at": st.just("2100-01-01 00:00+00"),
}


def array_literal(items: Sequence[str | None]) -> str:
    def quoted(item: str | None) -> str:
        if item is None:
            return "NULL"
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join(quoted(item) for item in items) + "}"


@st.composite
def odd_arrays(draw: st.DrawFn, items: Text, sane: Text) -> str:
    """Arrays of any length with nulls, of more dimensions, or that do not begin at 1."""
    shape = draw(st.sampled_from(["plain", "plain", "nulls", "square", "shifted", "long"]))
    match shape:
        case "plain":
            return array_literal(draw(st.lists(st.one_of(st.none(), items, sane), max_size=4)))
        case "nulls":
            return array_literal([None] * draw(st.integers(1, 3)))
        case "square":
            one, two = (array_literal([draw(sane), draw(sane)]) for _ in range(2))
            return "{" + one + "," + two + "}"
        case "shifted":
            return "[0:1]=" + array_literal([draw(sane), draw(sane)])
        case _:
            return array_literal([draw(sane)] * draw(st.sampled_from([101, 10_000, 10_001])))


def sane(name: str, of_type: str, length: int) -> Text:
    """Values that fit together in one call: its arrays are of one length."""
    if of_type.endswith("[]"):
        item = sane(name, of_type.removesuffix("[]"), length)
        return st.lists(item, min_size=length, max_size=length).map(array_literal)
    return SANE_BY_NAME.get(name, SANE[of_type])


def odd(of_type: str, has_endless_intervals: bool) -> Text:
    if of_type.endswith("[]"):
        item = of_type.removesuffix("[]")
        return odd_arrays(odd(item, has_endless_intervals), SANE[item])
    if of_type == "interval" and has_endless_intervals:
        return st.sampled_from([*ODD_INTERVALS, *ENDLESS])
    return ODD[of_type]


def constants(of_type: str, has_endless_intervals: bool) -> list[str | None]:
    """Odd values of a type, each of which is worth a call of its own."""
    if of_type.endswith("[]"):
        items = constants(of_type.removesuffix("[]"), has_endless_intervals)
        one = next(item for item in items if item is not None)
        texts = [array_literal([item]) for item in items]
        two = array_literal([one, one])
        return [None, "{}", f"{{{two},{two}}}", f"[0:1]={two}", *texts]
    endless = ENDLESS if of_type == "interval" and has_endless_intervals else []
    return [None, *CONSTANTS[of_type], *endless]


# what a call needs beside one odd value to be valid
PLAIN: dict[str, str] = {
    "text": "default",
    "jsonb": "{}",
    "integer": "1",
    "bigint": "1",
    "double precision": "1",
    "interval": "1 s",
    "timestamp with time zone": "2020-01-01 00:00+00",
    "boolean": "false",
    "uuid": "00000000-0000-4000-8000-000000000001",
    "bytea": "\\x" + "ef" * 32,
}
PLAIN_BY_NAME = {"jobs": '[{"kind": "k"}]', "job": "1", "kind": "k", "scopes": "produce"}
NEEDS = {
    **{("cancel_many", name): {"queue": "default"} for name in ("reason", "n", "dry_run")},
    ("enqueue", "dedupe_for"): {"dedupe_key": "d"},
    ("settle_and_lease", "lease_for"): {"queues": "{default}", "n": "1"},
    ("settle_and_lease", "queues"): {"n": "1"},
    ("settle_and_lease", "n"): {"queues": "{default}"},
    ("settle_and_lease", "delays"): {"released_ids": "{1}", "released_leases": "{1}"},
    ("settle_and_lease", "results"): {"completed_ids": "{1}", "completed_leases": "{1}"},
    **{
        ("settle_and_lease", name): {
            "failed_ids": "{1}",
            "failed_leases": "{1}",
            "errors": "{e}",
        }
        for name in ("errors", "permanents", "retry_ins")
    },
}


def single_odd_calls(
    function: str, parameters: list[tuple[str, str, bool]], has_endless_intervals: bool
) -> list[dict[str, str | None]]:
    """A call for each odd value of each parameter, otherwise valid."""
    needed: dict[str, str | None] = {}
    for name, of_type, has_default in parameters:
        if not has_default:
            plain = PLAIN_BY_NAME.get(name, PLAIN[of_type.removesuffix("[]")])
            needed[name] = array_literal([plain]) if of_type.endswith("[]") else plain
    return [
        {**needed, **NEEDS.get((function, name), {}), name: value}
        for name, of_type, _ in parameters
        for value in constants(of_type, has_endless_intervals)
    ]


@st.composite
def calls(
    draw: st.DrawFn, parameters: list[tuple[str, str, bool]], has_endless_intervals: bool
) -> dict[str, str | None]:
    """Arguments by name, for parameters of (name, type, has a default)."""
    length = draw(st.integers(0, 3))
    names = [name for name, _, _ in parameters]
    strange = set(draw(st.lists(st.sampled_from(names), max_size=3))) if names else set()
    given: dict[str, Any] = {}
    for name, of_type, has_default in parameters:
        if name in strange:
            given[name] = draw(st.one_of(st.none(), odd(of_type, has_endless_intervals)))
        elif not has_default or draw(st.booleans()):
            given[name] = draw(sane(name, of_type, length))
    return given
