-- Forget what was done more than 90 days ago, the oldest first. Returns how many rows.
create or replace function batchq._drop_audit(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $_drop_audit$
declare
    v_dropped bigint;
begin
    with oldest as materialized (
        select a.audit_id, a.at
        from batchq.audit a
        order by a.audit_id
        limit _drop_audit.n
        for update skip locked
    )
    delete from batchq.audit a
    using oldest o
    where a.audit_id = o.audit_id and o.at < batchq._now() - interval '2160 hours';
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_audit$;
