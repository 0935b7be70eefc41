-- Whether a group of a queue is to be looked at, seen from a place of the line round up.
create or replace function batchq._is_called(queue text, from_place bigint, at timestamptz)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_is_called$
begin
    return exists (
        select from batchq.call c
        where c.queue = _is_called.queue
          and c.due_at >= batchq._instant(_is_called.from_place) and c.due_at <= _is_called.at);
end
$_is_called$;
