-- Raise JQ004 for a lease that is no longer the caller's.
create or replace function batchq._lease_lost(job_id bigint, lease_id bigint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_lease_lost$
begin
    perform batchq._raise('JQ004',
        format('lease %s of job %s is lost', coalesce(_lease_lost.lease_id::text, 'null'),
               coalesce(_lease_lost.job_id::text, 'null')),
        'the lease ran out and was taken back, or the job ended; drop this attempt''s result');
end
$_lease_lost$;
