-- Settings of a queue: one row, written by operators only.
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
    reset boolean default false
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $set_queue$
begin
    perform batchq._check_options(
        null, null, max_attempts, timeout, null, null, null, null, backoff, backoff_base,
        backoff_factor, backoff_cap, backoff_jitter, null);
    perform batchq._check_lease(queue, lease_for => lease_for);
    if reset then
        update batchq.queue q
        set max_attempts = null, timeout = null, lease_for = null, backoff = null,
            backoff_base = null, backoff_factor = null, backoff_cap = null, backoff_jitter = null
        where q.queue = set_queue.queue;
    end if;
    insert into batchq.queue as q (queue, max_attempts, timeout, lease_for, backoff, backoff_base,
                                   backoff_factor, backoff_cap, backoff_jitter)
    values (set_queue.queue, set_queue.max_attempts, set_queue.timeout, set_queue.lease_for,
            set_queue.backoff, set_queue.backoff_base, set_queue.backoff_factor,
            set_queue.backoff_cap, set_queue.backoff_jitter)
    on conflict on constraint queue_pkey do update
    set max_attempts = coalesce(excluded.max_attempts, q.max_attempts),
        timeout = coalesce(excluded.timeout, q.timeout),
        lease_for = coalesce(excluded.lease_for, q.lease_for),
        backoff = coalesce(excluded.backoff, q.backoff),
        backoff_base = coalesce(excluded.backoff_base, q.backoff_base),
        backoff_factor = coalesce(excluded.backoff_factor, q.backoff_factor),
        backoff_cap = coalesce(excluded.backoff_cap, q.backoff_cap),
        backoff_jitter = coalesce(excluded.backoff_jitter, q.backoff_jitter);
end
$set_queue$;

comment on function batchq.set_queue is $comment$
Set defaults of a queue. A value that is null stays as it was; reset first sets all to none.

queue: 1 to 255 characters. max_attempts, timeout: for jobs enqueued from now on. lease_for: 0.1 s
to 1 day, for leases from now on. backoff, backoff_base, backoff_factor, backoff_cap,
backoff_jitter: for retries from now on, where the job has no own; bounds as for enqueue.

Errors: JQ001 a value is out of its bounds.
Role: batchq_operator.
Example: select batchq.set_queue('mail', max_attempts => 5, backoff_base => '10 s')
$comment$;
