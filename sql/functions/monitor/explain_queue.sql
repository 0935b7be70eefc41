/*
 * Why jobs of a queue do not run. Reads only, by index and in bounded numbers; see explain_job.
 */
create or replace function batchq.explain_queue(queue text)
returns setof batchq.gate
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $explain_queue$
declare
    v_now constant timestamptz := batchq._now();
    v_gates batchq.gate[];
begin
    perform batchq._check_queue_exists(queue);
    v_gates := array(
        select g from batchq._pause_gates(explain_queue.queue) g
        union all
        select g from batchq._breaker_gates(explain_queue.queue, null, v_now) g
        union all
        select g from batchq._limit_gates(explain_queue.queue, v_now) g
        union all
        select g from batchq._worker_gates(explain_queue.queue, null, v_now) g
        union all
        select g from batchq._kind_gates(explain_queue.queue, v_now) g);
    return query select g.* from unnest(v_gates) g;
    return query select g.* from batchq._depth_gates(queue, v_gates <> '{}') g;
    return query select g.* from batchq._groups_gates(queue) g;
    return query select g.* from batchq._upkeep_gates(v_now) g;
end
$explain_queue$;

comment on function batchq.explain_queue is $comment$
Why jobs of a queue are not running: every gate that holds them back, in words and as data, and what
else is worth knowing of it.

queue: its name.

Gates that hold (holds is true): paused, breaker, cap, owed, rate, worker as in explain_job; kind,
jobs of this kind wait, and no live worker of the queue knows it. Then, holding nothing back: depth,
how many wait; full, enqueue refuses or delays more; groups, how many wait for their turn, and which
has the most jobs; upkeep, nobody does it; cleanup, a transaction has been open for a minute.

Counts stop at 5,000 a state. Kinds are looked at of the next 300 ready and 300 scheduled jobs, and
of 300 blocked ones; 200 groups are counted, by name, and 2,000 jobs of them, shared equally.

Returns: gate rows, as explain_job.
Errors: JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select gate, holds, says from batchq.explain_queue('mail')
$comment$;
