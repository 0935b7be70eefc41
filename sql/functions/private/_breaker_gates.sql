-- Breakers of a queue that are open, of one kind or, with null, of the first 10: for explain_job
-- and explain_queue.
create or replace function batchq._breaker_gates(queue text, kind text, at timestamptz)
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
as $_breaker_gates$
declare
    v_open constant text[] := batchq._open_kinds(queue, null);
begin
    return query
    select 'breaker', true,
           format('kind %s is held back, %s of %s attempts failed', b.kind, b.failed, b.ended)
           || case when l.job_id is not null then format('; job %s is the probe', l.job_id)
                   when b.probe_at <= _breaker_gates.at then '; the next lease takes one as a probe'
                   else '; the next probe at ' || batchq._stamp(b.probe_at) end
           || coalesce(': ' || b.last_error, ''),
           case when l.job_id is null then b.probe_at end,
           jsonb_build_object('kind', b.kind, 'opened_at', b.opened_at, 'probe_at', b.probe_at,
                              'probe_job_id', l.job_id, 'failed', b.failed, 'ended', b.ended,
                              'last_error', b.last_error)
    from (select o.*
          from batchq.breaker o
          where o.queue = _breaker_gates.queue and o.kind = any(v_open)
            and (_breaker_gates.kind is null or o.kind = _breaker_gates.kind)
          order by o.kind
          limit 10) b
    left join lateral (
        select o.job_id
        from batchq.leased o
        where o.job_id = b.probe_job_id and o.lease_id = b.probe_lease_id
        limit 1) l on true
    order by b.kind;
end
$_breaker_gates$;
