"""plpgsql_check has nothing to say about any function of the schema."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.servers import Databases

# message, or function: message → why it is no fault of ours
ALLOWED = {
    "routine is marked as VOLATILE, should be STABLE": "a stable one reads its caller's snapshot",
    "_raise: routine is marked as VOLATILE, should be IMMUTABLE": "planning must not raise",
    'never read variable "v_own_xid"': "declared to have an xid before a pos is drawn",
}

CHECK = """
select p.proname, c.lineno, c.message, c.detail
from pg_catalog.pg_proc p
join pg_catalog.pg_language l on l.oid = p.prolang
left join pg_catalog.pg_trigger t on t.tgfoid = p.oid
cross join lateral pgtap.plpgsql_check_function_tb(
    p.oid::pg_catalog.regprocedure,
    coalesce(t.tgrelid, 0)::pg_catalog.regclass,
    fatal_errors => false, other_warnings => true, extra_warnings => true,
    performance_warnings => true, security_warnings => true, compatibility_warnings => true
) c
where p.pronamespace = 'batchq'::pg_catalog.regnamespace and l.lanname = 'plpgsql'
order by 1, 2, 3
"""


def test_plpgsql_check_is_silent(debian_template: tuple[Databases, str]) -> None:
    databases, template = debian_template
    with databases.fresh(template) as dsn, psycopg.connect(dsn) as conn:
        found = conn.execute("select 1 from pg_extension where extname = 'plpgsql_check'")
        if found.fetchone() is None:
            pytest.skip("needs Debian's package postgresql-15-plpgsql-check")
        rows = conn.execute(CHECK).fetchall()
    messages = [
        f"{name}:{line}: {message} {detail or ''}".rstrip()
        for name, line, message, detail in rows
        if message not in ALLOWED and f"{name}: {message}" not in ALLOWED
    ]
    if messages:
        pytest.fail("\n".join(messages), pytrace=False)
