-- The kind of a job if it is one of these, else null.
create or replace function batchq._kind_among(kinds text[], job_id bigint, segment smallint)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_kind_among$
begin
    return case when kinds <> '{}' then (
        select j.kind from batchq.job j
        where j.id = _kind_among.job_id and j.segment = _kind_among.segment
          and j.kind = any(_kind_among.kinds)) end;
end
$_kind_among$;
