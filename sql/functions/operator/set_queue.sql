/*
 * Settings of a queue: one row, written by operators only. Its limits are brought in line at once,
 * under the row's lock.
 */
create or replace function batchq.set_queue(
    queue text,
    max_attempts integer default null,
    timeout interval default null,
    lease_for interval default null,
    backoff text default null,
    backoff_base interval default null,
    backoff_factor double precision default null,
    backoff_cap interval default null,
    backoff_jitter text default null,
    reset boolean default false,
    max_running integer default null,
    rate integer default null,
    rate_period interval default null,
    group_limit integer default null,
    group_rate integer default null,
    group_period interval default null,
    group_retry text default null,
    fair boolean default null,
    age_every interval default null,
    max_depth integer default null,
    on_full text default null,
    breaker_share double precision default null,
    breaker_min integer default null,
    breaker_window interval default null,
    breaker_pause interval default null,
    clear text[] default null
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set intervalstyle = 'postgres'
set enable_seqscan = off
as $set_queue$
declare
    v_given constant jsonb := jsonb_strip_nulls(jsonb_build_object(
        'max_attempts', max_attempts, 'timeout', timeout, 'lease_for', lease_for,
        'backoff', backoff, 'backoff_base', backoff_base, 'backoff_factor', backoff_factor,
        'backoff_cap', backoff_cap, 'backoff_jitter', backoff_jitter, 'max_running', max_running,
        'rate', rate, 'rate_period', rate_period, 'group_limit', group_limit,
        'group_rate', group_rate, 'group_period', group_period, 'group_retry', group_retry,
        'fair', fair, 'age_every', age_every, 'max_depth', max_depth, 'on_full', on_full,
        'breaker_share', breaker_share, 'breaker_min', breaker_min,
        'breaker_window', breaker_window, 'breaker_pause', breaker_pause));
    v_old batchq.queue;
    v_new batchq.queue;
begin
    perform batchq._check_options(
        null, null, max_attempts, timeout, null, null, null, null, backoff, backoff_base,
        backoff_factor, backoff_cap, backoff_jitter, null, null);
    perform batchq._check_lease(queue, lease_for => lease_for);
    perform batchq._check_limits(jsonb_populate_record(null::batchq.queue, v_given), clear);
    insert into batchq.queue (queue) values (set_queue.queue)
    on conflict on constraint queue_pkey do nothing;
    select q.* into v_old from batchq.queue q where q.queue = set_queue.queue for update;
    v_new := jsonb_populate_record(null::batchq.queue, case
        when reset then v_given
        else (to_jsonb(v_old) - coalesce(clear, '{}')) || v_given end);
    update batchq.queue q
    set max_attempts = v_new.max_attempts, timeout = v_new.timeout, lease_for = v_new.lease_for,
        backoff = v_new.backoff, backoff_base = v_new.backoff_base,
        backoff_factor = v_new.backoff_factor, backoff_cap = v_new.backoff_cap,
        backoff_jitter = v_new.backoff_jitter, max_running = v_new.max_running,
        rate = v_new.rate, rate_period = v_new.rate_period, group_limit = v_new.group_limit,
        group_rate = v_new.group_rate, group_period = v_new.group_period,
        group_retry = v_new.group_retry, fair = v_new.fair, age_every = v_new.age_every,
        max_depth = v_new.max_depth, on_full = v_new.on_full,
        breaker_share = v_new.breaker_share, breaker_min = v_new.breaker_min,
        breaker_window = v_new.breaker_window, breaker_pause = v_new.breaker_pause
    where q.queue = set_queue.queue
    returning q.* into v_new;
    perform batchq._audit('set_queue', 'queue ' || queue, v_given || jsonb_build_object(
        'clear', to_jsonb(clear), 'reset', nullif(coalesce(reset, false), false)));
    if v_old.limited or v_new.limited then
        perform batchq._fit_limits(v_old, v_new);
        perform batchq._ring(queue);
    end if;
end
$set_queue$;

comment on function batchq.set_queue is $comment$
Set defaults and limits of a queue. A value that is null stays as it was; reset first sets all to
none, clear those it names.

queue: 1 to 255 characters. max_attempts, timeout: for jobs enqueued from now on. lease_for: 0.1 s
to 1 day, for leases from now on. backoff, backoff_base, backoff_factor, backoff_cap,
backoff_jitter: for retries from now on, where the job has no own; bounds as for enqueue.
max_running: how many jobs of the queue may run at once over all workers, 0 to 1,000,000; 0 stops
it. rate: how many may start in any period of rate_period (100 ms to 30 days, else 1 s), 0 to
1,000,000; 0 stops it. Starts that used one permit are a period apart, so no window of that
length ever holds more.
group_limit: how many jobs with one group_key may be ready or running at once, 0 to 10,000; 1 makes
them run one after the other, in the order of enqueue; above 1 they go by priority. group_rate,
group_period (else 1 s): how many of one group may start in any period. group_retry: 'hold', a job
that waits for its retry keeps its seat, and so its place (else where group_limit is 1), or
'yield'. fair: groups take turns; of each, 20 jobs for each unit of its weight are ready at a time.
age_every: a ready job joins the highest priority that has ready jobs once it waited that long, 1 s
to 365 days, for each step up to it. max_depth: how many jobs may be ready or blocked, 1 to
100,000; enqueue counts them then. on_full: 'refuse' more with JQ006 (else), or 'delay' them by
30 to 90 s.
breaker_share: above 0, up to 1: if so large a part of the attempts of a kind that ended in
breaker_window (1 s to 1 h, else 60 s; the newest 1,000 calls at most) failed, and breaker_min
ended (1 to 1,000, else 10), jobs of the kind are held back. After breaker_pause (1 s to 1 day, else
30 s) one is run as a probe: if it completes, all may run again, else the next one runs after
another pause. See list_breakers.
clear: names of settings to set to none.

When max_running is lowered, none starts until fewer run. Jobs that were leased before a queue had
its first limit count from the next upkeep on.

Errors: JQ001 a value is out of its bounds.
Role: batchq_operator.
Example: select batchq.set_queue('mail', max_attempts => 5, max_running => 20, rate => 100)
$comment$;
