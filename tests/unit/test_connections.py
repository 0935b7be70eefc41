"""Connections: how long to wait for a server, and what makes a new connection worth a try."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from pybatchq.connections import FIRST_PAUSE_S, LONG_PAUSE_S, Pauses, is_connection_loss


def test_f045_pauses_grow_from_a_moment_to_a_cap_with_jitter() -> None:
    several = [Pauses() for _ in range(50)]
    bound = 0.0
    for _ in range(40):
        waits = [pauses.next_s() for pauses in several]
        assert min(waits) >= bound * 0.8
        assert len(set(waits)) > 1
        bound = max(waits)
    assert 0.9 * LONG_PAUSE_S < bound <= LONG_PAUSE_S


def test_f031_within_20_s_of_an_outage_a_pause_is_at_most_2_s() -> None:
    for _ in range(50):
        pauses, waited = Pauses(), 0.0
        while waited < 19:
            pause = pauses.next_s()
            assert pause <= 2
            waited += pause


def test_f045_at_most_20_attempts_in_a_minute_of_outage() -> None:
    for _ in range(200):
        pauses, waited, attempts = Pauses(), 0.0, 1
        while (waited := waited + pauses.next_s()) <= 60:
            attempts += 1
        assert attempts <= 20


def test_f045_only_a_call_that_worked_makes_the_next_pause_short_again() -> None:
    pauses = Pauses()
    for _ in range(10):
        pauses.next_s()
    assert pauses.next_s() > 1
    pauses.worked()
    assert pauses.next_s() <= FIRST_PAUSE_S


@pytest.mark.parametrize(
    "error",
    [
        psycopg.OperationalError("server closed the connection"),
        psycopg.InterfaceError("the connection is closed"),
        errors.AdminShutdown("terminated"),
        errors.ReadOnlySqlTransaction("read only"),
        errors.FeatureNotSupported("cached plan must not change result type"),
        TimeoutError(),
    ],
)
def test_f043_f073_where_a_new_connection_may_help(error: BaseException) -> None:
    assert is_connection_loss(error)


@pytest.mark.parametrize(
    "error",
    [
        errors.RaiseException("a trigger"),
        errors.UniqueViolation("x"),
        errors.StatementTooComplex("stack depth limit exceeded"),
        errors.ProgramLimitExceeded("index row size"),
        errors.NumericValueOutOfRange("x"),
        ValueError("x"),
    ],
)
def test_f047_what_the_database_refuses_for_good_is_no_lost_connection(
    error: BaseException,
) -> None:
    assert not is_connection_loss(error)
