-- Raise JQ001 for the first argument of a lease that is out of its bounds.
create or replace function batchq._check_lease(
    queue text,
    n integer default 1,
    worker text default null,
    lease_for interval default null
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_lease$
begin
    if not batchq._name_fits(_check_lease.queue) then
        perform batchq._raise('JQ001',
            format('invalid queue: %s',
                   coalesce(quote_literal(left(_check_lease.queue, 80)), 'null')),
            'give 1 to 255 characters');
    end if;
    if not coalesce(_check_lease.n between 1 and 10000, false) then
        perform batchq._raise('JQ001',
            format('invalid n: %s', coalesce(_check_lease.n::text, 'null')),
            'give 1 to 10,000');
    end if;
    if char_length(_check_lease.worker) > 255 then
        perform batchq._raise('JQ001',
            format('invalid worker: %s', quote_literal(left(_check_lease.worker, 80))),
            'give at most 255 characters');
    end if;
    if not batchq._span_fits(_check_lease.lease_for, '0.1 s', '1 day') then
        perform batchq._raise('JQ001', format('invalid lease_for: %s', _check_lease.lease_for),
            'give 0.1 s to 1 day');
    end if;
end
$_check_lease$;
