"""Logs of a service: one line a record on stderr, for eyes or for machines.

What a record was given with `extra` are its fields. Payloads are never among them: what a job
carries may be secret, and it is the caller who keeps it out.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

Format = Literal["pretty", "json"]

STANDARD_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
MAX_PRETTY_VALUE = 200
MAX_TEXT = 16_000
# What the text of a value may raise. A field can be anything, and its record must not be lost.
HOSTILE = (Exception, SystemExit)
LISTS = (list, tuple, set, frozenset)
NUMBERS = (int, float, bool, type(None))

_PLAIN = re.compile(r"[\w.:/@+,%~\[\]-]+")
# what moves the cursor or the eye; a line break in a message is indented instead
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_DIM = "\x1b[2m"
_RESET = "\x1b[0m"
_COLOURS = {
    logging.DEBUG: _DIM,
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


def set_up(*, fmt: Format, level: str) -> None:
    """Log to stderr in place of whatever was set up before. ValueError for an unknown level.

    debug is for batchq itself; libraries stay at info.
    """
    terminal = sys.stderr.isatty()
    formatter: logging.Formatter
    if fmt == "json":
        formatter = JsonFormatter()
    else:
        formatter = PrettyFormatter(colours=terminal and _may_colour(), dates=not terminal)
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    least = logging.getLevelNamesMapping().get(level.upper())
    if least is None:
        raise ValueError(f"no such level of logs: {level}")
    logging.basicConfig(level=max(least, logging.INFO), handlers=[handler], force=True)
    logging.getLogger("pybatchq").setLevel(least)
    logging.captureWarnings(capture=True)


class PrettyFormatter(logging.Formatter):
    """`12:34:56.789 INFO message key=value`; what follows a line break is indented.

    No record can look like two, and none can write to the terminal anything but text.
    """

    def __init__(self, *, colours: bool = False, dates: bool = False) -> None:
        super().__init__()
        self._colours = colours
        self._date = "%Y-%m-%d " if dates else ""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        at = moment.strftime(self._date + "%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
        level = record.levelname
        fields = "".join(
            f" {_shown(name)}={_shown(value)}" for name, value in record_fields(record).items()
        )
        if self._colours:
            at = f"{_DIM}{at}{_RESET}"
            level = f"{_COLOURS.get(record.levelno, '')}{level}{_RESET}"
            fields = f"{_DIM}{fields}{_RESET}" if fields else ""
        head, *rest = _cut(_message(record), MAX_TEXT).splitlines() or [""]
        lines = [f"{at} {level} {_escaped(head)}{fields}"]
        for text in _traces(self, record).values():
            rest += text.splitlines()
        lines += ["    " + _escaped(text) for text in rest]
        return _utf8("\n".join(lines))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, message, the record's fields, exception, stack.

    A field with a name of these gets a `_` at its end. What is no JSON becomes text.
    """

    def __init__(self) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder(enc_hook=_text)

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "ts": _rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _cut(_message(record), MAX_TEXT),
        }
        traces = _traces(self, record)
        for name, value in record_fields(record).items():
            taken = name in entry or name in traces
            entry[f"{name}_" if taken else name] = value
        entry |= traces
        try:
            line = self._encoder.encode(entry)
        except HOSTILE:
            line = self._encoder.encode({_utf8(k): self._safe(v) for k, v in entry.items()})
        return line.decode() if len(line) <= 4 * MAX_TEXT else self._shortened(entry)

    def _safe(self, value: Any) -> msgspec.Raw:
        """One field that is known to be JSON: its own, or its text's."""
        try:
            return msgspec.Raw(self._encoder.encode(value))
        except HOSTILE:
            return msgspec.Raw(self._encoder.encode(_utf8(_text(value))))

    def _shortened(self, entry: dict[str, Any]) -> str:
        """The same with long fields cut: what collects logs drops a line that is too long."""
        short = {
            _cut(_utf8(k), 100): v if type(v) in NUMBERS else _cut(_text(v), 2000)
            for k, v in list(entry.items())[:50]
        }
        return self._encoder.encode({k: self._safe(v) for k, v in short.items()}).decode()


def record_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What the record was given with `extra`, by name."""
    fields = record.__dict__.items()
    return {_text(name): value for name, value in fields if name not in STANDARD_FIELDS}


def _may_colour() -> bool:
    """See no-color.org: set and not empty means no."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _rfc3339(created: float) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except HOSTILE:  # arguments that do not fit, or have no text
        return f"{_text(record.msg)} {_text(record.args)}"


def _traces(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    """Texts of the record's exception and of its stack, those it has."""
    exception = record.exc_text or ""
    if record.exc_info and not exception:
        try:
            exception = formatter.formatException(record.exc_info)
        except HOSTILE as error:  # an exception without a text
            exception = f"{type(record.exc_info[1]).__name__} ({type(error).__name__} in its text)"
    stack = formatter.formatStack(record.stack_info) if record.stack_info else ""
    traces = {"exception": exception, "stack": stack}
    return {name: _cut(text, MAX_TEXT) for name, text in traces.items() if text}


def _text(value: Any) -> str:
    """The value as text, whatever it is."""
    try:
        return str.__str__(value if isinstance(value, str) else repr(value))
    except HOSTILE:
        return f"({type(value).__name__} without a text)"


def _shown(value: Any) -> str:
    """A value of a pretty line: as it is where that is clear, else quoted."""
    if type(value) in LISTS and value:
        text = ",".join(_text(one) for one in list(value)[:20])
    else:
        text = _text(value)
    text = _cut(text, MAX_PRETTY_VALUE)
    if type(value) is str and not _PLAIN.fullmatch(text):
        text = repr(text)
    return _escaped(text.replace("\n", "\\n"))


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    keep = (length - 5) // 2
    return f"{text[:keep]} ... {text[-keep:]}"


def _escaped(text: str) -> str:
    if not _CONTROL.search(text):
        return text
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
