-- The counters by queue and kind.
create or replace function batchq.kind_counters(queue text default null)
returns setof batchq.kind_counters
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $kind_counters$
begin
    return query
    select t.queue::text, t.kind::text, t.enqueued, t.completed, t.failed, t.retried, t.reaped,
           t.dead_letters, t.cancelled, t.waited, t.wait_s, t.run_s, t.waits, t.runs
    from batchq.tally_total t
    where kind_counters.queue is null or t.queue = kind_counters.queue
    order by t.queue, t.kind;
end
$kind_counters$;

comment on function batchq.kind_counters is $comment$
The counters of each queue and kind, as counters() has them for all. There are rows for 1,000 pairs;
the jobs of pairs that come later are counted in the row whose queue and kind are empty.

queue: one queue; null for all.

Returns: kind_counters rows, at most 1,001; none for a queue without a row. waits[i], of the waited
jobs that were completed by their first attempt: how many were leased within 2^(i-1) ms from when
they were due; wait_s: the sum. runs, run_s: so long took the attempts that completed jobs. Both
histograms have 28 elements, up to 37 hours.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, kind, completed, failed from batchq.kind_counters('mail')
$comment$;
