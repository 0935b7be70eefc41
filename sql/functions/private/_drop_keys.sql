-- Delete dedupe keys whose time window ended and whose job is over. Returns how many.
create or replace function batchq._drop_keys(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_drop_keys$
declare
    v_dropped bigint;
begin
    with ended as materialized (
        select d.ctid, d.job_id, d.segment
        from batchq.dedupe d
        where d.held_until <= batchq._now()
        order by d.held_until
        limit _drop_keys.n
        for update skip locked
    ),
    kept as (
        update batchq.dedupe d set held_until = null
        from ended e
        where d.ctid = e.ctid and batchq._live_state(e.job_id, e.segment) is not null
    )
    delete from batchq.dedupe d
    using ended e
    where d.ctid = e.ctid and batchq._live_state(e.job_id, e.segment) is null;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_keys$;
