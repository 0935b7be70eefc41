-- Raise JQ001 unless this is null or an array of n waits of at most 10 years.
create or replace function batchq._check_waits(n integer, waits interval[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_waits$
declare
    v_wait interval;
begin
    perform batchq._check_lists(_check_waits.n, _check_waits.n, cardinality(_check_waits.waits));
    foreach v_wait in array coalesce(_check_waits.waits, '{}') loop
        if not batchq._span_fits(v_wait, '-10 years', '10 years') then
            perform batchq._raise('JQ001', format('invalid wait: %s', v_wait),
                'give at most 10 years; a time in the past means now');
        end if;
    end loop;
end
$_check_waits$;
