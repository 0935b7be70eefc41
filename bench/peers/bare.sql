/*
 * The least that could be done, as a yardstick: a one-row INSERT, and one
 * DELETE … INSERT move of the same rows. No leases, no attempts, no settings.
 */
create schema bare;

create table bare.job (
    id bigint generated always as identity primary key,
    payload jsonb not null
);

create table bare.ready (
    id bigint generated always as identity primary key,
    queue text not null,
    kind text not null,
    priority integer not null,
    payload jsonb not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

create table bare.done (
    id bigint primary key,
    queue text not null,
    kind text not null,
    priority integer not null,
    payload jsonb not null,
    finished_at timestamptz not null
);
