-- What is to be known of queues, by their depths: for _alerts. Gates are asked of those queues only
-- that can have one, 100 of a kind.
create or replace function batchq._queue_alerts(depths batchq.queue_stats[], at timestamptz)
returns setof batchq.alert
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_queue_alerts$
begin
    return query
    select 'paused', 'warning', q.queue::text, q.paused_at, g.says, g.data
    from (select o.queue, o.paused_at from batchq.queue o
          where o.paused_at is not null order by o.paused_at limit 100) q
    cross join lateral batchq._pause_gates(q.queue) g
    union all
    select 'breaker', 'warning', q.queue::text, (g.data ->> 'opened_at')::timestamptz,
           format('queue %s: %s', q.queue, g.says), g.data
    from (select distinct o.queue from batchq.breaker o order by o.queue limit 100) q
    cross join lateral batchq._breaker_gates(q.queue, null, _queue_alerts.at) g;
    return query
    select g.gate, 'notice', q.queue::text, q.oldest_ready_at, g.says, g.data
    from (select d.queue, d.oldest_ready_at
          from unnest(_queue_alerts.depths) d
          join batchq.queue o on o.queue = d.queue
          where d.ready + d.blocked > 0 and (o.max_running is not null or o.rate is not null)
          order by d.oldest_ready_at limit 100) q
    cross join lateral batchq._limit_gates(q.queue, _queue_alerts.at) g
    where g.gate <> 'owed';
    return query
    select g.gate, 'warning', q.queue::text, null::timestamptz, g.says, g.data
    from (select d.queue
          from unnest(_queue_alerts.depths) d
          join batchq.queue o on o.queue = d.queue
          where o.max_depth <= d.ready + d.scheduled + d.blocked
          order by d.queue limit 100) q
    cross join lateral batchq._depth_gates(q.queue, true) g
    where g.gate = 'full';
    return query
    select 'dead', 'warning', m.queue::text, m.since,
           format('queue %s: %s jobs became dead letters within 10 minutes', m.queue, m.jobs),
           jsonb_build_object('jobs', m.jobs, 'dead', m.dead)
    from (select d.queue, d.dead, sum(r.dead_letters) as jobs, min(r.at) as since
          from unnest(_queue_alerts.depths) d
          cross join lateral (
              select o.dead_letters, o.at from batchq.rollup o
              where o.queue = d.queue collate "C" and o.kind = '' and o.span = 1
                and o.at > _queue_alerts.at - interval '10 minutes' and o.dead_letters > 0
              offset 0) r
          where d.dead > 0
          group by d.queue, d.dead) m
    order by m.jobs desc
    limit 100;
end
$_queue_alerts$;
