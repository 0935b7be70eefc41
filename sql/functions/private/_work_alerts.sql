-- Jobs that no live worker works on, in the 20 queues that have waited longest: for _alerts.
create or replace function batchq._work_alerts(depths batchq.queue_stats[], at timestamptz)
returns setof batchq.alert
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $_work_alerts$
declare
    v_served text[];
    v_waiting integer;
begin
    select array_agg(distinct u.queue) into v_served
    from batchq.worker w
    cross join lateral unnest(w.queues) as u(queue)
    where w.beat_at > _work_alerts.at - interval '90 s' and not w.stopping;
    if v_served is null then
        select count(*)::integer into v_waiting
        from unnest(_work_alerts.depths) d where d.ready + d.blocked > 0;
        if v_waiting > 0 then
            return query
            select 'worker', 'critical', null::text, min(d.oldest_ready_at),
                   format('no worker is alive; jobs wait in %s', case v_waiting
                          when 1 then 'queue ' || min(d.queue) else v_waiting || ' queues' end),
                   jsonb_build_object('queues', v_waiting)
            from unnest(_work_alerts.depths) d
            where d.ready + d.blocked > 0;
        end if;
        return;
    end if;
    return query
    select 'worker', 'critical', q.queue, q.oldest_ready_at, g.says, g.data
    from (select d.queue, d.oldest_ready_at
          from unnest(_work_alerts.depths) d
          where d.ready + d.blocked > 0 and d.queue <> all(v_served)
          order by d.oldest_ready_at, d.queue limit 20) q
    cross join lateral batchq._worker_gates(q.queue, null, _work_alerts.at) g;
    return query
    select 'kind', 'critical', q.queue, q.since, g.says, g.data
    from (select d.queue, coalesce(d.oldest_ready_at, d.next_run_at) as since
          from unnest(_work_alerts.depths) d
          where d.ready + d.blocked + d.scheduled > 0 and d.queue = any(v_served)
          order by 2, d.queue limit 20) q
    cross join lateral batchq._kind_gates(q.queue, _work_alerts.at) g;
end
$_work_alerts$;
