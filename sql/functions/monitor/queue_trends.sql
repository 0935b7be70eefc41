-- The last hour of many queues, for small charts beside each other: one range of an index a queue.
create or replace function batchq.queue_trends(queues text[])
returns setof batchq.queue_trend
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $queue_trends$
declare
    v_until timestamptz;
    v_since timestamptz;
begin
    perform batchq._check_names('queues', queues);
    select batchq._minute(t.tallied_at) into v_until from batchq.tally t;
    v_since := v_until - interval '1 hour';
    return query
    select w.queue, v_since, array_agg(coalesce(r.enqueued, 0)::bigint order by m.minute),
           array_agg(coalesce(r.completed + r.cancelled + r.dead_letters, 0)::bigint
                     order by m.minute),
           array_agg(coalesce(r.failed + r.reaped, 0)::bigint order by m.minute)
    from (select distinct u.queue from unnest(queue_trends.queues) as u(queue)) w
    cross join generate_series(0, 59) as m(minute)
    left join batchq.rollup r
      on r.queue = w.queue collate "C" and r.kind = '' and r.span = 1
         and r.at = v_since + make_interval(mins => m.minute)
    group by w.queue
    order by w.queue;
end
$queue_trends$;

comment on function batchq.queue_trends is $comment$
What happened in some queues in each minute of the last hour, up to the last whole minute that
upkeep has counted; for small charts, see throughput for more.

queues: at most 1,000 names of 1 to 255 characters each.

Returns: queue_trend rows by name, with 60 numbers each; a queue that is not known has zeros.
Errors: JQ001 a name is out of its bounds, or there are too many.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, ended[60] from batchq.queue_trends('{mail,default}')
$comment$;
