"""The SQL files of the repository."""

from __future__ import annotations

import re
from pathlib import Path

SQL = Path(__file__).resolve().parents[2] / "sql"
PUBLIC_FOLDERS = ("producer", "worker", "operator", "monitor")
FUNCTION_FILES = sorted((SQL / "functions").glob("*/*.sql"))

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_MANUAL = re.compile(r"\$comment\$.*?\$comment\$", re.DOTALL)


def all_files() -> list[Path]:
    return sorted(SQL.rglob("*.sql"))


def named(file: Path) -> str:
    """A file's path as the manifest writes it."""
    return file.relative_to(SQL).as_posix()


def code(file: Path) -> str:
    """A file without its comments, its manual and its quoted texts; dollar bodies stay."""
    return _TEXT.sub("''", _COMMENT.sub("", _MANUAL.sub("''", file.read_text())))
