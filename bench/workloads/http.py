"""The HTTP API under 1,000 clients: accepted, drained, in a burst, by two processes, and reading.

Every load checks that all answers are 2xx and that the ids its clients were given are those that
are stored, no more, no fewer, none twice. Where a worker drains, its handler keeps a file of its
own, in which each of these jobs has to have ended once.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import psycopg

from bench.drivers.command import Command
from bench.drivers.kinds import LEDGER_VARIABLE
from bench.support import fill, http, wrk
from bench.support.context import SETTINGS, Bench, Builder
from bench.support.model import BenchError, Case, Contestant, NotRunError, Sample, Target
from bench.support.query import number
from bench.workloads import http_reads
from pybatchq.embedded import Server

JOB = '{"kind":"noop","payload":{"n":1}}'
LEDGER_JOB = '{"kind":"ledger","payload":{"s":0}}'
API = "batchq api"
TWO = "batchq api --processes 2"
WRK = "batchq api, by wrk"
PEER = "one INSERT a request (reconstruction)"
BARE = "aiohttp, nothing stored"
DRAINED = "batchq api and a worker"
CONCURRENCY = 500
PEER_STORED = "copy (select id from one_table.job) to stdout"
FEW = 100
DRAIN_TIMEOUT_S = 120.0
LOOK_EVERY_S = 0.01
SESSIONS = "select count(*) from pg_stat_activity a where a.backend_type = 'client backend'"
TOO_MANY = ("too many clients", "remaining connection slots")
BURST_MS = 1_000 / 1.8
"""A burst of 1,000 at 1,800/s."""


def cases(bench: Bench) -> Iterator[Case]:
    """Reading comes last: filling its database takes a while."""
    yield _closed_loop(bench)
    yield _drained(bench)
    yield _bursts(bench)
    yield _few_connections(bench)
    yield from http_reads.cases(bench)


def _closed_loop(bench: Bench) -> Case:
    scale = bench.scale
    return Case(
        title=f"POST /jobs, {scale.http_clients:,} keep-alive clients, {scale.http_s:g} s",
        unit="accepted/s",
        contestants=[
            Contestant(API, _load(bench, http.API, http.STORED)),
            Contestant(TWO, _load(bench, (*http.API, "--processes", "2"), http.STORED)),
            Contestant(WRK, lambda: _by_wrk(bench)),
            Contestant(
                PEER,
                _load(bench, (http.PEER, "insert"), PEER_STORED, fill.install_one_table),
            ),
            Contestant(
                BARE, _load(bench, (http.PEER, "nothing"), None, fill.install_nothing), once=True
            ),
        ],
        targets=[
            Target(API, ">=", 10_000),
            Target(API, "<=", 200, figure="p99"),
            Target(API, ">=", 4, rival=PEER),
            Target(TWO, ">=", 1_800),
            Target(TWO, ">=", None, rival=API),
            Target(API, ">=", None, rival=BARE),
        ],
        rounds=3,
    )


def _load(
    bench: Bench, command: tuple[str, ...], stored: str | None, build: Builder = fill.install_batchq
) -> Callable[[], Sample]:
    """stored: the query whose ids have to be the clients'; None: nothing is stored."""
    options = {"connections": bench.scale.http_clients, "seconds": bench.scale.http_s, "body": JOB}

    def run() -> Sample:
        with (
            bench.database(build.__name__, build) as dsn,
            http.id_file() as file,
            bench.meter(dsn) as meter,
        ):
            with http.Served(dsn, command) as server:
                before_s = server.cpu_s()
                answer = http.run(server.port, ids=str(file), **options)
                spent_s = server.cpu_s() - before_s
                server.stop()
            if stored is not None:
                http.expect_stored(dsn, http.accepted(file), stored)
        jobs = answer["answers"]
        details = {
            **http.latencies(answer),
            "server's cpu µs": spent_s * 1e6 / jobs,
            "client's cpu µs": answer["cpu_s"] * 1e6 / jobs,
        }
        return Sample(jobs / answer["seconds"], details, meter.cost(jobs))

    return run


def _by_wrk(bench: Bench) -> Sample:
    """The same by a client that is not ours. It stops in the middle, and keeps no ids."""
    program = shutil.which("wrk")
    if program is None:
        raise NotRunError("wrk is not installed: apt-get install wrk")
    with bench.database("batchq", fill.install_batchq) as dsn:
        with http.Served(dsn, http.API) as server:
            found = wrk.run(
                program, f"http://{http.HOST}:{server.port}/jobs",
                connections=bench.scale.http_clients, seconds=bench.scale.http_s, body=JOB,
            )  # fmt: skip
            server.stop()
        with psycopg.connect(dsn) as conn:
            stored = number(conn, "select count(*) from batchq.jobs")
    if not found.answers <= stored <= found.answers + bench.scale.http_clients:
        raise BenchError(f"wrk had {found.answers} answers, and {stored} jobs are stored")
    return Sample(found.rate, {"p50": found.p50_ms, "p99": found.p99_ms, "max": found.max_ms})


def _drained(bench: Bench) -> Case:
    scale = bench.scale
    return Case(
        title=f"the same while `batchq worker` drains, {scale.http_s:g} s, until none is left",
        unit="completed/s",
        contestants=[Contestant(DRAINED, lambda: _drain(bench))],
        targets=[Target(DRAINED, ">=", 4_000), Target(DRAINED, "<=", None, figure="p99")],
        rounds=3,
    )


def _drain(bench: Bench) -> Sample:
    options = {"connections": bench.scale.http_clients, "seconds": bench.scale.http_s}
    with (
        bench.database("batchq", fill.install_batchq) as dsn,
        http.id_file() as file,
        tempfile.NamedTemporaryFile(prefix="bench-ledger-") as ledger,
        http.Served(dsn, http.API) as server,
        Command(dsn, {LEDGER_VARIABLE: ledger.name}, concurrency=CONCURRENCY) as worker,
        http.Load(server.port, ids=str(file), body=LEDGER_JOB, **options) as load,
    ):
        worker.await_registered()
        began = time.monotonic()
        accepting_s = load.go()
        _await_dry(dsn)
        seconds = time.monotonic() - began
        answer = load.answer()
        worker.stop()
        ids = http.accepted(file)
        http.expect_stored(dsn, ids)
        fill.expect_completed(dsn, len(ids))
        _expect_once(Path(ledger.name), ids)
    details = {
        "accepted/s": answer["answers"] / accepting_s,
        "s until dry": seconds - accepting_s,
        **http.latencies(answer),
    }
    return Sample(len(ids) / seconds, details)


def _await_dry(dsn: str) -> None:
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    with psycopg.connect(dsn, autocommit=True) as conn:
        while left := number(conn, fill.LEFT):
            if time.monotonic() > deadline:
                raise BenchError(f"{left} jobs were not run")
            time.sleep(LOOK_EVERY_S)


def _expect_once(ledger: Path, ids: set[int]) -> None:
    """By the handlers' own file each of the jobs came to its end, once."""
    lines = (line.split() for line in ledger.read_text().splitlines())
    ended = Counter(int(job_id) for event, job_id in lines if event == "end")
    twice = sum(times > 1 for times in ended.values())
    if twice or ended.keys() != ids:
        raise BenchError(f"{twice} jobs ran twice, {len(ids - ended.keys())} never")


def _bursts(bench: Bench) -> Case:
    clients = bench.scale.http_clients
    limit = BURST_MS * clients / 1_000
    names = {"connected before": False, "connecting as well": True}
    return Case(
        title=f"one burst of {clients:,} requests on as many connections",
        unit="ms until all are accepted, median",
        contestants=[Contestant(name, _burst(bench, late)) for name, late in names.items()],
        targets=[
            *(Target(name, "<=", limit) for name in names),
            *(Target(name, "<=", limit, figure="first") for name in names),
        ],
        rounds=3,
    )


def _burst(bench: Bench, connect_late: bool) -> Callable[[], Sample]:
    """The first burst meets a server that has just started."""
    options = {"connections": bench.scale.http_clients, "connect_late": connect_late, "body": JOB}

    def run() -> Sample:
        took_ms: list[float] = []
        ids: set[int] = set()
        with (
            bench.database("batchq", fill.install_batchq) as dsn,
            http.id_file() as file,
            http.Served(dsn, http.API) as server,
        ):
            for _ in range(bench.scale.bursts):
                answer = http.run(server.port, ids=str(file), **options)
                took_ms.append(answer["seconds"] * 1e3)
                ids |= http.accepted(file)
            http.expect_stored(dsn, ids)
        if len(ids) != bench.scale.bursts * bench.scale.http_clients:
            raise BenchError(f"{len(ids)} different ids in {bench.scale.bursts} bursts")
        return Sample(median(took_ms), {"first": took_ms[0], "worst": max(took_ms)})

    return run


def _few_connections(bench: Bench) -> Case:
    scale = bench.scale
    return Case(
        title=f"{scale.http_clients:,} clients, max_connections = {FEW}, 2 API processes, a worker",
        unit="accepted/s",
        contestants=[Contestant(API, lambda: _few(bench))],
        targets=[Target(API, ">=", 1_800), Target(API, "<=", 0, figure="too many clients")],
        rounds=1,
    )


def _few(bench: Bench) -> Sample:
    """Refusals are counted in the log of a server of this case's own."""
    options = {"connections": bench.scale.http_clients, "seconds": bench.scale.http_s, "body": JOB}
    settings = {**SETTINGS, "max_connections": FEW, "logging_collector": "off"}
    with tempfile.TemporaryDirectory(prefix="batchq-bench-") as folder:
        own = Server(Path(folder) / "s", bin_dir=bench.server.bin_dir, settings=settings,
                     delete=True)  # fmt: skip
        with own, http.id_file() as file:
            dsn = own.create_database("few")
            fill.install_batchq(dsn)
            with (
                http.Served(dsn, (*http.API, "--processes", "2")) as server,
                Command(dsn, concurrency=CONCURRENCY) as worker,
                _Sessions(dsn) as sessions,
            ):
                worker.await_registered()
                answer = http.run(server.port, ids=str(file), **options)
            http.expect_stored(dsn, http.accepted(file))
            log = own.log.read_text(errors="replace")
    details = {
        "too many clients": float(sum(log.count(words) for words in TOO_MANY)),
        "sessions at most": sessions.most,
        **http.latencies(answer),
    }
    return Sample(answer["answers"] / answer["seconds"], details)


class _Sessions:
    """Looks now and then how many sessions there are, itself not counted."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.most = 0

    def __enter__(self) -> _Sessions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            while not self._end.wait(0.1):
                self.most = max(self.most, number(conn, SESSIONS) - 1)
