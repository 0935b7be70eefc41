-- Settings of one queue.
create or replace function batchq.get_queue(queue text)
returns batchq.queue_settings
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $get_queue$
declare
    v_settings batchq.queue_settings;
begin
    perform batchq._check_queue_exists(queue);
    select get_queue.queue, q.max_attempts::integer, q.timeout, q.lease_for, q.backoff,
           q.backoff_base, q.backoff_factor, q.backoff_cap, q.backoff_jitter, q.paused_at,
           q.pause_reason, q.max_running, q.rate, q.rate_period, q.group_limit, q.group_rate,
           q.group_period, q.group_retry, q.fair, q.age_every, q.max_depth, q.on_full,
           q.breaker_share, q.breaker_min, q.breaker_window, q.breaker_pause
    into v_settings
    from (values (get_queue.queue)) n(queue)
    left join batchq.queue q on q.queue = n.queue;
    return v_settings;
end
$get_queue$;

comment on function batchq.get_queue is $comment$
Settings of one queue.

queue: its name.

Returns: queue_settings. What set_queue did not set is null, and is then what enqueue and lease say.
Errors: JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select max_attempts, paused_at from batchq.get_queue('mail')
$comment$;
