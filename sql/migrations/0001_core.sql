/*
 * The tables of a job's life.
 *
 * A job is written once, into job. What moves is a narrow row: ready, scheduled, leased, dead.
 * A job's state is the table its narrow row is in; a finished job has a row in outcome instead.
 * job, outcome and error are cut into a ring of segments, so that history can be emptied by
 * TRUNCATE and is never deleted row by row.
 */

-- Job ids and places in a lane come from this one sequence. CACHE 1 is part of the floor's proof.
create sequence batchq.position as bigint maxvalue 4611686018427387903 cache 1;
create sequence batchq.lease_number as bigint cache 1;

-- The segment that new jobs go to: read, never updated per job. No sequence is drawn from by the
-- transaction that creates it: with wal_level minimal its next 32 values would not be logged, and
-- come again after a crash. setval is safe.
create sequence batchq.current_segment as smallint minvalue 0 maxvalue 7 start 0 cycle cache 1;
do $first$
begin
    perform setval('batchq.current_segment', 0);
end
$first$;

create table batchq.installation (
    one boolean not null default true,
    prefix bigint not null,
    installed_at timestamptz not null default clock_timestamp(),
    constraint installation_pkey primary key (one),
    constraint installation_has_one_row check (one),
    constraint prefix_has_60_bits check (prefix between 0 and 1152921504606846975)
);
comment on table batchq.installation is
    'One row: 60 random bits that make this installation''s job UUIDs its own.';
insert into batchq.installation (prefix)
select ('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))
           ::bit(48)::bigint * 4096
       + ('x' || right(gen_random_uuid()::text, 3))::bit(12)::integer;

create table batchq.queue (
    queue text collate "C" not null,
    max_attempts smallint,
    timeout interval,
    lease_for interval,
    backoff text,
    backoff_base interval,
    backoff_factor double precision,
    backoff_cap interval,
    backoff_jitter text,
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    constraint queue_pkey primary key (queue)
);
comment on table batchq.queue is
    'Settings of queues that have any. A queue without settings needs no row.';

create table batchq.job (
    id bigint not null,
    created_at timestamptz not null,
    run_at timestamptz not null,
    segment smallint not null,
    priority smallint not null,
    max_attempts smallint not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    timeout interval,
    dedupe_key text collate "C",
    backoff text,
    backoff_base interval,
    backoff_factor double precision,
    backoff_cap interval,
    backoff_jitter text,
    payload jsonb not null,
    headers jsonb,
    constraint job_pkey primary key (id, segment)
) partition by list (segment);
comment on table batchq.job is
    'Everything that describes a job, written once. Where the job is now, another table says.';

create table batchq.outcome (
    job_id bigint not null,
    lease_id bigint,
    leased_at timestamptz,
    finished_at timestamptz not null,
    segment smallint not null,
    attempt smallint not null,
    state text collate "C" not null,
    reason text,
    result jsonb,
    constraint outcome_pkey primary key (job_id, segment),
    constraint outcome_state_is_final check (state in ('completed', 'cancelled'))
) partition by list (segment);
comment on table batchq.outcome is
    'One row for each job that is over for good: completed or cancelled.';

create table batchq.error (
    job_id bigint not null,
    lease_id bigint not null,
    failed_at timestamptz not null,
    segment smallint not null,
    attempt smallint not null,
    expired boolean not null,
    error text not null,
    worker text,
    constraint error_pkey primary key (job_id, lease_id, segment)
) partition by list (segment);
comment on table batchq.error is
    'One row for each attempt that failed (expired false) or whose lease ran out (true).';

do $ring$
begin
    for segment in 0..7 loop
        execute format(
            'create table batchq.job_%1$s partition of batchq.job for values in (%1$s);'
            'create table batchq.outcome_%1$s partition of batchq.outcome for values in (%1$s);'
            'create table batchq.error_%1$s partition of batchq.error for values in (%1$s)',
            segment);
        execute format(
            'comment on table batchq.job_%1$s is ''Segment %1$s of the ring.'';'
            'comment on table batchq.outcome_%1$s is ''Segment %1$s of the ring.'';'
            'comment on table batchq.error_%1$s is ''Segment %1$s of the ring.''',
            segment);
    end loop;
end
$ring$;

create table batchq.ready (
    pos bigint not null,
    job_id bigint not null,
    ready_at timestamptz,
    segment smallint not null,
    priority smallint not null,
    attempt smallint not null,
    keyed boolean not null,
    queue text collate "C" not null,
    constraint ready_pkey primary key (queue, priority, pos)
);
comment on table batchq.ready is
    'Jobs that may be leased now. ready_at is null for a job that was ready from the start.';
comment on index batchq.ready_pkey is
    'lease: the lowest places of a lane; also finds a fresh job, whose place is its id.';
create index ready_returned on batchq.ready (job_id) where pos <> job_id;
comment on index batchq.ready_returned is 'cancel, get_job: a job that took a new place.';

create table batchq.scheduled (
    job_id bigint not null,
    run_at timestamptz not null,
    since timestamptz not null,
    segment smallint not null,
    priority smallint not null,
    attempt smallint not null,
    keyed boolean not null,
    queue text collate "C" not null,
    constraint scheduled_pkey primary key (job_id)
);
comment on table batchq.scheduled is 'Jobs that wait for their time: delayed ones and retries.';
create index scheduled_due on batchq.scheduled (queue, run_at, job_id);
comment on index batchq.scheduled_due is 'promotion: the due jobs of a queue by run_at, id.';

create table batchq.leased (
    job_id bigint not null,
    lease_id bigint not null,
    lease_until timestamptz not null,
    reap_at timestamptz not null,
    leased_at timestamptz not null,
    deadline timestamptz,
    cancel_requested_at timestamptz,
    segment smallint not null,
    priority smallint not null,
    attempt smallint not null,
    keyed boolean not null,
    queue text collate "C" not null,
    worker text,
    cancel_reason text,
    progress jsonb,
    constraint leased_pkey primary key (job_id)
);
comment on table batchq.leased is
    'Jobs that run. deadline is leased_at plus the job''s timeout. reap looks at a lease at'
    ' reap_at, never later than lease_until: a heartbeat moves lease_until, which no index holds.';
create index leased_reap on batchq.leased (reap_at);
comment on index batchq.leased_reap is 'reap: leases that may have run out.';

create table batchq.dead (
    job_id bigint not null,
    failed_at timestamptz not null,
    segment smallint not null,
    priority smallint not null,
    attempt smallint not null,
    queue text collate "C" not null,
    constraint dead_pkey primary key (job_id)
);
comment on table batchq.dead is 'Dead letters: jobs that used up their attempts.';
create index dead_queue on batchq.dead (queue, failed_at, job_id);
comment on index batchq.dead_queue is 'redrive, purge, stats: the dead letters of a queue by age.';

create table batchq.dedupe (
    queue text collate "C" not null,
    dedupe_key text collate "C" not null,
    job_id bigint not null,
    held_until timestamptz,
    segment smallint not null,
    constraint dedupe_pkey primary key (queue, dedupe_key)
);
comment on table batchq.dedupe is
    'Who holds a dedupe key. The primary key is what makes a second live job impossible.';
create index dedupe_job on batchq.dedupe (job_id);
comment on index batchq.dedupe_job is 'finishing a job: the keys it holds.';
create index dedupe_window on batchq.dedupe (held_until) where held_until is not null;
comment on index batchq.dedupe_window is 'maintain: keys whose time window ended.';

/*
 * Where to start reading an index that is consumed from its low end: a lane of ready, the due
 * end of scheduled for a queue, the expired end of leased (queue ''). No row that is visible and
 * free stands below floor; no row at all, committed or not, can stand below hard_floor; mark
 * becomes the next hard_floor once every transaction older than mark_xid (null: this row's own
 * xmin) has ended. _sweep has the proof. Places of the lines that run on time are microseconds
 * since 1970.
 *
 * Rows are never updated. A sweep adds one with a higher generation, and readers come from the
 * high end, so dead versions kept by an old snapshot are never walked and nobody waits.
 */
create sequence batchq.floor_generation as bigint cache 1;
create table batchq.floor (
    generation bigint not null default nextval('batchq.floor_generation'),
    floor bigint not null default 0,
    hard_floor bigint not null default 0,
    mark bigint not null default 0,
    mark_xid bigint,
    sweep_after timestamptz not null default '-infinity',
    deep_after timestamptz not null default '-infinity',
    priority smallint not null default 0,
    queue text collate "C" not null,
    line text collate "C" not null,
    constraint floor_pkey primary key (queue, line, priority, generation),
    constraint line_is_known check (line in ('ready', 'scheduled', 'leased'))
);
comment on table batchq.floor is
    'Where to start reading each index that is consumed from its low end, and why it is safe.';
comment on index batchq.floor_pkey is 'lease, reap: the newest row of each line, best lane first.';
insert into batchq.floor (generation, queue, line) values (0, '', 'leased');

create table batchq.upkeep (
    task text collate "C" not null,
    every interval not null,
    next_at timestamptz not null default '-infinity',
    last_at timestamptz,
    took interval,
    done bigint not null default 0,
    breaches integer not null default 0,
    constraint upkeep_pkey primary key (task)
) with (fillfactor = 50);
comment on table batchq.upkeep is
    'What maintain does, how often, and when it last did. breaches: rows found below a hard floor,'
    ' which would be our bug; they are served all the same.';
insert into batchq.upkeep (task, every)
values ('reap', '1 s'), ('promote', '1 s'), ('keys', '10 s'), ('floors', '60 s'),
       ('lanes', '600 s');

do $storage$
declare
    v_name text;
begin
    -- Small and busy: vacuum early, at full speed, clean the indexes each time, and never take
    -- the exclusive lock that shrinking the file needs.
    foreach v_name in array
        array['ready', 'scheduled', 'leased', 'dead', 'dedupe', 'floor', 'upkeep']
    loop
        execute format(
            'alter table batchq.%I set (autovacuum_vacuum_scale_factor = 0.01,'
            ' autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,'
            ' autovacuum_vacuum_insert_scale_factor = 0.2, vacuum_index_cleanup = on,'
            ' vacuum_truncate = off)', v_name);
    end loop;
    -- room for heartbeats to stay in their page
    execute 'alter table batchq.leased set (fillfactor = 70)';
    execute 'alter table batchq.floor set (autovacuum_vacuum_threshold = 200)';
    execute 'alter table batchq.upkeep set (autovacuum_vacuum_threshold = 200)';
end
$storage$;

create type batchq.leased_job as (
    job_id bigint,
    lease_id bigint,
    lease_until timestamptz,
    queue text,
    kind text,
    payload jsonb,
    priority integer,
    attempt integer,
    max_attempts integer,
    timeout interval,
    headers jsonb
);
comment on type batchq.leased_job is 'A job and the right to run it.';

create type batchq.work_item as (
    event text,
    job_id bigint,
    lease_id bigint,
    lease_until timestamptz,
    queue text,
    kind text,
    payload jsonb,
    priority integer,
    attempt integer,
    max_attempts integer,
    timeout interval,
    headers jsonb
);
comment on type batchq.work_item is
    'leased: a job to run. sleep: there was none, timeout is the time to the next due job.'
    ' Any other event: a settlement that was not taken, see lost_lease.';

create type batchq.lost_lease as (job_id bigint, lease_id bigint, reason text);
comment on type batchq.lost_lease is
    'lost: no longer yours. deferred: the row is locked, hand it in again. too_large: the value '
    'is over 1 MiB.';

create type batchq.extended_lease as (
    job_id bigint,
    lease_id bigint,
    lease_until timestamptz,
    state text
);
comment on type batchq.extended_lease is
    'extended; cancelled: extended, and asked to stop; timed_out: its time is over, not extended; '
    'lost; deferred: the row is locked, try again.';

create type batchq.enqueued_job as (ordinal integer, job_id bigint, is_new boolean);
comment on type batchq.enqueued_job is 'ordinal: place in the input, from 1.';

create type batchq.locked_lease as (ordinal integer, lease tid);
comment on type batchq.locked_lease is 'A lease that is still the caller''s, locked.';

create type batchq.pending_job as (
    job_id bigint,
    segment smallint,
    attempt smallint,
    keyed boolean
);
comment on type batchq.pending_job is 'What is needed of a narrow row that was taken out.';

create type batchq.ended_attempt as (job_id bigint, queue text, state text);
comment on type batchq.ended_attempt is 'Where a failed attempt left its job.';

create type batchq.line as (queue text, line text, priority smallint);
comment on type batchq.line is 'What a floor belongs to.';

create type batchq.job_spec as (
    kind text,
    queue text,
    priority integer,
    run_at timestamptz,
    delay interval,
    max_attempts integer,
    timeout interval,
    dedupe_key text,
    dedupe_scope text,
    dedupe_for interval,
    on_duplicate text,
    backoff text,
    backoff_base interval,
    backoff_factor double precision,
    backoff_cap interval,
    backoff_jitter text,
    headers jsonb
);
comment on type batchq.job_spec is 'One object of enqueue_many''s array, payload apart.';

create type batchq.maintained as (task text, done bigint, more boolean);
comment on type batchq.maintained is 'What maintain did; more: call again soon.';

create type batchq.queue_stats as (
    queue text,
    paused_at timestamptz,
    pause_reason text,
    ready bigint,
    scheduled bigint,
    leased bigint,
    dead bigint,
    is_exact boolean,
    oldest_ready_at timestamptz,
    next_run_at timestamptz
);
comment on type batchq.queue_stats is
    'Depth of a queue by state; is_exact is false past a count of 100,000.';

create type batchq.job_record as (
    id bigint,
    uuid uuid,
    kind text,
    queue text,
    status text,
    state text,
    priority integer,
    attempts integer,
    max_attempts integer,
    payload jsonb,
    headers jsonb,
    dedupe_key text,
    created_at timestamptz,
    run_at timestamptz,
    updated_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    timeout interval,
    locked_by text,
    locked_until timestamptz,
    cancel_requested_at timestamptz,
    progress jsonb,
    result jsonb,
    last_error text,
    errors jsonb
);
comment on type batchq.job_record is
    'Everything about one job. errors: array of {attempt, failed_at, error, worker}, newest first.';

create type batchq.job_summary as (
    id bigint,
    uuid uuid,
    kind text,
    queue text,
    status text,
    state text,
    priority integer,
    attempts integer,
    max_attempts integer,
    dedupe_key text,
    created_at timestamptz,
    run_at timestamptz,
    updated_at timestamptz,
    locked_by text,
    last_error text
);
comment on type batchq.job_summary is 'One line of list_jobs.';

create type batchq.installed_version as (version text, migration integer, installed_at timestamptz);
comment on type batchq.installed_version is 'What is installed in this database.';

create type batchq.error_code as (code text, name text, http_status integer, description text);
comment on type batchq.error_code is 'One entry of the catalogue of errors.';

insert into batchq.migration (migration, name) values (1, 'core');
