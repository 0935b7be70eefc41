-- Whether a scheduled job of a queue is due, seen from a place of its line up.
create or replace function batchq._is_due(queue text, from_place bigint, at timestamptz)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_is_due$
begin
    return exists (
        select from batchq.scheduled s
        where s.queue = _is_due.queue
          and s.run_at >= batchq._instant(_is_due.from_place) and s.run_at <= _is_due.at);
end
$_is_due$;
