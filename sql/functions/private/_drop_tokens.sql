-- Forget tokens that were revoked more than 30 days ago. Returns how many.
create or replace function batchq._drop_tokens(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_drop_tokens$
declare
    v_dropped bigint;
begin
    with revoked as materialized (
        select t.ctid
        from batchq.token t
        where t.revoked_at < batchq._now() - interval '720 hours'
        limit _drop_tokens.n
        for update skip locked
    )
    delete from batchq.token t using revoked r where t.ctid = r.ctid;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_tokens$;
