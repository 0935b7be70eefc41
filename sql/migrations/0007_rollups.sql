/*
 * Rollups: what happened in each minute and in each hour, by queue and kind, kept for 7 days. The
 * tally adds to them what it counts, at the time at which it happened, so nobody who enqueues or
 * settles a job writes here.
 *
 * Histograms are cumulative: element i says how many took at most 2^(i-1) ms, for i from 1 to 28
 * (37 hours). So they add up element by element, and a percentile is found by a binary search.
 */
create table batchq.rollup (
    at timestamptz not null,
    wait_s double precision not null,
    run_s double precision not null,
    enqueued integer not null,
    completed integer not null,
    cancelled integer not null,
    failed integer not null,
    reaped integer not null,
    retried integer not null,
    dead_letters integer not null,
    waited integer not null,
    span smallint not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    waits integer[],
    runs integer[],
    constraint rollup_pkey primary key (queue, kind, span, at),
    constraint rollup_span_is_known check (span in (1, 60))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
comment on table batchq.rollup is
    'What happened in the span (minutes) from at on, by the pairs of queue and kind that'
    ' tally_total has; where kind is empty, by these queues; where both are, all that happened.'
    ' wait_s, waits: of the waited jobs that were completed by their first attempt, from due to'
    ' leased; run_s, runs: of completed ones, the attempt that did it. Histograms are null where'
    ' none was completed.';
comment on index batchq.rollup_pkey is 'throughput, queue_rates: a pair or a queue over time.';

alter table batchq.tally_total
    add column waited bigint not null default 0,
    add column wait_s double precision not null default 0,
    add column run_s double precision not null default 0,
    add column waits bigint[] not null default array_fill(0::bigint, array[28]),
    add column runs bigint[] not null default array_fill(0::bigint, array[28]);
alter table batchq.tally_gone
    add column at timestamptz,
    add column wait_s double precision,
    add column run_s double precision;

alter type batchq.tally_row
    add attribute at timestamptz,
    add attribute wait_bucket integer,
    add attribute run_bucket integer,
    add attribute wait_s double precision,
    add attribute run_s double precision;
comment on type batchq.tally_row is
    'What was counted for a queue and a kind in a minute. The buckets: of its completed jobs.';

create type batchq.tally_sum as (
    span smallint,
    at timestamptz,
    queue text,
    kind text,
    enqueued bigint,
    completed bigint,
    cancelled bigint,
    failed bigint,
    reaped bigint,
    retried bigint,
    dead_letters bigint,
    waited bigint,
    wait_s double precision,
    run_s double precision,
    waits bigint[],
    runs bigint[]
);
comment on type batchq.tally_sum is
    'What is to be added to a row of rollup, or of tally_total where span is null.';

alter type batchq.kind_counters
    add attribute waited bigint,
    add attribute wait_s double precision,
    add attribute run_s double precision,
    add attribute waits bigint[],
    add attribute runs bigint[];

create type batchq.throughput_point as (
    at timestamptz,
    enqueued bigint,
    completed bigint,
    cancelled bigint,
    failed bigint,
    reaped bigint,
    retried bigint,
    dead_letters bigint,
    wait_p50 interval,
    wait_p95 interval,
    wait_p99 interval,
    run_p50 interval,
    run_p95 interval,
    run_p99 interval
);
comment on type batchq.throughput_point is
    'What happened from at on, for one step. Percentiles are null where no job was completed.';

create type batchq.queue_rate as (
    queue text,
    enqueued double precision,
    completed double precision,
    failed double precision,
    ended double precision,
    since timestamptz,
    until timestamptz
);
comment on type batchq.queue_rate is
    'Per second: jobs added, jobs completed, attempts that failed or ran out, and jobs that are'
    ' over in any way. since, until: the minutes that were looked at.';

insert into batchq.upkeep (task, every) values ('rollups', '60 s');

insert into batchq.migration (migration, name) values (7, 'rollups');
