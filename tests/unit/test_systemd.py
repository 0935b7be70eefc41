"""Notifications, with a real socket in systemd's place."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybatchq import systemd


@contextlib.contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(10)
        manager.bind(address)
        yield manager


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the manager listens."""
    name = str(tmp_path / "s")
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    return name


def test_lines_arrive_as_one_message(path: str) -> None:
    with listening(path) as manager:
        systemd.notify("READY=1", "STATUS=works ä")
        assert manager.recv(1000) == "READY=1\nSTATUS=works ä".encode()
        systemd.notify("WATCHDOG=1")
        assert manager.recv(1000) == b"WATCHDOG=1"


def test_a_line_cannot_smuggle_in_another(path: str) -> None:
    with listening(path) as manager:
        systemd.notify("STATUS=a\nSTOPPING=1\udce5")
        assert manager.recv(1000) == b"STATUS=a STOPPING=1?"


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
def test_abstract_sockets_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"batchq-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
    with listening("\0" + name) as manager:
        systemd.notify("READY=1")
        assert manager.recv(1000) == b"READY=1"


@pytest.mark.parametrize("address", [None, "", "vsock:2:1", "relative", "/no/such/socket", "@no"])
def test_where_nobody_listens_nothing_happens(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    systemd.notify("READY=1")


def test_a_manager_that_does_not_read_is_not_waited_for(path: str) -> None:
    with listening(path) as manager:
        for _ in range(10_000):  # more than any queue of a socket holds
            systemd.notify("WATCHDOG=1")
        assert manager.recv(1000) == b"WATCHDOG=1"


@pytest.mark.parametrize(
    ("timeout", "pid", "interval_s"),
    [
        ("30000000", None, 15.0),
        ("500000", "own", 0.25),
        ("30000000", "1", None),
        ("30000000", "x", None),
        ("0", None, None),
        ("-5", None, None),
        ("soon", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time_by_the_process_it_names(
    timeout: str | None,
    pid: str | None,
    interval_s: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"WATCHDOG_USEC": timeout, "WATCHDOG_PID": str(os.getpid()) if pid == "own" else pid}
    for name, value in given.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert systemd.watchdog_interval_s() == interval_s
