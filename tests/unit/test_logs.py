"""Logs: both formats, whatever the fields are."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pybatchq.logs import JsonFormatter, PrettyFormatter
from tests.support.processes import ROOT

MOMENT = 1_750_000_000.123


def record(message: str = "worker started", *args: Any, **fields: Any) -> logging.LogRecord:
    """As logging makes it."""
    made = logging.getLogger("pybatchq").makeRecord(
        "pybatchq", logging.INFO, "file.py", 1, message, args, None, extra=fields
    )
    made.created = MOMENT
    return made


def failed(error: BaseException, **fields: Any) -> logging.LogRecord:
    """A record of an exception that was raised."""
    made = record("it failed", **fields)
    try:
        raise error  # noqa: TRY301  # a traceback is made by raising
    except BaseException:  # noqa: BLE001
        made.exc_info = sys.exc_info()
    return made


class Mute:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class Leaving:
    def __repr__(self) -> str:
        raise SystemExit(3)


class Lying:
    @property  # type: ignore[misc]  # it lies
    def __class__(self) -> Any:
        raise ZeroDivisionError


class Odd(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise ZeroDivisionError


class BadList(list[Any]):
    def __iter__(self) -> Any:
        raise ZeroDivisionError


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@dataclasses.dataclass
class Point:
    x: int


circle: list[Any] = []
circle.append(circle)
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]
HOSTILE: dict[str, Any] = {
    "mute": Mute(),
    "leaving": Leaving(),
    "lying": Lying(),
    "odd": Odd("text"),
    "bad_list": BadList([1]),
    "in_list": [Mute()],
    "surrogate": "file \udce5 is gone",
    "surrogate_within": {"name": ["\udce5"]},
    "surrogate_key": {"\udce5": 1},
    "nul": "a\0b",
    "bytes": b"\xff",
    "set": {1},
    "tuple_key": {(1, 2): 3},
    "huge_number": 2**300,
    "nan": float("nan"),
    "itself": circle,
    "deep": deep,
    "5_mb": "x" * 5_000_000,
    "many": list(range(1_000_000)),
    "function": record,
    "error": MuteError(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_f062_a_hostile_field_costs_neither_the_line_nor_its_other_fields(name: str) -> None:
    made = record("of %s", "it", value=HOSTILE[name], job_id=7)
    line = JsonFormatter().format(made)
    entry = json.loads(line)
    assert (entry["message"], entry["job_id"]) == ("of it", 7)
    assert "value" in entry
    assert "\n" not in line
    assert len(line.encode()) < 70_000
    pretty = PrettyFormatter().format(made)
    pretty.encode()
    assert " INFO of it value=" in pretty
    assert pretty.endswith(" job_id=7")
    assert "\n" not in pretty
    assert len(pretty) < 500


@pytest.mark.parametrize("formatter", [JsonFormatter(), PrettyFormatter()], ids=["json", "pretty"])
def test_f062_a_hostile_message_or_exception_is_a_line_all_the_same(
    formatter: logging.Formatter,
) -> None:
    for made in (
        record("%d of %s", "one"),
        record("%s", Mute()),
        record("\udce5\0" + "x" * 1_000_000),
        record("x", **{"\udce5": 1}),
        failed(MuteError()),
        failed(ValueError("\udce5" + "x" * 1_000_000), value=Mute()),
        failed(BaseExceptionGroup("two", [ValueError("one"), SystemExit(1)])),
    ):
        text = formatter.format(made)
        text.encode()
        assert 10 < len(text) < 70_000


def test_json_has_time_level_logger_message_and_the_fields_as_they_are() -> None:
    fields = {
        "queue": "q", "jobs": 3, "share": 0.5, "names": ["a", "b"], "none": None,
        "at": datetime(2025, 1, 2, tzinfo=UTC), "point": Point(1), "wait": timedelta(seconds=1),
    }  # fmt: skip
    entry = json.loads(JsonFormatter().format(record("a %s", "b", **fields)))
    assert list(entry)[:4] == ["ts", "level", "logger", "message"]
    assert entry == {
        "ts": "2025-06-15T15:06:40.123Z", "level": "info", "logger": "pybatchq",
        "message": "a b", "queue": "q", "jobs": 3, "share": 0.5, "names": ["a", "b"],
        "none": None, "at": "2025-01-02T00:00:00Z", "point": {"x": 1}, "wait": "PT1S",
    }  # fmt: skip


def test_json_replaces_lone_surrogates_and_keeps_other_letters() -> None:
    made = record("ä\udce5", queue="ö\udce5", **{"k\udce5": 1})
    entry = json.loads(JsonFormatter().format(made))
    assert (entry["message"], entry["queue"], entry["k?"]) == ("ä?", "ö?", 1)


def test_json_never_lets_a_field_stand_in_for_its_own() -> None:
    made = failed(ValueError("no"), ts=1, level=2, logger=3, exception=4)
    entry = json.loads(JsonFormatter().format(made))
    assert (entry["ts_"], entry["level_"], entry["logger_"], entry["exception_"]) == (1, 2, 3, 4)
    assert entry["level"] == "info"
    assert entry["exception"].startswith("Traceback")


def test_json_has_the_exception_and_the_stack_as_fields() -> None:
    made = failed(ValueError("no"))
    made.stack_info = "Stack (most recent call last):\n  here"
    entry = json.loads(JsonFormatter().format(made))
    assert entry["exception"].endswith("ValueError: no")
    assert entry["stack"].endswith("here")
    assert "exception" not in json.loads(JsonFormatter().format(record()))


def test_json_of_a_long_exception_keeps_its_head_and_its_tail() -> None:
    entry = json.loads(JsonFormatter().format(failed(ValueError("x" * 1_000_000 + " the end"))))
    assert entry["exception"].startswith("Traceback")
    assert entry["exception"].endswith(" the end")


def test_pretty_is_one_short_line_with_values_quoted_only_where_they_must_be() -> None:
    line = PrettyFormatter().format(
        record(worker="host:12", queues=["a", "b"], slots=10, error="no such file", empty="")
    )
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.123 INFO worker started .*", line)
    assert line.endswith(" worker=host:12 queues=a,b slots=10 error='no such file' empty=''")
    dated = PrettyFormatter(dates=True).format(record())
    assert re.fullmatch(r"2025-06-1\d \d\d:\d\d:\d\d\.123 INFO worker started", dated)
    assert len(PrettyFormatter().format(record(worker="worker-1:12345", slots=10))) <= 80


def test_f063_no_text_of_a_job_can_forge_a_line_or_steer_the_terminal() -> None:
    evil = "a\n12:00:00.000 ERROR forged\x1b[2J\r\u202egnp\x9b31m"
    for made in (record(evil), record(kind=evil), record(kinds=[evil]), failed(ValueError(evil))):
        lines = PrettyFormatter().format(made).split("\n")
        assert all(line.startswith("    ") for line in lines[1:])
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", "".join(lines))
        assert "ERROR forged" in "".join(lines)


def test_pretty_colours_the_level_and_dims_the_rest() -> None:
    made = record(slots=1)
    coloured = PrettyFormatter(colours=True).format(made)
    assert "\x1b[32mINFO\x1b[0m worker started\x1b[2m slots=1\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == PrettyFormatter().format(made)


PROGRAM = """
import logging, sys, warnings
from pybatchq import logs
logging.basicConfig(format="old %(message)s")
logs.set_up(fmt=sys.argv[1], level="info")
log = logging.getLogger("pybatchq")
log.debug("hidden")
log.info("shown", extra={"jobs": 1})
warnings.warn("old thing")
"""


def run(fmt: str, **environ: str) -> str:
    """What a process writes to a stderr that is a pipe."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, fmt],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def run_on_terminal(**environ: str) -> str:
    """What a process writes to a stderr that is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "pretty"],
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environ},
        stderr=theirs,
    ) as process:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 10_000):
                text += chunk
        except OSError:
            pass  # Linux's way to say that the other end is closed
        assert process.wait(30) == 0
    os.close(ours)
    return text.decode()


def test_set_up_json_writes_objects_only_warnings_included() -> None:
    entries = [json.loads(line) for line in run("json").splitlines()]
    assert [entry["message"] for entry in entries[:1]] == ["shown"]
    assert (entries[1]["logger"], entries[1]["level"]) == ("py.warnings", "warning")
    assert len(entries) == 2


def test_set_up_pretty_replaces_what_was_set_up_before() -> None:
    lines = run("pretty").splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO shown jobs=1", lines[0])
    assert "hidden" not in "".join(lines)


def test_colours_are_for_terminals_whose_user_does_not_refuse_them() -> None:
    assert "\x1b" not in run("pretty", TERM="xterm", NO_COLOR="")
    assert "\x1b[32mINFO" in run_on_terminal()
    assert "\x1b" not in run_on_terminal(NO_COLOR="1")
    assert "\x1b" not in run_on_terminal(TERM="dumb")


def test_a_level_that_does_not_exist_is_refused() -> None:
    program = "from pybatchq import logs; logs.set_up(fmt='json', level='loud')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "ValueError: no such level of logs: loud" in done.stderr
