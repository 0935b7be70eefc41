-- Raise JQ001 unless the arrays of an array form are given and of one length, at most 10,000.
-- Lengths that are null are those of optional arrays that were not given.
create or replace function batchq._check_lists(first integer, second integer, third integer)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_lists$
begin
    if first is null or second is distinct from first or third <> first or first > 10000 then
        perform batchq._raise('JQ001',
            format('arrays of %s, %s and %s entries', coalesce(first::text, 'null'),
                   coalesce(second::text, 'null'), coalesce(third::text, 'no')),
            'give arrays of one length, at most 10,000');
    end if;
end
$_check_lists$;
