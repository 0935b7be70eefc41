/*
 * Up to 10 jobs that hold what others of a queue wait for: of a group, those that have a seat; with
 * no group_key, those that run with a permit. Looked for among the 10,000 leases that run out first
 * and the next 1,000 ready and scheduled jobs; which group they are in is asked of 2,000 each.
 */
create or replace function batchq._holders(queue text, group_key text)
returns setof batchq.job_state
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_holders$
declare
    v_tie constant smallint := case when group_key is null then 2 else 8 end::smallint;
    v_from constant timestamptz := batchq._instant(batchq._hard_floor('', 'leased'));
begin
    return query
    select h.job_id, _holders.queue, h.state,
           case h.state when 'leased' then 'running' else 'pending' end
    from ((select l.job_id, l.segment, 'leased' as state
           from (select a.job_id, a.segment, a.queue, a.ties
                 from batchq.leased a
                 where a.reap_at >= v_from
                 order by a.reap_at
                 limit 10000) l
           where l.queue = _holders.queue and l.ties & v_tie <> 0
           limit 2000)
          union all
          (select r.job_id, r.segment, 'ready'
           from batchq._next_ready(_holders.queue, 1000) r
           where _holders.group_key is not null and r.ties & v_tie <> 0)
          union all
          (select s.job_id, s.segment, 'scheduled'
           from (select d.job_id, d.segment, d.ties
                 from batchq.scheduled d
                 where d.queue = _holders.queue
                   and d.run_at >= batchq._instant(
                       batchq._hard_floor(_holders.queue, 'scheduled'))
                 order by d.run_at
                 limit 1000) s
           where _holders.group_key is not null and s.ties & v_tie <> 0)) h
    cross join lateral (
        select from batchq.job j
        where j.id = h.job_id and j.segment = h.segment
          and (_holders.group_key is null or j.group_key = _holders.group_key)
        limit 1) g
    limit 10;
end
$_holders$;
