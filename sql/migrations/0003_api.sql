/*
 * What the HTTP API needs: its tokens, and shapes of what it shows. Of a token's secret only the
 * hash comes here. Whoever may call functions needs no token: they are for the API's callers.
 */
create table batchq.token (
    token_id bigint generated always as identity,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    name text collate "C" not null,
    hash bytea not null,
    scopes text[] not null,
    queues text[],
    constraint token_pkey primary key (token_id),
    constraint token_hash_key unique (hash),
    constraint token_hash_is_sha_256 check (octet_length(hash) = 32)
);
comment on table batchq.token is
    'Who may use the HTTP API. hash: SHA-256 of the secret. queues: null is all. A revoked token'
    ' stays for 30 days, so that people see it.';
create unique index token_name on batchq.token (name) where revoked_at is null;
comment on index batchq.token_name is
    'create_token, revoke_token: the one token of a name that is not revoked.';

create type batchq.token_info as (
    token_id bigint,
    name text,
    scopes text[],
    queues text[],
    created_at timestamptz,
    expires_at timestamptz,
    revoked_at timestamptz
);
comment on type batchq.token_info is
    'A token of the HTTP API, without its hash. queues: null is all. expires_at: null is never.';

create type batchq.job_state as (job_id bigint, queue text, state text, status text);
comment on type batchq.job_state is 'Where a job stands, and nothing else of it.';

create type batchq.queue_settings as (
    queue text,
    max_attempts integer,
    timeout interval,
    lease_for interval,
    backoff text,
    backoff_base interval,
    backoff_factor double precision,
    backoff_cap interval,
    backoff_jitter text,
    paused_at timestamptz,
    pause_reason text
);
comment on type batchq.queue_settings is
    'What set_queue has set; null: not set. paused_at: null is not paused.';

create type batchq.dead_error as (
    error text,
    queue text,
    kind text,
    jobs bigint,
    first_at timestamptz,
    last_at timestamptz,
    job_ids bigint[]
);
comment on type batchq.dead_error is
    'Dead letters that failed alike. error: the first line of their last error, with N for numbers'
    ' and … for quoted text. job_ids: the newest 10.';

insert into batchq.migration (migration, name) values (3, 'api');
