/*
 * When it is worth looking again at a limited queue that gave nothing: when the next call of a
 * group is due, or the next permit to start if jobs are ready. Shortly, if jobs and permits are
 * there: somebody else has them in his hands just now. Null if a permit has to come back first,
 * which rings. Read from the hard floors.
 */
create or replace function batchq._next_chance(queue text)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_next_chance$
declare
    v_queue batchq.queue;
    v_call timestamptz;
    v_cap bigint;
    v_rate bigint;
begin
    select q.* into v_queue from batchq.queue q where q.queue = _next_chance.queue;
    select c.due_at into v_call
    from batchq.call c
    where c.queue = _next_chance.queue
      and c.due_at >= batchq._instant(batchq._hard_floor(_next_chance.queue, 'round'))
    order by c.due_at
    limit 1;
    if v_queue.slots_owed > 0 or batchq._ready_depth(_next_chance.queue, 1) = 0 then
        return v_call;
    end if;
    v_cap := batchq._lowest(_next_chance.queue, 'cap', 0::smallint,
        batchq._hard_floor(_next_chance.queue, 'cap'), 9223372036854775807);
    v_rate := batchq._lowest(_next_chance.queue, 'rate', 0::smallint,
        batchq._hard_floor(_next_chance.queue, 'rate'), 9223372036854775807);
    if (v_queue.max_running is not null and v_cap is null)
       or (v_queue.rate is not null and v_rate is null)
    then
        return v_call;
    end if;
    return least(v_call, greatest(batchq._instant(v_rate), batchq._now() + interval '10 ms'));
end
$_next_chance$;
