/*
 * The queue that most people build: one table, a partial index over what is ready, one UPDATE
 * to lease (skip locked) and one to finish. Autovacuum is set as a careful owner would.
 */
create schema one_table;

create table one_table.job (
    id bigint generated always as identity primary key,
    queue text not null default 'default',
    kind text not null default 'noop',
    priority integer not null default 0,
    state text not null default 'ready',
    attempt integer not null default 0,
    max_attempts integer not null default 3,
    created_at timestamptz not null default now(),
    leased_at timestamptz,
    lease_until timestamptz,
    finished_at timestamptz,
    worker text,
    payload jsonb not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create index job_ready on one_table.job (queue, priority desc, id) where state = 'ready';
