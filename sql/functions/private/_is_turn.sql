-- Whether a job's seat is for its turn only and comes back when it starts: its queue is fair, and
-- neither the queue nor the group has a limit of jobs that run.
create or replace function batchq._is_turn(ties smallint, queue batchq.queue, group_key text)
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
    return _is_turn.ties & 8 <> 0 and (queue).fair is true and (queue).group_limit is null
        and not exists (
            select from batchq.group_setting s
            where s.queue = (_is_turn.queue).queue and s.group_key = _is_turn.group_key
              and s.group_limit is not null);
end
$_is_turn$;
