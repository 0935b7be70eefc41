-- How many jobs of a queue a lease could start now, at most n, as far as the pause and the limits
-- of the queue go: what _take_room would take.
create or replace function batchq._room(queue text, n integer, at timestamptz)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_room$
declare
    v_queue record;
    v_room bigint := n::bigint;
begin
    select q.paused_at, q.max_running, q.slots_owed, q.rate into v_queue
    from batchq.queue q
    where q.queue = _room.queue;
    if v_queue.paused_at is not null then
        return 0::bigint;
    end if;
    if v_queue.max_running is not null then
        v_room := least(
            v_room, batchq._free_permits(queue, 'cap', at) - v_queue.slots_owed);
    end if;
    if v_queue.rate is not null then
        v_room := least(v_room, batchq._free_permits(queue, 'rate', at));
    end if;
    return greatest(v_room, 0);
end
$_room$;
