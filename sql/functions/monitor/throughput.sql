-- Throughput over time, from the rollups: one range of their index, or one for each queue that has
-- the kind.
create or replace function batchq.throughput(
    queue text default null,
    kind text default null,
    since interval default '1 hour',
    step interval default '1 minute'
)
returns setof batchq.throughput_point
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $throughput$
declare
    v_origin constant timestamptz := timestamptz '2000-01-01 00:00:00+00';
    v_step constant interval := batchq._exact(batchq._step(throughput.since, throughput.step));
    v_span constant smallint :=
        case when extract(epoch from v_step) % 3600 = 0 then 60::smallint else 1::smallint end;
    v_until timestamptz;
    v_from timestamptz;
begin
    if throughput.queue is not null then
        perform batchq._check_queue_exists(throughput.queue);
    end if;
    select batchq._minute(t.tallied_at) into v_until from batchq.tally t;
    v_from := date_bin(v_step, v_until - batchq._exact(throughput.since), v_origin);
    return query
    with part as materialized (
        select coalesce(throughput.queue, '') as queue, coalesce(throughput.kind, '') as kind
        where throughput.queue is not null or throughput.kind is null
        union all
        select t.queue, t.kind from batchq.tally_total t
        where throughput.queue is null and t.kind = throughput.kind and t.queue <> ''
    ),
    summed as materialized (
        select date_bin(v_step, m.at, v_origin) as at, sum(m.enqueued) as enqueued,
               sum(m.completed) as completed, sum(m.cancelled) as cancelled,
               sum(m.failed) as failed, sum(m.reaped) as reaped, sum(m.retried) as retried,
               sum(m.dead_letters) as dead_letters, sum(m.waited) as waited,
               array[sum(m.waits[1]), sum(m.waits[2]), sum(m.waits[3]), sum(m.waits[4]),
                     sum(m.waits[5]), sum(m.waits[6]), sum(m.waits[7]), sum(m.waits[8]),
                     sum(m.waits[9]), sum(m.waits[10]), sum(m.waits[11]), sum(m.waits[12]),
                     sum(m.waits[13]), sum(m.waits[14]), sum(m.waits[15]), sum(m.waits[16]),
                     sum(m.waits[17]), sum(m.waits[18]), sum(m.waits[19]), sum(m.waits[20]),
                     sum(m.waits[21]), sum(m.waits[22]), sum(m.waits[23]), sum(m.waits[24]),
                     sum(m.waits[25]), sum(m.waits[26]), sum(m.waits[27]),
                     sum(m.waits[28])] as waits,
               array[sum(m.runs[1]), sum(m.runs[2]), sum(m.runs[3]), sum(m.runs[4]),
                     sum(m.runs[5]), sum(m.runs[6]), sum(m.runs[7]), sum(m.runs[8]),
                     sum(m.runs[9]), sum(m.runs[10]), sum(m.runs[11]), sum(m.runs[12]),
                     sum(m.runs[13]), sum(m.runs[14]), sum(m.runs[15]), sum(m.runs[16]),
                     sum(m.runs[17]), sum(m.runs[18]), sum(m.runs[19]), sum(m.runs[20]),
                     sum(m.runs[21]), sum(m.runs[22]), sum(m.runs[23]), sum(m.runs[24]),
                     sum(m.runs[25]), sum(m.runs[26]), sum(m.runs[27]),
                     sum(m.runs[28])] as runs
        from part p
        cross join lateral (
            select r.* from batchq.rollup r
            where r.queue = p.queue collate "C" and r.kind = p.kind collate "C"
              and r.span = v_span and r.at >= v_from and r.at < v_until
            offset 0) m
        group by 1
    )
    select g.at, coalesce(s.enqueued, 0), coalesce(s.completed, 0), coalesce(s.cancelled, 0),
           coalesce(s.failed, 0), coalesce(s.reaped, 0), coalesce(s.retried, 0),
           coalesce(s.dead_letters, 0), batchq._quantile(s.waits, s.waited, 0.5),
           batchq._quantile(s.waits, s.waited, 0.95), batchq._quantile(s.waits, s.waited, 0.99),
           batchq._quantile(s.runs, s.completed, 0.5), batchq._quantile(s.runs, s.completed, 0.95),
           batchq._quantile(s.runs, s.completed, 0.99)
    from generate_series(v_from, v_until - interval '1 second', v_step) as g(at)
    left join summed s on s.at = g.at
    order by g.at;
end
$throughput$;

comment on function batchq.throughput is $comment$
What happened in each step of time, up to the last whole minute that upkeep has counted; steps in
which nothing happened are there, too.

queue, kind: of these; null for all. since: how far back, 1 minute to 7 days, which is how long
rollups are kept. step: whole minutes, up to 1 day; steps begin at whole multiples of step, in UTC.

Returns: throughput_point rows by time, at most 10,080. Counts are those of counters(), at the time
at which it happened. wait_p50, wait_p95, wait_p99: half of the jobs that were completed by their
first attempt (95, 99 of 100) waited no longer, from when they were due to when they were leased,
turns of groups included. run_p50, run_p95, run_p99: so long took the attempts that completed jobs.
Percentiles are estimated from histograms by powers of 2 of a millisecond: the estimate is less than
twice the true one and more than half of it, or, below 1 ms, less than 1 ms off; 37 hours stand for
all that is longer. Jobs of queues and kinds beyond the 1,000 pairs that have counters are in the
sum of all only. Minutes become complete seconds late, see counters.
Errors: JQ001 since or step is out of bounds. JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select at, completed, run_p95 from batchq.throughput(since => '24 h', step => '5 min')
$comment$;
