-- The last chunk of a partition that the tally reads by pages; 0 if it has none.
create or replace function batchq._last_chunk(axis text, segment smallint)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_last_chunk$
declare
    v_size constant bigint := pg_relation_size(format('batchq.%s_%s', axis, segment)::regclass);
begin
    return greatest(v_size / current_setting('block_size')::bigint - 1, 0)
           / batchq._chunk_size(axis);
end
$_last_chunk$;
