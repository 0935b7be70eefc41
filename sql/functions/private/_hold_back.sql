/*
 * Before a lease looks at a lane of a queue with open breakers: jobs of these kinds at the head of
 * the lane go away until the next probe, but for the probes that are due. Bounded: two rounds,
 * 1,000 jobs each; where that was not enough the next lease goes on. The lease itself looks at a
 * thousand jobs more than it wants, as others may have locked those before. Null if none is open.
 */
create or replace function batchq._hold_back(
    queue batchq.queue,
    priority smallint,
    from_place bigint,
    n integer
)
returns batchq.held_lane
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_hold_back$
declare
    v_lane batchq.held_lane;
    v_size integer := greatest(n, 16);
begin
    if not exists (
        select from batchq.breaker b where b.queue = (_hold_back.queue).queue)
    then
        return null;
    end if;
    perform batchq._release_held(b.queue, b.kind, 1000)
    from batchq.breaker b
    where b.queue = (_hold_back.queue).queue and b.closed_at is not null;
    v_lane.kinds := nullif(array(
        select b.kind from batchq.breaker b
        where b.queue = (_hold_back.queue).queue and b.closed_at is null), '{}');
    if v_lane.kinds is null then
        return null;
    end if;
    v_lane.probes := '{}';
    for v_round in 1..2 loop
        v_lane.upto := batchq._place_after((queue).queue, priority, from_place, v_size - 1);
        v_lane.probes := v_lane.probes
            || batchq._choose_probes(queue, priority, from_place, v_lane.upto);
        exit when batchq._hold_kinds(queue, priority, from_place, v_lane) = 0;
        v_size := greatest(n, 1000);
    end loop;
    v_lane.upto := batchq._place_after((queue).queue, priority, from_place, n + 1000);
    return v_lane;
end
$_hold_back$;
