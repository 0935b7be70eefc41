-- What the tally has counted, added up: for each minute and hour by pairs that have a row in
-- tally_total, by their queues, and in all; and where span is null by pairs, others as empty names.
-- w, r: the buckets; 29 is in no element of a histogram.
create or replace function batchq._fold_counts(counts batchq.tally_row[])
returns setof batchq.tally_sum
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set jit = off
as $_fold_counts$
begin
    return query
    with named as (
        select c.at, batchq._hour(c.at) as hour, coalesce(t.queue, '') as queue,
               coalesce(t.kind, '') as kind, c.enqueued, c.completed::integer as n, c.cancelled,
               c.failed, c.reaped, c.retried, c.dead_letters, c.wait_s, c.run_s,
               coalesce(c.wait_bucket, 29) as w, coalesce(c.run_bucket, 29) as r,
               case when c.wait_bucket is null then 0 else c.completed end as waited
        from unnest(_fold_counts.counts) c
        left join batchq.tally_total t on t.queue = c.queue and t.kind = c.kind
    )
    select case when grouping(n.at) = 0 then 1 when grouping(n.hour) = 0 then 60 end::smallint,
           coalesce(n.at, n.hour), coalesce(n.queue, ''), coalesce(n.kind, ''),
           sum(n.enqueued)::bigint, sum(n.n), sum(n.cancelled)::bigint, sum(n.failed)::bigint,
           sum(n.reaped)::bigint, sum(n.retried)::bigint, sum(n.dead_letters)::bigint,
           sum(n.waited)::bigint, coalesce(sum(n.wait_s), 0), coalesce(sum(n.run_s), 0),
           array[sum(n.n * (n.w <= 1)::integer), sum(n.n * (n.w <= 2)::integer),
                 sum(n.n * (n.w <= 3)::integer), sum(n.n * (n.w <= 4)::integer),
                 sum(n.n * (n.w <= 5)::integer), sum(n.n * (n.w <= 6)::integer),
                 sum(n.n * (n.w <= 7)::integer), sum(n.n * (n.w <= 8)::integer),
                 sum(n.n * (n.w <= 9)::integer), sum(n.n * (n.w <= 10)::integer),
                 sum(n.n * (n.w <= 11)::integer), sum(n.n * (n.w <= 12)::integer),
                 sum(n.n * (n.w <= 13)::integer), sum(n.n * (n.w <= 14)::integer),
                 sum(n.n * (n.w <= 15)::integer), sum(n.n * (n.w <= 16)::integer),
                 sum(n.n * (n.w <= 17)::integer), sum(n.n * (n.w <= 18)::integer),
                 sum(n.n * (n.w <= 19)::integer), sum(n.n * (n.w <= 20)::integer),
                 sum(n.n * (n.w <= 21)::integer), sum(n.n * (n.w <= 22)::integer),
                 sum(n.n * (n.w <= 23)::integer), sum(n.n * (n.w <= 24)::integer),
                 sum(n.n * (n.w <= 25)::integer), sum(n.n * (n.w <= 26)::integer),
                 sum(n.n * (n.w <= 27)::integer), sum(n.n * (n.w <= 28)::integer)],
           array[sum(n.n * (n.r <= 1)::integer), sum(n.n * (n.r <= 2)::integer),
                 sum(n.n * (n.r <= 3)::integer), sum(n.n * (n.r <= 4)::integer),
                 sum(n.n * (n.r <= 5)::integer), sum(n.n * (n.r <= 6)::integer),
                 sum(n.n * (n.r <= 7)::integer), sum(n.n * (n.r <= 8)::integer),
                 sum(n.n * (n.r <= 9)::integer), sum(n.n * (n.r <= 10)::integer),
                 sum(n.n * (n.r <= 11)::integer), sum(n.n * (n.r <= 12)::integer),
                 sum(n.n * (n.r <= 13)::integer), sum(n.n * (n.r <= 14)::integer),
                 sum(n.n * (n.r <= 15)::integer), sum(n.n * (n.r <= 16)::integer),
                 sum(n.n * (n.r <= 17)::integer), sum(n.n * (n.r <= 18)::integer),
                 sum(n.n * (n.r <= 19)::integer), sum(n.n * (n.r <= 20)::integer),
                 sum(n.n * (n.r <= 21)::integer), sum(n.n * (n.r <= 22)::integer),
                 sum(n.n * (n.r <= 23)::integer), sum(n.n * (n.r <= 24)::integer),
                 sum(n.n * (n.r <= 25)::integer), sum(n.n * (n.r <= 26)::integer),
                 sum(n.n * (n.r <= 27)::integer), sum(n.n * (n.r <= 28)::integer)]
    from named n
    group by grouping sets ((n.at), (n.at, n.queue), (n.at, n.queue, n.kind), (n.queue, n.kind),
                            (n.hour), (n.hour, n.queue), (n.hour, n.queue, n.kind))
    having n.queue <> '' or grouping(n.queue) = 1 or grouping(n.at, n.hour) = 3;
end
$_fold_counts$;
