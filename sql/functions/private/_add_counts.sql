-- Add to the counters of queues and kinds. There are rows for 1,000 pairs; those that come later
-- share the row of empty names.
create or replace function batchq._add_counts(counts batchq.tally_row[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_add_counts$
begin
    insert into batchq.tally_total (queue, kind)
    select c.queue, c.kind
    from unnest(_add_counts.counts) c
    where not exists (
        select from batchq.tally_total t where t.queue = c.queue and t.kind = c.kind)
    group by c.queue, c.kind
    limit greatest(1001 - (select count(*) from batchq.tally_total), 0);
    update batchq.tally_total t
    set enqueued = t.enqueued + s.enqueued,
        completed = t.completed + s.completed,
        cancelled = t.cancelled + s.cancelled,
        failed = t.failed + s.failed,
        reaped = t.reaped + s.reaped,
        retried = t.retried + s.retried,
        dead_letters = t.dead_letters + s.dead_letters
    from (
        select coalesce(k.queue, '') as queue, coalesce(k.kind, '') as kind,
               sum(c.enqueued)::bigint as enqueued, sum(c.completed)::bigint as completed,
               sum(c.cancelled)::bigint as cancelled, sum(c.failed)::bigint as failed,
               sum(c.reaped)::bigint as reaped, sum(c.retried)::bigint as retried,
               sum(c.dead_letters)::bigint as dead_letters
        from unnest(_add_counts.counts) c
        left join batchq.tally_total k on k.queue = c.queue and k.kind = c.kind
        group by 1, 2
    ) s
    where t.queue = s.queue and t.kind = s.kind;
end
$_add_counts$;
