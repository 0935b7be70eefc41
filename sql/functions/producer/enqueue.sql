/*
 * Enqueueing one job: a row in job, and one in ready or scheduled.
 *
 * Takes no row lock and waits for nobody, unless two callers claim one dedupe key. The place is
 * drawn before the clock is read, so after the xid: the floors depend on both.
 */
create or replace function batchq.enqueue(
    kind text,
    payload jsonb default '{}',
    queue text default 'default',
    priority integer default 0,
    run_at timestamptz default null,
    delay interval default null,
    max_attempts integer default null,
    timeout interval default null,
    dedupe_key text default null,
    dedupe_scope text default null,
    dedupe_for interval default null,
    on_duplicate text default null,
    backoff text default null,
    backoff_base interval default null,
    backoff_factor double precision default null,
    backoff_cap interval default null,
    backoff_jitter text default null,
    headers jsonb default null,
    group_key text default null
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $enqueue$
declare
    v_job_id bigint;
    v_now timestamptz;
    v_segment smallint;
    v_run_at timestamptz;
    v_holder bigint;
    v_ties integer;
    v_rank smallint;
begin
    if not batchq._job_fits(kind, payload, queue, priority) then
        perform batchq._refuse_job(kind, payload, queue, priority);
    end if;
    if num_nonnulls(run_at, delay, max_attempts, timeout, dedupe_key, dedupe_scope, dedupe_for,
                    on_duplicate, backoff, backoff_base, backoff_factor, backoff_cap,
                    backoff_jitter, headers, group_key) > 0
    then
        perform batchq._check_options(
            run_at, delay, max_attempts, timeout, dedupe_key, dedupe_scope, dedupe_for,
            on_duplicate, backoff, backoff_base, backoff_factor, backoff_cap, backoff_jitter,
            headers, group_key);
    end if;
    v_job_id := batchq._next_place();
    v_now := batchq._now();
    v_segment := batchq._segment();
    v_run_at := coalesce(run_at, v_now + batchq._exact(delay), v_now);
    if dedupe_key is not null then
        v_holder := batchq._claim_key(queue, dedupe_key, v_job_id, v_segment,
                                      coalesce(dedupe_scope, 'unfinished'),
                                      v_now + batchq._exact(dedupe_for));
        if v_holder <> v_job_id then
            if on_duplicate = 'replace' then
                perform batchq._replace_pending(v_holder, payload, headers, v_run_at);
            end if;
            return v_holder;
        end if;
    end if;
    v_rank := case when group_key is not null then batchq._rank(queue, priority) end;
    v_ties := (dedupe_key is not null)::integer + case when v_rank is null then 0 else 4 end;
    insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue, kind,
                            timeout, dedupe_key, backoff, backoff_base, backoff_factor,
                            backoff_cap, backoff_jitter, payload, headers, group_key)
    select v_job_id, v_now,
           case when q.max_depth is null then v_run_at else batchq._run_at(q, v_run_at, v_now) end,
           v_segment, enqueue.priority, coalesce(enqueue.max_attempts, q.max_attempts, 3),
           enqueue.queue, enqueue.kind, coalesce(enqueue.timeout, q.timeout), enqueue.dedupe_key,
           enqueue.backoff, enqueue.backoff_base, enqueue.backoff_factor, enqueue.backoff_cap,
           enqueue.backoff_jitter, enqueue.payload, enqueue.headers, enqueue.group_key
    from (select) one left join batchq.queue q on q.queue = enqueue.queue
    returning job.run_at into v_run_at;
    if v_run_at > v_now then
        insert into batchq.scheduled (
            job_id, run_at, since, segment, priority, attempt, ties, queue)
        values (v_job_id, v_run_at, v_now, v_segment, enqueue.priority, 0, v_ties, enqueue.queue);
        perform batchq._add_line(queue, 'scheduled', 0::smallint);
    elsif v_rank is not null then
        perform batchq._block_one(v_job_id, v_segment, priority, v_ties, queue, group_key, v_rank);
    else
        insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue)
        values (v_job_id, v_job_id, v_segment, enqueue.priority, 0, v_ties, enqueue.queue);
        if priority <> 0 then                    -- lane 0 is always looked at
            perform batchq._add_line(queue, 'ready', priority::smallint);
        end if;
    end if;
    if batchq._parked(queue) then
        perform pg_notify('batchq', batchq._bell(queue)::text);
    end if;
    return v_job_id;
end
$enqueue$;

comment on function batchq.enqueue is $comment$
Add a job. It exists when the caller's transaction commits, and never did when that rolls back.

kind: which handler runs it, 1 to 255 characters. payload: any JSON value but null, at most 1 MiB.
queue: 1 to 255 characters; made by first use. priority: -32768 to 32767, higher first.
run_at or delay: the earliest start, at most 10 years ahead for delay and before the year 9999; a
time in the past means now. max_attempts: 1 to 32767; else the queue's, else 3.
timeout: the longest one attempt may run, 10 ms to 365 days; else the queue's, else none.
dedupe_key: 1 to 1024 bytes. While another job of the queue holds it, no new job is made and the
id of that one is returned. dedupe_scope: which other jobs count: 'unfinished' (default), pending
and running ones; 'pending', not those that run already, so that one follow-up is made.
dedupe_for: held at least that long, also past the job's end. on_duplicate: 'return' (default)
leaves the first job as it is; 'replace' gives it the new payload, headers and time if it is still
pending, in its old place.
backoff: 'exponential' or 'fixed'; backoff_base, backoff_cap: 0 to 365 days; backoff_factor: 1 to
100; backoff_jitter: 'full' or 'none'. Each else the queue's, else exponential from 10 s by 2 up
to 1 h with full jitter ('fixed' has none unless asked for).
headers: a JSON object of at most 64 KiB that travels with the job, for trace context.
group_key: 1 to 255 characters. Where the queue limits its groups (set_queue: group_limit,
group_rate, fair), jobs with one key wait for their turn; elsewhere it is only kept.

Returns: the job's id, or that of the job that holds the dedupe key.
Errors: JQ001 a value is out of its bounds; JQ006 the queue is full (set_queue: max_depth).
Role: batchq_producer.
Example: select batchq.enqueue('send_email', '{"to": "ada@example.org"}', delay => '5 min')
$comment$;
