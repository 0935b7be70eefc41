-- Raise JQ001 for the first limit of a queue that is out of its bounds, or name of clear that is
-- none.
create or replace function batchq._check_limits(given batchq.queue, clear text[])
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $_check_limits$
declare
    v_settings constant text[] := array[
        'max_attempts', 'timeout', 'lease_for', 'backoff', 'backoff_base', 'backoff_factor',
        'backoff_cap', 'backoff_jitter', 'max_running', 'rate', 'rate_period', 'group_limit',
        'group_rate', 'group_period', 'group_retry', 'fair', 'age_every', 'max_depth', 'on_full',
        'breaker_share', 'breaker_min', 'breaker_window', 'breaker_pause'];
    v_name text;
    v_value text;
    v_rule text;
begin
    select c.name, c.value, c.rule into v_name, v_value, v_rule
    from (values
        ('max_running', (given).max_running::text, 'give 0 to 1,000,000',
         (given).max_running between 0 and 1000000),
        ('rate', (given).rate::text, 'give 0 to 1,000,000, and a shorter rate_period for more',
         (given).rate between 0 and 1000000),
        ('rate_period', (given).rate_period::text, 'give 100 ms to 30 days',
         batchq._span_fits((given).rate_period, '100 ms', '30 days')),
        ('group_limit', (given).group_limit::text, 'give 0 to 10,000',
         (given).group_limit between 0 and 10000),
        ('group_rate', (given).group_rate::text, 'give 0 to 10,000',
         (given).group_rate between 0 and 10000),
        ('group_period', (given).group_period::text, 'give 100 ms to 30 days',
         batchq._span_fits((given).group_period, '100 ms', '30 days')),
        ('group_retry', (given).group_retry, 'give hold or yield',
         (given).group_retry in ('hold', 'yield')),
        ('age_every', (given).age_every::text, 'give 1 s to 365 days',
         batchq._span_fits((given).age_every, '1 s', '365 days')),
        ('max_depth', (given).max_depth::text, 'give 1 to 100,000',
         (given).max_depth between 1 and 100000),
        ('on_full', (given).on_full, 'give refuse or delay',
         (given).on_full in ('refuse', 'delay')),
        ('breaker_share', (given).breaker_share::text, 'give more than 0, at most 1',
         (given).breaker_share > 0 and (given).breaker_share <= 1),
        ('breaker_min', (given).breaker_min::text, 'give 1 to 1,000',
         (given).breaker_min between 1 and 1000),
        ('breaker_window', (given).breaker_window::text, 'give 1 s to 1 h',
         batchq._span_fits((given).breaker_window, '1 s', '1 h')),
        ('breaker_pause', (given).breaker_pause::text, 'give 1 s to 1 day',
         batchq._span_fits((given).breaker_pause, '1 s', '1 day')),
        ('clear', array_to_string(clear, ', ', 'null'),
         'give names of settings: ' || array_to_string(v_settings, ', '),
         clear <@ v_settings)
    ) as c(name, value, rule, fits)
    where not c.fits
    limit 1;
    if found then
        perform batchq._raise('JQ001',
            format('invalid %s: %s', v_name, quote_literal(left(v_value, 80))), v_rule);
    end if;
end
$_check_limits$;
