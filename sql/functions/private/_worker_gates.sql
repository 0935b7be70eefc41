-- That no live worker says it works on a queue, or knows a kind (if one is given): for explain_job
-- and explain_queue. The table is small: it is read whole.
create or replace function batchq._worker_gates(queue text, kind text, at timestamptz)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $_worker_gates$
declare
    v_seen record;
begin
    select count(*) filter (where w.is_alive) as alive,
           count(*) filter (where w.is_alive and _worker_gates.kind = any(w.kinds)) as knowing,
           max(w.beat_at) as last_at
    into v_seen
    from (select o.*, o.beat_at > _worker_gates.at - interval '90 s' and not o.stopping
                      and o.drain_requested_at is null as is_alive
          from batchq.worker o
          where _worker_gates.queue = any(o.queues)) w;
    if v_seen.alive = 0 then
        return query
        select 'worker', true,
               format('no live worker says that it works on queue %s', queue)
               || coalesce('; the last did at ' || batchq._stamp(v_seen.last_at), ''),
               null::timestamptz, jsonb_build_object('last_beat_at', v_seen.last_at);
    elsif kind is not null and v_seen.knowing = 0 then
        return query
        select 'kind', true,
               format('no live worker of queue %s knows kind %s', queue, kind),
               null::timestamptz, jsonb_build_object('kind', kind, 'workers', v_seen.alive);
    end if;
end
$_worker_gates$;
