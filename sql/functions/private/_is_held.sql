-- Whether a job is scheduled only because a breaker that is open holds it back.
create or replace function batchq._is_held(queue text, kind text, place batchq.job_place)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_is_held$
begin
    return (place).state = 'scheduled' and exists (
        select from batchq.breaker b
        where b.queue = _is_held.queue and b.kind = _is_held.kind and b.closed_at is null
          and (place).run_at in (b.probe_at, b.held_until));
end
$_is_held$;
