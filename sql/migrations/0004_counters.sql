/*
 * Counters, without a counter: maintain counts the rows that transactions have left in job, outcome
 * and error, each once, after the fact. _tally has the proof. An xid is a whole number here, with
 * its epoch. A mark says which transactions have been counted: those below upto, but for those in
 * running, which had not ended then.
 */

-- An on_duplicate => 'replace' writes a job again. Null for all others.
alter table batchq.job add column first_xid xid;

create table batchq.tally (
    one boolean not null default true,
    upto bigint not null,
    next_upto bigint not null,
    leases_before bigint not null,
    since timestamptz not null,
    tallied_at timestamptz not null,
    next_at timestamptz not null,
    written_by xid,
    running bigint[] not null default '{}',
    constraint tally_pkey primary key (one),
    constraint tally_has_one_row check (one)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200);
comment on table batchq.tally is
    'One row: how far the tally has come, and the xid and time that it goes to next.'
    ' written_by is the xmin of this very row: where it is not, the row came by dump and restore.';

create table batchq.tally_part (
    file oid,
    upto bigint not null,
    tail bigint not null default 0,
    edge bigint not null default 0,
    cold bigint,
    inserted bigint,
    wanted bigint not null,
    looked_upto bigint not null,
    turned_upto bigint not null,
    since timestamptz not null,
    segment smallint not null,
    axis text collate "C" not null,
    running bigint[] not null default '{}',
    constraint tally_part_pkey primary key (axis, segment),
    constraint tally_part_axis_is_known check (axis in ('job', 'outcome', 'error'))
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200);
comment on table batchq.tally_part is
    'What the tally counts, cut into chunks: job by ids, the partitions of outcome and error by'
    ' pages. tail: the lowest chunk that is looked at each time, edge: the highest; cold: the next'
    ' one of a turn through those below. inserted: how many rows the statistics last knew of.'
    ' wanted: an xid beyond those that are known to have added rows; looked_upto, turned_upto: how'
    ' far tail and turn have come. upto, running: the mark of chunks that have none of their own';

create table batchq.tally_chunk (
    upto bigint not null,
    looked_at timestamptz not null,
    chunk bigint not null,
    segment smallint not null,
    axis text collate "C" not null,
    running bigint[] not null,
    constraint tally_chunk_pkey primary key (axis, segment, chunk)
) with (fillfactor = 70);
comment on table batchq.tally_chunk is
    'The mark of each chunk. A chunk of job that is counted for good has none.';

create table batchq.tally_gone (
    gone bigint generated always as identity,
    xid bigint not null,
    enqueued bigint not null default 0,
    completed bigint not null default 0,
    cancelled bigint not null default 0,
    failed bigint not null default 0,
    reaped bigint not null default 0,
    retried bigint not null default 0,
    dead_letters bigint not null default 0,
    chunk bigint not null,
    segment smallint not null,
    axis text collate "C" not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    constraint tally_gone_pkey primary key (gone)
);
comment on table batchq.tally_gone is
    'What purge and redrive took away before it was counted. Empty but for seconds.';
create index tally_gone_chunk on batchq.tally_gone (axis, segment, chunk);
comment on index batchq.tally_gone_chunk is '_tally: what is gone from a chunk.';

create table batchq.tally_total (
    enqueued bigint not null default 0,
    completed bigint not null default 0,
    cancelled bigint not null default 0,
    failed bigint not null default 0,
    reaped bigint not null default 0,
    retried bigint not null default 0,
    dead_letters bigint not null default 0,
    queue text collate "C" not null,
    kind text collate "C" not null,
    constraint tally_total_pkey primary key (queue, kind)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200);
comment on table batchq.tally_total is
    'The counters, by queue and kind: 1,000 pairs, and one row of empty names for all others.';

insert into batchq.tally (upto, next_upto, leases_before, since, tallied_at, next_at)
select x.xid, x.xid, coalesce(pg_sequence_last_value('batchq.lease_number'), 0), t.at, t.at, t.at
from clock_timestamp() as t(at), cast(pg_current_xact_id()::text as bigint) as x(xid);
update batchq.tally t set written_by = t.xmin;
insert into batchq.tally_part (axis, segment, upto, wanted, looked_upto, turned_upto, since,
                               tail, edge)
select p.axis, p.segment, t.upto, t.upto, t.upto, t.upto, t.since, e.edge, e.edge
from batchq.tally t,
     (select 'job' as axis, 0 as segment
      union all
      select a.axis, g.segment
      from unnest(array['outcome', 'error']) as a(axis), generate_series(0, 7) as g(segment)) p
cross join lateral (
    select case p.axis when 'job' then s.last_value / 4096 else 0 end as edge
    from batchq.position s) e;
insert into batchq.tally_total (queue, kind) values ('', '');

insert into batchq.upkeep (task, every) values ('tally', '5 s');

create type batchq.tally_visit as (
    axis text,
    segment smallint,
    chunk bigint,
    upto bigint,
    running bigint[],
    since timestamptz,
    left_running bigint[]
);
comment on type batchq.tally_visit is
    'A chunk to look at, its mark, when it was looked at, and whom its next mark leaves out.';

create type batchq.tally_mark as (upto bigint, running bigint[]);
comment on type batchq.tally_mark is 'Transactions that are over: all below upto but running.';

create type batchq.tally_row as (
    queue text,
    kind text,
    enqueued bigint,
    completed bigint,
    cancelled bigint,
    failed bigint,
    reaped bigint,
    retried bigint,
    dead_letters bigint
);
comment on type batchq.tally_row is 'What was counted for a queue and a kind.';

create type batchq.job_counters as (
    enqueued bigint,
    started bigint,
    completed bigint,
    failed bigint,
    retried bigint,
    reaped bigint,
    dead_letters bigint,
    cancelled bigint,
    since timestamptz,
    tallied_at timestamptz
);
comment on type batchq.job_counters is 'What has happened since a time. Counters never go down.';

create type batchq.kind_counters as (
    queue text,
    kind text,
    enqueued bigint,
    completed bigint,
    failed bigint,
    retried bigint,
    reaped bigint,
    dead_letters bigint,
    cancelled bigint
);
comment on type batchq.kind_counters is
    'What has happened to the jobs of a queue and kind; both are empty for all beyond 1,000 pairs.';

insert into batchq.migration (migration, name) values (4, 'counters');
