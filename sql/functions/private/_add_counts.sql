-- Add to the counters of queues and kinds, and to the rollups. There are rows for 1,000 pairs;
-- those that come later share the row of empty names.
create or replace function batchq._add_counts(counts batchq.tally_row[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_add_counts$
declare
    v_sums batchq.tally_sum[];
begin
    insert into batchq.tally_total (queue, kind)
    select c.queue, c.kind
    from unnest(_add_counts.counts) c
    where not exists (
        select from batchq.tally_total t where t.queue = c.queue and t.kind = c.kind)
    group by c.queue, c.kind
    limit greatest(1001 - (select count(*) from batchq.tally_total), 0);
    v_sums := array(select s from batchq._fold_counts(_add_counts.counts) s);
    update batchq.tally_total t
    set enqueued = t.enqueued + s.enqueued,
        completed = t.completed + s.completed,
        cancelled = t.cancelled + s.cancelled,
        failed = t.failed + s.failed,
        reaped = t.reaped + s.reaped,
        retried = t.retried + s.retried,
        dead_letters = t.dead_letters + s.dead_letters,
        waited = t.waited + s.waited,
        wait_s = t.wait_s + s.wait_s,
        run_s = t.run_s + s.run_s,
        waits = case when s.completed = 0 then t.waits else array(
            select u.a + u.b from unnest(t.waits, s.waits) with ordinality as u(a, b, i)
            order by u.i) end,
        runs = case when s.completed = 0 then t.runs else array(
            select u.a + u.b from unnest(t.runs, s.runs) with ordinality as u(a, b, i)
            order by u.i) end
    from unnest(v_sums) s
    where s.span is null and t.queue = s.queue and t.kind = s.kind;
    perform batchq._add_rollups(v_sums);
end
$_add_counts$;
