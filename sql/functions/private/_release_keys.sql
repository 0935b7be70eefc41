-- Give back the dedupe keys of jobs that are over, unless a time window still holds them.
create or replace function batchq._release_keys(job_ids bigint[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $_release_keys$
begin
    delete from batchq.dedupe d
    where d.job_id = any(_release_keys.job_ids)
      and (d.held_until is null or d.held_until <= batchq._now());
end
$_release_keys$;
