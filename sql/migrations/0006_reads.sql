/*
 * What lists and bulk calls need at a million jobs: a way from a dedupe key to its jobs, and calls
 * that go on where the last one ended.
 */

-- Only jobs that were enqueued with a key have an entry: others pay nothing for it.
create index job_dedupe_key on batchq.job (dedupe_key, id) where dedupe_key is not null;
comment on index batchq.job_dedupe_key is 'list_jobs: the jobs that were enqueued with a key.';

alter type batchq.cancelled_jobs add attribute last_id bigint;
comment on type batchq.cancelled_jobs is
    'What cancel_many did. asked: running jobs that were asked to stop. deferred: jobs that were'
    ' locked, try again. last_id: go on after it; null: all were looked at.';
create type batchq.redriven_jobs as (redriven bigint, last_id bigint);
comment on type batchq.redriven_jobs is
    'What redrive did. last_id: go on after it; null: all were looked at.';
create type batchq.purged_jobs as (purged bigint, last_id bigint);
comment on type batchq.purged_jobs is
    'What purge did. last_id: go on after it; null: all were looked at.';

create type batchq.job_place as (
    status text,
    state text,
    attempts integer,
    run_at timestamptz,
    updated_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    locked_by text,
    locked_until timestamptz,
    cancel_requested_at timestamptz,
    progress jsonb,
    result jsonb,
    reason text
);
comment on type batchq.job_place is 'Where a job stands, and what the row of that place says.';

create type batchq.job_filter as (
    states text[],
    kind text,
    queue text,
    dedupe_key text,
    created_after timestamptz,
    created_before timestamptz
);
comment on type batchq.job_filter is 'What a list of jobs is asked for; null: anything.';

create type batchq.seen_job as (job_id bigint, segment smallint, fits boolean);
comment on type batchq.seen_job is 'A job that was looked at, and whether it may match.';

create type batchq.scanned_jobs as (job_ids bigint[], looked_to bigint);
comment on type batchq.scanned_jobs is 'Jobs that match, and the last id that was looked at.';

insert into batchq.migration (migration, name) values (6, 'reads');
