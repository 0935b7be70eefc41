/*
 * Failing one attempt: the array form's work for one row, but it waits for a lock where the array
 * form skips.
 */
create or replace function batchq.fail(
    job_id bigint,
    lease_id bigint,
    error text,
    permanent boolean default false,
    retry_in interval default null
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $fail$
declare
    v_lease tid;
    v_state text;
begin
    perform batchq._check_waits(1, array[retry_in]);
    select l.ctid into v_lease
    from batchq.leased l
    where l.job_id = fail.job_id and l.lease_id = fail.lease_id
    for update;
    if found then
        select e.state into v_state
        from batchq._end_attempts(array[v_lease], array[error], array[permanent], array[retry_in],
                                  false) e;
        return v_state;
    end if;
    v_state := batchq._settled_before(job_id, lease_id);
    if v_state in ('failed', 'cancelled') then
        return v_state;
    end if;
    perform batchq._lease_lost(job_id, lease_id);
    return null;
end
$fail$;

comment on function batchq.fail is $comment$
End an attempt that failed. With attempts left the job waits out its backoff and is tried again;
without, or if permanent, it becomes a dead letter. A job that was asked to stop is cancelled.
Every attempt's error is kept.

job_id, lease_id: from lease. error: any text; over 2,048 characters its head and tail are kept.
permanent: no further attempt. retry_in: the wait before the next attempt instead of the backoff,
at most 10 years; a negative one means now.

Returns: the job's new state: 'scheduled', 'failed' or 'cancelled'. Being asked twice with one
lease is no error and returns 'failed' or 'cancelled' for the attempt.
Errors: JQ004 the lease is lost; JQ001 retry_in is over 10 years.
Role: batchq_worker.
Example: select batchq.fail(l.job_id, l.lease_id, 'no route to host') from batchq.lease() l
$comment$;
