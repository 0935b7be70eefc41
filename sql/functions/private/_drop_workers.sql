-- Forget worker processes that have not been heard of for a day. Returns how many.
create or replace function batchq._drop_workers(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_drop_workers$
declare
    v_dropped bigint;
begin
    with silent as materialized (
        select w.ctid
        from batchq.worker w
        where w.beat_at < batchq._now() - interval '24 hours'
        limit _drop_workers.n
        for update skip locked
    )
    delete from batchq.worker w using silent s where w.ctid = s.ctid;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_workers$;
