"""Connections: how long to wait for a server, and what makes a new connection worth a try."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from pybatchq.connections import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connector, is_connection_loss


def test_f045_pauses_grow_from_a_moment_to_a_cap_with_jitter() -> None:
    connectors = [Connector("", "w") for _ in range(50)]
    rounds = [[connector.pause() for connector in connectors] for _ in range(40)]
    for number, waits in enumerate(rounds):
        bound = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number)
        assert bound * 0.7 <= min(waits)
        assert max(waits) <= bound
        assert len(set(waits)) > 1


def test_f045_only_a_call_that_worked_makes_the_next_pause_short_again() -> None:
    connector = Connector("", "w")
    for _ in range(10):
        connector.pause()
    assert connector.pause() > LONGEST_PAUSE_S / 2
    connector.worked()
    assert connector.pause() <= FIRST_PAUSE_S


def test_f045_at_most_20_attempts_in_a_minute_of_outage() -> None:
    for _ in range(50):
        connector, waited, attempts = Connector("", "w"), 0.0, 1
        while True:
            waited += connector.pause()
            if waited > 60:
                break
            attempts += 1
        assert attempts <= 20


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
