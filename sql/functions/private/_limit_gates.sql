-- The limits of a queue that let no job start now: for explain_job and explain_queue.
create or replace function batchq._limit_gates(queue text, at timestamptz)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_limit_gates$
declare
    v_queue record;
    v_ids bigint[];
    v_next timestamptz;
begin
    select q.max_running, q.slots_owed, q.rate, batchq._period(q) as period into v_queue
    from batchq.queue q
    where q.queue = _limit_gates.queue;
    if v_queue.max_running is not null
       and batchq._free_permits(queue, 'cap', at) <= v_queue.slots_owed
    then
        v_ids := array(select h.job_id from batchq._holders(queue, null) h);
        return query
        select 'cap', true,
               case v_queue.max_running
                   when 0 then format('queue %s is stopped, its cap is 0', queue)
                   else format('queue %s is at its cap of %s running', queue, v_queue.max_running)
               end || coalesce(': ' || nullif(array_to_string(v_ids, ', '), ''), ''),
               null::timestamptz,
               jsonb_build_object('max_running', v_queue.max_running, 'job_ids', v_ids);
        if v_queue.slots_owed > 0 and v_queue.max_running > 0 then
            return query
            select 'owed', true,
                   format('the cap of queue %s was lowered while more ran: %s of them must end'
                          ' before one starts', queue, v_queue.slots_owed + 1),
                   null::timestamptz, jsonb_build_object('owed', v_queue.slots_owed);
        end if;
    end if;
    if v_queue.rate is not null and batchq._free_permits(queue, 'rate', at) = 0 then
        v_next := batchq._instant(batchq._lowest(
            queue, 'rate', 0::smallint, batchq._hard_floor(queue, 'rate'), 9223372036854775807));
        return query
        select 'rate', true,
               case v_queue.rate
                   when 0 then format('queue %s is stopped, its rate is 0', queue)
                   else format('queue %s may start %s in %s', queue, v_queue.rate,
                               batchq._seconds(v_queue.period)) end
               || coalesce(', the next at ' || batchq._stamp(v_next), ''),
               v_next,
               jsonb_build_object('rate', v_queue.rate, 'period_s',
                                  extract(epoch from v_queue.period), 'next_at', v_next);
    end if;
end
$_limit_gates$;
