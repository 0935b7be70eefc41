-- Raise JQ001 for the argument of a lease that is out of its bounds.
create or replace function batchq._refuse_lease(queue text, n integer, lease_for interval)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_refuse_lease$
begin
    if not batchq._name_fits(_refuse_lease.queue) then
        perform batchq._raise('JQ001',
            format('invalid queue: %s',
                   coalesce(quote_literal(left(_refuse_lease.queue, 80)), 'null')),
            'give 1 to 255 characters');
    end if;
    if not coalesce(_refuse_lease.n between 1 and 10000, false) then
        perform batchq._raise('JQ001',
            format('invalid n: %s', coalesce(_refuse_lease.n::text, 'null')),
            'give 1 to 10,000');
    end if;
    if not batchq._span_fits(_refuse_lease.lease_for, '0.1 s', '1 day') then
        perform batchq._raise('JQ001', format('invalid lease_for: %s', _refuse_lease.lease_for),
            'give 0.1 s to 1 day');
    end if;
end
$_refuse_lease$;
