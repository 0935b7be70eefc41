/*
 * Flow control: how many jobs of a queue or of a group may run, how often they may start, and in
 * which order groups get their turn.
 *
 * A limit is kept as permits, rows that are taken out and put back: whoever takes one may start a
 * job, and there are never more of them than the limit. No counter is written per job and no two
 * leases wait for each other. Groups are small state machines: what happens to their jobs is
 * sent as a row of call, and read by whoever leases next and gets the group's lock.
 */

-- What a job must let go of when it leaves, as bits: 1 a dedupe key, 2 a permit of its queue to
-- run, 4 it is in a group whose jobs wait for their turn, 8 it has a seat of its group, 16 it has
-- a permit of its group to start, not used yet, 32 its end is noted for a circuit breaker.
alter table batchq.ready alter column keyed type smallint using keyed::integer::smallint;
alter table batchq.ready rename column keyed to ties;
alter table batchq.scheduled alter column keyed type smallint using keyed::integer::smallint;
alter table batchq.scheduled rename column keyed to ties;
alter table batchq.leased alter column keyed type smallint using keyed::integer::smallint;
alter table batchq.leased rename column keyed to ties;
drop type batchq.pending_job cascade;
create type batchq.pending_job as (
    job_id bigint,
    segment smallint,
    attempt smallint,
    ties smallint,
    queue text
);
comment on type batchq.pending_job is 'What is needed of a narrow row that was taken out.';

create type batchq.group_call as (
    group_key text,
    seats integer,
    starts integer,
    rank smallint,
    pos bigint
);
comment on type batchq.group_call is
    'What the calls of a group say: seats and permits to start that came back, the first new job.';

create type batchq.group_room as (
    group_key text,
    generation bigint,
    low_pos bigint,
    low_rank smallint,
    seated integer,
    started integer,
    free integer,
    most integer,
    paced boolean
);
comment on type batchq.group_room is
    'The state of a group that was called: how many more seats it has (free), and how many jobs may'
    ' become ready now at most. generation: the row that says so, null if there is none.';

create type batchq.group_turn as (
    group_key text,
    generation bigint,
    low_pos bigint,
    low_rank smallint,
    seated integer,
    started integer,
    admitted integer,
    again_in interval
);
comment on type batchq.group_turn is
    'The state of a group after its turn, and how many jobs became ready. again_in: it is to be'
    ' looked at again then.';

create type batchq.group_seats as (
    group_key text,
    taken integer,
    believed integer,
    starts_taken integer,
    starts_believed integer
);
comment on type batchq.group_seats is
    'Seats of a group: taken by jobs, and taken as its state and calls say. The same for permits to'
    ' start that are not used yet.';

create type batchq.tie as (
    job_id bigint,
    segment smallint,
    ties smallint,
    queue text,
    failed boolean
);
comment on type batchq.tie is
    'What a job lets go of: bits as in the column ties. failed: whether its attempt ended badly,'
    ' null if it did not come to an end.';

create type batchq.held_lane as (kinds text[], probes bigint[], upto bigint);
comment on type batchq.held_lane is
    'What may be started of a lane while breakers are open: jobs of other kinds, and these probes,'
    ' up to this place.';

create type batchq.breaker_info as (
    queue text,
    kind text,
    opened_at timestamptz,
    probe_at timestamptz,
    probe_job_id bigint,
    probes integer,
    held integer,
    ended integer,
    failed integer,
    last_error text
);
comment on type batchq.breaker_info is
    'A circuit breaker that is open. probe_job_id: the job that runs as its probe. probes: how many'
    ' failed. held: jobs that are held back, up to 10,000. ended, failed: attempts that opened it.';

alter table batchq.job add column group_key text collate "C";

alter table batchq.queue
    add column max_running integer,
    add column slots_owed integer not null default 0,
    add column rate integer,
    add column rate_period interval,
    add column group_limit integer,
    add column group_rate integer,
    add column group_period interval,
    add column group_retry text,
    add column fair boolean,
    add column age_every interval,
    add column max_depth integer,
    add column on_full text,
    add column breaker_share double precision,
    add column breaker_min integer,
    add column breaker_window interval,
    add column breaker_pause interval,
    add column grouped boolean not null generated always as (
        num_nonnulls(group_limit, group_rate) > 0 or coalesce(fair, false)) stored,
    add column limited boolean not null generated always as (
        num_nonnulls(max_running, rate, group_limit, group_rate, breaker_share) > 0
        or coalesce(fair, false)) stored;
comment on column batchq.queue.slots_owed is
    'Permits to be taken out of use as they come back: the cap was lowered below what runs.';
comment on column batchq.queue.grouped is 'Jobs with a group_key wait in blocked for their turn.';
comment on column batchq.queue.limited is 'lease has to look at limits.';

create table batchq.group_setting (
    queue text collate "C" not null,
    group_key text collate "C" not null,
    group_limit integer,
    weight integer,
    constraint group_setting_pkey primary key (queue, group_key)
);
comment on table batchq.group_setting is 'Settings of single groups, where they differ.';

create table batchq.permit (
    place bigint not null,
    permit_id bigint not null default nextval('batchq.floor_generation'),
    n integer not null,
    queue text collate "C" not null,
    line text collate "C" not null,
    constraint permit_pkey primary key (queue, line, place, permit_id),
    constraint permit_line_is_known check (line in ('cap', 'rate'))
);
comment on table batchq.permit is
    'n jobs of the queue may be started by whoever deletes this row. cap: put back when a job'
    ' leaves leased. rate: put back at once, to be taken no sooner than place, in microseconds.';
comment on index batchq.permit_pkey is 'lease: the permits of a queue, oldest first.';

create table batchq.blocked (
    pos bigint not null,
    job_id bigint not null,
    since timestamptz not null,
    segment smallint not null,
    priority smallint not null,
    rank smallint not null,
    attempt smallint not null,
    ties smallint not null,
    queue text collate "C" not null,
    group_key text collate "C" not null,
    constraint blocked_pkey primary key (queue, group_key, rank, pos)
);
comment on table batchq.blocked is
    'Jobs that wait for their turn in their group, by rank (0 where one may run at a time, else the'
    ' priority turned round) and then by place.';
comment on index batchq.blocked_pkey is
    'admission: the next jobs of a group.';
create unique index blocked_job on batchq.blocked (job_id);
comment on index batchq.blocked_job is 'cancel, get_job: one job.';

create table batchq.call (
    due_at timestamptz not null,
    call_id bigint not null default nextval('batchq.floor_generation'),
    pos bigint,
    rank smallint,
    seats integer not null default 0,
    starts integer not null default 0,
    queue text collate "C" not null,
    group_key text collate "C" not null,
    constraint call_pkey primary key (queue, due_at, call_id)
);
comment on table batchq.call is
    'A group to be looked at, and why: jobs that came (the first of them at rank, pos), seats and'
    ' permits to start that came back.';
comment on index batchq.call_pkey is 'admission: the calls of a queue that are due.';

create table batchq.group_state (
    generation bigint not null default nextval('batchq.floor_generation'),
    low_pos bigint not null,
    written_at timestamptz not null,
    seated integer not null,
    started integer not null,
    low_rank smallint not null,
    queue text collate "C" not null,
    group_key text collate "C" not null,
    constraint group_state_pkey primary key (queue, group_key, generation)
);
comment on table batchq.group_state is
    'How many jobs of a group have a seat, how many permits to start are in use, and below which'
    ' place no job of it waits whose call was read. Written under the group''s lock, as a new row'
    ' with a higher generation, like floor. None: the group is at rest.';
comment on index batchq.group_state_pkey is 'admission: the newest state of a group.';

create table batchq.attempt_end (
    ended_at timestamptz not null,
    end_id bigint not null default nextval('batchq.floor_generation'),
    ended integer not null,
    failed integer not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    constraint attempt_end_pkey primary key (queue, kind, ended_at, end_id)
);
comment on table batchq.attempt_end is
    'Attempts that ended in queues with a circuit breaker, a row a call. One with none says that'
    ' what was before does not count any more.';
comment on index batchq.attempt_end_pkey is
    'failures: the newest ends of a kind; upkeep: the oldest.';

create table batchq.breaker (
    opened_at timestamptz not null,
    probe_at timestamptz not null,
    held_until timestamptz not null,
    closed_at timestamptz,
    probe_job_id bigint,
    probe_lease_id bigint,
    probes integer not null default 0,
    ended integer not null,
    failed integer not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    last_error text,
    constraint breaker_pkey primary key (queue, kind)
);
comment on table batchq.breaker is
    'Kinds of job that are held back. Jobs wait in scheduled until probe_at, ten of each lot, or'
    ' held_until. closed_at: it is closed, and the row only says when jobs were to come back.';
comment on index batchq.breaker_pkey is 'lease, ends of attempts: the breaker of a kind.';

alter table batchq.floor drop constraint line_is_known;
alter table batchq.floor add constraint line_is_known
    check (line in ('ready', 'scheduled', 'leased', 'round', 'cap', 'rate'));

insert into batchq.upkeep (task, every)
values ('age', '1 s'), ('breakers', '5 s'), ('limits', '5 s'), ('groups', '30 s');

-- Small and busy, like ready: see 0001.
alter table batchq.permit set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2,
    vacuum_index_cleanup = on, vacuum_truncate = off);
alter table batchq.blocked set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2,
    vacuum_index_cleanup = on, vacuum_truncate = off);
alter table batchq.call set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2,
    vacuum_index_cleanup = on, vacuum_truncate = off);
alter table batchq.attempt_end set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2,
    vacuum_index_cleanup = on, vacuum_truncate = off);
alter table batchq.group_state set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_scale_factor = 0.2,
    vacuum_index_cleanup = on, vacuum_truncate = off);

alter type batchq.job_spec add attribute group_key text;
alter type batchq.job_record add attribute group_key text;
alter type batchq.queue_stats add attribute blocked bigint;
alter type batchq.queue_settings
    add attribute max_running integer,
    add attribute rate integer,
    add attribute rate_period interval,
    add attribute group_limit integer,
    add attribute group_rate integer,
    add attribute group_period interval,
    add attribute group_retry text,
    add attribute fair boolean,
    add attribute age_every interval,
    add attribute max_depth integer,
    add attribute on_full text,
    add attribute breaker_share double precision,
    add attribute breaker_min integer,
    add attribute breaker_window interval,
    add attribute breaker_pause interval;

create type batchq.group_info as (
    group_key text,
    blocked integer,
    is_exact boolean,
    seats integer,
    group_limit integer,
    weight integer,
    is_set boolean,
    next_since timestamptz
);
comment on type batchq.group_info is
    'A group of a queue. is_exact: blocked was counted to the end. seats: how many jobs of the'
    ' group count against group_limit. is_set: by set_group.';

create type batchq.gate as (
    gate text,
    holds boolean,
    says text,
    until timestamptz,
    data jsonb
);
comment on type batchq.gate is
    'What holds a job or a queue back, or (holds is false) what is to be known of it. until: when'
    ' it is known to open.';

create type batchq.peeked_job as (
    job_id bigint,
    kind text,
    priority integer,
    group_key text,
    state text
);
comment on type batchq.peeked_job is 'A job that a lease would give, and where it is now.';

insert into batchq.migration (migration, name) values (5, 'flow');
