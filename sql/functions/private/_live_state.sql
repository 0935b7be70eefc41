/*
 * Where a job is that is not over: 'ready', 'scheduled', 'leased', 'blocked', or null if none of
 * them. A fresh job is found through its lane, as its place is its id.
 */
create or replace function batchq._live_state(job_id bigint, segment smallint)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_live_state$
begin
    return case
        when exists (
            select from batchq.job j
            join batchq.ready r
              on r.queue = j.queue and r.priority = j.priority and r.pos = j.id
            where j.id = _live_state.job_id and j.segment = _live_state.segment
              and r.job_id = j.id) then 'ready'
        when exists (
            select from batchq.ready r
            where r.job_id = _live_state.job_id and r.pos <> r.job_id) then 'ready'
        when exists (
            select from batchq.scheduled s where s.job_id = _live_state.job_id) then 'scheduled'
        when exists (
            select from batchq.leased l where l.job_id = _live_state.job_id) then 'leased'
        when exists (
            select from batchq.blocked b where b.job_id = _live_state.job_id) then 'blocked'
    end;
end
$_live_state$;
