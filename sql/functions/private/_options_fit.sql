-- Whether enqueue may take these options; _refuse_job says what is wrong when it may not.
create or replace function batchq._options_fit(
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
    headers jsonb,
    group_key text
)
returns boolean
language sql
stable
return coalesce(
    (run_at is null or run_at between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00')
    and (delay is null or (run_at is null and batchq._span_fits(delay, '-10 years', '10 years')))
    and (max_attempts is null or max_attempts between 1 and 32767)
    and (timeout is null or batchq._span_fits(timeout, '10 ms', '365 days'))
    and (dedupe_key is null or octet_length(dedupe_key) between 1 and 1024)
    and (num_nulls(dedupe_scope, dedupe_for, on_duplicate) = 3 or dedupe_key is not null)
    and (dedupe_scope is null or dedupe_scope in ('unfinished', 'pending'))
    and (dedupe_for is null or batchq._span_fits(dedupe_for, '0', '10 years'))
    and (on_duplicate is null or on_duplicate in ('return', 'replace'))
    and (backoff is null or backoff in ('exponential', 'fixed'))
    and (backoff_base is null or batchq._span_fits(backoff_base, '0', '365 days'))
    and (backoff_factor is null or backoff_factor between 1 and 100)
    and (backoff_cap is null or batchq._span_fits(backoff_cap, '0', '365 days'))
    and (backoff_jitter is null or backoff_jitter in ('full', 'none'))
    and (group_key is null or char_length(group_key) between 1 and 255)
    and (headers is null
         or (jsonb_typeof(headers) = 'object' and batchq._size(headers) <= 65536)),
    false);
