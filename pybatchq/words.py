"""Words for people: lengths of time, counts, and texts that may hold anything."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

# Control characters, and those that break lines or reorder the text around them.
_OTHERS = r"\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_UNSAFE = re.compile(rf"[\x00-\x1f{_OTHERS}]")
_UNSAFE_IN_LINES = re.compile(rf"[\x00-\x09\x0b-\x1f{_OTHERS}]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with `\u001b` for an escape character and so on; `lines` keeps line ends.

    Written like JSON's escapes: JSON stays the same JSON.
    """
    unsafe = _UNSAFE_IN_LINES if lines else _UNSAFE
    return unsafe.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def first_line(text: str) -> str:
    """The first line that has anything in it."""
    first, *_ = text.strip().splitlines() or [""]
    return " ".join(first.split())


def counted(n: int, noun: str) -> str:
    """`1 job`, `2,000 jobs`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def span(length: timedelta) -> str:
    """`850ms`, `3m 12s`, `2h 5m`, `4d 1h`: the two largest units."""
    seconds = max(length.total_seconds(), 0)
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    for unit, size, lower, lower_size in (
        ("d", 86_400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1),
    ):  # fmt: skip
        if seconds >= size:
            rest = int(seconds % size // lower_size)
            return f"{int(seconds // size)}{unit}" + (f" {rest}{lower}" if rest else "")
    return f"{int(seconds)}s"


def age(since: datetime, now: datetime) -> str:
    """How long ago, in whole seconds; a time to come is now."""
    return span(timedelta(seconds=max(int((now - since).total_seconds()), 0)))


def iso(at: datetime) -> str:
    try:
        at = at.astimezone(UTC)
    except OverflowError:
        at = at.replace(tzinfo=UTC)
    return at.isoformat().replace("+00:00", "Z")


def per_second(rate: float | None) -> str:
    """`0`, `0.02`, `3.4`, `1,200`; a dash where it is not known."""
    if rate is None:
        return "-"
    if rate >= 100 or rate == 0:
        return f"{rate:,.0f}"
    return f"{rate:.2g}" if rate < 10 else f"{rate:.1f}"
