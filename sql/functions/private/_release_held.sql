/*
 * Jobs that a breaker held back become due, now that it is closed; when none is left its row goes.
 * Whoever holds back jobs has the row locked until his commit, so the row stays until these
 * are released too. Jobs that are missed come by themselves. Returns how many became due: at
 * most n of those that waited for the probe and n of the others.
 */
create or replace function batchq._release_held(queue text, kind text, n integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_release_held$
declare
    v_breaker batchq.breaker;
    v_count integer;
begin
    select b.* into v_breaker
    from batchq.breaker b
    where b.queue = _release_held.queue and b.kind = _release_held.kind
      and b.closed_at is not null
    for update skip locked;
    if not found then
        return 0;
    end if;
    v_count := batchq._make_due(queue, kind, v_breaker.probe_at, n)
             + batchq._make_due(queue, kind, v_breaker.held_until, n);
    if v_count < n then
        delete from batchq.breaker b
        where b.queue = _release_held.queue and b.kind = _release_held.kind;
    end if;
    return v_count;
end
$_release_held$;
