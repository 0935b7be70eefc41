-- Bytes of a JSON value as it is. A value that comes compressed from a table is measured as text,
-- as pg_column_size would tell what it takes there.
create or replace function batchq._size(value jsonb)
returns integer
language sql
stable
return case when pg_column_compression(value) is null then pg_column_size(value)
            else octet_length(value::text) end;
