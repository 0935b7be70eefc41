/*
 * What a dashboard needs: a record of what operators did, sessions of people who signed in with a
 * token, workers that are asked to end, and priorities that change.
 */
create table batchq.audit (
    audit_id bigint generated always as identity,
    at timestamptz not null,
    db_user text not null,
    actor text not null,
    action text collate "C" not null,
    target text collate "C",
    details jsonb,
    constraint audit_pkey primary key (audit_id)
);
comment on table batchq.audit is
    'What was done by operators, a row an action, kept for 90 days. actor: who was named by act_as,'
    ' else the database''s user; db_user: that user in any case. target: queue, job, token or'
    ' worker, and its name. details: what was asked for, and how many jobs it was done to.';
comment on index batchq.audit_pkey is 'list_audit: newest first; upkeep: the oldest.';
create index audit_target on batchq.audit (target, audit_id);
comment on index batchq.audit_target is 'list_audit: what was done to one target.';

create type batchq.audit_entry as (
    audit_id bigint,
    at timestamptz,
    actor text,
    db_user text,
    action text,
    target text,
    details jsonb
);
comment on type batchq.audit_entry is
    'Something an operator did. actor: who says so; db_user: who the database knows did it.';

insert into batchq.upkeep (task, every) values ('audit', '60 s');

create table batchq.session (
    token_id bigint not null,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    hash bytea not null,
    constraint session_pkey primary key (hash),
    constraint session_token foreign key (token_id)
        references batchq.token (token_id) on delete cascade,
    constraint session_hash_is_sha_256 check (octet_length(hash) = 32)
);
comment on table batchq.session is
    'Who signed in to the dashboard with a token. hash: SHA-256 of the session''s secret. A session'
    ' is good as long as its token is.';
create index session_token on batchq.session (token_id);
comment on index batchq.session_token is 'upkeep: sessions of a token that is forgotten.';
create index session_expires on batchq.session (expires_at);
comment on index batchq.session_expires is 'upkeep: sessions that are over.';

create type batchq.session_info as (
    token_id bigint,
    name text,
    scopes text[],
    queues text[],
    created_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz,
    ends_at timestamptz
);
comment on type batchq.session_info is
    'The token that a session was opened with, as in token_info. ends_at: when the session ends.';

alter table batchq.worker add column drain_requested_at timestamptz;
alter type batchq.worker_info add attribute drain_requested_at timestamptz;
comment on type batchq.worker_info is
    'A worker process. worker: its name, as in locked_by. is_alive: its last beat is less than 90 s'
    ' old. drain_requested_at: it was asked to take no more jobs and to end.';

-- A priority that was changed stands in the narrow row alone: job is written once.
alter type batchq.job_place add attribute priority integer;
alter type batchq.pending_job add attribute priority smallint;

insert into batchq.migration (migration, name) values (8, 'audit');
