"""The parts of http_get that send nothing: waits, and the threads that look names up."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
import threading
from typing import Any

import pytest

from pybatchq.builtin.http_get import BACKOFF_CAP_S, backoff_s, look_up, retry_after_s


def test_a33_retry_after_is_read_in_both_forms() -> None:
    now = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    good = {
        "7": 7, " 7 ": 7, "Fri, 02 Jan 2026 03:04:15 GMT": 10,
        "Fri, 02 Jan 2026 05:04:15 +0200": 10, "Fri, 02 Jan 2026 03:04:15 -0000": 10,
    }  # fmt: skip
    assert {text: retry_after_s(text, now) for text in good} == good
    bad = ["", "1.5", "-7", "٣", "1e3", "soon", "Fri, 99 Jan 2026 03:04:15 GMT", "\udcff", "," * 99]
    assert {retry_after_s(text, now) for text in bad} == {0.0}
    assert retry_after_s("9" * 5000, now) > BACKOFF_CAP_S


def test_a33_retry_after_does_not_stop_the_backoff_from_growing() -> None:
    drawn = {attempt: [backoff_s(attempt, 1) for _ in range(300)] for attempt in (1, 5, 40, 10**6)}
    assert min(min(waits) for waits in drawn.values()) >= 1
    assert 1 < max(drawn[1]) <= 10
    assert 100 < max(drawn[5]) <= 160
    assert max(drawn[10**6]) <= BACKOFF_CAP_S
    assert max(drawn[40]) > BACKOFF_CAP_S / 2
    assert backoff_s(1, 100) == 100
    assert backoff_s(1, float("inf")) == BACKOFF_CAP_S


async def test_a33_a_silent_name_server_keeps_no_thread_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()

    def silent(*_arguments: Any, **_options: Any) -> list[Any]:
        answer.wait(30)
        return [(socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 80, 0, 2))]

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(look_up("silent.invalid", 80)) for _ in range(64)]
        try:
            async with asyncio.timeout(10):
                assert await asyncio.to_thread(int) == 0
            asked.pop().cancel()  # one that waits for a thread
        finally:
            answer.set()
    assert {str(address) for one in asked for address in one.result()} == {"fe80::1"}
