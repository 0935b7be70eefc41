/*
 * Prove for queues with limits that no permit was lost or made, and put it right if one was. Queues
 * whose row somebody has locked are left for the next time. Returns how many permits were off.
 */
create or replace function batchq._check_permits()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_check_permits$
declare
    v_queue text;
    v_off bigint;
    v_sum bigint := 0::bigint;
begin
    for v_queue in
        select q.queue
        from batchq.queue q
        where num_nonnulls(q.max_running, q.rate) > 0
        order by q.queue
        for update skip locked
    loop
        v_off := batchq._fit_permits(v_queue);
        if v_off > 0 then
            perform batchq._ring(v_queue);
            v_sum := v_sum + v_off;
        end if;
    end loop;
    return v_sum;
end
$_check_permits$;
