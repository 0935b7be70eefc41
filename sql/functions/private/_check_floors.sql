/*
 * Belt and braces for the floor: look at each lane from the very beginning. A row below a hard
 * floor would be our bug; it is served by a new floor row and counted. Returns how many lanes had
 * one.
 */
create or replace function batchq._check_floors()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_check_floors$
declare
    v_line record;
    v_lowest bigint;
    v_breaches bigint := 0::bigint;
begin
    for v_line in
        select distinct on (f.queue, f.line, f.priority)
               f.queue, f.line, f.priority, f.hard_floor
        from batchq.floor f
        order by f.queue, f.line, f.priority, f.generation desc
    loop
        v_lowest := batchq._lowest(
            v_line.queue, v_line.line, v_line.priority, 0, v_line.hard_floor);
        if v_lowest is not null then
            insert into batchq.floor (queue, line, priority, floor, hard_floor)
            values (v_line.queue, v_line.line, v_line.priority, v_lowest, v_lowest);
            v_breaches := v_breaches + 1;
            raise warning 'batchq: a row of queue "%" stood below its floor', v_line.queue
                using hint = 'it is served now; please report this as a bug of batchq';
        end if;
    end loop;
    perform batchq._add_lanes(q.queue)               -- a lane forgotten while it gained a job
    from (select distinct f.queue from batchq.floor f where f.queue <> '') q;
    if v_breaches > 0 then
        update batchq.upkeep u set breaches = u.breaches + v_breaches where u.task = 'floors';
    end if;
    return v_breaches;
end
$_check_floors$;
