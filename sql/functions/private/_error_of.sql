-- The beginning of a job's newest error.
create or replace function batchq._error_of(job_id bigint)
returns text
language sql
stable
return (
    select left(e.error, 200)
    from batchq.error e
    where e.job_id = _error_of.job_id
    order by e.lease_id desc
    limit 1);
