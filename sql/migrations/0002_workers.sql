/*
 * The registry of worker processes: for people to look at. Nothing that happens to a job reads it;
 * what a dead worker held is found by its leases alone.
 *
 * A row is written every half minute or so. No index holds what a beat changes and half a page is
 * kept free, so a beat stays in its page and adds no index entry.
 */
create table batchq.worker (
    worker_id uuid not null,
    started_at timestamptz not null,
    beat_at timestamptz not null,
    memory_bytes bigint,
    pid integer not null,
    concurrency integer not null,
    running integer not null,
    stopping boolean not null,
    worker text collate "C" not null,
    host text not null,
    version text not null,
    queues text[] not null,
    kinds text[] not null,
    constraint worker_pkey primary key (worker_id)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
comment on table batchq.worker is
    'One row a worker process: who is there, and when it was last heard of. A process chooses its'
    ' own worker_id, so two with one name are two rows. Leases do not depend on it.';

insert into batchq.upkeep (task, every) values ('workers', '60 s');

create type batchq.worker_info as (
    worker_id uuid,
    worker text,
    host text,
    pid integer,
    version text,
    queues text[],
    kinds text[],
    concurrency integer,
    running integer,
    started_at timestamptz,
    beat_at timestamptz,
    memory_bytes bigint,
    stopping boolean,
    is_alive boolean
);
comment on type batchq.worker_info is
    'A worker process. worker: its name, as in locked_by. is_alive: its last beat is less than 90 s'
    ' old.';

create type batchq.found_job as (job_id bigint, state text, place tid);
comment on type batchq.found_job is
    'A job that is not over, and where its narrow row stood when it was looked for.';

create type batchq.cancelled_jobs as (cancelled bigint, asked bigint, deferred bigint);
comment on type batchq.cancelled_jobs is
    'What cancel_many did. asked: running jobs that were asked to stop. deferred: jobs that were'
    ' locked, try again.';

insert into batchq.migration (migration, name) values (2, 'workers');
