-- An instant as a place on a line that runs on time: microseconds since 1970.
create or replace function batchq._micros(at timestamptz)
returns bigint
language sql
stable
return (extract(epoch from at) * 1000000)::bigint;
