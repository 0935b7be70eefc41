"""Settings, read from environment variables. An empty variable is an unset one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

# The database's own; a queue may have another, so it is not sent unless it was set.
DEFAULT_LEASE_S = 60

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SWITCH = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class SettingsError(Exception):
    """A setting makes no sense; the text names the variable, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process was told. Names ending in `_s` are seconds.

    A command-line option that stands for a variable is best laid over the environment:
    `Settings.from_env({**os.environ, "BATCHQ_QUEUES": option})` checks both alike.
    """

    database_url: str | None
    queues: tuple[str, ...]
    concurrency: int
    handlers: tuple[str, ...]
    lease_s: float | None
    reap_every_s: float
    poll_s: float
    doorbell: bool
    lease_timeout_s: float
    grace_s: float
    data: Path | None

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """SettingsError for the first variable that makes no sense. Touches no database."""
        env = _Environment(environ)
        lease_s = env.duration("BATCHQ_LEASE", 0, least=1, most=86_400) or None
        return cls(
            database_url=env.url("DATABASE_URL"),
            queues=env.names("BATCHQ_QUEUES") or ("default",),
            concurrency=env.integer("BATCHQ_CONCURRENCY", 10, least=1, most=10_000),
            handlers=env.modules("BATCHQ_HANDLERS"),
            lease_s=lease_s,
            reap_every_s=env.duration(
                "BATCHQ_REAP_EVERY", min((lease_s or DEFAULT_LEASE_S) / 4, 5), least=0.1, most=3600
            ),
            poll_s=env.duration("BATCHQ_POLL", 1, least=0.01, most=3600),
            doorbell=env.switch("BATCHQ_DOORBELL", default=True),
            lease_timeout_s=env.duration("BATCHQ_LEASE_TIMEOUT", 3, least=0.1, most=600),
            grace_s=env.duration("BATCHQ_GRACE", 30, least=0, most=86_400),
            data=env.path("BATCHQ_DATA"),
        )

    def require_database_url(self) -> str:
        """The server's address; SettingsError when there is none."""
        if self.database_url is None:
            raise SettingsError("DATABASE_URL is not set; it names the PostgreSQL server to use")
        return self.database_url


def parse_duration(text: str) -> float | None:
    """Seconds of `60`, `60s`, `500ms`, `2m` or `1h`; None for anything else."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNIT_S[match[2] or "s"]


@dataclass(frozen=True, slots=True)
class _Environment:
    variables: Mapping[str, str]

    def text(self, name: str) -> str | None:
        return self.variables.get(name, "").strip() or None

    def duration(self, name: str, default: float, *, least: float, most: float) -> float:
        text = self.text(name)
        if text is None:
            return default
        seconds = parse_duration(text)
        if seconds is None or not least <= seconds <= most:
            allowed = f"{_written(least)} to {_written(most)}, written like 60, 60s, 500ms or 2m"
            raise _error(name, text, allowed)
        return seconds

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise _error(name, text, f"a whole number from {least} to {most}")
        return int(text)

    def switch(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _SWITCH:
            raise _error(name, text, "on or off")
        return _SWITCH[text.lower()]

    def names(self, name: str) -> tuple[str, ...]:
        """Comma-separated, in order of preference."""
        text = self.text(name)
        if text is None:
            return ()
        names = tuple(part.strip() for part in text.split(","))
        if not all(names) or len(set(names)) < len(names):
            raise _error(name, text, "different names separated by commas")
        return names

    def modules(self, name: str) -> tuple[str, ...]:
        names = self.names(name)
        if not all(_MODULE.fullmatch(module) for module in names):
            raise _error(name, self.variables[name], "importable modules separated by commas")
        return names

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return None if text is None else Path(text).expanduser()

    def url(self, name: str) -> str | None:
        text = self.text(name)
        if text is not None:
            try:
                conninfo_to_dict(text)
            except psycopg.ProgrammingError:
                # neither the value nor libpq's complaint about it: both can hold a password
                message = f"{name} is no connection string (not shown here: it may hold a password)"
                allowed = "postgresql://user@host:port/database or host=… dbname=…"
                raise SettingsError(f"{message}; allowed: {allowed}") from None
        return text


def _error(name: str, value: str, allowed: str) -> SettingsError:
    return SettingsError(f"{name} is {value!r}; allowed: {allowed}")


def _written(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"
