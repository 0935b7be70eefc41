/*
 * A job that waits for its turn in its group takes another priority: it goes before others of the
 * group that have a lower one, unless these keep their order. Its place is its own, and the group
 * is called, as it may stand lower now than where the group looks for its next job. Returns its
 * state, or null if it was not blocked any more.
 */
create or replace function batchq._change_blocked(job_id bigint, priority integer)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_change_blocked$
declare
    v_row batchq.blocked;
begin
    perform pg_current_xact_id();                -- before the clock: the floor of round needs it
    update batchq.blocked b
    set priority = _change_blocked.priority,
        since = batchq._now(),
        rank = case when b.ties & 8 <> 0 then b.rank
                    else coalesce(batchq._rank(b.queue, _change_blocked.priority), b.rank) end
    where b.job_id = _change_blocked.job_id
    returning b.* into v_row;
    if not found then
        return null;
    end if;
    insert into batchq.call (due_at, queue, group_key, rank, pos)
    values (batchq._now(), v_row.queue, v_row.group_key, v_row.rank, v_row.pos);
    perform batchq._add_line(v_row.queue, 'round', 0::smallint);
    return 'blocked';
end
$_change_blocked$;
