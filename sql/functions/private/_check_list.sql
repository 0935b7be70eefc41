-- Raise JQ001 unless an array is null, empty, or of one dimension that begins at 1: its entries are
-- found by their number.
create or replace function batchq._check_list(list anyarray)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_check_list$
begin
    if array_ndims(_check_list.list) <> 1 or array_lower(_check_list.list, 1) <> 1 then
        perform batchq._raise('JQ001',
            format('array with dimensions %s', array_dims(_check_list.list)),
            'give arrays of one dimension that begin at 1');
    end if;
end
$_check_list$;
