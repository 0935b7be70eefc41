/*
 * What stands between a lease that found nothing and an exact "nothing": due jobs below the
 * floor of scheduled, lanes nobody knows, rows below a lane's floor. True if it is worth another
 * look from the hard floors.
 */
create or replace function batchq._discover(queue text)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_discover$
declare
    v_now constant timestamptz := batchq._now();
    v_from bigint;
    v_again boolean := false;
begin
    select coalesce(max(f.hard_floor), 0) into v_from
    from batchq.floor f
    where f.queue = _discover.queue and f.line = 'scheduled';
    if batchq._is_due(_discover.queue, v_from, v_now) then
        v_again := batchq._promote(_discover.queue, v_from, 1000) > 0;
    end if;
    if batchq._add_lanes(_discover.queue) > 0 then
        v_again := true;
    end if;
    return v_again or exists (
        select from batchq.floor f
        where f.queue = _discover.queue and f.line = 'ready' and f.hard_floor < f.floor);
end
$_discover$;
