"""The rules of the SQL files that their text can tell."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.support.sqlfiles import FUNCTION_FILES, SQL, all_files, code, named

MAX_COLUMNS = 100
MAX_BODY_LINES = 70
# file: why its dynamic SQL is needed, and where the names in it come from
DYNAMIC_SQL = {
    "grants.sql": "roles may be missing; the names are listed in the file",
    "migrations/0001_core.sql": "one partition a segment; the names are made of loop numbers",
    "roles.sql": "roles may exist already; the names are listed in the file",
}

_EXECUTE = re.compile(r"\bexecute\b(?!\s+(?:on|function|procedure)\b)")
_FUNCTION = re.compile(r"create or replace function (\S+?)\(")


def test_the_manifest_lists_every_file_exactly_once() -> None:
    manifest = (SQL / "install.sql").read_text()
    listed = Counter(re.findall(r"^\\ir\s+(\S+)\s*$", manifest, re.MULTILINE))
    unlisted = {"install.sql", "uninstall.sql"}
    assert listed == Counter(named(file) for file in all_files() if named(file) not in unlisted)


def test_a_file_defines_one_function_tagged_with_its_name() -> None:
    wrong = []
    for file in FUNCTION_FILES:
        text = file.read_text()
        tags = set(re.findall(r"\$(\w*)\$", text)) - {"comment"}
        if _FUNCTION.findall(text) != [f"batchq.{file.stem}"] or not tags <= {file.stem}:
            wrong.append(named(file))
    assert wrong == []


def test_a_body_fits_on_a_page() -> None:
    long = {}
    for file in FUNCTION_FILES:
        tag = re.escape(f"${file.stem}$")
        body = re.search(rf"^as {tag}\n(.*?)^{tag};$", file.read_text(), re.MULTILINE | re.DOTALL)
        if body is not None and body[1].count("\n") > MAX_BODY_LINES:
            long[named(file)] = body[1].count("\n")
    assert long == {}


def test_lines_are_plain_and_fit() -> None:
    wrong = [
        f"{named(file)}:{number}: {line}"
        for file in all_files()
        for number, line in enumerate(file.read_text().split("\n"), 1)
        if len(line) > MAX_COLUMNS or "\t" in line or line != line.rstrip()
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_files_end_with_a_newline() -> None:
    assert [named(f) for f in all_files() if not f.read_text().endswith("\n")] == []


def test_sql_is_made_of_text_only_where_it_must_be() -> None:
    dynamic = {named(file) for file in all_files() if _EXECUTE.search(code(file))}
    assert dynamic == set(DYNAMIC_SQL)


def test_no_error_is_swallowed_unseen() -> None:
    assert [named(f) for f in all_files() if re.search(r"\bwhen\s+others\b", code(f))] == []
