-- Handing back one lease that was not used.
create or replace function batchq.release(job_id bigint, lease_id bigint)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $release$
begin
    return batchq.snooze(job_id, lease_id, null);
end
$release$;

comment on function batchq.release is $comment$
Hand back a leased job that was not run: it is ready again, behind the ready jobs of its lane, and
the attempt is given back. A job that was asked to stop is cancelled instead.

job_id, lease_id: from lease.

Returns: the job's new state: 'ready' or 'cancelled'.
Errors: JQ004 the lease is lost.
Role: batchq_worker.
Example: select batchq.release(l.job_id, l.lease_id) from batchq.lease() l
$comment$;
