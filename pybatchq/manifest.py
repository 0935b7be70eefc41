r"""The manifest `sql/install.sql`: one file that psql runs and the Python installer reads.

It is written in a small part of psql's language, and anything else is refused:

    \ir path/to/file.sql             run a file, given relative to the manifest
    \set NAME value                  a setting of psql's own; no meaning here
    select … as name \gset           run a query of one row, keep its columns as variables
    \if :name … \endif               run what is between when the variable is true
    plain SQL, `--` and block comments

`begin` and `commit` are left out: the installer runs everything in a transaction of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|--[^\n]*|/\*.*?\*/)
  | (?P<quoted>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"[^"]*"
      |\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)
  | (?P<end>;)
  | (?P<other>\w+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_TRANSACTION = re.compile(r"(begin|commit)\s*;", re.IGNORECASE)
_TRUE = frozenset({"t", "true", "1", "on", "yes"})
_FALSE = frozenset({"f", "false", "0", "off", "no"})


class ManifestError(Exception):
    """The manifest or a file it names cannot be read; the text begins with `file:line`."""


@dataclass(frozen=True, slots=True)
class RunSql:
    """One statement. `file` is relative to the manifest's folder, `line` where it begins."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    r"""A query whose columns become variables (`\gset`)."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class If:
    """Steps to run when the variable is true."""

    file: str
    line: int
    name: str
    body: tuple[Step, ...]


Step = RunSql | Query | If


def split_statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the line (from 1) of its first token, its semicolon included.

    What follows the last semicolon comes last, without one. Comments between statements
    go, those within stay. Bodies in `begin atomic` are not understood.
    """
    start: int | None = None
    for token in _TOKEN.finditer(text):
        if start is None and token.lastgroup != "blank":
            start = token.start()
        if token.lastgroup == "end" and start is not None:
            yield text.count("\n", 0, start) + 1, text[start : token.end()]
            start = None
    if start is not None:
        yield text.count("\n", 0, start) + 1, text[start:].rstrip()


def parse(manifest: Path) -> tuple[Step, ...]:
    """The steps of a manifest, the files it names read in."""
    return _Parser(manifest).steps()


def truth(value: str, where: If) -> bool:
    """Whether a variable's text is true to psql."""
    if value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise ManifestError(f"{where.file}:{where.line}: :{where.name} is {value!r}, no truth value")


def expand(manifest: Path) -> str:
    r"""The manifest with every `\ir` line replaced by the file it names, for psql alone."""
    lines = []
    for number, line in enumerate(manifest.read_text().splitlines(), 1):
        if line.startswith("\\ir "):
            name = line.split(maxsplit=1)[1].strip()
            text = _included(manifest, name, number)
            lines += [f"-- {name}", text.rstrip("\n"), ""]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


class _Parser:
    """Reads line by line; SQL gathers in `pending` until a command of psql's cuts it."""

    def __init__(self, manifest: Path) -> None:
        self._manifest = manifest
        self._blocks: list[tuple[int, str, list[Step]]] = [(0, "", [])]
        self._pending: list[str] = []
        self._pending_line = 1

    def steps(self) -> tuple[Step, ...]:
        lines = self._manifest.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if line.startswith("\\"):
                self._flush(number, whole=True)
                self._command(number, line)
            elif line.rstrip().endswith("\\gset"):
                self._add_line(number, line.rstrip().removesuffix("\\gset"))
                self._query(number)
            else:
                self._add_line(number, line)
        self._flush(len(lines), whole=False)
        if len(self._blocks) > 1:
            raise self._error(self._blocks[-1][0], "\\if without \\endif")
        return tuple(self._blocks[0][2])

    def _add_line(self, number: int, line: str) -> None:
        if not self._pending:
            self._pending_line = number
        self._pending.append(line)

    def _take(self) -> list[tuple[int, str]]:
        found = split_statements("\n".join(self._pending))
        self._pending, offset = [], self._pending_line - 1
        return [(line + offset, text) for line, text in found]

    def _flush(self, number: int, *, whole: bool) -> None:
        for line, text in self._take():
            if whole and not text.endswith(";"):
                raise self._error(line, f"this statement does not end before line {number}")
            self._add(RunSql(self._manifest.name, line, text))

    def _query(self, number: int) -> None:
        *before, (line, text) = self._take() or [(number, ";")]
        if text.endswith(";"):
            raise self._error(number, "\\gset without a query before it")
        for other, statement in before:
            self._add(RunSql(self._manifest.name, other, statement))
        self._add(Query(self._manifest.name, line, text))

    def _add(self, step: Step) -> None:
        if not (isinstance(step, RunSql) and _TRANSACTION.fullmatch(step.text)):
            self._blocks[-1][2].append(step)

    def _command(self, number: int, line: str) -> None:
        match line.split():
            case ["\\set", *_]:
                pass
            case ["\\ir", name]:
                text = _included(self._manifest, name, number)
                for start, statement in split_statements(text):
                    self._add(RunSql(name, start, statement))
            case ["\\if", variable] if re.fullmatch(r":\w+", variable):
                self._blocks.append((number, variable[1:], []))
            case ["\\endif"] if len(self._blocks) > 1:
                begun, name, body = self._blocks.pop()
                self._add(If(self._manifest.name, begun, name, tuple(body)))
            case _:
                raise self._error(number, f"not understood: {line.strip()}")

    def _error(self, number: int, message: str) -> ManifestError:
        return ManifestError(f"{self._manifest.name}:{number}: {message}")


def _included(manifest: Path, name: str, number: int) -> str:
    try:
        return (manifest.parent / name).read_text()
    except OSError as error:
        message = f"{manifest.name}:{number}: cannot read {name}: {error.strerror}"
        raise ManifestError(message) from error
