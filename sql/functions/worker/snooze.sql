-- Handing back one lease with a delay. Waits for a lock where the array form skips.
create or replace function batchq.snooze(job_id bigint, lease_id bigint, delay interval)
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
as $snooze$
declare
    v_lease tid;
    v_state text;
begin
    perform batchq._check_waits(1, array[delay]);
    select l.ctid into v_lease
    from batchq.leased l
    where l.job_id = snooze.job_id and l.lease_id = snooze.lease_id
    for update;
    if not found then
        perform batchq._lease_lost(job_id, lease_id);
    end if;
    select e.state into v_state from batchq._hand_back(array[v_lease], array[delay]) e;
    return v_state;
end
$snooze$;

comment on function batchq.snooze is $comment$
Put a leased job off: it is pending again and may be leased after the delay. The attempt is given
back, so snoozing never uses attempts up; failures counted before stay counted. A job that was
asked to stop is cancelled instead.

job_id, lease_id: from lease. delay: at most 10 years; null or not positive means now.

Returns: the job's new state: 'scheduled', 'ready' or 'cancelled'.
Errors: JQ004 the lease is lost; JQ001 the delay is over 10 years.
Role: batchq_worker.
Example: select batchq.snooze(l.job_id, l.lease_id, '10 min') from batchq.lease() l
$comment$;
