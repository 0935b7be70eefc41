-- Whether seats of a group of a fair queue are for turns only, and come back when the job starts:
-- it has no limit of its own of jobs that run.
create or replace function batchq._is_turn(queue text, group_key text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_is_turn$
begin
    return not exists (
        select from batchq.group_setting s
        where s.queue = _is_turn.queue and s.group_key = _is_turn.group_key
          and s.group_limit is not null);
end
$_is_turn$;
