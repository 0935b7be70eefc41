-- Forget rollups that are more than 7 days old, at most n of them. Returns how many.
create or replace function batchq._drop_rollups(n integer)
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
as $_drop_rollups$
declare
    v_before constant timestamptz := batchq._now() - interval '168 hours';
    v_dropped bigint;
begin
    with old as materialized (
        select o.place
        from (select t.queue, t.kind from batchq.tally_total t
              union select t.queue, '' from batchq.tally_total t) t
        cross join (values (1), (60)) as v(span)
        cross join lateral (
            select m.ctid as place from batchq.rollup m
            where m.queue = t.queue and m.kind = t.kind and m.span = v.span and m.at < v_before
            order by m.at
            limit _drop_rollups.n
            for update skip locked) o
        limit _drop_rollups.n
    )
    delete from batchq.rollup m using old o where m.ctid = o.place;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_rollups$;
