/*
 * As many permits as the limits of a queue say, no more, no less: those that are free, plus the
 * jobs that run for the line cap. The sums are read in one snapshot, and whoever takes or returns
 * a permit changes neither. What is too much is taken out of use as it comes back.
 *
 * Under the lock of the queue's row. Returns by how many the sums were off.
 */
create or replace function batchq._fit_permits(queue text)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_fit_permits$
declare
    v_queue batchq.queue;
    v_cap bigint;
    v_rate bigint;
begin
    select q.* into v_queue from batchq.queue q where q.queue = _fit_permits.queue;
    select v_queue.max_running + v_queue.slots_owed
           - coalesce(sum(p.n) filter (where p.line = 'cap'), 0)
           - (select count(*) from batchq.leased l where l.queue = _fit_permits.queue),
           v_queue.rate - coalesce(sum(p.n) filter (where p.line = 'rate'), 0)
    into v_cap, v_rate
    from batchq.permit p
    where p.queue = _fit_permits.queue;
    if v_cap <> 0 then
        perform batchq._give_permits(_fit_permits.queue, 'cap', v_cap - v_queue.slots_owed, null);
        update batchq.queue q
        set slots_owed = greatest(v_queue.slots_owed - v_cap, 0)
        where q.queue = _fit_permits.queue;
    end if;
    perform batchq._pay_slots(_fit_permits.queue);
    if v_rate > 0 then
        perform batchq._give_permits(_fit_permits.queue, 'rate', v_rate, batchq._now());
    elsif v_rate < 0 then
        perform batchq._take_permits(
            _fit_permits.queue, 'rate', -v_rate, batchq._now() + batchq._period(v_queue));
    end if;
    return coalesce(abs(v_cap), 0) + coalesce(abs(v_rate), 0);
end
$_fit_permits$;
