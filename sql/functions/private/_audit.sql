-- Write down what an operator does, in his own transaction: if that fails, he did nothing. Null
-- values of details were not given. An actor is a claim, so who is connected is kept beside it.
create or replace function batchq._audit(action text, target text, details jsonb)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_audit$
begin
    insert into batchq.audit (at, db_user, actor, action, target, details)
    values (batchq._now(), session_user,
            batchq._actor(), _audit.action, left(_audit.target, 300),
            nullif(jsonb_strip_nulls(_audit.details), '{}'));
end
$_audit$;
