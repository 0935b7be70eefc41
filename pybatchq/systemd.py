"""Talking to systemd, where a unit of `Type=notify` runs us; see sd_notify(3)."""

from __future__ import annotations

import os
import socket


def notify(*lines: str) -> None:
    """Send lines such as `READY=1`, `STOPPING=1` or `WATCHDOG=1`, in one message.

    Nothing happens where no service manager listens: this never fails and never waits.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # Linux's abstract names
    message = "\n".join(" ".join(line.splitlines()) for line in lines)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(address)
            sender.send(message.encode("utf-8", "replace"))
    except OSError:
        pass  # a manager that does not listen is no reason to stop


def watchdog_interval_s() -> float | None:
    """How often to say `WATCHDOG=1`: half of the unit's WatchdogSec; None if nobody waits for it.

    The variables name a process: what they say is not for the children that inherit them.
    """
    timeout = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "") or str(os.getpid())
    if not timeout.isdecimal() or int(timeout) == 0 or pid != str(os.getpid()):
        return None
    return int(timeout) / 2_000_000
