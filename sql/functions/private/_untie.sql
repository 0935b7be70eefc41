/*
 * Jobs let go of what they held: dedupe keys, permits of their queue, and, by a call, seats and
 * unused permits of their group. Whoever leases next reads the call; parked workers are woken.
 * Ends of attempts are noted for circuit breakers.
 */
create or replace function batchq._untie(jobs batchq.tie[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_untie$
declare
    v_keyed bigint[];
    v_seated boolean;
    v_watched boolean;
    v_queue record;
begin
    select array_agg(t.job_id) filter (where t.ties & 1 <> 0), bool_or(t.ties & 24 <> 0),
           bool_or(t.ties & 32 <> 0)
    into v_keyed, v_seated, v_watched
    from unnest(_untie.jobs) t;
    if v_keyed is not null then
        perform batchq._release_keys(v_keyed);
    end if;
    if v_seated then
        perform pg_current_xact_id();            -- before the clock: the floor of round needs it
        insert into batchq.call (due_at, queue, group_key, seats, starts)
        select batchq._now(), t.queue, j.group_key, count(*) filter (where t.ties & 8 <> 0),
               count(*) filter (where t.ties & 16 <> 0)
        from unnest(_untie.jobs) t
        cross join lateral (
            select b.group_key from batchq.job b
            where b.id = t.job_id and b.segment = t.segment limit 1) j
        where t.ties & 24 <> 0
        group by t.queue, j.group_key;
    end if;
    if v_watched then
        perform batchq._note_ends(_untie.jobs);
    end if;
    for v_queue in
        select t.queue, count(*) filter (where t.ties & 2 <> 0) as n
        from unnest(_untie.jobs) t
        where t.ties & 26 <> 0
        group by t.queue
        order by t.queue
    loop
        perform batchq._give_permits(v_queue.queue, 'cap', v_queue.n, null);
        perform batchq._ring(v_queue.queue);
    end loop;
end
$_untie$;
