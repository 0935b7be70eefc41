-- The fields an object of enqueue_many may have.
create or replace function batchq._job_fields()
returns text[]
language sql
immutable
return array[
    'kind', 'payload', 'queue', 'priority', 'run_at', 'delay', 'max_attempts', 'timeout',
    'dedupe_key', 'dedupe_scope', 'dedupe_for', 'on_duplicate', 'backoff', 'backoff_base',
    'backoff_factor', 'backoff_cap', 'backoff_jitter', 'headers', 'group_key'
];
