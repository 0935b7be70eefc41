"""What POST /jobs takes and refuses, before any database: every refusal names field and reason."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from pybatchq.api.decoding import MOST_DEPTH, Decoder, check_depth, descriptions, parameters
from pybatchq.api.errors import ApiError
from pybatchq.api.models import (
    Job,
    ListedJob,
    ListQuery,
    NewJob,
    NewJobs,
    encode_spec,
    one_of,
    shown,
)
from pybatchq.types import JobId, JobSummary

decode = Decoder(NewJob)
decode_many: Decoder[Any] = Decoder(NewJobs | list[NewJob], of=NewJob)  # type: ignore[arg-type]


def spec(text: str | bytes) -> Any:
    """What enqueue_many is given for a body."""
    job = decode(text.encode() if isinstance(text, str) else text)
    job.check()
    return json.loads(encode_spec(job))


def refusal(text: str | bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        spec(text)
    return caught.value


def test_a29_the_source_systems_body_is_taken() -> None:
    body = (
        '{"type":"demo_task","payload":{"message":"hi","delay_ms":1000},"max_attempts":3,'
        '"queue":"q","dedupe_key":"d","available_at":"2030-01-31T12:00:00+02:00"}'
    )
    assert spec(body) == {
        "kind": "demo_task", "payload": {"message": "hi", "delay_ms": 1000}, "max_attempts": 3,
        "queue": "q", "dedupe_key": "d", "run_at": "2030-01-31T10:00:00Z",
    }  # fmt: skip


def test_every_field_passes_through() -> None:
    given = {
        "kind": "k", "payload": [1], "queue": "q", "priority": -32768, "delay": 0.5,
        "max_attempts": 32767, "timeout": 0.01, "backoff": "fixed", "backoff_base": 0,
        "backoff_factor": 100, "backoff_cap": 31536000, "backoff_jitter": "none",
        "dedupe_key": "k", "dedupe_scope": "pending", "dedupe_for": 0, "on_duplicate": "replace",
        "headers": {"a": 1},
    }  # fmt: skip
    assert spec(json.dumps(given)) == given


def test_what_is_not_given_is_not_sent() -> None:
    assert spec('{"kind":"k"}') == {"kind": "k"}


@pytest.mark.parametrize(
    "body",
    [
        "", '{"kind":"a"', '{"kind":"a"}}', "{'kind':'a'}", '{"kind":"a","payload":NaN}',
        '{"kind":"a","payload":[Infinity]}', '{"kind":"a","payload":-Infinity}',
        '{"kind":"a","payload":01}', '{"kind":"a","payload":[1,]}', '{"kind":"a","delay":NaN}',
    ],
)  # fmt: skip
def test_a31_f059_what_is_no_json_is_refused(body: str) -> None:
    error = refusal(body)
    assert (error.status, error.body.code, error.body.name) == (400, "HTTP400", "malformed_json")
    assert error.body.message.startswith("the body is no JSON: ")


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"a","payload":"\\ud800"}',
        b'{"kind":"a","payload":{"\\ud800":"and more of it"}}',
        b'{"kind":"a","payload":"\\ude00\\ud83d"}',
        b'{"kind":"\\ud800 and more"}',
        '{"kind":"a","payload":"\u00e9"}'.encode("latin-1"),
        '{"kind":"\u00e9"}'.encode("latin-1"),
        b'{"kind":"a","payload":"\x01"}',
        b'\xef\xbb\xbf{"kind":"a"}',
        '{"kind":"a"}'.encode("utf-16"),
    ],
)
def test_f062_what_is_no_unicode_is_refused(body: bytes) -> None:
    assert refusal(body).status == 400


@pytest.mark.parametrize(
    "body",
    ['{"kind":"\\u0000"}', '{"kind":"a","payload":["\\\\\\u0000"]}', '{"\\u0000":1,"kind":"a"}'],
)
def test_f062_a_nul_character_is_refused(body: str) -> None:
    assert refusal(body).status == 400


def test_a_backslash_before_u0000_is_no_nul() -> None:
    assert spec('{"kind":"a","payload":"\\\\u0000"}')["payload"] == "\\u0000"


@pytest.mark.parametrize(
    ("field", "value", "message", "hint"),
    [
        ("priority", 32768, "expected int <= 32767", "an integer from -32768 to 32767"),
        ("priority", 2**31, "expected int <= 32767", "an integer from -32768 to 32767"),
        ("priority", 10**30, "expected int <= 32767", "an integer from -32768 to 32767"),
        ("priority", -(2**31) - 1, "expected int >= -32768", "an integer from -32768 to 32767"),
        ("priority", 1.5, "expected int, got float", "an integer from -32768 to 32767"),
        ("priority", "high", "expected int, got str", "an integer from -32768 to 32767"),
        ("priority", None, "expected int, got null", "an integer from -32768 to 32767"),
        ("priority", True, "expected int, got bool", "an integer from -32768 to 32767"),
        ("max_attempts", 0, "expected int >= 1", "an integer from 1 to 32767"),
        ("max_attempts", -1, "expected int >= 1", "an integer from 1 to 32767"),
        ("max_attempts", 32768, "expected int <= 32767", "an integer from 1 to 32767"),
        ("queue", "", "expected str of length >= 1", "a text of 1 to 255 characters"),
        ("queue", "q" * 256, "expected str of length <= 255", "a text of 1 to 255 characters"),
        ("queue", None, "expected str, got null", "a text of 1 to 255 characters"),
        ("kind", 5, "expected str, got int", "a text of 1 to 255 characters"),
        ("dedupe_key", "", "expected str of length >= 1", "a text of 1 to 1024 bytes"),
        ("delay", 1e12, "expected float <= 311040000.0", "a number of seconds, at most 3600"),
        ("delay", -1e12, "expected float >= -311040000.0", "a number of seconds"),
        ("delay", "5", "expected float, got str", "a number of seconds"),
        ("delay", "1 mon", "expected float, got str", "a number of seconds"),
        ("timeout", 0, "expected float >= 0.01", "a number of seconds from 0.01"),
        ("timeout", 31536001, "expected float <= 31536000.0", "a number of seconds from 0.01"),
        ("backoff_base", -1, "expected float >= 0.0", "a number of seconds from 0"),
        ("backoff_factor", 101, "expected float <= 100.0", "a number from 1 to 100"),
        ("run_at", "infinity", "invalid RFC3339 encoded datetime", "a time with its zone"),
        ("run_at", "-infinity", "invalid RFC3339 encoded datetime", "a time with its zone"),
        ("run_at", "20000-01-01", "invalid RFC3339 encoded datetime", "a time with its zone"),
        ("run_at", "4713-01-01 BC", "invalid RFC3339 encoded datetime", "a time with its zone"),
        ("run_at", "tomorrow", "invalid RFC3339 encoded datetime", "a time with its zone"),
        ("run_at", 1893456000, "expected datetime, got int", "a time with its zone"),
        (
            "run_at",
            "2030-01-31T12:00:00",
            "expected datetime with a timezone component",
            "a time with its zone by RFC 3339, like 2030-01-31T12:00:00Z",
        ),
    ],
)
def test_b15_f063_f065_f066_f067_f091_a_value_out_of_its_bounds_is_named_with_them(
    field: str, value: object, message: str, hint: str
) -> None:
    error = refusal(json.dumps({"kind": "a", field: value}))
    assert (error.status, error.body.code) == (400, "JQ001")
    assert error.body.message == f"{field}: {message}"
    assert (error.body.hint or "").startswith(f"give {hint}")


def test_b15_a_priority_takes_both_ends_of_its_range() -> None:
    for priority in (-32768, 0, 32767):
        assert spec(json.dumps({"kind": "a", "priority": priority}))["priority"] == priority


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "kind: this field is required"),
        ('{"payload":{}}', "kind: this field is required"),
        ("[]", "the body: expected object, got array"),
        ("null", "the body: expected object, got null"),
        ('{"kind":"a","foo":1}', "unknown field: foo"),
        ('{"kind":"a","type":"b"}', "kind and type differ"),
        (
            '{"kind":"a","run_at":"2030-01-01T00:00:00Z","available_at":"2030-01-01T00:00:01Z"}',
            "run_at and available_at differ",
        ),
        (
            '{"kind":"a","run_at":"2030-01-01T00:00:00Z","delay":5}',
            "run_at and delay are both given",
        ),
        ('{"kind":"a","payload":null}', "payload: it is null"),
        ('{"kind":"a","payload": null }', "payload: it is null"),
        ('{"kind":"a","headers":[]}', "headers: expected object"),
        (
            '{"kind":"a","dedupe_for":5}',
            "dedupe_key: this field is required by those that go with it",
        ),
        ('{"kind":"a","backoff":"none"}', "backoff: invalid enum value 'none'"),
        (json.dumps({"kind": "a", "dedupe_key": "é" * 600}), "dedupe_key: it is too long"),
    ],
)  # fmt: skip
def test_a31_b22_f091_what_goes_wrong_is_named(body: str, message: str) -> None:
    error = refusal(body)
    assert (error.status, error.body.code, error.body.message) == (400, "JQ001", message)


def test_an_unknown_field_comes_with_those_that_are_known() -> None:
    assert "fields are kind, type, payload, queue" in (refusal('{"kinds":"a"}').body.hint or "")


def test_synonyms_may_both_be_given_if_they_are_one_value() -> None:
    body = (
        '{"kind":"a","type":"a","run_at":"2030-01-01T00:00:00Z",'
        '"available_at":"2030-01-01T02:00:00+02:00"}'
    )
    assert spec(body)["kind"] == "a"
    assert datetime.fromisoformat(spec(body)["run_at"]) == datetime(2030, 1, 1, tzinfo=UTC)


def test_times_and_spans_the_database_cannot_read_are_made_so_that_it_can() -> None:
    body = '{"kind":"a","run_at":"3152-02-05T03:56:05+21:15","backoff_cap":5e-324,"timeout":0.5}'
    assert spec(body) == {
        "kind": "a", "run_at": "3152-02-04T06:41:05Z", "backoff_cap": 0.0, "timeout": 0.5,
    }  # fmt: skip


def test_f060_the_payload_is_the_text_that_was_sent() -> None:
    payload = b'{ "id": 1970670598291982290, "f": 0.1, "d": 1.10, "e": 1E+2, "n": -0.0 }'
    job = decode(b'{"kind":"a","payload":' + payload + b"}")
    job.check()
    assert encode_spec(job) == b'{"kind":"a","payload":' + payload + b"}"


@pytest.mark.parametrize("depth", [1, 100, MOST_DEPTH])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_f061_json_up_to_the_stated_depth_is_taken(depth: int, brackets: str) -> None:
    opening = "[" if brackets == "[]" else '{"a":'
    spec('{"kind":"a","payload":' + opening * depth + "1" + brackets[1] * depth + "}")


@pytest.mark.parametrize("depth", [MOST_DEPTH + 1, 1_000, 6_400, 20_000, 100_000])
def test_f061_deeper_json_is_refused_with_the_limit(depth: int) -> None:
    error = refusal('{"kind":"a","payload":' + "[" * depth + "]" * depth + "}")
    assert (error.status, error.body.code) == (400, "JQ001")
    assert error.body.message == f"the JSON is nested deeper than {MOST_DEPTH} levels"


def test_f061_brackets_in_texts_and_beside_each_other_do_not_count() -> None:
    check_depth(json.dumps(['["{' * 1000, '\\"[[['] * 200).encode())
    check_depth(b"[" + b",".join([b"[]", b"{}"] * 1000) + b"]")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_depth_is_that_of_the_value(value: object) -> None:
    def depth(of: object) -> int:
        inner = list(of.values()) if isinstance(of, dict) else of
        return 1 + max(map(depth, inner), default=0) if isinstance(inner, list) else 0

    text = json.dumps(value).encode()
    wrapped = b"[" * (MOST_DEPTH - depth(value)) + text + b"]" * (MOST_DEPTH - depth(value))
    check_depth(wrapped)
    with pytest.raises(ApiError):
        check_depth(b"[" + wrapped + b"]")


@pytest.mark.parametrize(
    "body", ['[{"kind":"a"},{"kind":5}]', '{"jobs":[{"kind":"a"},{"kind":5}]}']
)
def test_a84_the_bad_one_of_many_is_named(body: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode_many(body.encode())
    assert caught.value.body.message == "kind: expected str, got int"
    assert caught.value.body.detail == "job 2"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": "0"}, "limit: expected int >= 1"),
        ({"limit": "501"}, "limit: expected int <= 500"),
        ({"limit": "1e9"}, "limit: expected int <= 500"),
        ({"limit": "ten"}, "limit: expected int, got str"),
        ({"status": "done"}, "status: invalid enum value 'done'"),
        ({"state": "stuck"}, "state: invalid enum value 'stuck'"),
        ({"created_after": "yesterday"}, "created_after: invalid RFC3339 encoded datetime"),
        ({"page": "2"}, "unknown parameter: page"),
    ],
)
def test_b17_f065_f091_a_bad_parameter_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ApiError) as caught:
        parameters(given, ListQuery)
    assert (caught.value.status, caught.value.body.message) == (400, message)


def test_every_field_says_what_it_takes() -> None:
    told = descriptions(NewJob)
    known = {"backoff", "backoff_jitter", "dedupe_scope", "on_duplicate"}  # enumerations say it
    assert set(NewJob.__struct_fields__) - known == set(told)


def test_c5_kind_and_type_are_one_filter() -> None:
    assert one_of("a", None) == one_of(None, "a") == one_of("a", "a") == "a"
    with pytest.raises(ApiError):
        one_of("a", "b")


def test_a_record_is_shown_with_synonyms_and_in_utc() -> None:
    there = timezone(timedelta(hours=2))
    at = datetime(2030, 1, 1, 2, tzinfo=there)
    far = datetime.max.replace(tzinfo=UTC)
    record = JobSummary(
        JobId(2**62 - 1), UUID(int=1), "k", "q", "running", "leased", 0, 1, 3, None, at, far,
        at, "w", None,
    )  # fmt: skip
    told = msgspec.json.decode(msgspec.json.encode(shown(record, ListedJob)))
    assert told["id"] == 2**62 - 1
    assert told["type"] == told["kind"] == "k"
    assert told["created_at"] == "2030-01-01T00:00:00Z"
    assert told["available_at"] == told["run_at"] == "9999-12-31T23:59:59.999999Z"


def test_stored_json_is_shown_as_it_is_stored() -> None:
    assert Job.__annotations__["payload"] == "Raw"
    assert msgspec.json.encode(Raw(b'{"d": 1.10}')) == b'{"d": 1.10}'
