-- The chunk of a partition that a row stands in, for the tally.
create or replace function batchq._chunk_of(axis text, place tid)
returns bigint
language sql
immutable
return (place::text::point)[0]::bigint / batchq._chunk_size(axis);
