-- Saving the progress of a running job. Waits for a lock where the array form skips.
create or replace function batchq.progress(job_id bigint, lease_id bigint, progress jsonb)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $progress$
begin
    if batchq._size(progress) > 65536 then
        perform batchq._raise('JQ001', format('progress of job %s is over 64 KiB', job_id),
            'keep it short');
    end if;
    update batchq.leased l
    set progress = progress.progress
    where l.job_id = progress.job_id and l.lease_id = progress.lease_id;
    if not found then
        perform batchq._lease_lost(job_id, lease_id);
    end if;
end
$progress$;

comment on function batchq.progress is $comment$
Save how far a running job has come. It is shown while the job runs, and given up with the lease.
Call it a few times a minute, not for each step: it writes a row.

job_id, lease_id: from lease. progress: any JSON value of at most 64 KiB.

Errors: JQ004 the lease is lost; JQ001 the value is too large.
Role: batchq_worker.
Example: select batchq.progress(l.job_id, l.lease_id, '{"done": 40}') from batchq.lease() l
$comment$;
