/*
 * What stands between a lease that found nothing and an exact "nothing": due jobs and calls below
 * the floors of scheduled and round, lanes nobody knows, rows below a lane's floor. True if it is
 * worth another look from the hard floors.
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
    v_from record;
    v_again boolean := false;
begin
    select max(f.hard_floor) filter (where f.line = 'scheduled') as scheduled,
           max(f.hard_floor) filter (where f.line = 'round') as round
    into v_from
    from batchq.floor f
    where f.queue = _discover.queue and f.line in ('scheduled', 'round');
    v_again := batchq._bring(
        _discover.queue, 'scheduled', coalesce(v_from.scheduled, 0), v_now) > 0;
    if v_from.round is not null then
        v_again := batchq._bring(_discover.queue, 'round', v_from.round, v_now) > 0 or v_again;
    end if;
    if batchq._add_lanes(_discover.queue) > 0 then
        v_again := true;
    end if;
    return v_again or exists (
        select from batchq.floor f
        where f.queue = _discover.queue and f.line = 'ready' and f.hard_floor < f.floor);
end
$_discover$;
