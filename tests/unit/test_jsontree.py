"""Stored JSON as HTML: all digits, nothing that runs, and never more than a page can hold."""

from __future__ import annotations

import json
import re
from html import unescape
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybatchq.dashboard import jsontree
from pybatchq.dashboard.jsontree import MOST_DEPTH, MOST_NODES, MOST_TEXT, tree
from tests.support.pages import Document

# Whatever the text, a page stays below this.
MOST_HTML = 8_000_000


def shown(text: str | bytes) -> Document:
    document = Document(str(tree(text)))
    assert document.faults == []
    assert {one.tag for one in document.elements} <= {
        "div", "details", "summary", "small", "ul", "li", "span", "pre"
    }  # fmt: skip
    for one in document.elements:
        assert set(one.attributes) <= {"class", "open"}, one
    return document


def spans(document: Document, kind: str) -> list[str]:
    return [one.text for one in document.all("span") if one.get("class") == kind]


@pytest.mark.parametrize(
    "number",
    ["0", "-0", "-0.0", "1.10", "0.1", "1970670598291982290", "-9223372036854775809", "1e5",
     "1E+400", "1e-400", "123456789012345678901234567890.123456789012345678901234567890",
     "9" * 5000],
)  # fmt: skip
def test_f060_a_number_keeps_every_digit(number: str) -> None:
    assert spans(shown(f'{{"a": [{number}]}}'), "num") == [number]
    assert spans(shown(number), "num") == [number]
    assert spans(shown(number.encode()), "num") == [number]


@pytest.mark.parametrize("text", ["null", "true", "false", "[]", "{}", '""', '"a"', " 7 "])
def test_a_value_without_parts_is_itself(text: str) -> None:
    document = shown(text)
    assert document.all("details") == []
    assert document.all("div")[0].text == text.strip()


def test_nothing_stored_is_a_dash() -> None:
    assert str(tree(None)) == "–"


@pytest.mark.parametrize(
    "hostile",
    ["<script>alert(1)</script>", "</pre><script>", "<img src=x onerror=alert(1)>", "' onclick='x",
     '" onclick="x', "&lt;b&gt;", "{{7*7}}{% raw %}", "</details></ul></div>",
     "javascript:alert(1)", "%s %(x)s {0} {}"],
)  # fmt: skip
def test_f090_a_text_is_text_as_key_and_as_value(hostile: str) -> None:
    for value in (hostile, [hostile], {hostile: hostile}, {hostile: {hostile: [hostile]}}):
        text = json.dumps(value)
        told = shown(text).elements[0].text
        assert hostile in told.replace('\\"', '"')
    broken = shown(hostile)
    assert broken.elements[0].text == hostile


@pytest.mark.parametrize(
    "unseen",
    ["\x00", "\x1b[2J", "\x07", "\r", "\u202e", "\u2066", "\u2028", "\x85", "\ufeff", "\x7f"],
)
def test_f090_what_cannot_be_seen_is_written_out(unseen: str) -> None:
    for text in (json.dumps({unseen: unseen}, ensure_ascii=False), unseen, json.dumps([unseen])):
        html = str(tree(text))
        assert unseen not in html
        assert f"\\u{ord(unseen[0]):04x}" in html.lower() or "\\r" in html


def test_half_a_character_is_no_error() -> None:
    for text in ('"\\ud800"', '{"\\udfff": "\\ud800x"}', b'"\xff\xfe"', b"\xff", b'{"a": "\xc3'):
        str(tree(text)).encode("utf-8")  # a page is written in this


@pytest.mark.parametrize(
    "broken",
    ["", " ", "{", '{"a":', "[1,]", "{'a': 1}", "01", "1 2", "nul", "\ufeff1", "[" * 100_000,
     '{"a":' * 100_000, "NaN,", '"a\nb"', "Traceback <b>\n  x"],
)  # fmt: skip
def test_what_is_no_json_is_shown_as_it_is(broken: str) -> None:
    document = shown(broken)
    assert [one.tag for one in document.elements[:1]] == ["pre"]
    told = document.elements[0].text
    assert told.replace("\\ufeff", "\ufeff").startswith(broken[:100])
    assert len(told) <= MOST_TEXT + 1


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [MOST_DEPTH, MOST_DEPTH + 1, 500, 990, 5_000, 200_000])
def test_f061_however_deep_it_has_a_page(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    document = shown(opening * depth + "7" + closing * depth)
    deepest = max(len(one.parents) for one in document.elements)
    assert deepest <= 3 * (MOST_DEPTH + 3)
    if depth <= MOST_DEPTH:
        assert spans(document, "num") == ["7"]
        assert spans(document, "cut") == []


def test_many_parts_are_cut_and_it_says_so() -> None:
    much: list[Any] = [
        list(range(100_000)), {str(n): n for n in range(100_000)}, [[n] for n in range(100_000)],
        [[[]] * 300] * 300,
    ]  # fmt: skip
    for value in much:
        document = shown(json.dumps(value))
        assert len(document.all("li")) <= MOST_NODES + MOST_DEPTH
        assert "…" in spans(document, "cut")
    assert "100,000 items" in str(tree(json.dumps([0] * 100_000)))
    few = shown(json.dumps(list(range(MOST_NODES - 1))))
    assert spans(few, "cut") == []


def test_a_long_text_is_cut_and_it_says_so() -> None:
    for text in (json.dumps("é" * 1_000_000), json.dumps({"k" * 1_000_000: 1}), "9" * 1_000_000):
        html = str(tree(text))
        assert len(html) < 7 * MOST_TEXT
        assert "…" in html
    assert "cut" not in str(tree(json.dumps("a" * (MOST_TEXT - 2))))


@pytest.mark.parametrize(
    "what", ["texts", "control characters", "numbers", "keys", "deep", "markup"]
)
def test_a_payload_of_a_mebibyte_is_bounded_in_time_and_size(what: str) -> None:
    make: dict[str, Any] = {
        "texts": ["x" * 20_000] * 52,
        "control characters": ["\x01" * 19_000] * 9,
        "numbers": [10**17] * 55_000,
        "keys": {f"key {n}": None for n in range(60_000)},
        "deep": [[[[n]]] for n in range(80_000)],
        "markup": ["<&>'\"" * 3_900] * 45,
    }
    text = json.dumps(make[what]).encode()
    assert 900_000 < len(text) < 1_300_000
    begun = perf_counter()
    html = tree(text)
    assert perf_counter() - begun < 3, "about 0.1 s on a quiet machine"
    assert len(html) < MOST_HTML


def test_a_mebibyte_of_texts_does_not_make_a_page_of_many() -> None:
    """Each text may be long, all of them together not."""
    text = json.dumps(["\u202e" * 19_999] * 100, ensure_ascii=False)
    assert len(tree(text)) < MOST_HTML


def test_a_key_that_comes_twice_is_not_an_error() -> None:
    # jsonb keeps the last, and so does this
    assert spans(shown('{"a": 1, "a": 2}'), "num") == ["2"]


def test_little_is_unfolded_and_much_is_folded() -> None:
    small, large = shown(json.dumps([1, 2])), shown(json.dumps(list(range(1_000))))
    assert "open" in small.all("details")[0].attributes
    assert "open" not in large.all("details")[0].attributes
    deep = shown(json.dumps([[[[[1]]]]])).all("details")
    assert ["open" in one.attributes for one in deep] == [True, True, True, False, False]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda parts: st.lists(parts, max_size=5)
    | st.dictionaries(st.text(max_size=8), parts, max_size=5),
    max_leaves=30,
)  # fmt: skip


@given(values)
def test_any_json_is_all_there_in_order(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    document = shown(text)
    numbers = re.findall(r"-?\d[-+.\deE]*", re.sub(r'"(?:[^"\\]|\\.)*"', '""', text))
    assert spans(document, "num") == numbers
    leaves: list[str] = []
    collect(value, leaves)
    assert [json.loads(unescape(one)) for one in spans(document, "str")] == leaves


def collect(value: Any, leaves: list[str]) -> None:
    match value:
        case str():
            leaves.append(value)
        case list():
            for part in value:
                collect(part, leaves)
        case dict():
            for part in value.values():
                collect(part, leaves)


@given(st.binary(max_size=200))
def test_any_bytes_have_a_page(data: bytes) -> None:
    shown(data)


def test_the_bounds_are_those_of_the_module() -> None:
    assert (MOST_NODES, MOST_DEPTH, MOST_TEXT) == (
        jsontree.MOST_NODES, jsontree.MOST_DEPTH, jsontree.MOST_TEXT,
    )  # fmt: skip
