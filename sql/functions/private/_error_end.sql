-- What became of a job by an attempt that failed: 'dead', 'cancelled', or 'retried'. Asked soon
-- after, or redrive and purge have noted it.
create or replace function batchq._error_end(
    job_id bigint,
    segment smallint,
    lease_id bigint,
    failed_at timestamptz
)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_error_end$
begin
    return case
        when _error_end.failed_at = (
            select d.failed_at from batchq.dead d where d.job_id = _error_end.job_id) then 'dead'
        when _error_end.lease_id = (
            select o.lease_id from batchq.outcome o
            where o.job_id = _error_end.job_id and o.segment = _error_end.segment) then 'cancelled'
        else 'retried' end;
end
$_error_end$;
