-- What a job keeps of its ties while it waits for its next attempt. It keeps its seat, and so its
-- place in its group, where one runs at a time or the queue says so: set_queue, group_retry.
create or replace function batchq._kept_ties(ties smallint, queue text)
returns integer
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_kept_ties$
begin
    return case
        when _kept_ties.ties & 8 <> 0 and not exists (
            select from batchq.queue q
            where q.queue = _kept_ties.queue
              and coalesce(q.group_retry,
                           case when q.group_limit = 1 then 'hold' end, 'yield') = 'hold')
        then _kept_ties.ties & 5
        else _kept_ties.ties & 13
    end;
end
$_kept_ties$;
