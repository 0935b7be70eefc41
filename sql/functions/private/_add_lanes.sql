/*
 * Find lanes of a queue that no floor row tells of, and write one for each. Only the gaps between
 * the known lanes are probed, so the dead entries of a drained lane are not walked. A lane is
 * unknown when the transaction that was about to add it rolled back. Returns how many were added.
 */
create or replace function batchq._add_lanes(queue text)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_add_lanes$
declare
    v_known integer[];
    v_above integer := 32768;
    v_below integer;
    v_found smallint;
    v_added integer := 0;
begin
    select coalesce(array_agg(distinct f.priority::integer order by f.priority::integer desc), '{}')
           || -32769
    into v_known
    from batchq.floor f
    where f.queue = _add_lanes.queue and f.line = 'ready';
    foreach v_below in array v_known loop
        loop
            select r.priority into v_found
            from batchq.ready r
            where r.queue = _add_lanes.queue and r.priority < v_above and r.priority > v_below
            order by r.priority desc
            limit 1;
            exit when not found;
            perform batchq._add_line(_add_lanes.queue, 'ready', v_found);
            v_added := v_added + 1;
            v_above := v_found::integer;
        end loop;
        v_above := v_below;
    end loop;
    return v_added;
end
$_add_lanes$;
