-- The kind of a job.
create or replace function batchq._kind_of(job_id bigint, segment smallint)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_kind_of$
begin
    return (select j.kind from batchq.job j
            where j.id = _kind_of.job_id and j.segment = _kind_of.segment);
end
$_kind_of$;
