"""`batchq throughput`, and the rates beside depths."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.console import batchq, done, records
from tests.support.terminal import terminal

SEED = """
    select batchq.enqueue('k', queue => 'mail') from generate_series(1, 3);
    insert into batchq.tally_total (queue, kind) values ('mail', 'k');
    update batchq.tally set tallied_at = clock_timestamp();
    insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped,
                               retried, dead_letters, waited, span, queue, kind, waits, runs)
    select batchq._minute(clock_timestamp()) - m * interval '1 minute', 1, 1, 60, 120, 0, 1, 1, 2,
           0, 120, 1, q.queue, '', array(select case when i > 8 then 120 else 0 end
                                      from generate_series(1, 28) i), array_fill(120, array[28])
    from (values ('mail'), ('')) q(queue), generate_series(1, 2) m
"""


@pytest.fixture
def seeded(db: str) -> str:
    with psycopg.connect(db, autocommit=True) as conn:
        for statement in SEED.split(";"):
            conn.execute(statement.encode())
    return db


def test_stats_tell_rates_and_the_time_to_drain(seeded: str) -> None:
    (mail,) = records(done("stats", "mail", "--json", dsn=seeded))
    assert (mail["enqueued_per_s"], mail["ended_per_s"], mail["drain_s"]) == (1, 2, 3)
    (mail,) = records(done("queues", "--json", dsn=seeded))
    assert mail["ended_per_s"] == 2


@pytest.mark.parametrize("words", [("mail",), (), ("mail", "--step", "1m", "--since", "30m")])
def test_throughput_as_json_has_every_minute(seeded: str, words: tuple[str, ...]) -> None:
    points = records(done("throughput", *words, "--json", dsn=seeded))
    assert len(points) == (30 if "30m" in words else 60)
    assert [point["completed"] for point in points[-3:]] == [0, 120, 120]
    assert 0.128 < points[-1]["wait_p50"] <= 0.256
    assert points[0]["wait_p50"] is None


def test_throughput_in_a_pipe_is_fields_and_says_where_there_is_nothing(seeded: str) -> None:
    head, *lines = batchq("throughput", "mail", "--since", "5m", dsn=seeded).stdout.splitlines()
    assert head.split("\t")[:3] == ["at", "enqueued", "completed"]
    assert len(lines) == 5
    nothing = batchq("throughput", "mail", "--kind", "none", dsn=seeded)
    assert "nothing happened" in nothing.stderr


@pytest.mark.parametrize("words", [("none",), ("--since", "8d"), ("--step", "90s")])
def test_what_cannot_be_shown_is_said(seeded: str, words: tuple[str, ...]) -> None:
    refused = batchq("throughput", *words, dsn=seeded)
    assert refused.exit_code == (1 if words == ("none",) else 2)
    assert "JQ00" in refused.stderr


def shown(*words: str, dsn: str, columns: int) -> str:
    with terminal(*words, dsn=dsn, columns=columns) as screen:
        assert screen.ended() == 0, screen.text
        return screen.text


def test_rates_are_shown_where_there_is_room(seeded: str) -> None:
    header, line, *_ = shown("stats", "mail", dsn=seeded, columns=100).splitlines()
    assert header.split()[-2:] == ["IN/S", "OUT/S"]
    assert line.split()[-2:] == ["1", "2"]
    assert "OUT/S" not in shown("stats", "mail", dsn=seeded, columns=80)


def test_throughput_is_a_table_of_about_thirty_lines_with_bars(seeded: str) -> None:
    text = shown("throughput", "mail", dsn=seeded, columns=100)
    header, *lines = [line for line in text.splitlines() if line.strip()]
    assert header.split()[:4] == ["FROM", "IN", "DONE", "FAILED"]
    assert len(lines) in {30, 31}
    assert "█" in text
    assert "<1ms" in text
