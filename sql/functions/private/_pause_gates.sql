-- That a queue is paused: for explain_job and explain_queue.
create or replace function batchq._pause_gates(queue text)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_pause_gates$
begin
    return query
    select 'paused', true,
           format('queue %s is paused since %s', q.queue, batchq._stamp(q.paused_at))
           || coalesce(' by ' || q.paused_by, '') || coalesce(': ' || q.pause_reason, ''),
           null::timestamptz,
           jsonb_build_object('paused_at', q.paused_at, 'paused_by', q.paused_by,
                              'reason', q.pause_reason)
    from batchq.queue q
    where q.queue = _pause_gates.queue and q.paused_at is not null;
end
$_pause_gates$;
