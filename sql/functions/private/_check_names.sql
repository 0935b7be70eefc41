-- Raise JQ001 unless this is an array of at most 1,000 names. argument: what to call it.
create or replace function batchq._check_names(argument text, names text[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_names$
declare
    v_name text;
begin
    if not coalesce(cardinality(_check_names.names) <= 1000, false) then
        perform batchq._raise('JQ001',
            format('invalid %s: %s', _check_names.argument,
                   coalesce(cardinality(_check_names.names) || ' names', 'null')),
            'give an array of at most 1,000 names');
    end if;
    perform batchq._check_list(names);
    foreach v_name in array _check_names.names loop
        if not batchq._name_fits(v_name) then
            perform batchq._raise('JQ001',
                format('invalid name in %s: %s', _check_names.argument,
                       coalesce(quote_literal(left(v_name, 80)), 'null')),
                'give names of 1 to 255 characters');
        end if;
    end loop;
end
$_check_names$;
