-- Raise JQ003.
create or replace function batchq._job_not_found(job_id bigint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_job_not_found$
begin
    perform batchq._raise('JQ003',
        format('no job %s', coalesce(_job_not_found.job_id::text, 'null')),
        'check the id; a job is forgotten when its history expires or it is purged');
end
$_job_not_found$;
