-- Settings of all queues: the same queues that stats shows, without counting anything.
create or replace function batchq.list_queues()
returns setof batchq.queue_settings
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $list_queues$
begin
    return query
    select n.queue, q.max_attempts::integer, q.timeout, q.lease_for, q.backoff, q.backoff_base,
           q.backoff_factor, q.backoff_cap, q.backoff_jitter, q.paused_at, q.pause_reason,
           q.max_running, q.rate, q.rate_period, q.group_limit, q.group_rate, q.group_period,
           q.group_retry, q.fair, q.age_every, q.max_depth, q.on_full,
           q.breaker_share, q.breaker_min, q.breaker_window, q.breaker_pause
    from batchq._queue_names() as n(queue)
    left join batchq.queue q on q.queue = n.queue
    order by n.queue collate "C";
end
$list_queues$;

comment on function batchq.list_queues is $comment$
Settings of every queue that was ever used or set up, in order of name.

Returns: queue_settings rows. What set_queue did not set is null, and is then what enqueue and lease
say.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, max_attempts, paused_at from batchq.list_queues()
$comment$;
