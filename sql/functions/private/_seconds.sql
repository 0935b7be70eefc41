-- A length of time as people read it: 0.5 s.
create or replace function batchq._seconds(length interval)
returns text
language sql
immutable
return trim_scale(extract(epoch from length)) || ' s';
