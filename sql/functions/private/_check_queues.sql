-- Raise JQ001 unless this is a list of 1 to 100 names of queues.
create or replace function batchq._check_queues(queues text[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_queues$
declare
    v_queue text;
begin
    if not coalesce(cardinality(_check_queues.queues) between 1 and 100, false) then
        perform batchq._raise('JQ001',
            format('invalid queues: %s',
                   coalesce(cardinality(_check_queues.queues) || ' names', 'null')),
            'give an array of 1 to 100 names');
    end if;
    foreach v_queue in array _check_queues.queues loop
        if not batchq._name_fits(v_queue) then
            perform batchq._check_lease(v_queue);
        end if;
    end loop;
end
$_check_queues$;
