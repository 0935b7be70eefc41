-- Raise JQ001 for the first of these options that _options_fit does not take. place is added to
-- the message.
create or replace function batchq._check_options(
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
    group_key text,
    place text default ''
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_options$
declare
    v_name text;
    v_value text;
    v_rule text;
begin
    if batchq._options_fit(run_at, delay, max_attempts, timeout, dedupe_key, dedupe_scope,
                           dedupe_for, on_duplicate, backoff, backoff_base, backoff_factor,
                           backoff_cap, backoff_jitter, headers,
                           group_key)
    then
        return;
    end if;
    select c.name, c.value, c.rule into v_name, v_value, v_rule
    from (values
        ('run_at', run_at::text, 'give a time between the years 1 and 9999',
         run_at is null or run_at between '0001-01-02 00:00:00+00' and '9999-12-30 00:00:00+00'),
        ('delay', delay::text, 'give run_at or delay, not both',
         delay is null or run_at is null),
        ('delay', delay::text, 'give at most 10 years',
         delay is null or batchq._span_fits(delay, '-10 years', '10 years')),
        ('max_attempts', max_attempts::text, 'give 1 to 32767',
         max_attempts is null or max_attempts between 1 and 32767),
        ('timeout', timeout::text, 'give 10 ms to 365 days',
         timeout is null or batchq._span_fits(timeout, '10 ms', '365 days')),
        ('dedupe_key', left(dedupe_key, 40), 'give 1 to 1024 bytes',
         dedupe_key is null or octet_length(dedupe_key) between 1 and 1024),
        ('dedupe_scope', dedupe_scope, 'give unfinished or pending, and a dedupe_key',
         dedupe_scope is null
         or (dedupe_scope in ('unfinished', 'pending') and dedupe_key is not null)),
        ('dedupe_for', dedupe_for::text, 'give 0 to 10 years, and a dedupe_key',
         dedupe_for is null
         or (batchq._span_fits(dedupe_for, '0', '10 years') and dedupe_key is not null)),
        ('on_duplicate', on_duplicate, 'give return or replace, and a dedupe_key',
         on_duplicate is null
         or (on_duplicate in ('return', 'replace') and dedupe_key is not null)),
        ('backoff', backoff, 'give exponential or fixed',
         backoff is null or backoff in ('exponential', 'fixed')),
        ('backoff_base', backoff_base::text, 'give 0 to 365 days',
         backoff_base is null or batchq._span_fits(backoff_base, '0', '365 days')),
        ('backoff_factor', backoff_factor::text, 'give 1 to 100',
         backoff_factor is null or backoff_factor between 1 and 100),
        ('backoff_cap', backoff_cap::text, 'give 0 to 365 days',
         backoff_cap is null or batchq._span_fits(backoff_cap, '0', '365 days')),
        ('backoff_jitter', backoff_jitter, 'give full or none',
         backoff_jitter is null or backoff_jitter in ('full', 'none')),
        ('group_key', left(group_key, 40), 'give 1 to 255 characters',
         group_key is null or char_length(group_key) between 1 and 255),
        ('headers', left(headers::text, 40), 'give a JSON object of at most 64 KiB',
         headers is null
         or (jsonb_typeof(headers) = 'object' and batchq._size(headers) <= 65536))
    ) as c(name, value, rule, fits)
    where not c.fits
    limit 1;
    if found then
        perform batchq._raise('JQ001',
            format('invalid %s: %s%s', v_name, coalesce(quote_literal(left(v_value, 80)), 'null'),
                   place),
            v_rule);
    end if;
end
$_check_options$;
