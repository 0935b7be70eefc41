"""The tree of errors: one class a code of the catalogue, drawn as it is."""

from __future__ import annotations

import re

import psycopg
import pytest

from pybatchq import errors
from pybatchq.errors import BatchqError, InvalidArgumentError, translate


async def test_there_is_one_class_for_each_code_of_the_catalogue(
    conn: psycopg.AsyncConnection[tuple[str, str]],
) -> None:
    cursor = await conn.execute("select code, name from batchq.errors()")
    catalogue = {
        code: "".join(word.capitalize() for word in name.split("_")) + "Error"
        for code, name in await cursor.fetchall()
    }
    assert {code: kind.__name__ for code, kind in errors.BY_CODE.items()} == catalogue
    assert all(kind.code == code for code, kind in errors.BY_CODE.items())


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+) +(JQ\d{3})", errors.__doc__ or ""))
    assert drawn == {(kind.__name__, kind.code) for kind in BatchqError.__subclasses__()}


async def test_every_code_arrives_as_its_class_with_message_and_hint(
    conn: psycopg.AsyncConnection[tuple[str, str]],
) -> None:
    for code, kind in errors.BY_CODE.items():
        with pytest.raises(psycopg.Error) as caught:
            await conn.execute(
                f"do $$ begin raise 'what' using errcode = '{code}', hint = 'do'; end $$".encode()
            )
        translated = translate(caught.value)
        assert type(translated) is kind
        assert str(translated) == "what"
        assert translated.hint == "do"


async def test_f061_json_too_deep_for_the_server_is_an_invalid_argument(
    conn: psycopg.AsyncConnection[tuple[str, str]],
) -> None:
    with pytest.raises(psycopg.errors.StatementTooComplex) as caught:
        await conn.execute("select (repeat('[', 100000) || repeat(']', 100000))::jsonb")
    assert isinstance(translate(caught.value), InvalidArgumentError)


def test_whatever_is_not_batchqs_stays_what_it_is() -> None:
    assert translate(psycopg.OperationalError("gone")) is None
    assert translate(psycopg.errors.UniqueViolation("x")) is None
    assert isinstance(translate(psycopg.DataError("bad value")), InvalidArgumentError)
    assert issubclass(InvalidArgumentError, ValueError)
