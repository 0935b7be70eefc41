/*
 * Promotion for queues that nobody leases from, so that their depth shows. Queues are found from
 * the far end of scheduled's index: what is consumed there is its near end. Returns how many jobs
 * moved.
 */
create or replace function batchq._promote_all(n integer)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $_promote_all$
declare
    v_now constant timestamptz := batchq._now();
    v_queue text;
    v_floor bigint;
    v_moved bigint := 0::bigint;
begin
    loop
        if v_queue is null then
            select s.queue into v_queue
            from batchq.scheduled s
            order by s.queue desc, s.run_at desc
            limit 1;
        else                                     -- an "or" would walk the whole index
            select s.queue into v_queue
            from batchq.scheduled s
            where s.queue < v_queue
            order by s.queue desc, s.run_at desc
            limit 1;
        end if;
        exit when not found or v_moved >= n;
        perform batchq._add_line(v_queue, 'scheduled', 0::smallint);
        select f.hard_floor into v_floor
        from batchq.floor f
        where f.queue = v_queue and f.line = 'scheduled'
        order by f.generation desc
        limit 1;
        if batchq._is_due(v_queue, v_floor, v_now) then
            v_moved := v_moved + batchq._promote(v_queue, v_floor, 1000);
            perform batchq._ring(v_queue);
        end if;
    end loop;
    return v_moved;
end
$_promote_all$;
