-- Delete jobs that are over, locked by this transaction, with all that belongs to them. What is cut
-- into segments is reached by job and segment, so that one partition is probed for each.
create or replace function batchq._forget(job_ids bigint[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_forget$
declare
    v_ids bigint[];
    v_segments smallint[];
begin
    with letter as (
        delete from batchq.dead d using unnest(_forget.job_ids) i(id) where d.job_id = i.id
        returning d.job_id, d.segment
    ),
    over as (
        delete from batchq.outcome o using unnest(_forget.job_ids) i(id) where o.job_id = i.id
        returning o.job_id, o.segment
    )
    select array_agg(g.job_id order by g.job_id), array_agg(g.segment order by g.job_id)
    into v_ids, v_segments
    from (select l.* from letter l union all select o.* from over o) g;
    delete from batchq.error e using unnest(v_ids, v_segments) g(id, segment)
    where e.job_id = g.id and e.segment = g.segment;
    delete from batchq.dedupe d using unnest(v_ids) g(id) where d.job_id = g.id;
    delete from batchq.job j using unnest(v_ids, v_segments) g(id, segment)
    where j.id = g.id and j.segment = g.segment;
end
$_forget$;
