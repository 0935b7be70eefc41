"""Settings, read from environment variables. An empty variable is an unset one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pybatchq.addresses import HostRule, parse_rules

# The database's own; a queue may have another, so it is not sent unless it was set.
DEFAULT_LEASE_S = 60

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h)?")
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SWITCH = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
_SIZE = re.compile(r"([0-9]{1,12})\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_UNIT_BYTES = {"b": 1, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_LEVELS = ("debug", "info", "warning", "error")
_WEIGHT = re.compile(r"(.*\S)\s*=\s*([0-9]{1,6}(?:\.[0-9]{1,6})?)")
_ORIGIN = re.compile(r"https?://[^\s/?#@,*]+")
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
    listen_url: str | None
    prepare: bool | None
    name: str | None
    queues: tuple[str, ...] | Mapping[str, float]
    concurrency: int
    prefetch_s: float
    processes: int
    process_slots: int | None
    jobs_per_process: int
    handlers: tuple[str, ...]
    lease_s: float | None
    reap_every_s: float
    poll_s: float
    doorbell: bool
    lease_timeout_s: float
    grace_s: float
    health_port: int | None
    health_host: str
    log_format: Literal["pretty", "json"]
    log_level: str
    builtin: bool
    data: Path | None
    http_get_allow: tuple[HostRule, ...]
    http_get_deny: tuple[HostRule, ...]
    host: str
    port: int
    pool_max: int
    max_body: int
    max_bulk_body: int
    max_bulk: int
    tls_cert: Path | None
    tls_key: Path | None
    cors_origins: tuple[str, ...]
    open: bool
    read_only: bool
    access_log: bool

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """SettingsError for the first variable that makes no sense. Touches no database."""
        env = _Environment(environ)
        lease_s = env.duration("BATCHQ_LEASE", 0, least=1, most=86_400) or None
        return cls(
            database_url=env.url("DATABASE_URL"),
            listen_url=env.url("BATCHQ_LISTEN_URL"),
            prepare=None if env.text("BATCHQ_PREPARE") is None else env.switch("BATCHQ_PREPARE"),
            name=env.text("BATCHQ_NAME"),
            queues=env.weights("BATCHQ_QUEUES") or env.names("BATCHQ_QUEUES") or ("default",),
            concurrency=env.integer("BATCHQ_CONCURRENCY", 10, least=1, most=10_000),
            prefetch_s=env.duration("BATCHQ_PREFETCH", 0.02, least=0, most=10),
            processes=env.integer("BATCHQ_PROCESSES", 1, least=1, most=1_000),
            process_slots=env.integer("BATCHQ_PROCESS_SLOTS", 0, least=1, most=1_000) or None,
            jobs_per_process=env.integer(
                "BATCHQ_JOBS_PER_PROCESS", 1_000, least=1, most=1_000_000_000
            ),
            handlers=env.modules("BATCHQ_HANDLERS"),
            lease_s=lease_s,
            reap_every_s=env.duration(
                "BATCHQ_REAP_EVERY", min((lease_s or DEFAULT_LEASE_S) / 4, 5), least=0.1, most=3600
            ),
            poll_s=env.duration("BATCHQ_POLL", 1, least=0.01, most=3600),
            doorbell=env.switch("BATCHQ_DOORBELL", default=True),
            lease_timeout_s=env.duration("BATCHQ_LEASE_TIMEOUT", 3, least=0.1, most=600),
            grace_s=env.duration("BATCHQ_GRACE", 30, least=0, most=86_400),
            health_port=env.port("BATCHQ_HEALTH_PORT"),
            health_host=env.text("BATCHQ_HEALTH_HOST") or "127.0.0.1",
            log_format=env.log_format("BATCHQ_LOG_FORMAT"),
            log_level=env.log_level("BATCHQ_LOG_LEVEL"),
            builtin=env.switch("BATCHQ_BUILTIN", default=True),
            data=env.path("BATCHQ_DATA"),
            http_get_allow=env.hosts("BATCHQ_HTTP_GET_ALLOW"),
            http_get_deny=env.hosts("BATCHQ_HTTP_GET_DENY"),
            host=env.text("BATCHQ_HOST") or "127.0.0.1",
            port=env.integer("BATCHQ_PORT", 8080, least=0, most=65_535),
            pool_max=env.integer("BATCHQ_POOL_MAX", 10, least=1, most=1_000),
            max_body=env.size("BATCHQ_MAX_BODY", 1024**2, most=1024**3),
            max_bulk_body=env.size("BATCHQ_MAX_BULK_BODY", 32 * 1024**2, most=1024**3),
            max_bulk=env.integer("BATCHQ_MAX_BULK", 10_000, least=1, most=100_000),
            tls_cert=env.path("BATCHQ_TLS_CERT"),
            tls_key=env.path("BATCHQ_TLS_KEY"),
            cors_origins=env.origins("BATCHQ_CORS_ORIGINS"),
            open=env.switch("BATCHQ_OPEN"),
            read_only=env.switch("BATCHQ_READ_ONLY"),
            access_log=env.switch("BATCHQ_ACCESS_LOG", default=True),
        )


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

    def size(self, name: str, default: int, *, most: int) -> int:
        """Bytes of `1048576`, `512KiB` or `1MiB`."""
        text = self.text(name)
        if text is None:
            return default
        match = _SIZE.fullmatch(text)
        size = 0 if match is None else int(match[1]) * _UNIT_BYTES[(match[2] or "B").lower()]
        if not 1024 <= size <= most:
            raise _error(name, text, f"1KiB to {most // 1024**2}MiB, written like 65536 or 1MiB")
        return size

    def origins(self, name: str) -> tuple[str, ...]:
        """Origins of pages, each exactly as a browser sends it."""
        names = self.names(name)
        if not all(_ORIGIN.fullmatch(origin) for origin in names):
            allowed = "origins separated by commas, like https://app.example, without a path"
            raise _error(name, self.variables[name], allowed)
        return names

    def port(self, name: str) -> int | None:
        return None if self.text(name) is None else self.integer(name, 0, least=0, most=65_535)

    def log_format(self, name: str) -> Literal["pretty", "json"]:
        match (self.text(name) or "pretty").lower():
            case "pretty":
                return "pretty"
            case "json":
                return "json"
            case text:
                raise _error(name, text, "pretty or json")

    def log_level(self, name: str) -> str:
        level = (self.text(name) or "info").lower()
        if level not in _LEVELS:
            raise _error(name, level, ", ".join(_LEVELS))
        return level

    def switch(self, name: str, *, default: bool = False) -> bool:
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

    def weights(self, name: str) -> dict[str, float]:
        """Names with weights, `high=3,low=1`; empty if none has one."""
        names = self.names(name)
        if not any("=" in part for part in names):
            return {}
        found = [_WEIGHT.fullmatch(part) for part in names]
        weights = {match[1]: float(match[2]) for match in found if match is not None}
        if len(weights) < len(names) or min(weights.values()) <= 0:
            allowed = (
                "names in order of preference, or all with a number over 0 as weight: high=3,low=1"
            )
            raise _error(name, self.variables[name], allowed)
        return weights

    def modules(self, name: str) -> tuple[str, ...]:
        names = self.names(name)
        if not all(_MODULE.fullmatch(module) for module in names):
            raise _error(name, self.variables[name], "importable modules separated by commas")
        return names

    def hosts(self, name: str) -> tuple[HostRule, ...]:
        text = self.text(name)
        try:
            return () if text is None else parse_rules(text)
        except ValueError:
            allowed = (
                "names, addresses or networks separated by commas, each with a :port if wanted"
            )
            raise _error(name, self.variables[name], allowed) from None

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
