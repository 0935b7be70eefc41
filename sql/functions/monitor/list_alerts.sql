/*
 * What is wrong, over all queues. Reads only; each kind of alert is looked for in bounded numbers,
 * so it costs about what stats costs.
 */
create or replace function batchq.list_alerts()
returns setof batchq.alert
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
as $list_alerts$
begin
    return query
    select a.* from batchq._alerts(array(select s from batchq.stats() s), batchq._now()) a;
end
$list_alerts$;

comment on function batchq.list_alerts is $comment$
What an operator should know of all queues, in words and as data: the worst first, at most 100.

critical, jobs wait and will not run: worker, no live worker works on their queue; kind, or knows
their kind; both for the 20 queues that have waited longest, as explain_queue looks. warning:
paused; breaker, a kind is held back; full, enqueue refuses or delays more; dead, jobs became dead
letters within the last 10 minutes; upkeep, nobody does it; cleanup, a transaction has been open for
a minute. notice, as it was set up: cap, a queue with waiting jobs runs as many as it may; rate, it
may not start one now.

Returns: alert rows. says: one sentence, times in UTC. queue: null where it is about all. since:
null where it is not known. data: the numbers and times of the sentence, as explain_queue has them.
Role: batchq_monitor, and every other role of batchq.
Example: select severity, queue, says from batchq.list_alerts()
$comment$;
