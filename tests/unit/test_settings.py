"""Settings: what each variable takes, and what its error says."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from pybatchq.addresses import HostRule
from pybatchq.settings import Settings, SettingsError, parse_duration

ORIGINS = "origins separated by commas, like https://app.example, without a path"
HOSTS = "names, addresses or networks separated by commas, each with a :port if wanted"


def test_without_any_variable_the_defaults_hold() -> None:
    assert Settings.from_env({}) == Settings(
        database_url=None,
        listen_url=None,
        prepare=None,
        name=None,
        queues=("default",),
        concurrency=10,
        prefetch_s=0.02,
        processes=1,
        process_slots=None,
        jobs_per_process=1000,
        handlers=(),
        lease_s=None,
        reap_every_s=5,
        poll_s=1,
        doorbell=True,
        lease_timeout_s=3,
        grace_s=30,
        health_port=None,
        health_host="127.0.0.1",
        log_format="pretty",
        log_level="info",
        builtin=True,
        data=None,
        http_get_allow=(),
        http_get_deny=(),
        host="127.0.0.1",
        port=8080,
        pool_max=10,
        max_body=1_048_576,
        max_bulk_body=33_554_432,
        max_bulk=10_000,
        tls_cert=None,
        tls_key=None,
        cors_origins=(),
        open=False,
        read_only=False,
        access_log=True,
    )


def test_an_empty_variable_is_an_unset_one() -> None:
    names = ["DATABASE_URL", "BATCHQ_QUEUES", "BATCHQ_CONCURRENCY", "BATCHQ_LEASE", "BATCHQ_DATA"]
    assert Settings.from_env(dict.fromkeys(names, " ")) == Settings.from_env({})


def test_every_variable_is_read() -> None:
    settings = Settings.from_env(
        {
            "DATABASE_URL": "postgresql://me@host/db",
            "BATCHQ_QUEUES": "fast, slow",
            "BATCHQ_CONCURRENCY": "3",
            "BATCHQ_HANDLERS": "my.handlers,other",
            "BATCHQ_LEASE": "2m",
            "BATCHQ_REAP_EVERY": "250ms",
            "BATCHQ_POLL": "0.5s",
            "BATCHQ_DOORBELL": "OFF",
            "BATCHQ_LEASE_TIMEOUT": "5",
            "BATCHQ_GRACE": "0",
            "BATCHQ_LISTEN_URL": "host=direct",
            "BATCHQ_PREPARE": "off",
            "BATCHQ_NAME": "alice",
            "BATCHQ_PREFETCH": "50ms",
            "BATCHQ_PROCESSES": "4",
            "BATCHQ_PROCESS_SLOTS": "2",
            "BATCHQ_JOBS_PER_PROCESS": "10",
            "BATCHQ_HEALTH_PORT": "9000",
            "BATCHQ_HEALTH_HOST": "0.0.0.0",
            "BATCHQ_LOG_FORMAT": "JSON",
            "BATCHQ_LOG_LEVEL": "Debug",
            "BATCHQ_BUILTIN": "no",
            "BATCHQ_DATA": "/somewhere",
            "BATCHQ_HTTP_GET_ALLOW": "10.1.2.0/24, localhost:9000",
            "BATCHQ_HTTP_GET_DENY": "intranet.example",
            "BATCHQ_HOST": "0.0.0.0",
            "BATCHQ_PORT": "9090",
            "BATCHQ_POOL_MAX": "20",
            "BATCHQ_MAX_BODY": "2 KiB",
            "BATCHQ_MAX_BULK_BODY": "64mib",
            "BATCHQ_MAX_BULK": "5",
            "BATCHQ_TLS_CERT": "/cert.pem",
            "BATCHQ_TLS_KEY": "/key.pem",
            "BATCHQ_CORS_ORIGINS": "https://a.example, http://localhost:3000",
            "BATCHQ_OPEN": "on",
            "BATCHQ_READ_ONLY": "on",
            "BATCHQ_ACCESS_LOG": "off",
        }
    )
    assert settings == Settings(
        database_url="postgresql://me@host/db",
        listen_url="host=direct",
        prepare=False,
        name="alice",
        queues=("fast", "slow"),
        concurrency=3,
        prefetch_s=0.05,
        processes=4,
        process_slots=2,
        jobs_per_process=10,
        handlers=("my.handlers", "other"),
        lease_s=120,
        reap_every_s=0.25,
        poll_s=0.5,
        doorbell=False,
        lease_timeout_s=5,
        grace_s=0,
        health_port=9000,
        health_host="0.0.0.0",
        log_format="json",
        log_level="debug",
        builtin=False,
        data=Path("/somewhere"),
        http_get_allow=(HostRule(ip_network("10.1.2.0/24")), HostRule("localhost", 9000)),
        http_get_deny=(HostRule("intranet.example"),),
        host="0.0.0.0",
        port=9090,
        pool_max=20,
        max_body=2048,
        max_bulk_body=67_108_864,
        max_bulk=5,
        tls_cert=Path("/cert.pem"),
        tls_key=Path("/key.pem"),
        cors_origins=("https://a.example", "http://localhost:3000"),
        open=True,
        read_only=True,
        access_log=False,
    )


def test_queues_can_have_weights() -> None:
    settings = Settings.from_env({"BATCHQ_QUEUES": "high = 3, a=b=0.5"})
    assert settings.queues == {"high": 3.0, "a=b": 0.5}


@pytest.mark.parametrize("queues", ["high=3,low", "high=0", "high=3,high=2", "a=x", "a=", "a,b=x"])
def test_weights_are_for_all_queues_or_none(queues: str) -> None:
    with pytest.raises(SettingsError, match="BATCHQ_QUEUES is .*; allowed: names in order"):
        Settings.from_env({"BATCHQ_QUEUES": queues})


@pytest.mark.parametrize(("lease", "reap_every_s"), [("8", 2), ("1h", 5)])
def test_reaping_comes_four_times_a_lease_and_at_least_every_five_seconds(
    lease: str, reap_every_s: float
) -> None:
    assert Settings.from_env({"BATCHQ_LEASE": lease}).reap_every_s == reap_every_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60), ("60s", 60), ("500ms", 0.5), ("2m", 120), ("1 h", 3600), ("1.5", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1d", "1e3", "nan", "1m30s", "9" * 20, "٣"])
def test_what_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("BATCHQ_QUEUES", "a,,b", "different names separated by commas"),
        ("BATCHQ_QUEUES", "a,a", "different names separated by commas"),
        ("BATCHQ_CONCURRENCY", "0", "a whole number from 1 to 10000"),
        ("BATCHQ_CONCURRENCY", "ten", "a whole number from 1 to 10000"),
        ("BATCHQ_HANDLERS", "a/b.py", "importable modules separated by commas"),
        ("BATCHQ_LEASE", "0.5", "1s to 86400s, written like 60, 60s, 500ms or 2m"),
        ("BATCHQ_REAP_EVERY", "0", "100ms to 3600s, written like 60, 60s, 500ms or 2m"),
        ("BATCHQ_POLL", "soon", "10ms to 3600s, written like 60, 60s, 500ms or 2m"),
        ("BATCHQ_DOORBELL", "maybe", "on or off"),
        ("BATCHQ_LEASE_TIMEOUT", "-3", "100ms to 600s, written like 60, 60s, 500ms or 2m"),
        ("BATCHQ_GRACE", "2 days", "0s to 86400s, written like 60, 60s, 500ms or 2m"),
        ("BATCHQ_HTTP_GET_ALLOW", "10.1.2.3/24", HOSTS),
        ("BATCHQ_HTTP_GET_ALLOW", "127.1", HOSTS),
        ("BATCHQ_HTTP_GET_DENY", "a.example,", HOSTS),
        ("BATCHQ_HTTP_GET_DENY", "*.example", HOSTS),
        ("BATCHQ_PORT", "65536", "a whole number from 0 to 65535"),
        ("BATCHQ_POOL_MAX", "0", "a whole number from 1 to 1000"),
        ("BATCHQ_MAX_BODY", "1MB", "1KiB to 1024MiB, written like 65536 or 1MiB"),
        ("BATCHQ_MAX_BODY", "10", "1KiB to 1024MiB, written like 65536 or 1MiB"),
        ("BATCHQ_MAX_BULK_BODY", "2GiB", "1KiB to 1024MiB, written like 65536 or 1MiB"),
        ("BATCHQ_CORS_ORIGINS", "*", ORIGINS),
        ("BATCHQ_CORS_ORIGINS", "https://a.example/", ORIGINS),
        ("BATCHQ_CORS_ORIGINS", "a.example", ORIGINS),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.from_env({name: value})
    assert str(caught.value) == f"{name} is {value!r}; allowed: {allowed}"


def test_a_bad_connection_string_is_not_repeated() -> None:
    with pytest.raises(SettingsError, match="^DATABASE_URL is no connection string") as caught:
        Settings.from_env({"DATABASE_URL": "host=h password='secret"})
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
