/*
 * The states of groups that were called, with what the calls say counted in. To be read after the
 * groups' locks were had. A group without a state is at rest. seats: the limit of the group, else
 * of its queue; where groups are only to take turns, 20 for each unit of its weight.
 * Waiting jobs that have a seat already, retries of a queue with a limit of starts, stand first, at
 * rank -32768: they need no room, so as many are looked at as there are seats.
 */
create or replace function batchq._rooms(queue text, calls batchq.group_call[])
returns setof batchq.group_room
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_rooms$
begin
    return query
    select r.group_key, r.generation, r.low[2], r.low[1]::smallint, r.seated, r.started,
           r.seats - r.seated,
           least(case when r.paced or r.low[1] = -32768 then r.seats else r.seats - r.seated end,
                 r.starts - r.started, 1000),
           r.paced
    from (
        select c.group_key, s.generation,
               least(array[s.low_rank::bigint, s.low_pos], array[c.rank::bigint, c.pos]) as low,
               greatest(s.seated - c.seats, 0) as seated,
               greatest(s.started - c.starts, 0) as started,
               coalesce(g.group_limit, q.group_limit,
                        case when q.fair then 20 * coalesce(g.weight, 1) end, 1000000) as seats,
               q.group_rate as starts, q.group_rate is not null as paced
        from unnest(_rooms.calls) c
        left join batchq.queue q on q.queue = _rooms.queue
        left join lateral (
            select o.group_limit, o.weight
            from batchq.group_setting o
            where o.queue = _rooms.queue and o.group_key = c.group_key collate "C"
            limit 1
        ) g on true
        left join lateral (
            select t.generation, t.low_rank, t.low_pos, t.seated, t.started
            from batchq.group_state t
            where t.queue = _rooms.queue and t.group_key = c.group_key collate "C"
            order by t.generation desc
            limit 1
        ) n on true
        cross join lateral (
            select n.generation, coalesce(n.low_rank, -32768) as low_rank,
                   coalesce(n.low_pos, 0) as low_pos, coalesce(n.seated, 0) as seated,
                   coalesce(n.started, 0) as started) s
    ) r;
end
$_rooms$;
